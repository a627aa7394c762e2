"""Plans: what the scheduler would do, told in Kubernetes' names."""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.api.templates import pod_templates
from muster.app.plan import Plan
from muster.app.plan.decisions import Delay, Outcome
from muster.app.snapshot import Snapshot, latest
from muster.core.words.gang import GangId, NodeName, Place
from muster.kube import apply
from muster.kube.errors import Invalid
from muster.names import GPU
from muster.runtime.mirror import WATCHED, Mirror
from muster.runtime.plan_record import PlacementPlan as Held
from muster.runtime.plan_record import encode
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.snapshot import Objects, typed

GROUP = "scheduling.x-k8s.io/pod-group"


def node(name: str, gpus: int = 4) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": "8", "memory": "64Gi", GPU: gpus, "pods": 110},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def template(gpus: int, **spec: Any) -> Object:  # Any: JSON
    return {
        "metadata": {},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "resources": {"requests": {GPU: gpus}, "limits": {GPU: gpus}}}],
            **spec,
        },
    }


def pod(name: str, gpus: int, *, node: str = "", group: str = "", **spec: Any) -> Object:  # Any: JSON
    labels = {GROUP: group} if group else {}
    made = template(gpus, **({"nodeName": node} if node else {}), **spec)
    meta = {"name": name, "labels": labels}
    status = {"phase": "Running" if node else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"], "status": status}


def pod_group(name: str, minimum: int) -> Object:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": minimum},
    }


def job(name: str, count: int, gpus: int, *, gang: bool, **spec: Any) -> Object:  # Any: JSON
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {names.GANG: "true"} if gang else {}},
        "spec": {"parallelism": count, "completions": count, "template": template(gpus), **spec},
    }


