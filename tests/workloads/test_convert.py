"""Files are converted between dialects: what they ask for stays, or is reported as lost."""

from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import groups
from muster.api.base import Object
from muster.api.fields import Severity
from muster.api.groups import Dialect
from muster.api.koordinator_v1alpha1 import GROUPS, TOPOLOGY_SPEC
from muster.cli.convert import Dialect as Named
from muster.runtime.mirror import WATCHED
from muster.workloads.convert import TARGETS, Converted, convert
from muster.workloads.convert.pod_groups import ADVICE, COMPARED
from muster.workloads.findings import JobFileError
from muster.workloads.snapshot import typed
from tests.dialects.demands import LAYER, NAME, RACK, WRITTEN, Demand, Pods, Written
from tests.dialects.test_alike import TOPOLOGY, clusters, decided, demands, plain
from tests.tiers import examples

_GROUP: Final = "kind: PodGroup\napiVersion: scheduling.x-k8s.io/v1alpha1\n"
_JOBSET: Final = "kind: JobSet\napiVersion: jobset.x-k8s.io/v1alpha2\n"
#: All pods in one rack.
RULE: Final = f'{{"gatherStrategy":[{{"layer":"{LAYER}","strategy":"MustGather"}}]}}'
_POD: Final = "kind: Pod\napiVersion: v1\n"
#: Rows that no file is converted to, and why.
_NO_TARGETS: Final[dict[Dialect, str]] = {
    groups.JOB: "a Job with the mark stays one; JOBSET stands for both",
    groups.POD: "a pod without a group is no gang of several",
}


def converted(objects: list[Object], to: Dialect, scheduler: str = "") -> Converted:
    return convert(yaml.safe_dump_all(objects), "f.yaml", to, scheduler)


def losses(found: Converted) -> list[str]:
    return [str(each) for each in found.findings if each.severity is Severity.WARNING]


def decision(objects: list[Object], cluster: list[Object]) -> list[Any]:  # Any: JSON
    """The outcome, the nodes of the pods, and the explanation; conversions may rename pods."""
    found = decided(typed(objects, WATCHED, proposed=True), typed(cluster, WATCHED))
    return [
        (each.outcome, sorted(each.assignments.values()), each.victims, plain(each.reason)) for each in found
    ]


def expected(demand: Demand, way: Written, to: Dialect, *, known: bool) -> set[str]:
    """Words of what has to be lost. `known`: the file has the topology."""
    lost: set[str] = set()
    if way.dialect in (to, groups.POD) or (to is groups.JOBSET and way.dialect is groups.JOB):
        return lost
    if demand.together and way.dialect is groups.NATIVE and not known:
        lost.add("schedulingConstraints")
    if to is groups.JOBSET:
        if demand.minimum > demand.count:
            return {"stays as it is"}
        lost |= {"are called", *(("starts whole",) if demand.minimum < demand.count else ())}
    return lost


@given(demands(), clusters(), st.sampled_from(WRITTEN), st.sampled_from(TARGETS), st.booleans())
@settings(max_examples=examples(300))
def test_a_converted_gang_gets_the_same_decision(
    demand: Demand, cluster: list[Object], way: Written, to: Dialect, known: bool
) -> None:
    """In the other dialect, and again after the way back."""
    objects = way.objects(demand)
    if objects is None:
        return
    objects += [TOPOLOGY] * known
    there = converted(objects, to)
    lost = losses(there)
    words = expected(demand, way, to, known=known)
    assert all(any(word in each for each in lost) for word in words)
    assert all(any(word in each for word in words) for each in lost)
    if words <= {"are called", "stays as it is"}:
        assert decision(there.objects, cluster) == decision(objects, cluster)
        back = converted(there.objects, way.dialect if way.dialect in TARGETS else groups.JOBSET)
        assert decision(back.objects, cluster) == decision(objects, cluster)


@pytest.mark.parametrize("way", WRITTEN, ids=str)
@pytest.mark.parametrize("to", TARGETS, ids=str)
def test_a_gang_is_written_in_the_dialect_that_is_asked_for(way: Written, to: Dialect) -> None:
    count = 1 if way.dialect is groups.POD else 2
    objects = way.objects(Demand(pods=(Pods(count, 3),), minimum=count, queue="q")) or []
    found = converted(objects, to).objects
    rows = {groups.row_of(each) for each in found} - {groups.POD}
    if way.by.startswith("described") and to is groups.DESCRIBED:
        assert found == objects
    elif way.dialect is groups.JOB:
        assert rows == {groups.JOB, to} - {groups.JOBSET}
    elif way.dialect is groups.JOBSET:
        assert rows == {groups.JOBSET, to}
    elif way.dialect is not groups.POD:
        assert rows == {to}
    named = [groups.named_in(each) for each in found if each["kind"] == "Pod"]
    if way.dialect is groups.POD:
        assert found == objects
    else:
        assert all(each is not None and each[:2] == (to.naming, NAME) for each in named)


