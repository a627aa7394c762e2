"""What follows changes says of queues, nodes and waiting gangs what a snapshot of the same objects says."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.core_v1 import Pod
from muster.app.snapshot import Settings, Snapshot
from muster.app.views import jobs, queues
from muster.app.views.live import OF_JOBS
from muster.dashboard.live import Live
from muster.workloads.snapshot import Objects

NOW = 1.8e9
Known = dict[tuple[AnyKind, str], Resource]


class Following:
    """Objects, and what follows them."""

    def __init__(self) -> None:
        self.known: Known = {}
        self.made = 0
        self.live = Live(None, Settings(), lambda kind, key: self.known.get((kind, key)))

    def put(self, kind: AnyKind, name: str, obj: Object | None, namespace: str = "x") -> None:
        key = f"{namespace}/{name}" if kind.namespaced else name
        new: Any = None
        before = self.known.get((kind, key))
        if isinstance(before, Pod) and obj is not None and _another(before, obj):
            self.put(kind, name, None, namespace)
            before = None
        if obj is not None:
            self.made += before is None
            uid = before.metadata.uid if before is not None else f"{name}-{self.made}"
            stamp = {"name": name, "namespace": namespace if kind.namespaced else "", "uid": uid}
            stamp["creationTimestamp"] = "2026-01-01T00:00:00Z"
            new = msgspec.convert({**obj, "metadata": {**stamp, **obj.get("metadata", {})}}, kind.type)
        old = self.known.pop((kind, key), None)
        if new is not None:
            self.known[kind, key] = new
        if old is not None or new is not None:
            self.live.change(kind, old, new)

    def snapshot(self) -> Snapshot:
        found = Objects()
        for (kind, _), each in self.known.items():
            found.add(kind, each)
        return Snapshot(found, None, now=NOW)


def _another(before: Pod, obj: Object) -> bool:
    """Whether an API server would refuse the change: the pod is another then."""
    node, labels = before.spec.node_name, obj["metadata"].get("labels", before.metadata.labels)
    moved = bool(node) and node != obj["spec"]["nodeName"]
    return moved or before.terminal or before.metadata.labels != labels


def node(gpus: int) -> Object:
    amounts = {"cpu": "8", "pods": "20", "nvidia.com/gpu": str(gpus)}
    ready = [{"type": "Ready", "status": "True"}]
    return {"status": {"capacity": amounts, "allocatable": amounts, "conditions": ready}}


def pod(node: str, group: str, phase: str = "Pending") -> Object:
    asked = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    meta: Object = {"labels": {"scheduling.x-k8s.io/pod-group": group} if group else {}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": asked}]}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def group(minimum: int, queue: str) -> Object:
    return {"metadata": {"labels": {"muster.dev/queue": queue}}, "spec": {"minMember": minimum}}


NAMES = st.sampled_from("abc")
PHASES = st.sampled_from(["Pending", "Running", "Succeeded"])
CHANGES = st.one_of(
    st.builds(lambda n, g: (kinds.NODE, n, node(g)), NAMES, st.integers(0, 4)),
    st.builds(
        lambda n, on, g, phase: (kinds.POD, n, pod(on, g, phase)),
        NAMES,
        st.sampled_from(["", "", "a", "b"]),
        st.sampled_from(["", "a", "b"]),
        PHASES,
    ),
    st.builds(
        lambda n, m, q: (kinds.POD_GROUP_X, n, group(m, q)), NAMES, st.integers(1, 3), st.sampled_from("qr")
    ),
    st.builds(
        lambda n, w: (kinds.QUEUE, n, {"spec": {"weight": w}}), st.sampled_from("qr"), st.integers(1, 3)
    ),
    st.builds(
        lambda k, n: (k, n, None),
        st.sampled_from([kinds.NODE, kinds.POD, kinds.POD_GROUP_X, kinds.QUEUE]),
        st.sampled_from("abcqr"),
    ),
)


@given(st.lists(CHANGES, max_size=25), st.integers(1, 5))
def test_it_says_what_a_snapshot_says(made: list[tuple[AnyKind, str, Object | None]], every: int) -> None:
    one = Following()
    for number, change in enumerate(made):
        one.put(*change)
        if number % every == 0:
            one.live.catch_up(NOW)
            assert one.live.queues is one.live.queues
    one.live.catch_up(NOW)
    snapshot = one.snapshot()
    told, expected = one.live.queues, queues.views(snapshot)
    assert [queues.summary(view) for view in told] == [queues.summary(view) for view in expected]
    assert [view.front for view in told] == [view.front for view in expected]
    decided = one.live.decided(NOW)
    for view in one.live.jobs:
        for gang in decided.waiting({each.metadata.uid for each in view.pods}):
            assert decided.why(gang) == snapshot.why(gang)
    assert [view.name for view in one.live.jobs] == [view.name for view in jobs.views(_of_jobs(one.known))]
    assert {view.name for view in one.live.nodes} == {
        each.metadata.name for (kind, _), each in one.known.items() if kind is kinds.NODE
    }


def _of_jobs(known: Known) -> Any:
    from muster.app.views.objects import Objects as JobObjects

    pods: list[Any] = [each for (kind, _), each in known.items() if kind is kinds.POD]
    named = [(kind, each) for (kind, _), each in known.items() if kind is kinds.POD_GROUP_X]
    return JobObjects(pods=pods, pod_groups=named)


def test_asking_changes_nothing() -> None:
    one = Following()
    one.put(kinds.NODE, "n", node(4))
    one.put(kinds.POD_GROUP_X, "g", group(1, "default"))
    one.put(kinds.POD, "p", pod("", "g"))
    one.live.catch_up(NOW)
    before = [queues.summary(view) for view in one.live.queues]
    one.live.decided(NOW)
    one.put(kinds.NODE, "m", {})
    one.live.catch_up(NOW)
    assert [queues.summary(view) for view in one.live.queues] == before
    assert one.live.queues[0].front == ["x/g"]
    one.put(kinds.POD, "p", pod("n", "g", "Running"))
    one.live.catch_up(NOW)
    assert one.live.nodes[1].used["nvidia.com/gpu"] == 1
    assert [pod.metadata.name for pod, _ in one.live.on("n")] == ["p"]


def test_a_pod_made_again_between_two_looks_counts_once() -> None:
    one = Following()
    one.put(kinds.NODE, "n", node(4))
    one.put(kinds.POD, "p", pod("n", "", "Running"))
    one.live.catch_up(NOW)
    one.put(kinds.POD, "p", None)
    one.put(kinds.POD, "p", pod("n", "", "Running"))
    one.live.catch_up(NOW)
    assert one.live.nodes[0].used["nvidia.com/gpu"] == 1
    one.put(kinds.POD, "p", None)
    one.put(kinds.POD, "q", pod("n", "", "Running"))
    one.put(kinds.POD, "q", None)
    one.live.catch_up(NOW)
    assert one.live.nodes[0].used == {}
    assert one.live.jobs == []


def test_every_kind_is_taken_in_after_what_owns_it() -> None:
    from muster.dashboard.cluster import KINDS
    from muster.dashboard.live import _RANK

    assert {*KINDS, *OF_JOBS} == set(_RANK)


@pytest.mark.parametrize("value", [["a"], {"a": 1}, 3])
def test_an_object_that_cannot_be_read_leaves_the_others(value: Any) -> None:
    """Neither what arrives with it is lost, nor what comes later."""
    one = Following()
    template = {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": value}}}
    replicated = {"name": "r", "replicas": 1, "template": {"spec": {"template": template}}}
    one.put(kinds.NODE, "n", node(4))
    one.put(kinds.JOBSET, "j", {"spec": {"replicatedJobs": [replicated]}})
    one.put(kinds.POD, "p", pod("n", "", "Running"))
    one.live.catch_up(NOW)
    assert one.live.nodes[0].used["nvidia.com/gpu"] == 1
    assert "p" in {view.name for view in one.live.jobs}
    one.put(kinds.JOBSET, "j", {"spec": {"replicatedJobs": [{**replicated, "template": {}}]}})
    one.live.catch_up(NOW)
    assert {view.name for view in one.live.jobs} == {"j", "p"}
    one.put(kinds.JOBSET, "j", {"spec": {"replicatedJobs": [replicated]}})
    one.put(kinds.POD, "p", None)
    one.live.catch_up(NOW)
    assert "p" not in {view.name for view in one.live.jobs}
    assert one.live.decided(NOW) is not None