def jobset(name: str, jobs: dict[str, tuple[int, int]], *, gang: bool, **spec: Any) -> Object:
    """`jobs`: replicas and GPUs by name. Any: JSON."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {names.GANG: "true"} if gang else {}},
        "spec": {
            "replicatedJobs": [
                {"name": each, "replicas": count, "template": {"spec": {"template": template(gpus)}}}
                for each, (count, gpus) in jobs.items()
            ],
            **spec,
        },
    }


def objects(*values: Object) -> Objects:
    return typed(values, WATCHED)


def plan(
    proposed: Objects, cluster: Objects, now: float | None = None, schedulers: frozenset[str] | None = None
) -> Plan:
    return Snapshot(cluster, schedulers, now=now).plan(proposed)


def ask(proposed: list[Object], *cluster: Object) -> Plan:
    return plan(typed(proposed, WATCHED, proposed=True), objects(*cluster))


def brief(found: Plan) -> list[tuple[str, str, dict[str, str]]]:
    return [(each.gang, each.outcome.value, each.assignments) for each in found.decisions]


def test_pods_of_a_group_are_placed_together() -> None:
    proposed = [pod_group("g", 2), pod("a", 3, group="g"), pod("b", 3, group="g")]
    found = ask(proposed, node("n-0"), node("n-1"))
    assert brief(found) == [("default/g", "place", {"default/a": "n-0", "default/b": "n-1"})]
    assert found.decisions[0].reason is None
    assert found.proposed == 1


@pytest.mark.parametrize("owner", ["pod", "job", "gang"])
@pytest.mark.parametrize("proposed", [False, True])
def test_new_pods_have_the_defaults_of_their_namespace(owner: str, proposed: bool) -> None:
    """A pod that is there already has them, or came before them."""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "6"}}]},
    }
    made = [job("j", 2, 1, gang=owner == "gang")] if owner != "pod" else [pod("a", 1), pod("b", 1)]
    files = ([limits, *made], []) if proposed else (made, [limits])
    found = ask(files[0], node("n-0"), *files[1])
    placed = [each.gang for each in found.decisions if each.assignments]
    assert len(placed) == (0 if owner == "gang" else 1), "8 CPUs are there"
    there = plan(Objects(), objects(node("n-0"), limits, pod("a", 1), pod("b", 1)))
    assert all(each.assignments for each in there.decisions)


def test_pods_of_a_group_without_a_minimum_start_as_there_is_room() -> None:
    proposed = [pod_group("g", 0), pod("a", 3, group="g"), pod("b", 3, group="g")]
    assert brief(ask(proposed, node("n-0"))) == [("default/g", "place", {"default/a": "n-0"})]


def test_or_none_of_them_with_the_reason() -> None:
    proposed = [pod_group("g", 2), pod("a", 3, group="g"), pod("b", 3, group="g")]
    found = ask(proposed, node("n-0"), node("n-1"), pod("old", 2, node="n-1"))
    (decision,) = found.decisions
    assert (decision.outcome, decision.assignments) == (Outcome.WAIT, {})
    assert decision.reason is not None
    assert decision.reason["code"] == "Fragmented"
    assert decision.reason["blockers"] == ["default/old"]


def test_places_of_templates_have_names() -> None:
    found = ask([job("j", 2, 2, gang=True)], node("n-0"))
    assert brief(found) == [("default/j", "place", {"default/j/main-0": "n-0", "default/j/main-1": "n-0"})]
    found = ask([jobset("s", {"a": (1, 1), "b": (2, 1)}, gang=True)], node("n-0"))
    places = {f"default/s/{each}": "n-0" for each in ("a-0", "b-0", "b-1")}
    assert brief(found) == [("default/s", "place", places)]


def test_independent_jobs_are_pods_each_on_its_own() -> None:
    found = ask([job("j", 3, 3, gang=False)], node("n-0"), node("n-1"))
    assert brief(found) == [
        ("default/j/main-0", "place", {"default/j/main-0": "n-0"}),
        ("default/j/main-1", "place", {"default/j/main-1": "n-1"}),
        ("default/j/main-2", "wait", {}),
    ]


def test_a_job_that_its_user_suspended_waits_gang_or_not() -> None:
    for gang in (True, False):
        (decision,) = ask([job("j", 1, 1, gang=gang, suspend=True)], node("n-0")).decisions
        assert decision.reason is not None
        assert (decision.gang, decision.outcome, decision.reason["code"]) == ("default/j", "wait", "Gated")


def test_the_first_stage_of_an_order_starts_and_later_ones_say_what_they_wait_for() -> None:
    order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    stages = {"a": (1, 1), "b": (2, 1)}
    found = ask([jobset("s", stages, gang=True, **order)], node("n-0"))
    assert [(each.gang, each.outcome.value) for each in found.decisions] == [
        ("default/s/a", "place"),
        ("default/s/b", "wait"),
    ]
    assert found.decisions[0].assignments == {"default/s/a-0": "n-0"}
    found = ask([jobset("s", stages, gang=False, **order)], node("n-0"))
    assert [each.gang for each in found.decisions] == ["default/s/a-0"]


def test_a_namespace_that_makes_gangs_is_heeded() -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "labels": {names.GANG: "true"}},
    }
    assert [d.gang for d in ask([job("j", 2, 1, gang=False)], node("n-0"), namespace).decisions] == [
        "default/j"
    ]


def test_gangs_that_wait_in_the_cluster_are_older_and_listed_after() -> None:
    found = ask([pod("new", 3)], node("n-0"), pod("old", 3))
    assert [(each.gang, each.outcome.value) for each in found.decisions] == [
        ("default/new", "wait"),
        ("default/old", "place"),
    ]
    assert found.proposed == 1


def test_running_gangs_are_not_decided_about() -> None:
    cluster = [node("n-0"), pod_group("g", 1), pod("a", 1, node="n-0", group="g")]
    assert ask([pod("new", 1)], *cluster).decisions[1:] == []
    assert plan(Objects(), objects(*cluster)).decisions == []


@pytest.mark.parametrize("spread", [False, True])
def test_a_pod_that_is_being_deleted_is_not_planned_again(spread: bool) -> None:
    """It keeps its node until it has ended; no room is kept for it elsewhere, nor is it ahead of others."""
    host = "kubernetes.io/hostname"
    rule = {"topologyKey": host, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    old = pod("old", 4, node="n-0", priority=9)
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    other = pod("other", 4, topologySpreadConstraints=[rule] if spread else [])
    nodes = [node("n-0"), node("n-1")]
    for each in nodes:
        each["metadata"]["labels"] = {host: each["metadata"]["name"]}
    found = plan(Objects(), objects(*nodes, old, other))
    assert brief(found) == [("default/other", "place", {"default/other": "n-1"})]


def test_pods_whose_job_is_not_in_the_snapshot_are_pods_on_their_own() -> None:
    waiting = pod("w", 1)
    waiting["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "x", "controller": True}
    ]
    found = plan(Objects(), objects(node("n-0"), waiting))
    assert brief(found) == [("default/w", "place", {"default/w": "n-0"})]


def test_a_job_that_is_there_already_is_planned_with_the_pods_it_has() -> None:
    group = [pod_group("g", 2), pod("a", 1, node="n-0", group="g"), pod("b", 1, group="g")]
    found = ask([pod("a", 1, group="g"), pod("b", 1, group="g")], node("n-0"), *group)
    assert brief(found) == [("default/g", "place", {"default/b": "n-0"})]
    assert found.notes == [
        "in the cluster already, and planned with the pods they have there: default/a, default/b"
    ]
    with pytest.raises(Invalid, match='Pod "a" is invalid: spec: Forbidden'):
        ask([pod("a", 4, group="g")], node("n-0"), *group)


@pytest.mark.parametrize(("minimum", "scheduled"), [(2, 0), (2, 1), (1, 0)])
@pytest.mark.parametrize("namespace", ["default", "elsewhere"])
def test_a_job_of_volcano_that_is_there_is_planned_with_what_its_controllers_have_made(
    minimum: int, scheduled: int, namespace: str
) -> None:
    """Its file is compiled to a JobSet, which is not planned beside it."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "v", "uid": "v"}
    owned = {"namespace": namespace, "ownerReferences": [{**owner, "controller": True}]}
    spec = {"minMember": minimum}
    kind = {"apiVersion": groups.VOLCANO.kind.api_version, "kind": "PodGroup"}
    there: list[Object] = [{**kind, "metadata": {**owned, "name": "v-1"}, "spec": spec}]
    for number in range(2):
        made = pod(f"v-w-{number}", 1, node="n-0" if number < scheduled else "")
        made["metadata"] |= {**owned, "annotations": {groups.VOLCANO.annotations[0]: "v-1"}}
        there.append(made)
    whole = template(1)
    whole["spec"]["containers"][0] |= {"image": "i", "command": ["c"]}
    tasks = [{"name": "w", "replicas": 2, "template": whole}]
    job: Object = {"apiVersion": owner["apiVersion"], "kind": "Job", "metadata": {"name": "v"}}
    job["spec"] = {"minAvailable": minimum, "tasks": tasks}
    compiled = load("v.json", Options(runs=False), text=json.dumps(job).encode()).objects
    found = ask(compiled, node("n-0"), *there)
    told = "in the cluster already, and planned with the pods they have there: default/v"
    assert (told in found.notes) == (namespace == "default")
    placed = {each for decision in found.decisions for each in decision.assignments}
    if namespace == "default":
        assert placed == {f"default/v-w-{number}" for number in range(scheduled, 2)}
        assert found.proposed == 1
    else:
        assert {each for each in placed if not each.startswith("elsewhere/")}, "it is another Job"