def test_each_row_is_a_target_or_says_why_not() -> None:
    assert ADVICE.keys() == {*COMPARED} - {"refusal"}
    assert {*TARGETS, *_NO_TARGETS} == {*groups.TABLE}
    assert [str(row) for row in TARGETS] == [each.value for each in Named]


def group(row: Dialect, spec: Object, **metadata: Any) -> Object:  # Any: JSON
    kind = row.kind
    meta = {"name": NAME, **metadata}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("row", "spec", "to", "lost"),
    [
        (groups.KOORDINATOR, {"minMember": 2, "scheduleTimeoutSeconds": 30}, groups.VOLCANO, "no such field"),
        (groups.KOORDINATOR, {"minMember": 2, "scheduleTimeoutSeconds": 30}, groups.POD_GROUP, ""),
        (groups.VOLCANO, {"minMember": 2, "minResources": {"cpu": "4"}}, groups.KOORDINATOR, ""),
        (groups.VOLCANO, {"minMember": 2, "minResources": {"cpu": "4"}}, groups.NATIVE, "spec.minResources"),
        (
            groups.VOLCANO,
            {"minMember": 3, "minTaskMember": {"a": 1}},
            groups.NATIVE,
            "PodGroup for each task",
        ),
        (
            groups.VOLCANO,
            {"minMember": 2, "minTaskMember": {"a": 1, "b": 1}},
            *(groups.NATIVE, "spec.minTaskMember: is lost"),
        ),
        (groups.VOLCANO, {"minMember": 2, "networkTopology": {}}, groups.NATIVE, "needs HyperNodes"),
        (groups.VOLCANO, {"minMember": 2, "newer": 1}, groups.NATIVE, "spec.newer: is lost"),
        (
            groups.NATIVE,
            {"schedulingPolicy": {"gang": {"minCount": 2}}, "preemptionPolicy": "Never"},
            *(groups.VOLCANO, "spec.preemptionPolicy: is lost"),
        ),
        (
            groups.NATIVE,
            {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}},
            *(groups.KOORDINATOR, "spec.disruptionMode: is lost"),
        ),
        (
            groups.NATIVE,
            {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": -7},
            *(groups.KOORDINATOR, ""),
        ),
    ],
)
def test_what_cannot_be_said_is_reported_at_its_field(
    row: Dialect, spec: Object, to: Dialect, lost: str
) -> None:
    found = converted([group(row, spec)], to)
    assert [lost in each for each in losses(found)] == ([True] if lost else [])
    assert all(
        each.startswith("f.yaml:") and each.split(": ")[1].startswith("spec") for each in losses(found)
    )


def describing(name: str, **said: str) -> Object:
    """A pod that describes its gang, by keys of Koordinator."""
    own = {"name": NAME, "min-available": "2"} | {key.replace("_", "-"): text for key, text in said.items()}
    annotations = {f"gang.scheduling.koordinator.sh/{key}": text for key, text in own.items() if text}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


@pytest.mark.parametrize("said", [{"min_available": "3"}, {"mode": "Strict"}, {"groups": '["default/g"]'}])
@pytest.mark.parametrize("to", [groups.VOLCANO, groups.NATIVE, groups.JOBSET], ids=str)
def test_pods_that_describe_their_gang_differently_are_refused(said: dict[str, str], to: Dialect) -> None:
    with pytest.raises(JobFileError) as error:
        converted([describing("a"), describing("b"), describing("c", **said)], to)
    [told] = error.value.findings
    assert "write the same on all" in str(told)


def test_a_pod_need_not_repeat_how_many_must_run_together() -> None:
    pods = [describing("a"), describing("b", min_available="")]
    assert converted(pods, groups.VOLCANO).objects[0]["spec"] == {"minMember": 2}


