"""What a file contains cannot control the terminal on which a finding about it is shown."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from muster.api.visible import visible
from muster.workloads.findings import Finding


@given(st.text())
def test_no_character_of_a_message_controls_a_terminal(text: str) -> None:
    finding = Finding(text, 1, 1, (text, 0), text, fix=text)
    shown = finding.whole().replace("\n", "")
    assert shown.isprintable()
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Zl", "Zp"}


def test_escapes_are_told() -> None:
    assert visible("a\x1b[31m\x9b\u202e é") == "a\\x1b[31m\\x9b\\u202e é"
