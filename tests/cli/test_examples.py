"""Each verb's help ends with examples, and each example is a command line that the verb accepts."""

import shlex

import pytest
import typer.main

from muster.cli import examples
from muster.cli.main import app

GROUP = typer.main.get_command(app)
VERBS = sorted(GROUP.commands)  # type: ignore[attr-defined]  # typer's own copy of click has no types


@pytest.mark.parametrize("verb", VERBS)
def test_examples_are_accepted(verb: str) -> None:
    command = GROUP.commands[verb]  # type: ignore[attr-defined]
    found = examples.commands(verb)
    assert found
    for example in found:
        program, own, *words = shlex.split(example.rpartition(" | ")[2])
        assert (program, own) == ("muster", verb)
        command.make_context(verb, words)  # raises what a wrong option raises


def test_examples_stand_below_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app(["logs", "--help"])
    shown = capsys.readouterr().out.partition("Examples:\n")[2].splitlines()
    assert [line.strip() for line in shown] == examples.commands("logs")
