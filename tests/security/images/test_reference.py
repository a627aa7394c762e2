"""Names of images, and globs that match whole segments."""

import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from muster.security.images.reference import InvalidReference, Reference, check_glob, matches, parse, split

SHA = "sha256:" + "a" * 64
PARSED: list[tuple[str, Reference]] = [
    ("nginx", Reference("docker.io", "library/nginx", "latest")),
    ("team/app:1", Reference("docker.io", "team/app", "1")),
    ("ghcr.io/a/b/c:v1.2", Reference("ghcr.io", "a/b/c", "v1.2")),
    ("localhost/x", Reference("localhost", "x", "latest")),
    ("127.0.0.1:5000/x", Reference("127.0.0.1:5000", "x", "latest")),
    ("GHCR.io:443/a", Reference("ghcr.io", "a", "latest")),
    ("index.docker.io/nginx:1", Reference("docker.io", "library/nginx", "1")),
    ("Registry-1.docker.io/team/app", Reference("docker.io", "team/app", "latest")),
    (f"ghcr.io/a/b@{SHA}", Reference("ghcr.io", "a/b", "", SHA)),
    (f"ghcr.io/a/b:1@{SHA}", Reference("ghcr.io", "a/b", "", SHA)),
    (f"ghcr.io:0443/a/b@{SHA}", Reference("ghcr.io", "a/b", "", SHA)),
    ("registry.example.com:05000/a", Reference("registry.example.com:5000", "a", "latest")),
    ("[0:0:0:0:0:0:0:1]:5000/x", Reference("[::1]:5000", "x", "latest")),
    ("[::ffff:10.0.0.7]:443/x", Reference("10.0.0.7", "x", "latest")),
    ("[2001:DB8::1]/x", Reference("[2001:db8::1]", "x", "latest")),
]
WRONG = [
    "",
    "A/b",
    "user:password@ghcr.io/a",
    "https://ghcr.io/a",
    "ghcr.io/",
    "a b",
    "x:",
    "x@sha256:abc",
    "ghcr.io/../x",
    f"x@{SHA.upper()}",
    f"x@sha256:{'A' * 64}",
    "ghcr.io./a",
    "gh..io/a",
    "-ghcr.io/a",
    "ghcr.io:0/a",
    "ghcr.io:65536/a",
    "ghcr.io:٤٤٣/a",
    "GHC\N{KELVIN SIGN}.io/a",
    "ghcr.io/a\N{CYRILLIC SMALL LETTER A}",
    "127.1:5000/x",
    "0x7f.0.0.1/x",
    "010.0.0.1/x",
    "2130706433:80/x",
    "[fe80::1%eth0]/x",
    "ghcr.io/a%2fb",
    "ghcr.io//a",
    "ghcr.io/./a",
    " ghcr.io/a",
    "x:" + "t" * 200,
    "x" * 2000,
]
GLOBS: list[tuple[str, str, bool]] = [
    ("ghcr.io/acme/*", "ghcr.io/acme/app", True),
    ("ghcr.io/acme/*", "ghcr.io/acme/a/b", False),
    ("ghcr.io/acme/**", "ghcr.io/acme/a/b", True),
    ("ghcr.io/acme/**", "ghcr.io/acme-evil/a", False),
    ("ghcr.io/acme", "ghcr.io/acme-evil", False),
    ("**", "ghcr.io/a", True),
    ("**/app", "ghcr.io/x/y/app", True),
    ("*.example.com/*", "r.example.com/a", True),
    ("*.example.com/*", "r.example.com.evil.org/a", False),
    ("ghcr.io/a*b*c", "ghcr.io/axxbyyc", True),
    ("ghcr.io/a*b*c", "ghcr.io/acb", False),
]


@pytest.mark.parametrize(("text", "reference"), PARSED)
def test_references(text: str, reference: Reference) -> None:
    assert parse(text) == reference


