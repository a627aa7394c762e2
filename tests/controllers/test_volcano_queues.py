"""The Queues that Volcano's controllers need are there once there is anything of Volcano."""

import pytest

from muster.api.base import AnyKind
from muster.api.kinds import POD_GROUP_VOLCANO, QUEUE_VOLCANO, VOLCANO_JOB
from muster.controllers.driver import Change
from muster.controllers.volcano_queues import controller
from tests.controllers.memory import START, Memory


def step(memory: Memory) -> set[str]:
    """The names of Queues after all that is there was taken in as new."""
    one = controller()
    caches = memory.caches([watch.kind for watch in one.watches], one.indexes)
    keys = {
        key
        for watch in one.watches
        for obj in caches[watch.kind].items.values()
        for key in watch.keys(Change(caches, None, obj))
    }
    for key in sorted(keys):
        if (observed := one.observe(caches, key)) is not None:
            memory.apply(one.reconcile(observed, START))
    return {queue.metadata.name for queue in memory.all(QUEUE_VOLCANO)}


@pytest.mark.parametrize("kind", [VOLCANO_JOB, POD_GROUP_VOLCANO])
def test_they_come_with_the_first_object_of_volcano(kind: AnyKind) -> None:
    memory = Memory()
    assert step(memory) == set()
    memory.create(QUEUE_VOLCANO, "", {"metadata": {"name": "ml"}})
    assert step(memory) == {"ml"}
    memory.create(kind, "ns", {"metadata": {"name": "a"}})
    assert step(memory) == {"ml", "default", "root"}
    reclaimable = {queue.metadata.name: queue.spec.reclaimable for queue in memory.all(QUEUE_VOLCANO)}
    assert reclaimable == {"ml": None, "default": True, "root": False}


def test_those_that_are_there_stay_as_they_are() -> None:
    memory = Memory()
    memory.create(POD_GROUP_VOLCANO, "ns", {"metadata": {"name": "a"}})
    memory.create(QUEUE_VOLCANO, "", {"metadata": {"name": "default"}, "spec": {"weight": 9}})
    step(memory)
    assert memory.read(QUEUE_VOLCANO, "default").spec.weight == 9


def test_one_that_is_deleted_comes_again() -> None:
    memory, one = Memory(), controller()
    memory.create(POD_GROUP_VOLCANO, "ns", {"metadata": {"name": "a"}})
    memory.create(QUEUE_VOLCANO, "", {"metadata": {"name": "default"}})
    caches = memory.caches([watch.kind for watch in one.watches], one.indexes)
    watch = next(watch for watch in one.watches if watch.kind is QUEUE_VOLCANO)
    assert [*watch.keys(Change(caches, caches[QUEUE_VOLCANO].get("default"), None))] == ["default"]
