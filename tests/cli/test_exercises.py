"""docs/guides/exercises.md is true, word for word."""

from pathlib import Path

import pytest

from tests.cli.binary import Muster
from tests.cli.console import commands, comparable, run_until

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "exercises.md"
#: What the chapter's exercises come to.
ANSWERS = (
    "Fragmented: 8 GPUs",
    "entitled to 12 of 16",
    "$168.00",
    "$14.00",
    "$70.00",
    "$7.00",
    "$24.50 an hour",
)


@pytest.mark.full
def test_the_exercises(muster: Muster) -> None:
    for command in commands(PAGE.read_text()):
        output = run_until(command.output, command.text, muster.cwd, muster.environ)
        where = f"docs/guides/exercises.md:{command.line}: {command.text}\n{output}"
        assert comparable(output) == comparable(command.output), where


def test_the_answers_are_the_chapters() -> None:
    shown = "".join(command.output for command in commands(PAGE.read_text()))
    assert [answer for answer in ANSWERS if answer not in shown] == []
