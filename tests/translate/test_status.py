"""Gang records, their status, and the condition of a pod that waits."""

from datetime import timedelta

import msgspec

from muster import names
from muster.api import groups
from muster.api.base import Object, is_true
from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.api.muster_v1alpha1 import Gang
from muster.core.words.decisions import ExpectedStart, Explanation, PodSetExplanation, Remedy
from muster.core.words.gang import Code, GangId
from muster.translate.disclosure import Disclosure
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.status import (
    LONGEST_MESSAGE,
    MOST_LIMITS,
    MOST_LISTED,
    MOST_POD_SETS,
    Phase,
    gang_record,
    gang_spec,
    gang_status,
    unschedulable,
)
from tests.translate.cluster import START, grouped, job, jobset, pod, pod_group, pod_spec, read, world

HIDDEN = Disclosure()


def the_gang(key: GroupKey, *objects: object) -> Group:
    group = read(key, world(*objects))  # type: ignore[arg-type]  # objects of any kind
    assert group is not None
    return group


def key(dialect: Dialect, name: str) -> GroupKey:
    return GroupKey(dialect, "ns", name)


A_GROUP = the_gang(key(groups.JOB, "j"), job("j", gang="true"))


def test_the_record_of_a_jobset() -> None:
    group = the_gang(key(groups.JOBSET, "s"), jobset(jobs={"w": {"replicas": 3}}))
    body = gang_record(group)
    assert body["metadata"] == {
        "name": "jobset-s",
        "namespace": "ns",
        "finalizers": [names.GANG_FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "name": "s",
                "uid": "uid-s",
                "controller": False,
                "blockOwnerDeletion": False,
            }
        ],
    }
    record = msgspec.convert(body, Gang)
    assert (record.spec.queue, record.spec.min_count, record.spec.source) == ("default", 3, group.source)
    assert [(one.name, one.group, one.count, one.min_count) for one in record.spec.pod_sets] == [
        ("w", "s", 3, 3)
    ]


def test_a_group_without_an_object_is_owned_by_the_pods_common_controller() -> None:
    group_key = key(groups.POD_GROUP, "g")

    def owners(*pods: Pod) -> list[Object] | None:
        found: list[Object] | None = gang_record(the_gang(group_key, *pods))["metadata"].get(
            "ownerReferences"
        )
        return found

    same = owners(grouped("a", owner=job()), grouped("b", owner=job()))
    assert same is not None
    assert [(one["kind"], one["uid"]) for one in same] == [("Job", "uid-j")]
    assert owners(grouped("a", owner=job()), grouped("b")) is None
    assert owners(grouped("a")) is None


def test_a_record_has_a_bounded_number_of_pod_sets() -> None:
    pods = [grouped(f"p{cpu}", spec=pod_spec(cpu)) for cpu in range(1, MOST_POD_SETS + 10)]
    group = the_gang(key(groups.POD_GROUP, "g"), pod_group(), *pods)
    assert len(gang_spec(group)["podSets"]) == MOST_POD_SETS


EXPLANATION = Explanation(
    Code.FRAGMENTED,
    "place",
    "16 GPUs asked",
    pod_sets=(PodSetExplanation("w", 4, 3, {"nvidia.com/gpu": 2, "cpu": 1}),),
    blockers=(GangId("ns/other"),),
    remedies=(Remedy("2 GPUs less", "starts now"),),
    expected_start=ExpectedStart(START.timestamp(), "ns/other ends"),
)


def test_phases_of_earlier_versions_are_read() -> None:
    assert [Phase.of(phase.value) for phase in Phase] == [*Phase]
    assert Phase.of("Held") is Phase.NOMINATED
    assert Phase.of("") is Phase.of("Hold") is None


