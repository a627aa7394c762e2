"""A finding says where and what, survives its way between processes, and controls no terminal."""

import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.fields import Finding, Severity
from muster.api.visible import visible


@given(st.text())
def test_no_character_of_a_message_controls_a_terminal(text: str) -> None:
    finding = Finding((text, 0), text, fix=text, file=text, line=1, column=1)
    shown = finding.whole().replace("\n", "")
    assert shown.isprintable()
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Zl", "Zp"}


def test_escapes_are_told() -> None:
    assert visible("a\x1b[31m\x9b\u202e é") == "a\\x1b[31m\\x9b\\u202e é"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Finding((), "is empty"), "is empty"),
        (Finding(("spec", "jobs", 0, "name"), "is missing"), "spec.jobs[0].name: is missing"),
        (Finding((), "is empty", file="a.yaml"), "a.yaml: is empty"),
        (Finding(("spec",), "is missing", file="a.yaml", line=3, column=1), "a.yaml:3: spec: is missing"),
    ],
)
def test_a_finding_names_its_file_line_and_field_as_far_as_it_has_them(found: Finding, said: str) -> None:
    assert (str(found), found.among_errors()) == (said, said)
    hint = msgspec.structs.replace(found, severity=Severity.HINT, fix="a: 1\nb: 2\n")
    assert hint.among_errors() == f"hint: {said}\n    a: 1\n    b: 2"


@given(
    st.builds(
        Finding,
        path=st.lists(st.text() | st.integers(0, 99)).map(tuple),
        message=st.text(),
        severity=st.sampled_from(Severity),
        fix=st.text(),
        file=st.text(),
        line=st.integers(0, 99),
        column=st.integers(0, 99),
    )
)
def test_a_finding_is_the_same_after_it_went_to_another_process(found: Finding) -> None:
    assert msgspec.json.decode(msgspec.json.encode(found), type=Finding) == found
    assert len({found, msgspec.structs.replace(found)}) == 1
