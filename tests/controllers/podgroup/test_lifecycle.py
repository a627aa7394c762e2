"""The mark `muster.dev/below-minimum`: which pods of a group restart, and when."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import groups
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.groups import INCUBATOR, Dialect
from muster.api.kinds import POD
from muster.api.times import written
from muster.controllers.podgroup import controller, reconcile
from muster.controllers.podgroup.lifecycle import NOT_RESTARTED, RESTARTED, restart
from muster.controllers.podgroup.observed import Observed
from muster.effects import Evict, RecordEvent
from muster.names import BELOW_MINIMUM, NODE_GONE, PREEMPTED, PREEMPTION
from tests.controllers.memory import START, Memory

OWNER: Final = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
#: Minutes after `START` at which a pod is lost.
LOST: Final = 5


def at(minutes: float) -> str:
    return written(START + timedelta(minutes=minutes))


def pod(name: str, phase: str = "Running", *, born: float = 0, owned: bool = True, **status: Any) -> Pod:
    """`born`: minutes after `START`. Any: fields of its status."""
    meta: Object = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": at(born)}
    if owned:
        meta["ownerReferences"] = [OWNER]
    spec = {"nodeName": "n"} if phase else {}
    body = {"metadata": meta, "spec": spec, "status": {"phase": phase or "Pending", **status}}
    return msgspec.convert(body, Pod)


def failed(name: str = "lost", *, born: float = 0) -> Pod:
    state = {"terminated": {"exitCode": 1, "finishedAt": at(LOST)}}
    return pod(name, "Failed", born=born, containerStatuses=[{"name": "c", "state": state}])


def rejected() -> Pod:
    return pod("lost", "Failed", reason="OutOfcpu", startTime=at(LOST))


def deleting(found: Pod, asked: datetime) -> Pod:
    """Its deletion was asked for at this time, and it has 30 s to end."""
    end = asked + timedelta(seconds=30)
    meta = msgspec.structs.replace(found.metadata, deletion_timestamp=end, deletion_grace_period_seconds=30)
    return msgspec.structs.replace(found, metadata=meta)


def deleted() -> Pod:
    return deleting(pod("lost"), START + timedelta(minutes=LOST))


def ended_by_muster(why: str) -> Object:
    """Fields of the status of a pod that muster has evicted; `why`: the reason of the disruption."""
    kinds = ((PREEMPTED, "EndedByMuster"), ("DisruptionTarget", why))
    return {"conditions": [{"type": type_, "status": "True", "reason": reason} for type_, reason in kinds]}


def observed(
    *pods: Pod, mark: str | None = "restart", minimum: int = 3, row: Dialect = INCUBATOR
) -> Observed:
    annotations = {BELOW_MINIMUM: mark} if mark is not None else {}
    spec: Object = {"minMember": minimum}
    if row is groups.NATIVE:
        spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    meta = {"name": "g", "namespace": "ns", "annotations": annotations, "creationTimestamp": at(0)}
    return Observed(row, msgspec.convert({"metadata": meta, "spec": spec}, row.kind.type), pods)


def restarted(found: Observed) -> list[str]:
    return sorted(each.pod.metadata.name for each in restart(found) if isinstance(each, Evict))


def told(found: Observed) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for each in restart(found) if isinstance(each, RecordEvent)]


@pytest.mark.parametrize("row", groups.NAMED)
def test_the_rest_of_a_group_below_its_minimum_restarts_if_it_asks_for_that(row: Dialect) -> None:
    pods = [pod("a"), pod("b"), failed()]
    found = observed(*pods, row=row)
    assert restarted(found) == ["a", "b"]
    assert told(found) == [(RESTARTED, "2 of 3 pods that must run together are left; all of them restart")]
    assert [each for each in reconcile(found, START) if isinstance(each, Evict)]
    for mark in (None, "leave", "reboot"):
        assert not [*restart(observed(*pods, mark=mark, row=row))], "its controllers decide"


@pytest.mark.parametrize("lost", [failed(), rejected(), deleted()], ids=["failed", "rejected", "deleted"])
def test_a_pod_that_is_lost_is_one_less(lost: Pod) -> None:
    assert restarted(observed(pod("a"), pod("b"), lost)) == ["a", "b"]
    assert restarted(observed(pod("a"), pod("b"), pod("c"), lost)) == [], "the minimum is left"


def test_pods_that_have_succeeded_are_left_and_stay() -> None:
    assert restarted(observed(pod("a"), pod("b", "Succeeded"), pod("c", "Succeeded"), failed())) == []
    assert restarted(observed(pod("a"), pod("b", "Succeeded"), failed())) == ["a"]


def test_pods_of_the_next_life_stay() -> None:
    again = [pod(name, born=LOST + 1) for name in "ab"]
    assert restarted(observed(*again, failed())) == [], "the restart is over"
    assert restarted(observed(pod("old"), *again, failed())) == ["old"]
    assert restarted(observed(*again, failed(), failed("now", born=LOST - 1))) == []


def test_a_group_that_does_not_run_is_left_alone() -> None:
    assert not [*restart(observed(pod("a", ""), pod("b", ""), failed()))]
    assert not [*restart(observed(failed()))]
    assert not [*restart(observed(pod("a"), pod("b")))], "none of its pods has ended"


def test_a_pod_that_nothing_would_re_create_keeps_its_group() -> None:
    found = observed(pod("a"), pod("b", owned=False), failed())
    assert restarted(found) == []
    ((reason, message),) = told(found)
    assert reason == NOT_RESTARTED
    assert message.endswith("but pod b has no controller, so nothing would re-create it")


@pytest.mark.parametrize("lost", [failed(), rejected(), deleted()], ids=["failed", "rejected", "deleted"])
def test_a_pod_that_replaces_it_within_the_same_second_is_none_of_those_left(lost: Pod) -> None:
    """Times have whole seconds, and a ReplicaSet replaces a pod as soon as its deletion is asked for."""
    found = observed(pod("a"), pod("b"), lost, pod("again", "", born=LOST))
    assert restarted(found) == ["a", "b"]
    assert restarted(observed(pod("a"), pod("b"), lost, pod("again", born=LOST))) == ["a", "b"]


def test_what_muster_evicts_by_its_own_decision_begins_no_restart() -> None:
    lost = pod("lost", **ended_by_muster(PREEMPTION))
    assert not [*restart(observed(pod("a"), pod("b"), deleting(lost, START + timedelta(minutes=LOST))))]
    lost = pod("lost", **ended_by_muster(NODE_GONE))
    found = observed(pod("a"), pod("b"), deleting(lost, START + timedelta(minutes=LOST)))
    assert restarted(found) == ["a", "b"], "its node has been deleted: it is lost, whoever deletes it"


def test_pods_of_other_schedulers_are_neither_counted_nor_deleted() -> None:
    row, memory = INCUBATOR, Memory()
    made = controller(row, frozenset({"muster"}))
    meta = {"name": "g", "annotations": {BELOW_MINIMUM: "restart"}}
    memory.create(row.kind, "ns", {"metadata": meta, "spec": {"minMember": 3}})

    def named(found: Pod, scheduler: str) -> Object:
        body: Object = msgspec.to_builtins(found)
        body["metadata"]["annotations"] = {row.naming.annotations[0]: "g"}
        return body | {"spec": {**body["spec"], "schedulerName": scheduler}}

    def evicted() -> list[str]:
        caches = memory.caches([watch.kind for watch in made.watches], made.indexes)
        seen = made.observe(caches, "ns/g")
        assert seen is not None
        return [each.pod.metadata.name for each in made.reconcile(seen, START) if isinstance(each, Evict)]

    theirs = [pod("theirs-1"), pod("theirs-2"), pod("theirs-3", owned=False)]
    for found in (pod("mine"), failed()):
        memory.create(POD, "ns", named(found, "muster"))
    for found in theirs:
        memory.create(POD, "ns", named(found, "other"))
    assert evicted() == ["mine"]


_ALIKE: Final[dict[str, Callable[[], Pod]]] = {"failed": failed, "rejected": rejected, "deleted": deleted}


@given(
    st.sampled_from(sorted(_ALIKE)),
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=5, max_size=5),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.integers(0, 5),
)
def test_one_failure_evicts_each_other_pod_once_and_no_replacement(
    how: str, replacements: list[tuple[int, bool]], grace: list[int], late: int
) -> None:
    """A group of 5 of which one is lost; the seconds are counted from then.

    `replacements`: how many seconds after each end its replacement is created, and whether it is bound at
    once. `grace`: how many seconds each evicted pod takes to end. `late`: the second of the first look.
    """
    old = {f"p{n}": pod(f"p{n}") for n in range(4)}
    there: dict[str, Pod] = {"lost": _ALIKE[how](), **old}
    created = {"again-lost": replacements[4][0]}
    gone: dict[str, int] = {}
    evicted: list[str] = []
    for second in range(40):
        there = {name: each for name, each in there.items() if gone.get(name, 99) > second}
        looked = restarted(observed(*there.values(), minimum=5)) if second >= late else []
        assert not {*looked} - {*old}, "a replacement stays"
        for name in looked:
            n = int(name[1:])
            marked = pod(name, **ended_by_muster(PREEMPTION))
            there[name] = deleting(marked, START + timedelta(minutes=LOST, seconds=second))
            gone[name], created[f"again-{name}"] = second + grace[n], second + replacements[n][0]
        evicted += looked
        for name in [name for name, when in created.items() if when == second]:
            bound = replacements[int(name[-1]) if name[-1].isdigit() else 4][1]
            there[name] = pod(name, "Running" if bound else "", born=LOST + second / 60)
    assert sorted(evicted) == sorted(old), "each of the old ones, once"


_PODS: Final = st.lists(
    st.tuples(st.sampled_from(["", "Running", "Succeeded", "lost"]), st.sampled_from([0, LOST, LOST + 1])),
    max_size=6,
)


@given(_PODS, st.integers(1, 5))
def test_a_restart_ends(states: list[tuple[str, float]], minimum: int) -> None:
    """Once what was to be deleted is gone, nothing more is deleted."""
    pods = [
        failed(f"p{n}", born=min(born, LOST)) if state == "lost" else pod(f"p{n}", state, born=born)
        for n, (state, born) in enumerate(states)
    ]
    gone = set(restarted(observed(*pods, minimum=minimum)))
    left = [each for each in pods if each.metadata.name not in gone]
    assert restarted(observed(*left, minimum=minimum)) == []
    again = [pod(f"new-{name}", born=LOST + 2) for name in gone]
    assert restarted(observed(*left, *again, minimum=minimum)) == []
