"""The example in docs/replay.md is what the command prints."""

import re
import sys
from pathlib import Path

import pytest

from muster.cli import main as cli
from muster.sim.metrics import NAMES

PAGE = (Path(__file__).parents[2] / "docs/replay.md").read_text()


def block(kind: str) -> str:
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_example_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, printed = block("console").split("\n", 1)
    monkeypatch.chdir(tmp_path)
    Path("small.swf").write_text(block("swf"))
    monkeypatch.setattr(sys, "argv", command.removeprefix("$ ").split())
    with pytest.raises(SystemExit) as exit:
        cli.main()
    assert not exit.value.code
    assert capsys.readouterr() == (printed, "")


def test_every_metric_is_described() -> None:
    assert {name for name in NAMES if f"`{name}`" not in PAGE} == set()