def test_a_job_whose_author_lets_it_go_has_its_pods_made() -> None:
    cluster = job("j", 2, 1, gang=False)
    cluster["spec"]["suspend"] = True
    let_go = job("j", 2, 1, gang=False)
    let_go["spec"]["suspend"] = False
    found = ask([let_go], node("n-0"), cluster)
    assert [each.gang for each in found.decisions] == ["default/j/main-0", "default/j/main-1"]
    assert ask([job("j", 2, 1, gang=False)], node("n-0"), cluster).decisions == [], "the file does not say"


@pytest.mark.parametrize("make", [job, jobset])
def test_what_admission_has_made_of_a_field_is_no_edit_of_the_file(make: Callable[..., Object]) -> None:
    """A webhook that rewrites an image does so at each submission: the object stays as it is."""
    file = job("j", 1, 1, gang=False) if make is job else jobset("j", {"w": (1, 1)}, gang=False)
    file["spec"]["suspend"] = False
    there = copy.deepcopy(apply.noted(file, file))
    inner = there["spec"] if make is job else there["spec"]["replicatedJobs"][0]["template"]["spec"]
    inner["template"]["spec"]["containers"][0]["image"] = "mirror/x"
    inner["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n-0"}
    inner["template"]["spec"]["restartPolicy"] = "OnFailure"
    found = ask([file], node("n-0"), there)
    assert all(each.outcome is not Outcome.INVALID for each in found.decisions)
    if make is job:
        file["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
        file["spec"]["template"]["spec"]["hostNetwork"] = True
        with pytest.raises(Invalid, match=r"spec\.template: Invalid value: field is immutable"):
            ask([file], node("n-0"), there)


def test_an_edit_takes_the_place_of_what_was() -> None:
    waits = [pod_group("g", 3), pod("a", 1, group="g"), pod("b", 1, group="g")]
    assert [d.outcome for d in plan(Objects(), objects(node("n-0"), *waits)).decisions] == [Outcome.WAIT]
    found = ask([pod_group("g", 2)], node("n-0"), *waits)
    assert brief(found) == [("default/g", "place", {"default/a": "n-0", "default/b": "n-0"})]


def test_a_specification_that_cannot_be_honoured_is_invalid() -> None:
    found = ask([pod("a", 1, priorityClassName="nosuch")], node("n-0"))
    assert [d.outcome for d in found.decisions] == [Outcome.INVALID]
    broken = job("j", 1, 1, gang=False)
    broken["spec"]["template"]["spec"]["nodeSelector"] = 4
    (decision,) = ask([broken], node("n-0")).decisions
    assert decision.reason is not None
    assert (decision.gang, decision.outcome) == ("default/j", "invalid")
    assert "nodeSelector" in decision.reason["message"]


def test_the_order_of_a_snapshot_does_not_matter() -> None:
    cluster = [node("n-0"), pod_group("g", 2), pod("a", 1, group="g"), pod("b", 1, group="g")]
    assert plan(Objects(), objects(*cluster)) == plan(Objects(), objects(*reversed(cluster)))


@pytest.mark.parametrize(
    "times", [(None, None), ("2026-01-01T00:00:00Z", None), (None, "2026-01-02T00:00:00Z")]
)
def test_a_snapshot_is_as_old_as_the_newest_time_in_it(times: tuple[str | None, str | None]) -> None:
    one, two = pod("a", 1), pod("b", 1)
    one["metadata"]["creationTimestamp"], two["status"]["startTime"] = times
    known = [datetime.fromisoformat(time).astimezone(UTC).timestamp() for time in times if time]
    assert latest(objects(one, two)) == max(known, default=0.0)


def run_time(obj: Object, seconds: int) -> Object:
    obj["metadata"].setdefault("annotations", {})[names.RUN_TIME] = f"{seconds}s"
    return obj


NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def starting(obj: Object, before: float) -> Object:
    """It runs since so many seconds."""
    obj["status"]["startTime"] = datetime.fromtimestamp(NOW - before, UTC).isoformat()
    return obj


def test_a_gang_that_does_not_start_delays_no_other() -> None:
    """`old` holds all 4 and runs for another 100 s. No gang starts before that."""
    cluster = [
        node("n-0"),
        starting(run_time(pod("old", 4, node="n-0"), 300), 200),
        run_time(pod("waits", 4), 50),
    ]
    urgent = run_time(pod("urgent", 4, priority=10, preemptionPolicy="Never"), 70)
    found = plan(objects(urgent), objects(*cluster), NOW)
    assert [(each.gang, each.outcome.value) for each in found.decisions] == [
        ("default/urgent", "wait"),
        ("default/waits", "wait"),
    ]
    small = run_time(pod("small", 2), 70)
    assert plan(objects(small), objects(*cluster), NOW).decisions[0].delays == []


def test_delays_are_listed_with_the_first_gang_that_starts() -> None:
    """`waits` would start now; it has to wait for the 70 s that what is proposed runs before it."""
    cluster = [node("n-0"), run_time(pod("waits", 3), 50)]
    urgent = run_time(pod("urgent", 3, priority=10), 70)
    found = plan(objects(urgent), objects(*cluster), NOW)
    assert found.decisions[0].outcome is Outcome.PLACE
    assert [delay.gang for delay in found.decisions[0].delays] == ["default/waits"]
    assert found.before == {"default/waits": Outcome.PLACE}
    endless = pod("urgent", 3, priority=10)
    assert plan(objects(endless), objects(*cluster), NOW).decisions[0].delays == [
        Delay("default/waits", None)
    ]


def queue(name: str, **spec: Any) -> Object:  # Any: JSON
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_an_edit_of_a_queue_lets_gangs_start() -> None:
    waits = pod("waits", 3)
    waits["metadata"]["labels"][names.QUEUE] = "q"
    cluster = [node("n-0"), queue("q", capability={GPU: 2}), waits]
    (before,) = plan(Objects(), objects(*cluster), NOW).decisions
    assert before.reason is not None
    assert before.reason["code"] == "QuotaExceeded"
    found = plan(objects(queue("q", capability={GPU: 3})), objects(*cluster), NOW)
    assert brief(found) == [("default/waits", "place", {"default/waits": "n-0"})]
    assert (found.proposed, found.before) == (0, {"default/waits": Outcome.WAIT})


def test_an_edit_that_makes_a_queue_unusable_is_noted_and_what_was_invalid_is_so_before() -> None:
    waits, lost = pod("waits", 3), pod("lost", 1)
    waits["metadata"]["labels"][names.QUEUE] = "q"
    lost["metadata"]["labels"][names.QUEUE] = "nosuch"
    cluster = [node("n-0", 1), queue("q"), queue("r", parent="q"), waits, lost]
    found = plan(objects(queue("q", parent="r"), topology("a", "a")), objects(*cluster), NOW)
    assert brief(found) == [("default/lost", "invalid", {}), ("default/waits", "invalid", {})]
    assert found.before == {"default/lost": Outcome.INVALID, "default/waits": Outcome.INVALID}
    assert found.notes == [
        "Queue q cannot be used: queues are in a cycle: q is below r is below q",
        "Queue r cannot be used: queues are in a cycle: r is below q is below r",
        "ClusterNetworkTopology default cannot be used: spec.networkTopologySpec[1]: layer a occurs twice",
    ]


def test_unusable_objects_of_a_snapshot_are_noted_and_the_rest_is_planned() -> None:
    broken = [
        queue("a", parent="b"),
        queue("b", parent="a"),
        queue("c", parent="nobody"),
        queue("d", guarantee={GPU: 2}, capability={GPU: 1}),
        queue("e", weight=-1),
        queue("f", order="lifo"),
        topology("a", "a"),
    ]
    found = ask([pod("p", 1)], node("n-0"), *broken)
    assert brief(found) == [("default/p", "place", {"default/p": "n-0"})]
    assert found.notes == [
        "ClusterNetworkTopology default cannot be used: spec.networkTopologySpec[1]: layer a occurs twice",
        "Queue a cannot be used: queues are in a cycle: a is below b is below a",
        "Queue b cannot be used: queues are in a cycle: b is below a is below b",
        "Queue c cannot be used: its parent nobody does not exist",
        "Queue d cannot be used: its guarantee of 2 is above its capability of 1 GPU",
        "Queue e cannot be used: its weight is -1; write 1 or more",
        "Queue f cannot be used: spec.order is 'lifo'; write priority, fifo, fair",
    ]


def test_a_group_whose_minimum_is_below_none_is_invalid() -> None:
    found = ask([], node("n-0"), pod_group("g", -1), pod("p", 1, group="g"))
    ((gang, outcome, _),) = brief(found)
    assert (gang, outcome) == ("default/g", "invalid")
    assert found.decisions[0].reason is not None
    assert found.decisions[0].reason["message"].startswith("spec.minMember is -1; write how many")


def test_pods_of_another_scheduler_are_noted() -> None:
    ours = names.SCHEDULER
    proposed = [
        pod("mine", 1, schedulerName=ours),
        pod("theirs", 1),
        job("batch", 1, 1, gang=False),
        jobset("set", {"a": (1, 1)}, gang=False),
        pod("other", 1, schedulerName="volcano"),
    ]
    found = plan(objects(*proposed), objects(node("n-0")), schedulers=frozenset({ours}))
    assert brief(found) == [("default/mine", "place", {"default/mine": "n-0"})]
    left = "muster decides about pods with schedulerName: muster"
    assert found.notes == [
        f"Pod default/theirs is left to default-scheduler; {left}",
        f"Job default/batch is left to default-scheduler; {left}",
        f"JobSet default/set is left to default-scheduler; {left}",
        f"Pod default/other is left to volcano; {left}",
    ]
    assert plan(objects(*proposed), objects(node("n-0"))).notes == []


def topology(*layers: str) -> Object:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": [{"topologyLayer": each, "labelKey": [each]} for each in layers]},
    }


