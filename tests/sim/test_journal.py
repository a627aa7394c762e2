"""A journal as a trace: the jobs that were, when they came and how long they ran."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from muster.core.words.events import (
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    NodeRemoved,
    PodsBound,
    PodsEnded,
    QueueChanged,
)
from muster.core.words.gang import Gang, GangId, Layer, NodeName, Place, PodId, PodSet, Queue, Shape
from muster.journal import Began, Cycle, Journal
from muster.sim.experiment import Experiment, prepare, run
from muster.sim.readers import Format, open_trace
from muster.sim.trace import Job, Tally, Trace, TraceError

CPU = (("cpu", 4000),)
NODE = NodeChanged(NodeName("n"), CPU)


def gang(name: str, at: float, places: int = 2, **how: object) -> GangSubmitted:
    sets = (PodSet("main", Shape((("cpu", 1000),)), places),)
    return GangSubmitted(replace(Gang(GangId(name), sets, places, at), **how))  # type: ignore[arg-type]


def bound(name: str, at: float, pods: int = 2) -> PodsBound:
    found = {PodId(f"{name}-{i}-{at:g}"): Place("main", i) for i in range(pods)}
    return PodsBound(found, NodeName("n"), (("cpu", 1000),), GangId(name), at=at)


def ended(name: str, begun: float, at: float, pods: int = 2) -> PodsEnded:
    return PodsEnded(tuple(PodId(f"{name}-{i}-{begun:g}") for i in range(pods)), at)


Told = tuple[float, Event | Began | Cycle]


def written(path: Path, *entries: Told) -> Path:
    journal = Journal(path / "journal.jsonl")
    for at, what in entries:
        journal.write(at, what)
    journal.close()
    return path / "journal.jsonl"


def read(path: Path, last: float = inf) -> tuple[Trace, list[Job], Tally]:
    found, tally = open_trace(Format.JOURNAL, [path], last=last), Tally()
    return found, [*found.jobs(tally)], tally


STORY: list[Told] = [
    (0.0, Began(1)),
    (0.0, NODE),
    (0.0, QueueChanged(Queue("q"))),
    (0.0, LayersChanged((Layer("rack", ("rack",)),))),
    (10.0, gang("a", 10.0, queue="q", priority=3)),
    (11.0, Cycle()),
    (12.0, bound("a", 12.0)),
    (20.0, gang("b", 20.0, 4, estimate=50.0)),
    (30.0, ended("a", 12.0, 30.0, 1)),
    (32.0, PodsEnded((PodId("a-1-12"),), 32.0)),
    (33.0, GangRemoved(GangId("a"))),
    (33.0, bound("b", 33.0, 4)),
    (40.0, gang("never", 40.0)),
    (60.0, Cycle()),
]


def test_jobs_come_and_run_as_they_did(tmp_path: Path) -> None:
    trace, jobs, tally = read(written(tmp_path, *STORY))
    assert [(job.id, job.submitted, job.run_time, job.places) for job in jobs] == [
        ("a", 10.0, 20.0, 2),
        ("b", 20.0, 27.0, 4),  # it still runs at the end
    ]
    assert [(job.queue, job.priority, job.estimate) for job in jobs] == [("q", 3, inf), ("default", 0, 50.0)]
    assert tally.filtered == {"has not run": 1}
    assert [node.name for node in trace.nodes] == ["n"]
    assert trace.resource == "cpu"


def test_it_is_replayed_under_any_policy(tmp_path: Path) -> None:
    asked = Experiment(open_trace(Format.JOURNAL, [written(tmp_path, *STORY)]), "easy")
    report = run(asked, prepare(asked))
    assert report.metrics["wait_mean"].mean == 5.0  # a not at all; b until a ends
    assert report.worst.stranded == 0


def test_only_its_end_counts_and_what_ran_then_runs_from_the_beginning(tmp_path: Path) -> None:
    _, jobs, tally = read(written(tmp_path, *STORY), last=20.0)
    assert [(job.id, job.submitted, job.run_time) for job in jobs] == [("b", 39.0, 21.0)]
    assert tally.filtered == {"before the time that counts": 1, "has not run": 1}


def test_the_run_that_was_completed_counts(tmp_path: Path) -> None:
    """A gang that was evicted had to begin again."""
    begun: list[Told] = [
        *STORY[:4],
        (10.0, gang("a", 10.0)),
        (12.0, bound("a", 12.0)),
        (15.0, ended("a", 12.0, 15.0)),
    ]
    again: list[Told] = [
        (20.0, bound("a", 20.0)),
        (45.0, ended("a", 20.0, 45.0)),
        (46.0, GangRemoved(GangId("a"))),
    ]
    _, [job], _ = read(written(tmp_path, *begun, *again))
    assert (job.submitted, job.run_time) == (10.0, 25.0)


def test_a_name_that_is_used_again_is_another_job(tmp_path: Path) -> None:
    later: list[Told] = [(50.0, gang("a", 50.0)), (51.0, bound("a", 51.0)), (55.0, GangRemoved(GangId("a")))]
    _, jobs, _ = read(written(tmp_path, *STORY, *later))
    assert {job.id: job.run_time for job in jobs if job.id.startswith("a")} == {"a": 20.0, "a~2": 4.0}


def test_a_gang_whose_pods_end_keeps_its_size(tmp_path: Path) -> None:
    _, [job], _ = read(
        written(
            tmp_path,
            *STORY[:4],
            (1.0, gang("a", 1.0, 3)),
            (2.0, bound("a", 2.0, 3)),
            (5.0, gang("a", 1.0, 1)),
        )
    )
    assert job.places == 3


def test_another_scheduler_is_told_what_goes_on_and_what_has_ended_meanwhile_is_over(tmp_path: Path) -> None:
    again: list[Told] = [
        (100.0, Began(2)),
        (100.0, NODE),
        (100.0, gang("b", 20.0, 4)),
        (100.0, bound("b", 33.0, 4)),
        (110.0, Cycle()),
    ]
    _, jobs, _ = read(written(tmp_path, *STORY[:7], *STORY[7:8], (33.0, bound("b", 33.0, 4)), *again))
    assert {job.id: job.run_time for job in jobs} == {"a": 21.0, "b": 77.0}


def test_a_node_that_is_removed_is_down_until_it_is_back(tmp_path: Path) -> None:
    trace, _, _ = read(
        written(tmp_path, *STORY, (70.0, NodeRemoved(NodeName("n"))), (80.0, NODE), (81.0, Cycle()))
    )
    assert [(each.at, each.node, each.up) for each in trace.outages] == [
        (70.0, "n", False),
        (80.0, "n", True),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no scheduler begins in it"),
        ('{"at": 1, "is": "Cycle", "what": {}}\n', "no scheduler begins in it"),
        ("hello\n", "line 1: not an entry of a journal"),
        ('{"at": 1, "is": "Began", "what": {"epoch": 1}}\n', "has no nodes"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_text(text)
    with pytest.raises(TraceError, match=says):
        open_trace(Format.JOURNAL, [file])
    with pytest.raises(TraceError, match="no such file"):
        open_trace(Format.JOURNAL, [tmp_path / "other"])
