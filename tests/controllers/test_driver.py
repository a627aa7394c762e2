"""The driver under virtual time, against a server in memory."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from muster.api.base import AnyKind, owner
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.kinds import EVENT, JOB, POD
from muster.controllers import driver
from muster.controllers.caches import Caches
from muster.controllers.driver import Controller, Signal, Watch, controlled_by, itself, run
from muster.effects import Create, Delete, Effect, Patch, RecordEvent, Requeue
from muster.kube.errors import Conflict, Forbidden, Unanswered
from tests.controllers.memory import START, Memory, MemoryClient
from tests.informed import informed
from tests.loop_clock import LoopClock

pytestmark = pytest.mark.looptime


@dataclass
class Seen:
    job: Job
    pods: list[Pod]


def observe(caches: Caches, key: str) -> Seen | None:
    job = caches[JOB].get(key)
    return None if job is None else Seen(job, caches[POD].owned_by(job))


@dataclass
class World:
    client: MemoryClient
    runs: list[tuple[float, Seen]] = field(default_factory=list)

    @property
    def memory(self) -> Memory:
        return self.client.memory

    def job(self, name: str = "a", **spec: Any) -> None:
        self.memory.create(JOB, "ns", {"metadata": {"name": name}, "spec": {"template": {}, **spec}})


@asynccontextmanager
async def running(
    reconcile: Callable[[Seen, datetime], Sequence[Effect]],
    *,
    settle: float = 0.0,
    clock: LoopClock | None = None,
    signals: tuple[Signal, ...] = (),
    single: Mapping[AnyKind, str] | None = None,
) -> AsyncIterator[World]:
    world = World(MemoryClient(Memory(LoopClock().now)))

    def recorded(seen: Seen, now: datetime) -> Sequence[Effect]:
        world.runs.append((LoopClock().monotonic(), seen))
        return reconcile(seen, now)

    watches = (Watch(JOB, itself), Watch(POD, controlled_by(JOB)))
    controller = Controller("test", watches, observe, recorded, settle=settle, signals=signals)
    synced = asyncio.Event()
    task = asyncio.create_task(
        informed(run, world.client, [controller], clock or LoopClock(), synced=synced, single=single)
    )
    await synced.wait()
    try:
        yield world
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()


def generated_pod(job: Job) -> Create:
    meta = {"generateName": f"{job.metadata.name}-", "ownerReferences": [owner(job, JOB)]}
    return Create(POD, "ns", {"metadata": meta, "spec": {}})


def to_parallelism(seen: Seen, now: datetime) -> list[Effect]:
    return [generated_pod(seen.job) for _ in range(seen.job.spec.parallelism - len(seen.pods))]


async def test_a_signal_reconciles_the_keys_that_it_names_or_all() -> None:
    signal = Signal()
    async with running(lambda seen, now: [], signals=(signal,)) as world:
        for name in ("a", "b"):
            world.job(name)
        await asyncio.sleep(1)
        for keys, wanted in ((["ns/b", "ns/gone"], ["b"]), (None, ["a", "b"])):
            world.runs.clear()
            signal.send(keys)
            await asyncio.sleep(1)
            assert sorted(seen.job.metadata.name for _, seen in world.runs) == wanted


async def test_reconciles_what_is_there_and_what_comes() -> None:
    async with running(to_parallelism) as world:
        world.job("a", parallelism=3)
        await asyncio.sleep(1)
        assert len(world.memory.all(POD)) == 3
        world.memory.delete(POD, "ns", world.memory.all(POD)[0].metadata.name)
        await asyncio.sleep(1)
        assert len(world.memory.all(POD)) == 3


async def test_creates_of_one_reconcile_go_out_together() -> None:
    async with running(to_parallelism) as world:
        world.job("a", parallelism=500)
        await asyncio.sleep(0.2)  # 500 one after the other would take 5
        assert len(world.memory.all(POD)) == 500
        assert world.client.most_under_way >= 50


async def test_does_not_act_twice_while_the_caches_lag() -> None:
    async with running(to_parallelism) as world:
        world.job("a", parallelism=2)
        await asyncio.sleep(0.005)  # the reconcile runs, its creates are under way
        assert len(world.runs) == 1
        world.client.flowing.clear()
        await asyncio.sleep(1)
        world.memory.patch(JOB, "ns", "a", {"metadata": {"labels": {"x": "1"}}})
        await asyncio.sleep(10)
        assert len(world.memory.all(POD)) == 2
        world.client.flowing.set()
        await asyncio.sleep(1)
        assert len(world.memory.all(POD)) == 2
        assert [len(seen.pods) for _, seen in world.runs if seen.job.metadata.labels] == [2]


async def test_after_a_long_lag_it_goes_on_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    def once(seen: Seen, now: datetime) -> list[Effect]:
        return to_parallelism(seen, now) if len(world.runs) == 1 else []

    async with running(once) as world:
        world.client.blind = POD
        world.job("a", parallelism=1)
        await asyncio.sleep(1)
        world.memory.patch(JOB, "ns", "a", {"metadata": {"labels": {"x": "1"}}})
        await asyncio.sleep(290)
        assert len(world.runs) == 1
        await asyncio.sleep(20)
        assert len(world.runs) == 2
    assert "pods were not seen to change" in caplog.text


async def test_a_key_waits_once_however_often_its_objects_change(monkeypatch: pytest.MonkeyPatch) -> None:
    drivers: list[Any] = []

    class Watched(driver._Driver):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            drivers.append(self)

    monkeypatch.setattr(driver, "_Driver", Watched)
    async with running(to_parallelism) as world:
        world.client.blind = POD
        world.job("a", parallelism=1)
        for number in range(20):
            await asyncio.sleep(1)
            world.memory.patch(JOB, "ns", "a", {"metadata": {"labels": {"x": str(number)}}})
        assert len(world.runs) == 1
        assert [len(parked) for parked in drivers[0]._parked.values()] == [0, 1]


async def test_a_key_does_not_wait_to_see_a_write_that_its_cache_never_shows() -> None:
    """The informer shows one pod of another namespace, and hears nothing of the others for a minute."""

    def once(seen: Seen, now: datetime) -> list[Effect]:
        return to_parallelism(seen, now) if len(world.runs) == 1 else []

    async with running(once, single={POD: "elsewhere/pod"}) as world:
        world.client.blind = POD
        world.job("a", parallelism=1)
        await asyncio.sleep(1)
        world.memory.patch(JOB, "ns", "a", {"metadata": {"labels": {"x": "1"}}})
        await asyncio.sleep(1)
        assert len(world.runs) == 2


async def test_many_changes_make_one_reconcile() -> None:
    async with running(lambda seen, now: [], settle=0.5) as world:
        world.job("a")
        for number in range(100):
            world.memory.patch(JOB, "ns", "a", {"metadata": {"labels": {"x": str(number)}}})
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        assert len(world.runs) == 1
        assert world.runs[0][1].job.metadata.labels == {"x": "99"}


async def test_a_slow_controller_runs_less_often() -> None:
    class Stopwatch(LoopClock):
        computed = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.computed

    clock = Stopwatch()

    def slow(seen: Seen, now: datetime) -> list[Effect]:
        clock.computed += 0.1
        return []

    async with running(slow, clock=clock) as world:
        world.job("a")
        for number in range(1000):
            world.memory.patch(JOB, "ns", "a", {"metadata": {"labels": {"x": str(number)}}})
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        assert 9 <= len(world.runs) <= 13  # of 1000 changes in 10 s
        assert world.runs[-1][1].job.metadata.labels == {"x": "999"}
        await asyncio.sleep(60)
        world.memory.patch(JOB, "ns", "a", {"metadata": {"labels": {"x": "rested"}}})
        await asyncio.sleep(0.1)
        assert world.runs[-1][1].job.metadata.labels == {"x": "rested"}


async def test_requeue_looks_again_at_the_time_asked_for_and_no_sooner() -> None:
    def reconcile(seen: Seen, now: datetime) -> list[Effect]:
        later, sooner = START + timedelta(hours=4), START + timedelta(hours=3)
        return [Requeue(later), Requeue(sooner)] if now < sooner else []

    async with running(reconcile) as world:
        world.job("a")
        await asyncio.sleep(3 * 3600 - 1)
        assert len(world.runs) == 1
        await asyncio.sleep(2)
        assert len(world.runs) == 2


async def test_a_crash_is_logged_backed_off_and_alone(caplog: pytest.LogCaptureFixture) -> None:
    def reconcile(seen: Seen, now: datetime) -> list[Effect]:
        if seen.job.metadata.name == "bad":
            raise ZeroDivisionError("by design")
        return to_parallelism(seen, now)

    async with running(reconcile) as world:
        world.job("bad")
        world.job("good")
        await asyncio.sleep(100)
        assert len(world.memory.all(POD)) == 1
        tries = [time for time, seen in world.runs if seen.job.metadata.name == "bad"]
        gaps = [later - sooner for sooner, later in itertools.pairwise(tries)]
        assert gaps[:4] == pytest.approx([0.05, 0.1, 0.2, 0.4], abs=0.03)
        assert max(gaps) == pytest.approx(30, abs=0.1)
    assert "ZeroDivisionError: by design" in caplog.text


async def test_a_conflict_is_tried_again_on_a_fresh_observation() -> None:
    def reconcile(seen: Seen, now: datetime) -> list[Effect]:
        meta = seen.job.metadata
        if "mine" in meta.labels:
            return []
        body = {"metadata": {"resourceVersion": meta.resource_version, "labels": {"mine": "yes"}}}
        return [Patch(JOB, "ns", meta.name, body)]

    async with running(reconcile) as world:
        conflicts = [Conflict("one"), Conflict("two")]
        world.client.fault = lambda operation, kind, name: (
            conflicts.pop() if operation == "patch" and conflicts else None
        )
        world.job("a")
        await asyncio.sleep(1)
        assert world.memory.read(JOB, "ns/a").metadata.labels == {"mine": "yes"}
        assert len(world.runs) >= 3


async def test_effects_after_a_refused_one_are_not_executed() -> None:
    about = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ns", "name": "a", "uid": "uid-1"}

    def refused(words: str) -> list[Effect]:
        return [RecordEvent(about, "Warning", "FailedCreate", f"cannot make a pod: {words}")]

    def reconcile(seen: Seen, now: datetime) -> list[Effect]:
        create = generated_pod(seen.job)
        return [
            Create(POD, "ns", create.body, refused=refused),
            Create(POD, "ns", create.body, refused=refused),  # one event tells of both
            Patch(JOB, "ns", "a", {"metadata": {"labels": {"done": "yes"}}}),
            RecordEvent(about, "Normal", "Done", "all done"),
        ]

    async with running(reconcile) as world:
        world.client.fault = lambda operation, kind, name: (
            Forbidden("quota exceeded") if (operation, kind) == ("create", POD) else None
        )
        world.job("a")
        await asyncio.sleep(0.05)
        assert world.memory.read(JOB, "ns/a").metadata.labels == {}
        (event,) = world.memory.all(EVENT)
        assert (event.reason, event.message) == ("FailedCreate", "cannot make a pod: quota exceeded")
        assert event.involved_object.uid == "uid-1"
        assert event.reporting_component == "test"


async def test_a_lost_answer_to_a_generated_name_makes_no_second_pod() -> None:
    async with running(to_parallelism) as world:
        lost = [Unanswered("lost")]
        world.client.fault_after = lambda operation, kind, name: (
            lost.pop() if (operation, kind) == ("create", POD) and lost else None
        )
        world.job("a", parallelism=3)
        await asyncio.sleep(0.005)
        world.client.flowing.clear()  # the caches do not show it for a while
        await asyncio.sleep(5)
        assert len(world.memory.all(POD)) == 3
        world.client.flowing.set()
        await asyncio.sleep(5)
        assert len(world.memory.all(POD)) == 3
        assert not lost


async def test_a_name_that_is_ours_already_is_success_and_a_stranger_is_not() -> None:
    def reconcile(seen: Seen, now: datetime) -> list[Effect]:
        meta = {"name": "p", "ownerReferences": [owner(seen.job, JOB)]}
        return [
            Create(POD, "ns", {"metadata": meta}),
            Patch(JOB, "ns", seen.job.metadata.name, {"metadata": {"labels": {"done": "yes"}}}),
        ]

    async with running(reconcile) as world:
        world.job("a")
        await asyncio.sleep(1)
        world.job("b")
        await asyncio.sleep(1)
        assert world.memory.read(JOB, "ns/a").metadata.labels == {"done": "yes"}
        assert world.memory.read(JOB, "ns/b").metadata.labels == {}
        world.memory.delete(POD, "ns", "p")
        world.memory.delete(JOB, "ns", "a")
        await asyncio.sleep(31)
        assert world.memory.read(JOB, "ns/b").metadata.labels == {"done": "yes"}


async def test_deleting_spares_a_successor() -> None:
    def reconcile(seen: Seen, now: datetime) -> list[Effect]:
        return [Delete(POD, "ns", "p", uid="of the one before")]

    async with running(reconcile) as world:
        world.memory.create(POD, "ns", {"metadata": {"name": "p"}})
        world.job("a")
        await asyncio.sleep(1)
        assert [pod.key for pod in world.memory.all(POD)] == ["ns/p"]
        assert len(world.runs) == 1


async def test_goes_on_after_the_history_has_been_forgotten() -> None:
    async with running(to_parallelism) as world:
        world.client.fault = lambda operation, kind, name: None
        world.job("a", parallelism=1)
        await asyncio.sleep(1)
        world.memory.forgotten = world.memory.revision + 1
        world.job("b", parallelism=1)
        await asyncio.sleep(60)
        assert len(world.memory.all(POD)) == 2


async def test_deleted_keys_leave_nothing_behind() -> None:
    def forever(seen: Seen, now: datetime) -> list[Effect]:
        return [Requeue(now + timedelta(seconds=1))]

    async with running(forever) as world:
        world.job("a")
        await asyncio.sleep(10)
        world.memory.delete(JOB, "ns", "a")
        await asyncio.sleep(1)
        before = len(world.runs)
        await asyncio.sleep(100)
        assert len(world.runs) == before