def test_marks_of_an_independent_job_hold_for_its_pods() -> None:
    marked = job("j", 1, 1, gang=False)
    marked["metadata"]["labels"] = {names.QUEUE: "nosuch"}
    (decision,) = ask([marked], node("n-0")).decisions
    assert (decision.gang, decision.outcome) == ("default/j/main-0", "invalid")
    held = job("j", 1, 1, gang=False)
    held["metadata"]["annotations"] = {names.HOLD: "true"}
    (decision,) = ask([held], node("n-0")).decisions
    assert decision.reason is not None
    assert decision.reason["code"] == "Gated"


def test_victims_are_named_with_what_is_lost() -> None:
    controller = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "x", "controller": True}]
    low = [starting(pod(f"low-{i}", 2, node="n-0", group="low", priority=1), 3600) for i in range(2)]
    for each in low:
        each["metadata"]["ownerReferences"] = controller
    high = pod("high", 3, priority=10)
    found = plan(objects(high), objects(node("n-0"), pod_group("low", 2), *low), NOW)
    (decision,) = found.decisions
    assert (decision.outcome, decision.victims) == ("preempt", ["default/low-0", "default/low-1"])
    assert decision.cost.gpu_seconds == pytest.approx(4 * 3600)


LAYERS = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"labelKey": ["rack"], "topologyLayer": "rack"},
            {"parentTopologyLayer": "rack", "topologyLayer": "NodeTopologyLayer"},
        ]
    },
}


