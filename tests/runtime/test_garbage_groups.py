"""Each of thousands of PodGroups that make no sense costs a bounded amount of work. Calls are counted."""

import random
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import msgspec

from muster.api import groups
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.kinds import POD, POD_GROUP_VOLCANO
from muster.api.volcano_v1beta1 import PodGroup
from muster.controllers.podgroup import controller
from muster.core.cycle import Scheduler
from muster.runtime.mirror import Mirror
from tests.controllers.memory import START, Memory
from tests.tiers import FULL

NOW: Final = 1_800_000_000.0
#: How much more work per group a cluster with four times as many groups may take: dictionaries grow.
MARGIN: Final = 1.2
FEW: Final = 2_500 if FULL else 150
SPECS: Final[tuple[Object, ...]] = (
    {},
    {"minMember": -1},
    {"minMember": 2**31 - 1},
    {"minMember": 1, "minTaskMember": {f"t{number}": 1 for number in range(300)}},
    {"minMember": 1, "minTaskMember": {"t": -(2**31)}},
    {"queue": "x" * 300, "priorityClassName": "\N{SNOWMAN}" * 300},
    {"networkTopology": {"mode": "hard", "highestTierAllowed": -1}},
    {"subGroupPolicy": [{"name": "", "subGroupSize": -1}] * 50},
    {"minResources": {"cpu": "-1", "x" * 300: "9" * 300}},
)
MARKS: Final[tuple[Object, ...]] = (
    {},
    {"scheduling.k8s.io/group-name": "g-0"},
    {"gang.scheduling.koordinator.sh/groups": '["ns/g-0", "ns/g-1"]'},
    {"gang.scheduling.koordinator.sh/groups": "[" * 200},
    {"muster.dev/queue": "\0", "muster.dev/priority": "9" * 400},
    {"volcano.sh/preemptable": "maybe"},
)


def calls(work: Callable[[], object]) -> int:
    """How many functions of Python are called."""
    count = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def bodies(number: int) -> Iterator[tuple[Object, Object]]:
    """A group of garbage, and a pod of it."""
    rng = random.Random(0)
    for index in range(number):
        name = f"g-{index}"
        meta = {"name": name, "namespace": "ns", "uid": name, "annotations": rng.choice(MARKS)}
        pod = {
            "metadata": {
                "name": f"p-{index}",
                "namespace": "ns",
                "uid": f"p-{index}",
                "annotations": {"scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": "t" * 300},
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }
        yield {"metadata": meta, "spec": rng.choice(SPECS)}, pod


def mirrored(number: int) -> tuple[Mirror, Scheduler]:
    mirror, core = Mirror(), Scheduler()
    for group, pod in bodies(number):
        mirror.change(POD_GROUP_VOLCANO, None, msgspec.convert(group, PodGroup))
        mirror.change(POD, None, msgspec.convert(pod, Pod))
    for event in mirror.drain(NOW).events:
        core.apply(event)
    return mirror, core


def test_each_group_takes_the_mirror_as_long_as_among_few() -> None:
    few = calls(lambda: mirrored(FEW))
    many = calls(lambda: mirrored(4 * FEW))
    assert many <= 4 * few * MARGIN


def test_a_change_of_one_group_is_no_work_for_the_others() -> None:
    def changed(number: int) -> int:
        mirror, _ = mirrored(number)
        group = msgspec.convert(next(bodies(1))[0], PodGroup)
        again = msgspec.structs.replace(
            group, metadata=msgspec.structs.replace(group.metadata, resource_version="2")
        )

        def change() -> None:
            mirror.change(POD_GROUP_VOLCANO, group, again)
            mirror.drain(NOW + 1)

        return calls(change)

    assert changed(4 * FEW) <= changed(FEW) * MARGIN


def test_each_group_takes_the_controller_as_long_as_among_few() -> None:
    def reconciled(number: int) -> int:
        made, memory = controller(groups.VOLCANO, None), Memory()
        for group, pod in bodies(number):
            memory.create(POD_GROUP_VOLCANO, "ns", group)
            memory.create(POD, "ns", pod)
        caches = memory.caches([watch.kind for watch in made.watches], made.indexes)

        def work() -> None:
            for index in range(number):
                if (observed := made.observe(caches, f"ns/g-{index}")) is not None:
                    made.reconcile(observed, START)

        return calls(work)

    assert reconciled(4 * FEW) <= 4 * reconciled(FEW) * MARGIN
