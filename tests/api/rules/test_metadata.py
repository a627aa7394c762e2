"""Errors quote what a user wrote in one line, whatever it was."""

from hypothesis import given
from hypothesis import strategies as st

from muster.api.rules.metadata import shown


@given(st.text(max_size=200))
def test_a_value_is_quoted_in_one_line_of_bounded_length(value: str) -> None:
    said = shown(value)
    assert len(said.splitlines()) == 1
    assert said.isprintable()
    assert len(said) <= 10 * 80 + 30
    assert (said == f'"{value}"') == (len(value) <= 80 and value.isprintable())


def test_what_does_not_print_is_escaped() -> None:
    assert shown("a b\n127.0.0.1 evil\x1b[31m") == r'"a b\n127.0.0.1 evil\x1b[31m"'
    assert shown("\n" * 100) == '"' + r"\n" * 77 + '..." (100 characters)'