def test_layers_of_the_network_are_heeded() -> None:
    nodes = [node(f"n-{i}") for i in range(4)]
    for number, each in enumerate(nodes):
        each["metadata"]["labels"] = {"rack": f"r-{number // 2}"}
    group = pod_group("g", 2)
    group["metadata"]["annotations"] = {
        "gang.scheduling.koordinator.sh/network-topology-spec": (
            '{"gatherStrategy": [{"layer": "rack", "strategy": "MustGather"}]}'
        )
    }
    pods = [pod(f"p-{i}", 3, group="g") for i in range(2)]
    busy = pod("busy", 2, node="n-0")
    (decision,) = ask([group, *pods], *nodes, busy, LAYERS).decisions
    assert set(decision.assignments.values()) == {"n-2", "n-3"}
    key, text = group["metadata"]["annotations"].popitem()
    group["metadata"]["annotations"] = {key: text.replace("rack", "RACK")}
    found = ask([group, *pods], *nodes, busy, LAYERS)
    assert found.decisions == [decision]
    assert found.notes == ["default/g: layer RACK is called rack here, and taken for it"]


def test_a_job_of_too_many_pods_is_invalid() -> None:
    (decision,) = ask([job("j", 60_000, 1, gang=True)], node("n-0")).decisions
    assert decision.reason is not None
    assert (decision.outcome, decision.reason["message"]) == (
        "invalid",
        "60000 pods at once; muster plans at most 50000 for one gang",
    )


