"""What the mirror tells the core of pods that others must respect."""

import msgspec
import pytest
from msgspec.structs import replace

from muster import names
from muster.api import groups, selectors
from muster.api.base import AnyKind, Object, Resource
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Namespace, Node, Pod
from muster.api.kinds import (
    CLUSTER_NETWORK_TOPOLOGY,
    JOB,
    JOBSET,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP_SIGS,
    POD_GROUP_X,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
)
from muster.api.koordinator_v1alpha1 import BY_NAME, GROUPS
from muster.api.node_v1 import RuntimeClass
from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign
from muster.core.words.events import GangRemoved, GangSubmitted, NodeChanged, NodeRemoved, PodsBound
from muster.core.words.gang import Code, GangId, Place, PodId
from muster.runtime.mirror import Mirror
from tests.translate import cluster

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


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({}, "renewed"),
        (READY, "renewed"),
        ({"conditions": [{"type": "Ready", "status": "False", "message": "probe failed"}]}, "renewed"),
        ({"podIP": "10.0.0.1"}, "renewed"),
        ({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}}]}, "read"),
        ({"startTime": "2026-01-01T00:00:00Z"}, "read"),  # it was bound at another time
        ({"phase": "Succeeded"}, "read"),
        ({"phase": "Failed"}, "read"),
    ],
)
def test_a_change_that_says_nothing_of_a_running_pod_does_not_mark_its_gang(
    change: Object, seen: str
) -> None:
    mirror, first, second = Mirror(), alone("1"), alone("2", **change)
    mirror.change(POD, None, first)
    mirror.drain(0.0)
    (group,) = mirror.groups.values()
    mirror.change(POD, first, second)
    changes = mirror.drain(0.0)
    assert ([*changes.gangs], [*changes.renewed]) == (([], ["ns/a"]) if seen == "renewed" else (["ns/a"], []))
    if seen == "renewed":
        assert changes.events == []
        (member,) = group.members.values()
        assert member.pod is second
        assert [*group.members.filled.values()] == [second]


@pytest.mark.parametrize("later", ["bound", "changed", "renewed"])
def test_a_pod_that_has_changed_before_the_mirror_was_drained_is_read(later: str) -> None:
    mirror, waits = Mirror(), alone("1")
    waits = msgspec.structs.replace(waits, spec=msgspec.structs.replace(waits.spec, node_name=""))
    mirror.change(POD, None, waits)
    old = waits
    if later != "bound":
        mirror.drain(0.0)
    if later == "renewed":
        mirror.change(POD, waits, alone("2"))
        mirror.drain(0.0)
        old = alone("2")  # not the object that was read
    mirror.change(POD, old, bound_now := alone("3"))
    mirror.change(POD, bound_now, last := alone("4", **READY))
    changes = mirror.drain(0.0)
    assert ([*changes.gangs], [*changes.renewed]) == (["ns/a"], [])
    (group,) = mirror.groups.values()
    assert [member.pod for member in group.members.values()] == [last]


def test_pods_of_other_schedulers_may_change_as_often_as_they_like() -> None:
    mirror = Mirror(frozenset({"muster"}))
    mirror.change(POD, None, old := alone("1"))
    assert len(bound(mirror)) == 1
    for version in range(2, 5):
        mirror.change(POD, old, new := alone(str(version), **READY))
        changes = mirror.drain(0.0)
        assert (changes.events, changes.gangs, changes.renewed) == ([], {}, {})
        old = new
    mirror.change(POD, old, alone("9", phase="Succeeded"))
    assert [type(event).__name__ for event in mirror.drain(0.0).events] == ["PodsEnded"]


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


def test_a_node_that_only_tells_the_time_is_no_event() -> None:
    mirror = Mirror()
    state: Object = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}
    old = None
    told = []
    for part, field, value in (
        ("status", "conditions", [{"type": "Ready", "status": "True"}]),
        ("status", "conditions", [{"type": "Ready", "status": "True", "message": "again"}]),
        ("metadata", "labels", {"zone": "a"}),
        ("metadata", "annotations", {"a": "b"}),
        ("status", "allocatable", {"cpu": "2"}),
        ("status", "allocatable", {"cpu": "2000m"}),
        ("spec", "unschedulable", True),
        ("spec", "taints", [{"key": "a", "effect": "NoSchedule"}]),
        ("status", "conditions", [{"type": "Ready", "status": "False"}]),
    ):
        state = {**state, part: {**state.get(part, {}), field: value}}
        mirror.change(NODE, old, new := msgspec.convert(state, Node))
        told.append(bool(told_nodes(mirror)))
        old = new
    assert told == [True, False, True, False, True, False, True, True, True]


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


