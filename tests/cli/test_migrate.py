"""docs/guides/migrate.md is true, word for word."""

from pathlib import Path

import pytest

from tests.cli.binary import Muster
from tests.cli.console import commands, comparable, run_until

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "migrate.md"


@pytest.mark.full
def test_the_guide(muster: Muster) -> None:
    for command in commands(PAGE.read_text()):
        output = run_until(command.output, command.text, muster.cwd, muster.environ)
        where = f"docs/guides/migrate.md:{command.line}: {command.text}\n{output}"
        assert comparable(output) == comparable(command.output), where


def test_the_guide_goes_there_and_back() -> None:
    shown = [command.text for command in commands(PAGE.read_text())]
    for words in ("muster check", "muster submit", "muster plan", "--to volcano", "--to jobset"):
        assert any(words in text for text in shown), words