@pytest.mark.parametrize("to", TARGETS, ids=str)
def test_what_only_muster_obeys_is_told(to: Dialect) -> None:
    """A held job would start."""
    said = {"hold": "true", "priority": "7", "exclusive": "node", "checkpoint": "30m", "submitted-from": "x"}
    marks = {f"muster.dev/{key}": text for key, text in said.items()}
    job = native_job({})
    del job["spec"]["scheduling"]
    job["metadata"]["annotations"] = {**marks, "muster.dev/gang": "true"}
    found = converted([job], to)
    notes = [str(each) for each in found.findings if each.severity is Severity.NOTE]
    told = f"the scheduler of {to} does not read it; muster does"
    expected = [] if to is groups.JOBSET else sorted(key for key in marks if "submitted" not in key)
    assert sorted(each.split(": ")[1].removeprefix("metadata.annotations.") for each in notes) == expected
    assert all(each.endswith(told) for each in notes)
    assert losses(found) == []


@pytest.mark.parametrize("to", TARGETS, ids=str)
def test_the_queue_of_pods_is_told_where_only_muster_reads_it(to: Dialect) -> None:
    """Volcano would run them in its default queue."""
    pods = [describing("a"), describing("b")]
    for each in pods:
        each["metadata"]["labels"] = {"quota.scheduling.koordinator.sh/name": "research"}
    notes = [str(each) for each in converted(pods, to).findings if each.severity is Severity.NOTE]
    if to in (groups.JOBSET, groups.KOORDINATOR):
        assert notes == []
    else:
        [told] = notes
        assert "metadata.labels.quota.scheduling.koordinator.sh/name: the scheduler of" in told


def test_all_else_passes_as_it_is() -> None:
    """Other objects, in their order, and all of an object that makes no gang."""
    apart: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c"},
            "data": {"a": "1.10", "b": "no"},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {"replicas": None},
        },
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "alone"}, "spec": {"template": {}}},
        {
            "apiVersion": "example.org/v1",
            "kind": "PodGroup",
            "metadata": {"name": "p"},
            "spec": {"x": [1, {}]},
        },
    ]
    members = WRITTEN[0].objects(Demand(pods=(Pods(2),), minimum=2)) or []
    found = converted([*apart[:2], *members, *apart[2:]], groups.VOLCANO)
    assert [*found.objects[:2], *found.objects[-2:]] == apart
    told = [str(each) for each in found.findings]
    assert [each.partition(": ")[2] for each in told] == [
        "Deployment d: not read, passed as written",
        "PodGroup p: not read, passed as written",
    ]
    many = converted([apart[1]] * 3, groups.VOLCANO)
    assert [str(each) for each in many.findings] == [
        "f.yaml:1: Deployment d, and 2 more of apps/v1 Deployment: not read, passed as written"
    ]


def test_templates_of_kinds_that_are_not_read_name_the_gang_as_well() -> None:
    template: Object = {
        "metadata": {"labels": {"scheduling.x-k8s.io/pod-group": NAME, "app": "x"}},
        "spec": {"containers": [{"name": "c"}]},
    }
    operated = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "spec": {"specs": {"w": {"template": template}}},
    }
    found = converted([group(groups.POD_GROUP, {"minMember": 2}), operated], groups.VOLCANO, "volcano")
    made = found.objects[1]["spec"]["specs"]["w"]["template"]
    assert made["metadata"] == {
        "labels": {"app": "x"},
        "annotations": {"scheduling.k8s.io/group-name": NAME},
    }
    assert made["spec"]["schedulerName"] == "volcano"


def test_a_group_that_makes_no_gang_goes() -> None:
    """Kubernetes' policy *basic*: its pods start alone."""
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    member = {**pod, "spec": {**pod["spec"], "schedulingGroup": {"podGroupName": NAME}}}
    basic = group(groups.NATIVE, {"schedulingPolicy": {"basic": {}}})
    assert converted([basic, member], groups.VOLCANO).objects == [pod]


def test_a_jobset_that_starts_in_stages_is_a_gang_for_each_and_back() -> None:
    job: Object = {"template": {"spec": {"template": {"spec": {"containers": [], "restartPolicy": "Never"}}}}}
    staged: Object = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s", "labels": {"muster.dev/gang": "true"}},
        "spec": {
            "replicatedJobs": [{"name": "a", **job}, {"name": "b", "replicas": 3, **job}],
            "startupPolicy": {"startupPolicyOrder": "InOrder"},
        },
    }
    there = converted([staged], groups.KOORDINATOR)
    assert [(each["metadata"]["name"], each["spec"].get("minMember")) for each in there.objects] == [
        *(("s-a", 1), ("s-b", 3), ("s", None))
    ]
    back = converted(there.objects, groups.JOBSET, "muster")
    assert back.objects == converted([staged], groups.JOBSET, "muster").objects