@pytest.mark.parametrize("labelled", ["when it is made", "later"])
def test_a_pod_of_a_gangs_job_that_names_a_podgroup_is_of_the_podgroup_alone(labelled: str) -> None:
    mirror, job = Mirror(), cluster.job(gang="true")
    plain, named = (
        cluster.pod("j-0", owner=job, labels=labels) for labels in ({}, {groups.POD_GROUP.label: "g"})
    )
    mirror.change(POD_GROUP_X, None, cluster.pod_group())
    mirror.change(POD, None, named if labelled == "when it is made" else plain)
    mirror.change(JOB, None, job)
    mirror.drain(0.0)
    if labelled == "later":
        mirror.change(POD, plain, named)
        mirror.drain(0.0)
    assert not mirror.groups[GangId("ns/j")].members
    assert [*mirror.groups[GangId("ns/g")].members] == [PodId(named.metadata.uid)]


def test_a_pod_that_names_two_podgroups_is_of_the_first_alone() -> None:
    mirror = Mirror()
    pod = cluster.pod("p", labels=dict.fromkeys(groups.LABELS, "g"))
    for kind in (POD_GROUP_X, POD_GROUP_SIGS):
        mirror.change(kind, None, cluster.pod_group())
    mirror.change(POD, None, pod)
    mirror.drain(0.0)
    assert {gang: [*group.members] for gang, group in mirror.groups.items()} == {
        GangId("ns/g"): [PodId(pod.metadata.uid)],
        GangId("ns/koordinator-g"): [],
    }


def test_the_pods_of_a_job_are_not_those_of_the_next_job_of_its_name() -> None:
    """As after `kubectl replace --force`: the pods of the first are still there."""
    mirror, first = Mirror(), cluster.job(gang="true")
    again = replace(first, metadata=replace(first.metadata, uid="uid-again"))
    pod = cluster.pod("j-0", owner=first, index=0, node="n", phase="Running")
    mirror.change(JOB, None, first)
    mirror.change(POD, None, pod)
    assert [event.gang for event in bound(mirror)] == ["ns/j"]
    mirror.change(JOB, first, None)
    mirror.change(JOB, None, again)
    assert [event.gang for event in bound(mirror)] == [None]
    assert not mirror.groups[GangId("ns/j")].members
    assert [*mirror.gangs_of(again.metadata.uid)] == ["ns/j"]
    assert not mirror.gangs_of(first.metadata.uid)


@pytest.mark.parametrize("parent", ["is there", "has not been seen"])
@pytest.mark.parametrize("deleting", [False, True])
@pytest.mark.parametrize(
    ("then", "gang"),
    [
        (cluster.job(), "ns/p"),
        (cluster.job(gang="true"), "ns/s-w-0"),
        (cluster.child(cluster.jobset("t")), "ns/t"),
        (cluster.child(cluster.jobset("unseen")), None),
    ],
)
def test_the_pods_of_a_job_follow_it_to_another_gang(
    parent: str, deleting: bool, then: Job, gang: GangId | None
) -> None:
    """As when its owner reference changes, while it has pods that hold no place any more."""
    jobset, other = cluster.jobset(), cluster.jobset("t")
    first = cluster.child(jobset)
    then = replace(then, metadata=replace(then.metadata, name="s-w-0", uid=first.metadata.uid))
    one = cluster.pod("p", owner=first, node="n", phase="Running", deleting=deleting)

    def charged(mirror: Mirror) -> GangId | None:
        mirror.drain(0.0)
        return mirror._charged[PodId(one.metadata.uid)][0].gang

    seen, new = Mirror(), Mirror()
    for mirror, job in (seen, first), (new, then):
        mirror.change(JOBSET, None, other)
        if parent == "is there":
            mirror.change(JOBSET, None, jobset)
        mirror.change(JOB, None, job)
        mirror.change(POD, None, one)
    assert charged(seen) == ("ns/s" if parent == "is there" else None)
    seen.change(JOB, first, then)
    assert charged(seen) == charged(new) == gang
    assert seen.groups == new.groups


def test_a_pod_that_comes_while_its_job_is_no_gang_for_a_moment_is_a_member() -> None:
    mirror, job, plain = Mirror(), cluster.job(gang="true"), cluster.job()
    one = cluster.pod("j-0", owner=job, node="n", phase="Running")
    mirror.change(JOB, None, job)
    mirror.drain(0.0)
    mirror.change(JOB, job, plain)
    mirror.change(POD, None, one)
    mirror.change(JOB, plain, job)
    assert [event.gang for event in bound(mirror)] == ["ns/j"]
    assert [*mirror.groups[GangId("ns/j")].members] == [PodId(one.metadata.uid)]


