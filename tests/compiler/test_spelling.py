"""Every spelling of a name is refused, or becomes the one that gates and objects have."""

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.compiler import spelling
from muster.compiler.spelling import Misspelt

Spell = Callable[[str], str]
#: function, spellings of one thing, of which the first is the one
SAME: Final[list[tuple[Spell, tuple[str, ...]]]] = [
    (spelling.capability, ("SYS_ADMIN", "sys_admin", "Sys_Admin", "CAP_SYS_ADMIN", "cap_sys_admin")),
    (spelling.capability, ("ALL", "all", "All")),
    (spelling.host, ("s3.example.com", "S3.Example.COM")),
    (spelling.host, ("xn--bcher-kva.example", "XN--bcher-kva.example")),
    (spelling.host, ("2001:db8::1", "2001:DB8:0:0::1", "[2001:db8::1]", "2001:0db8::0001")),
    (spelling.host, ("10.0.0.7", "::ffff:10.0.0.7", "::ffff:a00:7", "[::FFFF:10.0.0.7]")),
    (spelling.path, ("/usr/bin/a", "//usr/bin/a", "/usr/./bin//a", "/usr/bin/a/")),
    (spelling.relative, ("a/b", "./a/b", "a//b", "a/b/", "a/./b")),
    (spelling.sysctl, ("net.core.somaxconn", "net/core/somaxconn")),
    (spelling.sysctl, ("net.ipv4.conf.eno2/100.rp_filter", "net/ipv4/conf/eno2.100/rp_filter")),
]
#: function, texts that name nothing, or whose meaning depends on who reads them
REFUSED: Final[list[tuple[Spell, tuple[str, ...]]]] = [
    (
        spelling.store_path,
        ("", "/ml/db", "ml/db/", "ml//db", "ml/../prod", "..", ".", "ml/.", "ml/%2e%2e/db", "ml\\db", "a b"),
    ),
    (spelling.store_path, ("ml/db\n", "ml/d\N{CYRILLIC SMALL LETTER A}", "a" * 254)),
    (
        spelling.capability,
        (
            "",
            "SYS-ADMIN",
            " SYS_ADMIN",
            "SYS_ADMIN\n",
            "CAP_CAP_KILL",
            "KI\N{LATIN SMALL LETTER DOTLESS I}LL",
        ),
    ),
    (
        spelling.host,
        ("", "a.example.com.", "a..b", "-a.b", "a_b.c", "b\xfccher.example", "a\N{FULLWIDTH FULL STOP}b"),
    ),
    (
        spelling.host,
        ("127.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "010.0.0.1", "1.2.3.4.5", "a.1", "1.2.3.0x4"),
    ),
    (spelling.host, ("fe80::1%eth0", "[::1", "::1]x", ":::", "1::2::3", "a b", "a/b", "%61.example.com")),
    (
        spelling.path,
        (
            "",
            "a",
            "/a/../b",
            "/..",
            "/a\nb",
            "/a\N{RIGHT-TO-LEFT OVERRIDE}b",
            "/cafe\N{COMBINING ACUTE ACCENT}",
        ),
    ),
    (spelling.program, ("/", "//", "/.")),
    (spelling.relative, ("/a", "..", "a/../b", ".", "./", "")),
    (spelling.name, ("", "A", "a b", "a.", ".a", "a..b", "a/b", "a" * 254, "\N{CYRILLIC SMALL LETTER A}")),
    (spelling.label, ("", "a.b", "A", "-a", "a" * 64)),
    (spelling.sysctl, ("", "Net.core", "net..core", "net.core.", "net core")),
    (spelling.key, ("", ".", "..", "a/b", 'a" }}', "a b")),
    (spelling.qualified, ("", "/", "a/", "/a", "a/b/c", "A/b", "a b")),
    (spelling.plain, ("", "a b", "a\tb", "a\N{ZERO WIDTH SPACE}b")),
]
ALL: Final = sorted({each for each, _ in (*SAME, *REFUSED)}, key=lambda each: each.__name__)


@pytest.mark.parametrize(("spell", "texts"), SAME, ids=[texts[0] for _, texts in SAME])
def test_spellings_of_one_thing_are_one(spell: Spell, texts: tuple[str, ...]) -> None:
    assert {spell(each) for each in texts} == {texts[0]}


@pytest.mark.parametrize(
    ("spell", "text"),
    [(spell, text) for spell, texts in REFUSED for text in texts],
    ids=lambda each: each.__name__ if callable(each) else ascii(each)[:40],
)
def test_what_has_no_one_spelling_is_refused_with_a_reason(spell: Spell, text: str) -> None:
    with pytest.raises(Misspelt, match=r"."):
        spell(text)


@pytest.mark.parametrize("spell", ALL, ids=lambda each: str(each.__name__))
@given(
    text=st.text(
        "aAzZ019.:-_/\\%[]x \n\N{KELVIN SIGN}\N{LATIN SMALL LETTER DOTLESS I}\N{ZERO WIDTH SPACE}",
        max_size=16,
    )
    | st.text(max_size=16)
)
def test_the_one_spelling_stays_as_it_is_and_can_be_seen(spell: Spell, text: str) -> None:
    try:
        found = spell(text)
    except Misspelt:
        return
    assert spell(found) == found
    assert found.isprintable()


@given(st.ip_addresses())
def test_an_address_has_one_spelling(address: object) -> None:
    found = spelling.host(str(address))
    assert spelling.is_address(found)
    assert spelling.host(getattr(address, "exploded", "")) == found


@given(st.sampled_from(["a.example.com", "10.0.0.7", "2001:db8::1"]), st.integers(1, 65535))
def test_an_endpoint_can_be_told_from_every_other(host: str, port: int) -> None:
    assert spelling.endpoint(host, port, "TCP") != spelling.endpoint(host, port, "UDP")
    authority, _, number = spelling.endpoint(host, port, "TCP").rpartition(":")
    assert (spelling.host(authority), int(number)) == (host, port)
