"""Questions in a process: what it is sent, and that it ends, whatever it is asked."""

import asyncio
import os
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import AnyKind
from muster.app import worker as processes
from muster.app.snapshot import Settings
from muster.app.worker import Ended, Worker
from muster.dashboard import work as works
from muster.dashboard import worker
from muster.dashboard.cluster import Cluster
from muster.dashboard.work import Occupied, Planning, Progress, Question, Replaying, Work
from muster.kube.decode import decode
from muster.runtime.mirror import WATCHED
from tests.dashboard.test_server import TRACE
from tests.dashboard.works import Here, work
from tests.patience import PATIENCE

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: []}"


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "START", PATIENCE)


def planning(text: str = POD) -> Planning:
    return Planning(text, False, [], None, Settings(), 0.0)


async def test_a_process_answers_plans_and_replays_and_says_how_far_it_is(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(TRACE)
    told: list[Progress] = []
    for question, has in ((planning(), "rows"), (Replaying(str(file), ("easy", "fcfs")), "headline")):

        async def made(question: Question = question) -> Question:
            return question

        found = await Work(PATIENCE).ask(made, told.append)
        assert found.problem == ""
        assert found.values[has]
    assert told


async def test_a_process_that_takes_too_much_memory_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def hungry(*of: object, **how: object) -> object:
        raise MemoryError

    monkeypatch.setattr("muster.dashboard.plans.planned", hungry)
    found = worker.answer(planning(), lambda said: None)
    assert found.problem == "It takes more than 2,048 MiB of memory."


async def test_a_process_is_ended_with_its_time_and_makes_room_for_the_next() -> None:
    begun = asyncio.Event()
    pids = []

    async def start() -> Worker:
        found = await Worker.started(("/bin/sh", "-c", r"printf '\0\0\0\0'; exec sleep 1000"))
        pids.append(found._process.pid)
        begun.set()
        return found

    async def question() -> Question:
        return planning()

    one = Work(1.0, start)
    first = asyncio.create_task(one.ask(question))
    await begun.wait()
    with pytest.raises(Occupied):
        await one.ask(question)
    assert (await first).problem == "It takes more than 1 s, and was ended."
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert "1 s" in (await one.ask(question)).problem


async def test_a_process_that_fails_is_said() -> None:
    async def question() -> Question:
        return planning()

    async def start() -> Worker:
        return await Worker.started(("/bin/sh", "-c", "exit 3"))

    assert "has failed: it ended by exit code 3" in (await Work(PATIENCE, start).ask(question)).problem


async def test_what_is_asked_when_the_question_cannot_be_made_leaves_the_desk_free() -> None:
    one = work(10.0, Here())

    async def fails() -> Question:
        raise Ended("gone")

    assert "gone" in (await one.ask(fails)).problem
    assert one._busy is False


OBJECTS: list[tuple[AnyKind, dict[str, object]]] = [
    (kinds.NODE, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}),
    (
        kinds.POD,
        {
            "metadata": {"name": "p", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": "n"},
        },
    ),
    (kinds.POD, {"metadata": {"name": "damaged", "namespace": "a"}, "spec": {"priority": "high"}}),
    (kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {"weight": 2, "deserved": {"cpu": "1.5"}}}),
]


@pytest.mark.looptime
async def test_the_cluster_arrives_in_the_process_as_it_is() -> None:
    nothing: Any = None  # Any: nothing is asked
    seen = Cluster(nothing, frozenset({"muster"}))
    seen._settings_at = inf
    for kind, value in OBJECTS:
        read = decode(kind, msgspec.json.encode(value))
        seen._informers[kind]._change(read.key, read)
    asked = await seen.planning(await seen.now(), POD, embedded=False)
    encoded = msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=Question)
    assert isinstance(encoded, Planning)
    arrived = {
        (WATCHED[number], each.key): each
        for number, some in encoded.objects
        for each in msgspec.msgpack.decode(some, type=list[WATCHED[number].type])  # type: ignore[misc]
    }
    expected = {(kind, key): item for kind in WATCHED for key, item in seen._informers[kind].items.items()}
    assert arrived == expected
    assert len(arrived) == len(OBJECTS)
    assert any(each.metadata.unreadable for each in arrived.values())
    assert encoded.schedulers == ["muster"]


def test_every_kind_that_a_scheduler_watches_can_be_sent() -> None:
    for kind in WATCHED:
        msgspec.msgpack.Decoder(list[kind.type])  # type: ignore[name-defined]


def test_the_process_has_longer_than_its_parent_waits() -> None:
    assert max(works.PLAN, works.REPLAY) + works.SPARE > works.REPLAY