def test_a_pod_that_comes_while_its_podgroup_has_left_a_ganggroup_for_a_moment_is_a_member() -> None:
    mirror, both = Mirror(), {GROUPS: '["ns/a", "ns/b"]'}
    first, second, alone = (
        cluster.pod_group(name, annotations=notes) for name, notes in (("a", both), ("b", both), ("b", {}))
    )
    one = cluster.grouped("p", "b", node="n", phase="Running")
    for each in (first, second):
        mirror.change(POD_GROUP_X, None, each)
    mirror.drain(0.0)
    mirror.change(POD_GROUP_X, second, alone)
    mirror.change(POD, None, one)
    mirror.change(POD_GROUP_X, alone, second)
    assert [event.gang for event in bound(mirror)] == ["ns/a"]
    assert [*mirror.groups[GangId("ns/a")].members] == [PodId(one.metadata.uid)]


@pytest.mark.parametrize("field", ["kind", "name", "uid"])
def test_a_pod_whose_owner_is_a_job_by_some_of_its_fields_is_no_member(field: str) -> None:
    job = cluster.job(gang="true")
    one = cluster.pod("j-0", owner=job, node="n", phase="Running")
    owner = replace(one.metadata.owner_references[0], **{field: "other"})
    one = replace(one, metadata=replace(one.metadata, owner_references=[owner]))
    for first, second in ((job, one), (one, job)):
        mirror = Mirror(whole=True)
        for each in (first, second):
            mirror.change(POD if each is one else JOB, None, each)
            mirror.drain(0.0)
        assert not mirror.groups[GangId("ns/j")].members
        assert mirror.groups[GangId("ns/j-0")].members


@pytest.mark.parametrize(
    ("kind", "named", "annotations"),
    [
        (CLUSTER_NETWORK_TOPOLOGY, cluster.topology(("rack", "r")), {names.EXCLUSIVE: "rack"}),
        (PRIORITY_CLASS, cluster.priority_class("high", 7), {names.PRIORITY: "high"}),
    ],
)
def test_a_podgroup_without_pods_follows_what_it_names(
    kind: AnyKind, named: Resource, annotations: dict[str, str]
) -> None:
    mirror = Mirror()
    mirror.change(POD_GROUP_X, None, cluster.pod_group(annotations=annotations))
    mirror.drain(0.0)
    refused = mirror.groups[GangId("ns/g")]
    assert refused.gang.gate is not None
    assert refused.gang.gate.code is Code.INVALID
    mirror.change(kind, None, named)
    mirror.drain(0.0)
    accepted = mirror.groups[GangId("ns/g")]
    assert accepted.gang.gate is not None
    assert accepted.gang.gate.code is Code.MEMBERS_MISSING
    mirror.change(kind, named, None)
    mirror.drain(0.0)
    assert mirror.groups[GangId("ns/g")] == refused


def test_a_gang_that_takes_the_id_of_another_has_none_of_its_retired_places() -> None:
    """The pod of the one has ended, so its place is retired. The other is there from the next drain on."""
    mirror = Mirror()
    ended = cluster.grouped("p", api=POD_GROUP_SIGS, node="n", phase="Succeeded")
    mirror.change(POD_GROUP_SIGS, None, cluster.pod_group())
    mirror.change(POD, None, ended)
    mirror.drain(0.0)
    assert mirror.groups[GangId("ns/g")].retired
    mirror.change(POD_GROUP_X, None, cluster.pod_group())
    events = mirror.drain(0.0).events
    submitted = GangSubmitted(mirror.groups[GangId("ns/g")].gang)
    assert events.index(GangRemoved(GangId("ns/g"))) < events.index(submitted)


def test_the_record_of_a_gang_that_is_gone_does_not_stand_for_its_namesake() -> None:
    """Records are what plans are found by."""
    mirror, group = Mirror(), cluster.pod_group()
    for kind in (POD_GROUP_X, POD_GROUP_SIGS):
        mirror.change(kind, None, group)
    mirror.drain(0.0)
    mirror.change(POD_GROUP_X, group, None)
    mirror.drain(0.0)
    assert mirror._ids == {("ns", "koordinator-g"): "ns/g"}


