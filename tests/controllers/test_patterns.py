"""Patterns of failure policies: the language, its bounds, and Python's own matcher as the oracle."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controllers.jobset.patterns import LONGEST_PATTERN, LONGEST_TEXT, InvalidPattern, found
from tests.tiers import examples

MESSAGE = "Container main for pod ns/js-w-0-1-x7k2p failed with exit code 42 matching FailJob rule at index 0"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("exit code 42", True),
        ("exit code 4$", False),
        ("^Container .* exit code (4[0-9]|50) ", True),
        (r"pod \w+/js-w-\d+-\d+-", True),
        (r"\bcode\b", True),
        (r"\bode\b", False),
        ("(?i)CONTAINER MAIN", True),
        ("CONTAINER (?i:MAIN)", False),
        ("exit code (?P<code>[[:digit:]]{2}) ", True),
        ("exit code (?<code>[^[:alpha:] ]{3})", False),
        ("", True),
        ("a{", False),
        ("()", True),
        (r"\x46ailJob", True),
        ("[]x]7k", True),
        ("[b-]7k", False),
        ("[x-]x7k", True),
        ("FailJob|FailIndex", True),
    ],
)
def test_messages(pattern: str, expected: bool) -> None:
    assert found(pattern, MESSAGE) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a.b", "a\nb", False),
        ("(?s)a.b", "a\nb", True),
        ("^b$", "a\nb\nc", False),
        ("(?m)^b$", "a\nb\nc", True),
        ("(?m-m)^b$", "a\nb\nc", False),
        (r"\pL", "é", True),
        (r"\Qa.b\E", "axb", False),
        (r"\Ab", "a\nb", False),
        (r"b\z", "a\nb", True),
        ("[[:^digit:]]", "7", False),
        (r"[^\d]", "7", False),
        ("[É-Ê]", "É", True),
        ("a{2,3}b", "ab", False),
        ("^a{2,3}b", "aaab", True),
        ("^a{2}$", "aaa", False),
        ("^a{2,}$", "aaaaa", True),
        ("^(a?){3}$", "aaaa", False),
        ("x*", "", True),
    ],
)
def test_the_language(pattern: str, text: str, expected: bool) -> None:
    assert found(pattern, text) is expected


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "missing ): (a"),
        ("a)", "unexpected ): a)"),
        ("[a", "missing ]: [a"),
        ("a\\", "trailing \\"),
        ("*a", "no argument for repetition operator: *"),
        ("a**", "bad repetition operator: **"),
        ("a{3,1}", "invalid repetition size: {3,1}"),
        ("a{1001}", "invalid repetition size: {1001}"),
        ("[z-a]", "invalid character class range: z-a"),
        ("(?=a)", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"(?:\pL{500}){2}", "pattern too large"),
        ("((((){900}){900}){900}){900}", "invalid repetition size"),
        ("a" * (LONGEST_PATTERN + 1), "at most 1000 are allowed"),
    ],
)
def test_a_pattern_that_is_not_allowed_is_refused_with_the_reason(pattern: str, said: str) -> None:
    with pytest.raises(InvalidPattern, match=re.escape(said)):
        found(pattern, "aaa")


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^(a|a)*$",
        "^(a*)*(a*)*$",
        "^(.*a){20}$",
        "^(a?){160}a{160}$",
        "(.?){240}x",
        "(?:(?:[a-zé-ÿ]?){10}){100}x",
    ],
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """Most of these would keep a backtracking matcher busy for years, beyond the time-out of the test."""
    assert not found(pattern, "a" * (LONGEST_TEXT - 1) + "b")


def test_only_the_beginning_of_a_long_text_is_matched() -> None:
    assert found("b", "a" * (LONGEST_TEXT - 1) + "b")
    assert not found("b", "a" * LONGEST_TEXT + "b")


atoms = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "\\.", "(?:)"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda several: f"({'|'.join(several)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    )


@settings(max_examples=examples(300), deadline=None)
@given(st.recursive(atoms, larger, max_leaves=8), st.text("abc. \n", max_size=8))
def test_as_python_has_it(pattern: str, text: str) -> None:
    judge: Any = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    assert found(pattern, text) is (judge.search(text) is not None)
