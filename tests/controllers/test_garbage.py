"""Garbage collection, on a model store and, for what only the server can tell, under the driver."""

import asyncio
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import AnyKind, Object
from muster.api.kinds import CONFIG_MAP, JOB, JOBSET, NODE, POD
from muster.controllers import garbage
from muster.controllers.driver import Change, run
from muster.kube.client import Propagation
from muster.kube.errors import Conflict, NotFound
from tests.controllers.memory import Memory, MemoryClient
from tests.informed import informed
from tests.loop_clock import LoopClock
from tests.tiers import examples

CONTROLLER = garbage.controller()


def make(memory: Memory, kind: AnyKind, name: str, *owners: Object, **meta: Any) -> Object:
    namespace = "ns" if kind.namespaced else ""
    return memory.create(
        kind, namespace, {"metadata": {"name": name, "ownerReferences": list(owners), **meta}}
    )


def ref(kind: AnyKind, obj: Object, *, blocks: bool = True) -> Object:
    meta = obj["metadata"]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": blocks,
    }


def collect(memory: Memory, limit: int = 50) -> None:
    """Reconciles every object until nothing changes."""
    for _ in range(limit):
        before = memory.revision
        caches = memory.caches(garbage.KINDS)
        for kind, path in list(memory.objects):
            observed = garbage.observe(caches, f"{kind.api_version} {kind.kind} {path}")
            if observed is not None:
                with suppress(Conflict):  # an observation that an earlier effect has outdated
                    memory.apply(garbage.reconcile(observed, memory.now()))
        if memory.revision == before:
            return
    raise AssertionError("no end")


def owned_by(dependent: Object, obj: Object) -> bool:
    uid = obj["metadata"]["uid"]
    return any(ref["uid"] == uid for ref in dependent["metadata"].get("ownerReferences", []))


def names(memory: Memory) -> list[str]:
    return sorted(path.rpartition("/")[2] for _, path in memory.objects)


@pytest.fixture
def family() -> Memory:
    """A JobSet, its Job, the Job's pod."""
    memory = Memory()
    jobset = make(memory, JOBSET, "jobset")
    job = make(memory, JOB, "job", ref(JOBSET, jobset))
    make(memory, POD, "pod", ref(JOB, job))
    return memory


def test_nothing_happens_while_owners_live(family: Memory) -> None:
    before = family.revision
    collect(family)
    assert family.revision == before


def test_background_takes_all_generations(family: Memory) -> None:
    family.delete(JOBSET, "ns", "jobset")
    assert names(family) == ["job", "pod"]
    collect(family)
    assert names(family) == []


def test_foreground_keeps_the_owner_until_its_dependents_are_gone(family: Memory) -> None:
    family.patch(POD, "ns", "pod", {"metadata": {"finalizers": ["test/keep"]}})
    family.delete(JOBSET, "ns", "jobset", propagation="Foreground")
    collect(family)
    assert names(family) == ["job", "jobset", "pod"]
    family.patch(POD, "ns", "pod", {"metadata": {"finalizers": None}})
    collect(family)
    assert names(family) == []
    gone = [obj["kind"] for _, _, type_, obj in family.history if type_.value == "DELETED"]
    assert gone == ["Pod", "Job", "JobSet"]


def test_foreground_does_not_wait_for_dependents_that_do_not_block() -> None:
    memory = Memory()
    job = make(memory, JOB, "job")
    make(memory, POD, "pod", ref(JOB, job, blocks=False), finalizers=["test/keep"])
    memory.delete(JOB, "ns", "job", propagation="Foreground")
    collect(memory)
    assert names(memory) == ["pod"]
    assert "deletionTimestamp" in memory.json(POD, "ns/pod")["metadata"]


def test_orphans_lose_their_reference_and_stay(family: Memory) -> None:
    family.delete(JOB, "ns", "job", propagation="Orphan")
    collect(family)
    assert names(family) == ["jobset", "pod"]
    assert family.read(POD, "ns/pod").metadata.owner_references == []