def test_an_open_plan_keeps_its_places() -> None:
    """As for a live scheduler that takes over: what was promised to b is b's, though a is older."""
    group = pod_group("b", 1)
    b = pod("b-0", 4, group="b")
    there = objects(node("n-0"), node("n-1", 1), pod("a", 4), group, b)
    assert [d.gang for d in plan(Objects(), there, NOW).decisions if d.assignments] == ["default/a"]
    held = Held(
        GangId("default/b"), "podgroup-b", "default", 1, 1, {Place(shape_of(there), 0): NodeName("n-0")}
    )
    body = encode(held)
    body["metadata"] |= {"uid": "x"}
    promised = objects(node("n-0"), node("n-1", 1), pod("a", 4), group, b, body)
    found = plan(Objects(), promised, NOW).decisions
    assert {d.gang: d.assignments for d in found if d.assignments} == {"default/b": {"default/b-0": "n-0"}}


def shape_of(there: Objects) -> str:
    """The name of the pod set of the only group's pods."""
    mirror = Mirror(whole=True)
    for (kind, _, _), resource in there.items.items():
        mirror.change(kind, None, resource)
    mirror.drain(NOW)
    (pod_set,) = mirror.groups[GangId("default/b")].gang.pod_sets
    return pod_set.name


def resource_quota(name: str, hard: Object, used: Object | None = None) -> Object:
    status = {} if used is None else {"status": {"hard": hard, "used": used}}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}, **status}