@pytest.mark.parametrize(
    ("metadata", "of_pods", "to", "said"),
    [
        ({}, {}, groups.KOORDINATOR, "a rule"),
        ({}, {}, groups.NATIVE, "a key"),
        ({GROUPS: '["default/g", "default/h"]'}, {}, groups.KOORDINATOR, "lost"),
        ({}, {TOPOLOGY_SPEC: RULE}, groups.KOORDINATOR, "lost"),
        ({TOPOLOGY_SPEC: RULE.replace(LAYER, "ClusterTopologyLayer")}, {}, groups.KOORDINATOR, "lost"),
    ],
)
def test_a_node_label_of_a_group_is_a_rule_of_its_layer(
    metadata: Object, of_pods: Object, to: Dialect, said: str
) -> None:
    """Unless that would say something of other pods, or take the place of what is said already."""
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": of_pods},
        "spec": {"containers": [], "schedulingGroup": {"podGroupName": NAME}},
    }
    found = converted([TOPOLOGY, group(groups.NATIVE, spec, annotations=metadata), pod], to)
    made = found.objects[1]
    assert (made["metadata"].get("annotations", {}).get(TOPOLOGY_SPEC) == RULE) is (said == "a rule")
    assert ("schedulingConstraints" in made["spec"]) is (said == "a key")
    assert ["schedulingConstraints: is lost" in each for each in losses(found)] == [True] * (said == "lost")


@pytest.mark.parametrize(
    ("rule", "topology"),
    [
        (RULE.replace("Must", "Prefer"), TOPOLOGY),
        (RULE.replace('"}]', '","podCountMultiple":2}]'), TOPOLOGY),
        (RULE.replace(LAYER, "Other"), TOPOLOGY),
        ("{", TOPOLOGY),
        (RULE, {**TOPOLOGY, "metadata": {"name": "other"}}),
        (
            RULE,
            {
                **TOPOLOGY,
                "spec": {"networkTopologySpec": [{"topologyLayer": LAYER, "labelKey": ["a", RACK]}]},
            },
        ),
        (RULE, {**TOPOLOGY, "spec": {"networkTopologySpec": [{"topologyLayer": LAYER}]}}),
    ],
)
def test_a_rule_that_no_node_label_says_stays_a_rule(rule: str, topology: Object) -> None:
    before = group(groups.KOORDINATOR, {"minMember": 2}, annotations={TOPOLOGY_SPEC: rule})
    made = converted([topology, before], groups.NATIVE).objects[1]
    assert made["metadata"]["annotations"] == {TOPOLOGY_SPEC: rule}
    assert "schedulingConstraints" not in made["spec"]


def test_objects_that_the_other_scheduler_does_not_read_are_told() -> None:
    """Its queues, and the topology: a queue that nothing reads bounds nothing."""
    kinds_there = {
        "Queue": ("scheduling.volcano.sh/v1beta1", groups.VOLCANO),
        "ElasticQuota": ("scheduling.sigs.k8s.io/v1alpha1", groups.KOORDINATOR),
        "ClusterNetworkTopology": ("scheduling.koordinator.sh/v1alpha1", groups.KOORDINATOR),
        "Workload": ("scheduling.k8s.io/v1beta1", groups.NATIVE),
    }
    objects = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": {}}
        for kind, (version, _) in kinds_there.items()
        for name in ("default", "other")
    ]
    for to in TARGETS:
        told = [str(each) for each in converted(objects, to).findings]
        unread = (
            [] if to is groups.JOBSET else [k for k, (_, row) in kinds_there.items() if row is not to.naming]
        )
        assert [each.split(": ")[1].split(" ")[0] for each in told] == unread
        assert all(each.endswith(f"the scheduler of {to} does not read it; muster does") for each in told)


def test_the_marks_of_a_job_of_a_group_are_told_where_only_muster_reads_them() -> None:
    """Muster copies them to the group."""
    job = native_job({})
    del job["spec"]["scheduling"]
    job["metadata"]["labels"] = {"muster.dev/queue": "q"}
    job["spec"]["template"]["metadata"] = {"labels": {"scheduling.x-k8s.io/pod-group": NAME}}
    for to in TARGETS:
        told = [
            str(each) for each in converted([group(groups.POD_GROUP, {"minMember": 4}), job], to).findings
        ]
        assert ["metadata.labels.muster.dev/queue: the scheduler" in each for each in told] == (
            [] if to in (groups.JOBSET, groups.POD_GROUP) else [True]
        )