def test_the_stages_of_a_jobset_are_no_gangs_once_their_namespace_asks_for_none() -> None:
    mirror, gangs = Mirror(), namespace(**{names.GANG: "true"})
    gangs = replace(gangs, metadata=replace(gangs.metadata, name="ns"))
    jobs = {"a": {}, "b": {"dependsOn": [{"name": "a", "status": "Ready"}]}}
    mirror.change(NAMESPACE, None, gangs)
    mirror.change(JOBSET, None, cluster.jobset(jobs=jobs, gang=""))
    mirror.drain(0.0)
    assert sorted(mirror.groups) == ["ns/s/a", "ns/s/b"]
    mirror.change(NAMESPACE, gangs, replace(gangs, metadata=replace(gangs.metadata, labels={})))
    mirror.drain(0.0)
    assert not mirror.groups


def test_a_pod_of_another_scheduler_does_not_rename_a_gang_by_naming_its_namesake() -> None:
    mirror, group = Mirror(frozenset({"muster"})), cluster.pod_group()
    spec = cluster.pod_spec(schedulerName="other")
    mirror.change(POD, None, cluster.grouped("p", api=POD_GROUP_X, spec=spec))
    mirror.change(POD_GROUP_SIGS, None, group)
    mirror.drain(0.0)
    assert [*mirror.groups] == ["ns/g"]


def test_the_places_of_a_job_that_its_jobset_restarts_are_free_before_its_pods_are_gone() -> None:
    mirror, jobset = Mirror(), cluster.jobset()
    first, ending = (cluster.child(jobset, deleting=deleting) for deleting in (False, True))
    for kind, obj in ((JOBSET, jobset), (JOB, first), (POD, cluster.pod("p", owner=first, node="n"))):
        mirror.change(kind, None, obj)
    assert [[*event.pods.values()] for event in bound(mirror)] == [[Place("w", 0)]]
    mirror.change(JOB, first, ending)
    assert [(event.gang, *event.pods.values()) for event in bound(mirror)] == [("ns/s", None)]


@pytest.mark.parametrize("of", ["", *groups.LABELS, BY_NAME[0], "job"])
@pytest.mark.parametrize("first", ["the group", "the pod"])
def test_a_pod_that_its_node_has_started_is_of_no_gang(of: str, first: str) -> None:
    """A mirror pod, whatever it names, even if every pod is muster's: whether it comes bound or is bound."""
    owner = cluster.job(gang="true")
    labels = {of: "g"} if of not in ("", "job") else {}
    waiting, bound_later, bound_at_once = (
        cluster.pod(
            name,
            node=node,
            labels=labels,
            annotations={"kubernetes.io/config.mirror": "x"},
            owner=owner if of == "job" else None,
        )
        for name, node in (("j-0", ""), ("j-0", "n"), ("j-1", "n"))
    )
    groups: list[tuple[AnyKind, Resource]] = [
        (JOB, owner),
        *((kind, cluster.pod_group()) for kind in (POD_GROUP_X, POD_GROUP_SIGS)),
    ]
    pods: list[tuple[AnyKind, Resource]] = [(POD, waiting), (POD, bound_at_once)]
    mirror = Mirror()
    for kind, obj in groups + pods if first == "the group" else pods + groups:
        mirror.change(kind, None, obj)
    mirror.drain(0.0)
    (name,) = (uid for group in mirror.groups.values() for uid in group.members)
    assert name == waiting.metadata.uid
    mirror.change(POD, waiting, bound_later)
    events = mirror.drain(0.0).events
    assert not any(group.members for group in mirror.groups.values())
    assert [event.gang for event in events if isinstance(event, PodsBound)] == [None]
    for kind, obj in groups:
        mirror.change(kind, obj, None)
    mirror.drain(0.0)
    assert not mirror.groups


def test_groups_that_one_change_touches_are_read_in_the_same_order_in_every_process() -> None:
    """A journal is the same for the same changes: hashes of strings and of enums differ between processes."""
    spec: Object = {"containers": [{"name": "c"}], "runtimeClassName": "kata"}
    made: list[tuple[AnyKind, Resource]] = [
        *((JOB, cluster.job(f"j{number}", gang="true", template={"spec": spec})) for number in range(10, 40)),
        *(
            (JOBSET, cluster.jobset(f"s{number}", {"w": {"template": {"spec": spec}}}))
            for number in range(10, 20)
        ),
    ]
    mirror = Mirror()
    for kind, obj in made:
        mirror.change(kind, None, obj)
    mirror.drain(0.0)
    body = {"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "250m"}}}
    mirror.change(RUNTIME_CLASS, None, msgspec.convert(body, RuntimeClass))
    again = [event.gang.id for event in mirror.drain(1.0).events if isinstance(event, GangSubmitted)]
    assert again == [f"ns/{obj.metadata.name}" for _, obj in made]
