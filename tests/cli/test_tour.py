"""The tours of the README and of the first page of the documentation are true, word for word."""

import os
import shlex
from pathlib import Path

import pytest

from tests.cli.binary import EXAMPLES, MUSTER, Muster
from tests.cli.console import commands, comparable, run_until

ROOT = Path(__file__).parents[2]


@pytest.mark.full
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_tour(page: str, muster: Muster) -> None:
    (muster.cwd / "examples").symlink_to(EXAMPLES)
    names: dict[str, str] = {}  # of jobs, as the page has them and as they are here
    for command in commands((ROOT / page).read_text()):
        text = command.text
        for shown, here in names.items():
            text = text.replace(shown, here)
        output = run_until(command.output, text, muster.cwd, muster.environ)
        where = f"{page}:{command.line}: {text}\n{output}"
        assert comparable(output) == comparable(command.output), where
        names.update(_jobs(command.output, output))


def _jobs(shown: str, here: str) -> dict[str, str]:
    """A command that prints nothing but a job's name has made that job."""
    words, made = shlex.split(shown) if "'" not in shown else [], here.split()
    return {words[0]: made[0]} if len(words) == len(made) == 1 and "-" in words[0] else {}


def test_the_runner_sees_what_differs() -> None:
    page = "```console\n$ echo a\n> b\na b\n$ false\n[exit 1]\n```\n"
    first, second = commands(page)
    assert (first.text, first.output, first.line) == ("echo a\nb", "a b\n", 2)
    assert (second.text, second.output) == ("false", "[exit 1]\n")
    assert comparable("job-0123abcd │ x\nworker │ y\n") == comparable("worker │ y\njob-99999999 │ x\n")
    assert comparable("worker │ y\n") != comparable("worker │ z\n")
    assert comparable("a  ░░██ 0:01\n") == comparable("a ░█ 0:02\n")
    assert comparable("3 succeeded\n") != comparable("2 succeeded\n")


def test_the_tours_commands_are_found() -> None:
    assert os.access(MUSTER, os.X_OK)
    assert sum("muster " in command.text for command in commands((ROOT / "README.md").read_text())) > 10
