"""What the mirror tells the core of pods that others must respect."""

import msgspec

from muster.api import selectors
from muster.api.base import Object
from muster.api.core_v1 import Namespace, Node, Pod
from muster.api.kinds import NAMESPACE, NODE, POD
from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign
from muster.core.words.events import GangSubmitted, NodeChanged, NodeRemoved, PodsBound
from muster.runtime.mirror import Mirror

SELECTOR = {"matchLabels": {"team": "x"}}
TERM = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": SELECTOR}
APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


def pod(**meta: object) -> Pod:
    obj: Object = {
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", **meta},
        "spec": {"nodeName": "n", "containers": [{"name": "c"}], "affinity": APART},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(obj, Pod)


def namespace(**labels: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": "other", "labels": labels}}, Namespace)


def bound(mirror: Mirror) -> list[PodsBound]:
    return [event for event in mirror.drain(0.0).events if isinstance(event, PodsBound)]


def test_a_pod_with_a_namespace_selector_is_read_again_when_namespaces_change() -> None:
    mirror = Mirror()
    mirror.change(POD, None, pod())
    (first,) = bound(mirror)
    assert first.footprint.pod_anti_affinity[0].namespaces == ()
    mirror.change(NAMESPACE, None, namespace(team="x"))
    (again,) = bound(mirror)
    assert again.footprint.pod_anti_affinity[0].namespaces == ("other",)
    mirror.change(NAMESPACE, namespace(team="x"), namespace(team="x"))
    assert bound(mirror) == []


def test_labels_and_deletion_of_a_bound_pod_become_events() -> None:
    mirror = Mirror()
    mirror.change(POD, None, pod())
    assert [event.footprint.labels for event in bound(mirror)] == [()]
    mirror.change(POD, pod(), pod(labels={"app": "a"}))
    assert [event.footprint.labels for event in bound(mirror)] == [(("app", "a"),)]
    leaving = pod(labels={"app": "a"}, deletionTimestamp="2026-01-01T00:00:00Z")
    mirror.change(POD, pod(labels={"app": "a"}), leaving)
    assert [event.footprint.leaving for event in bound(mirror)] == [True]


def test_a_gang_that_is_as_it_was_is_kept_once() -> None:
    mirror = Mirror()
    mirror.change(POD, None, pod(labels={"app": "a"}))
    told = next(e.gang for e in mirror.drain(0.0).events if isinstance(e, GangSubmitted))
    mirror.change(POD, pod(labels={"app": "a"}), pod(labels={"app": "a"}, resourceVersion="2"))
    mirror.drain(0.0)
    (group,) = mirror.groups.values()
    assert group.gang is told
    assert next(iter(group.members.values())).pod.metadata.resource_version == "2"


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def alone(version: str, **status: object) -> Pod:
    """A running pod that refers to nothing else."""
    return msgspec.convert(
        {
            "metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": version},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", **status},
        },
        Pod,
    )


def test_a_change_of_conditions_is_no_event_and_a_resize_is_one_back_and_forth() -> None:
    mirror = Mirror()
    resized = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}}]}
    states = [alone("1"), alone("2", **READY), alone("3", **resized), alone("4", **READY), alone("5")]
    told, old = [], None
    for state in states:
        mirror.change(POD, old, state)
        told.append([dict(event.requests).get("cpu") for event in bound(mirror)])
        old = state
        (group,) = mirror.groups.values()
        assert [member.pod for member in group.members.values()] == [state]
    assert told == [[1000], [], [2000], [1000], []]


def test_a_namespace_and_the_state_of_a_pod_that_selects_it_may_change_at_once() -> None:
    mirror = Mirror()
    mirror.change(POD, None, pod())
    bound(mirror)
    mirror.change(NAMESPACE, None, namespace(team="x"))
    mirror.change(POD, pod(), pod(resourceVersion="2"))
    (again,) = bound(mirror)
    assert again.footprint.pod_anti_affinity[0].namespaces == ("other",)


def node(name: str, capacity: int = 1, **labels: str) -> Node:
    room = {"cpu": str(capacity)}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": {"capacity": room}}, Node)


def told_nodes(mirror: Mirror) -> list[str]:
    """What the core is told of nodes: a name, with a minus if the node is gone."""
    marks = {NodeChanged: "", NodeRemoved: "-"}
    events = (event for event in mirror.drain(0.0).events if isinstance(event, NodeChanged | NodeRemoved))
    return [f"{marks[type(event)]}{event.name}" for event in events]


def test_only_selected_nodes_become_events() -> None:
    mirror = Mirror(selector=selectors.parse("pool=batch"))
    batch, web = node("batch", pool="batch"), node("web", pool="web")
    for each in (batch, web):
        mirror.change(NODE, None, each)
    assert told_nodes(mirror) == ["batch"]
    mirror.change(NODE, batch, node("batch", 2, pool="batch"))
    mirror.change(NODE, web, node("web", 2, pool="web"))
    assert told_nodes(mirror) == ["batch"]
    mirror.change(NODE, web, node("web", pool="batch"))
    mirror.change(NODE, batch, node("batch", pool="web"))
    assert told_nodes(mirror) == ["web", "-batch"]
    assert mirror.nodes == {"web"}
    mirror.change(NODE, node("batch", pool="web"), None)
    assert told_nodes(mirror) == []


def test_a_new_node_selection_reports_only_the_differences() -> None:
    mirror = Mirror()
    nodes = [node("a", zone="1"), node("b", zone="2"), node("c", zone="3")]
    for each in nodes:
        mirror.change(NODE, None, each)
    assert told_nodes(mirror) == ["a", "b", "c"]
    mirror.select(selectors.parse("zone in (2,3)"), nodes)
    assert told_nodes(mirror) == ["-a"]
    mirror.select(selectors.parse("zone!=3"), nodes)
    assert told_nodes(mirror) == ["a", "-c"]


def test_a_pod_that_is_being_deleted_takes_no_other_node() -> None:
    """It keeps its own node until it is gone, and the free node goes to the pod that waits."""
    mirror, core = Mirror(), Scheduler()
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    for name in ("n", "other"):
        node = {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "10"}, **ready}}
        mirror.change(NODE, None, msgspec.convert(node, Node))
    asks = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}
    for name, meta, spec in (
        ("leaving", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {**asks, "nodeName": "n"}),
        ("waiting", {}, asks),
    ):
        one = {"metadata": {"name": name, "namespace": "ns", "uid": name, **meta}, "spec": spec}
        mirror.change(POD, None, msgspec.convert(one, Pod))
    for event in mirror.drain(0.0).events:
        core.apply(event)
    (assign,) = core.decide(0.0)
    assert isinstance(assign, Assign)
    assert (assign.gang, *assign.nodes.values()) == ("ns/waiting", "other")
    assert core.decide(1.0) == []