def test_status_tells_the_reason_and_the_whole_explanation() -> None:
    assert gang_status(A_GROUP, HIDDEN, Phase.WAITING, EXPLANATION, epoch=3, attempt=2) == {
        "status": {
            "phase": "Waiting",
            "reason": {"code": "Fragmented", "message": "16 GPUs asked"},
            "explanation": {
                "code": "Fragmented",
                "stage": "place",
                "message": "16 GPUs asked",
                "podSets": [
                    {"name": "w", "wanted": 4, "fits": 3, "limitedBy": {"cpu": 1, "nvidia.com/gpu": 2}}
                ],
                "blockers": ["ns/other"],
                "remedies": [{"change": "2 GPUs less", "effect": "starts now"}],
                "expectedStart": {"at": "2026-01-01T00:00:00Z", "basis": "ns/other ends"},
            },
            "expectedStart": "2026-01-01T00:00:00Z",
            "epoch": 3,
            "attempt": 2,
            "warnings": None,
        }
    }


def test_status_without_an_explanation_takes_the_old_one_away_and_nothing_else() -> None:
    nothing: Object = {"reason": None, "explanation": None, "expectedStart": None, "warnings": None}
    assert gang_status(A_GROUP, HIDDEN, Phase.STANDING) == {"status": {"phase": "Standing", **nothing}}


def test_status_is_bounded() -> None:
    huge = Explanation(
        Code.FRAGMENTED,
        "place",
        "x" * 10_000,
        pod_sets=tuple(
            PodSetExplanation(str(one), 1, 0, {str(limit): 1 for limit in range(100)}) for one in range(1000)
        ),
        blockers=tuple(GangId(f"ns/{one}") for one in range(1000)),
        remedies=tuple(Remedy("y" * 5000, "z" * 5000) for _ in range(1000)),
    )
    shown = gang_status(A_GROUP, HIDDEN, Phase.WAITING, huge)["status"]["explanation"]
    assert len(shown["message"]) == LONGEST_MESSAGE
    assert shown["message"].endswith("…")
    assert len(shown["podSets"]) == len(shown["blockers"]) == len(shown["remedies"]) == MOST_LISTED
    assert len(shown["podSets"][0]["limitedBy"]) == MOST_LIMITS
    assert len(shown["remedies"][0]["change"]) == LONGEST_MESSAGE


def applied(one: Pod, patch: Object) -> Pod:
    status = msgspec.to_builtins(one.status) | patch["status"]
    return msgspec.convert(msgspec.to_builtins(one) | {"status": status}, Pod)


def test_a_pod_that_waits_says_why() -> None:
    one = pod(conditions=[{"type": "Other", "status": "True"}])
    patch = unschedulable(one, EXPLANATION, HIDDEN, START)
    assert patch is not None
    assert patch["metadata"] == {"uid": "uid-a", "resourceVersion": "1"}
    after = applied(one, patch)
    assert is_true(after.status.conditions, "Other")
    told = after.status.conditions[-1]
    assert (told.type, told.status, told.reason, told.message) == (
        "PodScheduled",
        "False",
        "Unschedulable",
        "Fragmented: 16 GPUs asked",
    )
    assert told.last_transition_time == START
    assert unschedulable(after, EXPLANATION, HIDDEN, START + timedelta(hours=1)) is None, "it says so already"


def test_the_time_of_the_condition_is_that_of_its_status() -> None:
    first = unschedulable(pod(), EXPLANATION, HIDDEN, START)
    assert first is not None
    other = Explanation(Code.INSUFFICIENT_CAPACITY, "place", "more")
    second = unschedulable(applied(pod(), first), other, HIDDEN, START + timedelta(hours=1))
    assert second is not None
    assert applied(pod(), second).status.conditions[0].last_transition_time == START


def test_a_gated_pod_says_so_in_kubernetes_words() -> None:
    gated = pod(spec=pod_spec(schedulingGates=[{"name": "x/y"}]))
    patch = unschedulable(gated, Explanation(Code.GATED, "gate", "scheduling gate x/y"), HIDDEN, START)
    assert patch is not None
    assert patch["status"]["conditions"][0]["reason"] == "SchedulingGated"