def test_a_dependent_that_comes_too_late_goes_too() -> None:
    memory = Memory()
    job = make(memory, JOB, "job")
    memory.delete(JOB, "ns", "job")
    make(memory, POD, "late", ref(JOB, job))
    make(memory, JOB, "job")  # of the same name, but another
    collect(memory)
    assert names(memory) == ["job"]


def test_an_object_stays_with_one_of_its_two_owners_and_drops_the_reference_to_the_other() -> None:
    memory = Memory()
    first, second = make(memory, JOB, "first"), make(memory, JOB, "second")
    make(memory, POD, "pod", ref(JOB, first), {**ref(JOB, second), "controller": False})
    memory.delete(JOB, "ns", "first")
    collect(memory)
    assert [ref.name for ref in memory.read(POD, "ns/pod").metadata.owner_references] == ["second"]
    memory.delete(JOB, "ns", "second", propagation="Foreground")
    collect(memory)
    assert names(memory) == []


def test_an_object_whose_owner_cannot_be_checked_is_not_deleted() -> None:
    memory = Memory()
    foreign = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"}
    make(memory, POD, "pod", foreign)
    make(memory, NODE, "node", {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"})
    collect(memory)
    assert names(memory) == ["node", "pod"]


def test_changes_of_status_enqueue_nothing(family: Memory) -> None:
    caches = family.caches(garbage.KINDS)
    old = family.read(POD, "ns/pod")
    family.patch(POD, "ns", "pod", {"status": {"phase": "Running"}}, "status")
    watch = next(watch for watch in CONTROLLER.watches if watch.kind is POD)
    assert list(watch.keys(Change(caches, old, family.read(POD, "ns/pod")))) == []
    assert set(watch.keys(Change(caches, None, old))) == {"v1 Pod ns/pod", "batch/v1 Job ns/job"}


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_objects_that_remain_have_an_owner_or_never_had_one(data: st.DataObject) -> None:
    memory = Memory()
    made: list[tuple[AnyKind, Object]] = []
    kinds: st.SearchStrategy[AnyKind] = st.sampled_from([JOBSET, JOB, POD, CONFIG_MAP])
    for number in range(data.draw(st.integers(1, 12))):
        kind = data.draw(kinds)
        owners = data.draw(st.lists(st.sampled_from(made), max_size=2, unique_by=id)) if made else []
        references = [ref(of, obj, blocks=data.draw(st.booleans())) for of, obj in owners]
        made.append((kind, make(memory, kind, f"o{number}", *references)))
    free = {obj["metadata"]["uid"] for _, obj in made if not obj["metadata"]["ownerReferences"]}
    for kind, obj in data.draw(st.lists(st.sampled_from(made), unique_by=id)):
        how: Propagation = data.draw(st.sampled_from(get_args(Propagation)))
        if how == "Orphan":
            free |= {d["metadata"]["uid"] for d in memory.objects.values() if owned_by(d, obj)}
        with suppress(NotFound):
            memory.delete(kind, "ns", obj["metadata"]["name"], propagation=how)
        if data.draw(st.booleans()):
            collect(memory)
    collect(memory)
    alive = {obj["metadata"]["uid"] for obj in memory.objects.values()}
    for obj in memory.objects.values():
        meta = obj["metadata"]
        assert "deletionTimestamp" not in meta
        assert {ref["uid"] for ref in meta["ownerReferences"]} <= alive
        assert meta["ownerReferences"] or meta["uid"] in free, "it has lost its last owner and stayed"


@pytest.mark.looptime
async def test_an_owner_that_the_cache_does_not_show_yet_saves_its_dependent() -> None:
    client = MemoryClient(Memory(LoopClock().now))
    synced = asyncio.Event()
    task = asyncio.create_task(informed(run, client, [CONTROLLER], LoopClock(), synced=synced))
    await synced.wait()
    client.blind = JOB
    job = make(client.memory, JOB, "job")
    make(client.memory, POD, "pod", ref(JOB, job))
    await asyncio.sleep(10)
    assert names(client.memory) == ["job", "pod"]
    assert ("get", "jobs", "job") in client.calls
    client.blind = None
    client.memory.delete(JOB, "ns", "job")
    await asyncio.sleep(40)
    assert names(client.memory) == []
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
