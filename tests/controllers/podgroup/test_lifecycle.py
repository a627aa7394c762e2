"""The mark `muster.dev/below-minimum`: which pods of a group restart, and when."""

from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import groups
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.groups import INCUBATOR, Dialect
from muster.api.times import written
from muster.controllers.podgroup import reconcile
from muster.controllers.podgroup.lifecycle import NOT_RESTARTED, RESTARTED, restart
from muster.controllers.podgroup.observed import Observed
from muster.effects import Evict, RecordEvent
from muster.names import BELOW_MINIMUM
from tests.controllers.memory import START

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


def deleted() -> Pod:
    lost = pod("lost")
    end = START + timedelta(minutes=LOST, seconds=30)
    meta = msgspec.structs.replace(lost.metadata, deletion_timestamp=end, deletion_grace_period_seconds=30)
    return msgspec.structs.replace(lost, metadata=meta)


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