def test_gangs_that_a_kind_will_make_are_lost() -> None:
    template = native_job({})
    del template["spec"]["scheduling"]
    template["metadata"] = {"labels": {"muster.dev/gang": "true"}}
    spec = {"schedule": "* * * * *", "jobTemplate": {key: template[key] for key in ("metadata", "spec")}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}
    for to in TARGETS:
        found = converted([cron], to)
        assert found.objects == [cron]
        assert ["spec.jobTemplate.metadata: is lost" in each for each in losses(found)] == (
            [] if to is groups.JOBSET else [True]
        )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"labels": {"muster.dev/queue": "q"}}),
        ({"labels": {"muster.dev/queue": "q"}}, {"labels": {"muster.dev/queue": "r"}}),
        ({}, None),
    ],
)
def test_stages_that_ask_for_different_things_stay_groups(first: Object, second: Object | None) -> None:
    """A JobSet has one queue; None: the group of the second stage is not in the file."""
    both = [("a", first), ("b", second)]
    made = [
        group(groups.POD_GROUP, {"minMember": 1}, **more, name=name)
        for name, more in both
        if more is not None
    ]
    stages = [
        {
            "name": name,
            "template": {
                "spec": {
                    "template": {
                        "metadata": {"labels": {"scheduling.x-k8s.io/pod-group": name}},
                        "spec": {"containers": [], "restartPolicy": "Never"},
                    }
                }
            },
        }
        for name, _ in both
    ]
    jobset: Object = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s"},
        "spec": {"replicatedJobs": stages, "startupPolicy": {"startupPolicyOrder": "InOrder"}},
    }
    found = converted([*made, jobset], groups.JOBSET)
    assert found.objects == [*made, jobset]
    assert ["starts in stages" in each for each in losses(found)] == [True] * len(made)


def native_job(gang: Object, **rules: Any) -> Object:  # Any: JSON
    template: Object = {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}}
    scheduling = {"schedulingPolicy": {"gang": gang}, **rules}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME},
        "spec": {
            "parallelism": 4,
            "completions": 4,
            "completionMode": "Indexed",
            "scheduling": scheduling,
            "template": template,
        },
    }


@pytest.mark.parametrize(("gang", "minimum"), [({}, 4), ({"minCount": 4}, 4), ({"minCount": 2}, 2)])
@pytest.mark.parametrize("to", TARGETS, ids=str)
def test_a_job_of_which_kubernetes_makes_a_gang_keeps_its_minimum(
    gang: Object, minimum: int, to: Dialect
) -> None:
    before = native_job(gang)
    found = converted([before], to)
    if to is groups.NATIVE:
        assert (found.objects, losses(found)) == ([before], [])
    elif to is groups.JOBSET:
        [job] = found.objects
        assert (job["metadata"]["labels"], "scheduling" in job["spec"]) == (
            {"muster.dev/gang": "true"},
            False,
        )
        said = "is lost: a gang of a JobSet starts whole, and these are 4 pods"
        told = f"f.yaml:12: spec.scheduling.schedulingPolicy.gang.minCount: {said}"
        assert losses(found) == [told] * (minimum < 4)
    else:
        made, _ = found.objects
        assert (to.read(made).minimum, losses(found)) == (minimum, [])


def test_a_job_that_never_starts_stays_one() -> None:
    job = native_job({"minCount": 3})
    job["spec"]["completions"] = 2
    found = converted([job], groups.JOBSET)
    assert found.objects == [job]
    assert "Job g stays as it is: it needs 3 pods, of which 2" in losses(found)[0]


def test_the_priority_of_a_job_of_which_kubernetes_makes_a_gang_becomes_a_mark() -> None:
    [job] = converted([native_job({}, priorityClassName="high")], groups.JOBSET).objects
    assert job["metadata"]["annotations"] == {"muster.dev/priority": "high"}


@pytest.mark.parametrize("wrong", ["x", 0, -1, 5, 2**40, [2], {}, 2.5])
@pytest.mark.parametrize("to", [groups.VOLCANO, groups.JOBSET], ids=str)
def test_a_minimum_of_a_job_that_an_api_server_refuses_is_an_error(wrong: Any, to: Dialect) -> None:
    with pytest.raises(JobFileError, match=r"spec\.scheduling\.schedulingPolicy\.gang\.minCount: "):
        converted([native_job({"minCount": wrong})], to)


