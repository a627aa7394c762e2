"""Groups that come late, change or go: the mirror shows what a fresh look shows, after each change."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from msgspec.structs import replace

from muster.api.base import Resource
from muster.api.core_v1 import Pod
from muster.api.kinds import POD_GROUP_K8S
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.scheduling_v1beta1 import PodGroup
from muster.runtime.mirror import Mirror
from tests.translate.cluster import grouped, kind_of, native_group, pod_group

#: by gang: its pods, and whether it is gated
Shown = dict[str, tuple[list[str], bool]]


def labelled(pod: Pod, group: str) -> Pod:
    labels = {**pod.metadata.labels, "scheduling.x-k8s.io/pod-group": group}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def listing(group: PodGroup, names: str) -> PodGroup:
    return replace(group, metadata=replace(group.metadata, annotations={GROUPS: names}))


def shown(mirror: Mirror) -> Shown:
    mirror.drain(0.0)
    return {
        name: (sorted(member.pod.metadata.name for member in group.members.values()), bool(group.gang.gate))
        for name, group in mirror.groups.items()
    }


def look(history: Sequence[Resource]) -> tuple[Shown, Shown]:
    """What a mirror shows that has been asked after each change, and one that sees only the last states."""
    mirror, fresh = Mirror(), Mirror()
    there: dict[tuple[object, str], Resource] = {}
    for new in history:
        key = kind_of(new), new.metadata.name
        mirror.change(key[0], there.get(key), new)
        there[key] = new
        shown(mirror)
    for last in there.values():
        fresh.change(kind_of(last), None, last)
    return shown(mirror), shown(fresh)


BASIC, GANG = native_group("n"), native_group("n", minimum=1)
IN_TWO = labelled(grouped("p", "n", api=POD_GROUP_K8S), "g")
BOTH = '["ns/x","ns/y"]'
LISTED = [listing(native_group(name), BOTH) for name in "xy"]
HISTORIES = {
    "a second group that frees its pods": (
        [pod_group(minimum=1), IN_TWO, BASIC],
        [[], [GANG], [GANG, BASIC]],
    ),
    "a second group that does not": ([pod_group(minimum=1), IN_TWO, GANG], [[], [BASIC], [BASIC, GANG]]),
    "basic groups that list each other": (
        [*LISTED, grouped("px", "x", api=POD_GROUP_K8S)],
        [[], [native_group("x")], [native_group("x"), LISTED[0]], [native_group("y")]],
    ),
}


@pytest.mark.parametrize(("first", "then"), HISTORIES.values(), ids=HISTORIES)
def test_whatever_the_order_the_gangs_are_those_of_a_fresh_look(
    first: list[Resource], then: list[list[Resource]]
) -> None:
    for order in permutations(first):
        for later in then:
            found, expected = look([*order, *later])
            assert found == expected
            pods = [pod for members, _ in found.values() for pod in members]
            assert len(pods) == len({*pods}), "a pod is in one gang"