def codes(found: Plan) -> list[tuple[str, str]]:
    return [
        (each.gang, each.reason["code"] if each.reason else each.outcome.value) for each in found.decisions
    ]


@pytest.mark.parametrize("used", [None, {"pods": "2"}])
def test_pods_that_are_written_out_are_still_to_be_charged_to_a_quota(used: Object | None) -> None:
    """Those of the cluster are charged already, whether a controller counts for the quota or muster does."""
    cluster = [node("n-0"), resource_quota("few", {"pods": "3"}, used), pod("runs", 1, node="n-0")]
    cluster.append(pod("waits", 1))
    found = ask([pod("a", 1), pod("b", 1)], *cluster)
    assert codes(found) == [
        ("default/a", "place"),
        ("default/b", "QuotaExceeded"),
        ("default/waits", "place"),
    ]
    assert found.decisions[1].reason is not None
    assert found.decisions[1].reason["message"] == (
        "ResourceQuota few of namespace default has 1 of pods left, of which 1 are kept for gangs that "
        "start; the pods that are to be created ask for 1"
    )
    group = [pod_group("g", 2), pod("a", 1, group="g"), pod("b", 1, group="g")]
    assert codes(ask(group, *cluster))[0] == ("default/g", "QuotaExceeded")
    there = ask([pod("waits", 1)], *cluster)
    assert codes(there) == [("default/waits", "place")]


def test_of_a_group_as_many_are_placed_as_there_is_quota_for() -> None:
    cluster = [node("n-0"), resource_quota("few", {"pods": "2", "requests.nvidia.com/gpu": "8"}, {})]
    found = ask([pod_group("g", 2), *(pod(name, 1, group="g") for name in "abc")], *cluster)
    assert brief(found) == [("default/g", "place", {"default/a": "n-0", "default/b": "n-0"})]
    (note,) = found.notes
    assert note.startswith(
        "ResourceQuota few has too little pods for pod default/c; the API server would refuse"
    )
    assert ask([pod_group("g", 2), *(pod(name, 1, group="g") for name in "ab")], *cluster).notes == []
    by_controller = ask([job("j", 3, 1, gang=False)], *cluster).notes
    assert not any("ResourceQuota" in each for each in by_controller), "it creates as many as it may"


def test_pods_of_an_independent_job_are_charged_one_by_one() -> None:
    quota = resource_quota("few", {"requests.nvidia.com/gpu": "2"}, {})
    found = ask([job("j", 3, 1, gang=False)], node("n-0"), quota)
    assert [code for _, code in codes(found)] == ["place", "place", "QuotaExceeded"]


def test_requests_that_a_quota_demands_are_checked_before_the_pod_exists() -> None:
    quota = resource_quota("cpus", {"requests.cpu": "2"}, {})
    found = ask([pod("a", 1), pod_group("g", 1), pod("b", 1, group="g")], node("n-0"), quota, pod("old", 1))
    assert dict(codes(found)) == {
        "default/a": "QuotaExceeded",
        "default/g": "QuotaExceeded",
        "default/old": "place",
    }
    messages = [each.reason["message"] for each in found.decisions if each.reason is not None]
    told = "ResourceQuota cpus counts requests.cpu; its pods must state resources.requests.cpu"
    assert sorted(messages) == [told, f"pod b: {told}"]


def test_pods_that_a_standing_group_has_no_room_or_quota_for_wait_with_a_reason() -> None:
    standing = [pod_group("g", 1), pod("a", 2, group="g", node="n-0"), node("n-0", 3)]
    found = ask([pod("b", 2, group="g")], *standing)
    assert codes(found) == [("default/g", "InsufficientCapacity")]
    assert found.decisions[0].outcome is Outcome.WAIT
    full = ask([pod("b", 1, group="g")], *standing, resource_quota("full", {"pods": "1"}))
    assert codes(full) == [("default/g", "QuotaExceeded")]
    assert codes(ask([pod("b", 1, group="g")], *standing)) == [("default/g", "place")]


DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
STATIC = {"apiVersion": "v1", "kind": "Node", "name": "n-0", "uid": "n", "controller": True}