def test_a_job_of_volcano_is_compiled_unless_it_is_to_be_volcanos() -> None:
    """With fewer than all of its pods as the minimum it has a PodGroup, which is then converted."""
    template: Object = {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}}
    tasks = [
        {"name": "a", "replicas": 1, "template": template},
        {"name": "b", "replicas": 3, "template": template},
    ]
    job: Object = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"minAvailable": 4, "queue": "q", "tasks": tasks},
    }
    assert converted([job], groups.VOLCANO).objects == [job]
    [jobset] = converted([job], groups.JOBSET).objects
    assert jobset["metadata"]["labels"] == {"muster.dev/queue": "q", "muster.dev/gang": "true"}
    group, _ = converted([job], groups.KOORDINATOR).objects
    assert (group["metadata"], group["spec"]) == (
        {"name": "j", "labels": {"muster.dev/queue": "q"}},
        {"minMember": 4},
    )
    job["spec"]["minAvailable"] = 3
    assert [each["kind"] for each in converted([job], groups.NATIVE).objects] == ["PodGroup", "JobSet"]
    assert "starts whole" in losses(converted([job], groups.JOBSET))[-1]


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"owner": "several"}, "belong to several objects"),
        ({"owner": "some"}, "not all pods of JobSet s are in this gang"),
        ({"owner": "other"}, "belong to Deployment d"),
        ({"owner": "none"}, "are not in this file"),
    ],
)
def test_a_group_that_is_no_jobset_stays_and_is_reported(spec: Object, kept: str) -> None:
    def template(*, named: bool) -> Object:
        labels = {"scheduling.x-k8s.io/pod-group": NAME} if named else {"app": "x"}
        return {"metadata": {"labels": labels}, "spec": {"containers": [], "restartPolicy": "Never"}}

    def job(name: str) -> Object:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"template": template(named=True)},
        }

    every = [
        {"name": str(named).lower(), "template": {"spec": {"template": template(named=named)}}}
        for named in (True, False)
    ]
    owners: dict[str, list[Object]] = {
        "several": [job("a"), job("b")],
        "some": [
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": "s"},
                "spec": {"replicatedJobs": every},
            }
        ],
        "other": [
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "d"},
                "spec": {"template": template(named=True)},
            }
        ],
        "none": [],
    }
    objects = [group(groups.POD_GROUP, {"minMember": 1}), *owners[spec["owner"]]]
    found = converted(objects, groups.JOBSET)
    assert found.objects == objects
    assert len(losses(found)) == 1
    assert kept in losses(found)[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("{", "f.yaml:"),
        ("- 1", "is not a job file"),
        ("kind: [", "f.yaml:"),
        ("a" * (9 * 2**20), "is larger than a job file may be"),
        (
            f"{_GROUP}metadata: {{}}",
            "metadata.name: is missing",
        ),
        (
            f"{_GROUP}metadata: {{name: g}}\nspec: {{minMember: x}}",
            "f.yaml:4: spec.minMember: takes a whole number, not text",
        ),
        (
            f"{_JOBSET}metadata: {{name: s}}\nspec: {{replicatedJobs: [{{name: a}}]}}",
            "each of its jobs needs a spec",
        ),
        (
            f"{_POD}metadata: {{name: p, labels: {{gang.scheduling.koordinator.sh/name: g}}}}",
            "min-available is ''",
        ),
        ("---\n".join(["kind: X\napiVersion: v1\nm: {n: [1, 2]}\n"] * 100_000), "more than 500,000 keys"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_a_file_that_cannot_be_converted_is_refused(text: str, told: str) -> None:
    with pytest.raises(JobFileError, match=r"f\.yaml") as error:
        convert(text, "f.yaml", groups.VOLCANO)
    assert told in str(error.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "g", "PodGroup", "x"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["metadata", "spec", "labels", "annotations", "name", "template", "containers"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from([*(row.kind for row in groups.TABLE), None]),
    st.sampled_from(TARGETS),
)
@settings(max_examples=examples(400))
def test_any_values_are_converted_or_refused_by_field(
    value: Any, kind: Any, to: Dialect
) -> None:  # Any: JSON
    obj = value if isinstance(value, dict) else {"spec": value}
    named = (
        {"apiVersion": kind.api_version, "kind": kind.kind} if kind else {"apiVersion": "a/v1", "kind": "X"}
    )
    try:
        found = converted([{**obj, **named}], to)
    except JobFileError as error:
        told = [each.file for each in error.findings]
    else:
        told = [each.file for each in found.findings] or ["f.yaml"]
    assert {*told} == {"f.yaml"}
