"""The example in docs/guides/replay.md is what the command prints."""

import re
import sys
from pathlib import Path

import msgspec
import pytest

from muster.cli import main as cli
from muster.sim.metrics import UNITS
from muster.sim.readers.native import Native
from muster.sim.readers.records import (
    JobRecord,
    LayersRecord,
    NodeRecord,
    OutageRecord,
    PodSetRecord,
    QueueRecord,
)
from muster.sim.trace import Tally

PAGE = (Path(__file__).parents[2] / "docs/guides/replay.md").read_text()


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
    assert {name for name in UNITS if f"`{name}`" not in PAGE} == set()


def test_the_traces_of_our_own_are_read(tmp_path: Path) -> None:
    told = tmp_path / "trace.jsonl"
    told.write_text(block("json"))
    trace = Native([told])
    assert [(job.places, job.least, job.size) for job in trace.jobs(Tally())] == [(3, 2, 24_000), (1, 1, 250)]
    table = tmp_path / "jobs.csv"
    table.write_text(block("csv"))
    assert [job.places for job in Native([table], trace.nodes).jobs(Tally())] == [3, 9]


def test_every_field_and_column_is_described() -> None:
    fields = {
        field.encode_name
        for record in (NodeRecord, QueueRecord, LayersRecord, OutageRecord, JobRecord, PodSetRecord)
        for field in msgspec.structs.fields(record)
    }
    assert {name for name in fields if f"`{name}`" not in PAGE} == set()