@pytest.mark.parametrize(
    "meta",
    [
        {"ownerReferences": [DAEMON]},
        {"ownerReferences": [STATIC], "annotations": {"kubernetes.io/config.mirror": "x"}},
        {"annotations": {"kubernetes.io/config.mirror": "x"}},
    ],
    ids=["DaemonSet", "static pod", "mirror pod"],
)
def test_daemon_and_mirror_pods_of_a_snapshot_are_no_victims(meta: Object) -> None:
    agent, low = pod("agent", 2, node="n-0"), pod("low", 2, node="n-0")
    agent["metadata"] |= meta
    cluster = objects(node("n-0"), agent, low)
    found = plan(objects(pod("high", 2, priority=10)), cluster, NOW)
    assert found.decisions[0].victims == ["default/low"]
    for gpus in (3, 4):
        (decision, *_) = plan(objects(pod("high", gpus, priority=10)), cluster, NOW).decisions
        assert (decision.outcome, decision.victims) == ("wait", [])


def test_daemon_and_mirror_pods_of_a_snapshot_make_no_domain_exclusive() -> None:
    agent = pod("agent", 1, node="n-0")
    agent["metadata"]["ownerReferences"] = [DAEMON]
    alone = pod("alone", 1)
    alone["metadata"]["annotations"] = {names.EXCLUSIVE: "NodeTopologyLayer"}
    (decision,) = plan(objects(alone), objects(node("n-0"), agent), NOW).decisions
    assert decision.assignments == {"default/alone": "n-0"}


def test_victims_are_looked_for_as_long_as_gangs_want_some() -> None:
    names = [f"{i}" for i in range(6)]
    low = [starting(pod(f"low-{i}", i + 1, node=f"n-{i}"), 60) for i in range(6)]
    cluster = objects(*(node(f"n-{i}", i + 1) for i in range(6)), *low)
    high = [pod(f"high-{i}", i + 1, priority=10) for i in range(6)]
    found = plan(objects(*high), cluster, NOW)
    assert {each.gang: each.victims for each in found.decisions[: found.proposed]} == {
        f"default/high-{i}": [f"default/low-{i}"] for i in names
    }


def test_searches_of_later_cycles_are_reported_in_the_order_of_attempts() -> None:
    low = [starting(pod(f"low-{i}", i + 1, node=f"n-{i}"), 60) for i in range(6)]
    cluster = objects(*(node(f"n-{i}", i + 1) for i in range(6)), *low)
    high = [pod(f"high-{i}", i + 1, priority=10 + i) for i in range(6)]
    found = plan(objects(*high), cluster, NOW)
    assert [each.gang for each in found.decisions[:6]] == [f"default/high-{i}" for i in (5, 4, 3, 2, 1, 0)]


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
@pytest.mark.parametrize("grouped", [False, True])
def test_marks_of_a_job_that_is_no_gang_are_told_as_the_scheduler_tells_them(
    kind: str, grouped: bool
) -> None:
    """A gang's mark makes its pods Invalid, unless they are in a gang by another one."""
    made = job("j", 2, 1, gang=False) if kind == "Job" else jobset("j", {"w": (2, 1)}, gang=False)
    made["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "2"}
    made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "q"
    beside = []
    if grouped:
        (_, template), *_ = pod_templates(made)
        template["metadata"] = {"labels": {groups.POD_GROUP.label: "g"}}
        beside = [pod_group("g", 2)]
    found = plan(objects(*beside, made), objects(node("n-0")))
    wanted = {"default/g": None} if grouped else {"default/j": "Invalid"}
    assert {each.gang: each.reason and each.reason["code"] for each in found.decisions} == wanted
    told = [each for each in found.notes if each.startswith("default/j: ")]
    assert [each.split()[2] for each in told] == [
        "scheduling.volcano.sh/group-min-member",
        "kueue.x-k8s.io/queue-name",
    ]


@pytest.mark.parametrize("policy", ["basic", "gang"])
def test_a_job_gets_the_pod_group_that_its_controller_makes(policy: str) -> None:
    """KEP-5547: two of three pods fit."""
    made = job("j", 3, 2, gang=False, scheduling={"schedulingPolicy": {policy: {}}})
    found = plan(objects(made), objects(node("n-0")))
    codes = [each.reason and each.reason["code"] for each in found.decisions]
    assert codes == (["InsufficientCapacity"] if policy == "gang" else [None, None, "InsufficientCapacity"])