@pytest.mark.parametrize("text", WRONG)
def test_references_that_name_no_image(text: str) -> None:
    with pytest.raises(InvalidReference):
        parse(text)


@pytest.mark.parametrize("glob", ["**", "**/app", "*/app", "*.example.com/*", "localhost/x", "r:5000/a*"])
def test_globs_that_some_image_matches(glob: str) -> None:
    check_glob(glob)


@pytest.mark.parametrize(
    ("glob", "message"),
    [
        ("acme/*", "write for example docker.io/acme/"),
        ("nginx", "write for example docker.io/nginx"),
        ("GHCR.io/acme/*", "write ghcr.io for"),
        ("ghcr.io:443/acme/*", "write ghcr.io for"),
        ("index.docker.io/acme/*", "write docker.io for"),
        ("ghcr.io/acme/app:*", "without tag"),
        ("ghcr.io/acme/App", "lowercase"),
    ],
)
def test_a_glob_that_no_image_matches_is_an_error_that_says_what_to_write(glob: str, message: str) -> None:
    with pytest.raises(InvalidReference, match=message):
        check_glob(glob)


@pytest.mark.parametrize(("glob", "name", "matched"), GLOBS)
def test_globs(glob: str, name: str, matched: bool) -> None:
    assert matches(glob, name) is matched


REGISTRIES = st.sampled_from(["ghcr.io", "GHCR.io", "Ghcr.IO:443", "ghcr.io:0443", "ghcr.io:00443"])
DIGESTS = st.sampled_from([SHA, "sha512:" + "b" * 128, "sha384:" + "c" * 96, "sha256:def456"])


@given(REGISTRIES, DIGESTS, st.sampled_from(["", ":v1", ":latest"]))
def test_every_spelling_of_an_image_is_one_reference_of_which_policies_speak(
    registry: str, digest: str, tag: str
) -> None:
    found = split(f"{registry}/acme/app{tag}@{digest}")
    assert found == split(found.text) == split(f"ghcr.io/acme/app@{digest}")
    assert found.text == f"ghcr.io/acme/app@{digest}"
    assert split(f"{registry}/acme/app{tag}").text == f"ghcr.io/acme/app{tag or ':latest'}"


@given(st.text("aAk\N{KELVIN SIGN}.:-/@[]01x%", max_size=20))
def test_a_text_names_no_image_or_has_one_spelling_that_stays_as_it_is(text: str) -> None:
    try:
        found = split(text)
    except InvalidReference:
        return
    assert split(found.text) == found
    assert split(found.text).text == found.text


@given(st.text(max_size=40))
def test_any_text_is_a_reference_or_an_error(text: str) -> None:
    try:
        found = parse(text)
    except InvalidReference:
        return
    assert parse(f"{found.name}:{found.tag}" if found.tag else found.pinned(found.digest)).name == found.name


@example("ab*b", "ab")
@given(st.text("ab*", min_size=1, max_size=6), st.text("ab", min_size=1, max_size=6))
def test_a_star_is_any_part_of_a_segment(glob: str, segment: str) -> None:
    assume(glob != "**")
    assert matches(glob, segment) is bool(re.fullmatch(glob.replace("*", ".*"), segment))


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "a*"]), max_size=6),
    st.lists(st.sampled_from("ab"), max_size=6),
)
def test_globs_agree_with_their_definition(globs: list[str], segments: list[str]) -> None:
    def by_definition(glob: list[str], rest: list[str]) -> bool:
        if not glob:
            return not rest
        if glob[0] == "**":
            return by_definition(glob[1:], rest) or (bool(rest) and by_definition(glob, rest[1:]))
        head = {"*": True, "a*": rest[:1] == ["a"]}.get(glob[0], rest[:1] == glob[:1])
        return bool(rest) and head and by_definition(glob[1:], rest[1:])

    if globs and segments:
        assert matches("/".join(globs), "/".join(segments)) is by_definition(globs, segments)
