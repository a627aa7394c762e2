"""Score's placeholders, as score-go expands them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.compiler.substitution import Part, Reference, UnknownRoot, parse

DB = Reference("resources", ("db", "host"), "${resources.db.host}")
CASES: list[tuple[str, list[Part]]] = [
    ("", []),
    ("plain", ["plain"]),
    ("${resources.db.host}", [DB]),
    ("a${resources.db.host}b", ["a", DB, "b"]),
    ("$$", ["$"]),
    ("$${resources.db.host}", ["${resources.db.host}"]),
    ("$", ["$"]),
    ("a $ b", ["a $ b"]),
    ("${secret.db.host}", [Reference("resources", ("db", "host"), "${secret.db.host}")]),
    ("${metadata.name}", [Reference("metadata", ("name",), "${metadata.name}")]),
    (r"${resources.db.a\.b}", [Reference("resources", ("db", "a.b"), r"${resources.db.a\.b}")]),
    ("${", ["${"]),
    ("$$$", ["$$"]),
    ("${metadata.name}$$${x", [Reference("metadata", ("name",), "${metadata.name}"), "$${x"]),
    ("$$ ${metadata.name} $$", ["$ ", Reference("metadata", ("name",), "${metadata.name}"), " $"]),
]


@pytest.mark.parametrize(("text", "parts"), CASES)
def test_placeholders(text: str, parts: list[Part]) -> None:
    assert parse(text) == parts


@pytest.mark.parametrize("text", ["${}", "${env.HOME}", "${resources}", "${ resources.a.b}"])
def test_an_unknown_root_is_an_error_that_says_how_to_escape(text: str) -> None:
    with pytest.raises(UnknownRoot, match=r"write \$\$\{"):
        parse(text)


def test_files_may_exchange_the_two_ways_of_writing() -> None:
    assert parse("${HOME} $${resources.db.host} $$", "escaped") == ["${HOME} ", DB, " $$"]
    assert parse("${HOME} $$", "none") == ["${HOME} $$"]


@given(st.text(alphabet="$${}ab.", max_size=20))
def test_text_without_placeholders_keeps_all_but_doubled_dollars(text: str) -> None:
    try:
        parts = parse(text.replace("${", "$ {"))
    except UnknownRoot:
        pytest.fail("there is no placeholder")
    assert "".join(str(part) for part in parts) == text.replace("${", "$ {").replace("$$", "$")


HOSTILE = ["${" * 500_000, "$" * 1_000_000, "${metadata.name" + "$${" * 300_000, "${metadata.name}" * 60_000]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_a_mebibyte_of_anything_is_read_in_linear_time(text: str) -> None:
    """Minutes if each brace were looked for in all of the rest."""
    parts = parse(text)
    assert sum(len(str(part)) for part in parts if isinstance(part, str)) <= len(text)
