"""Pods of a Job or JobSet that differ from its template: the places are what the pods themselves ask for."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from muster.api import groups
from muster.api.base import Object, Resource
from muster.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from muster.api.jobset_v1alpha2 import REPLICATED_JOB_NAME
from muster.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from muster.core.words.gang import Code, Gang, Place, Shape
from muster.translate.dialects import Reader
from muster.translate.group import Touched
from muster.translate.identity import GroupKey
from muster.translate.job import MOST_WAYS
from tests.translate.cluster import job, jobset, native_group, pod, pod_spec, read, world

JOB, JOBSET = GroupKey(groups.JOB, "ns", "j"), GroupKey(groups.JOBSET, "ns", "s")
PLAIN = pod_spec()
IN_A, IN_B = pod_spec(nodeSelector={"zone": "a"}), pod_spec(nodeSelector={"zone": "b"})
ADDED = [
    {
        "key": f"node.kubernetes.io/{state}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for state in ("not-ready", "unreachable")
]

VOLUME = msgspec.convert(
    {
        "metadata": {"name": "v"},
        "spec": {
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
    },
    PersistentVolume,
)
CLAIM = msgspec.convert(
    {"metadata": {"name": "c", "namespace": "ns"}, "spec": {"volumeName": "v"}}, PersistentVolumeClaim
)


def the_gang(
    key: GroupKey,
    template: Object,
    pods: Sequence[Object],
    places: int = 0,
    others: Sequence[Resource] = (),
    **fields: Any,
) -> Gang:
    """Of a Job or JobSet with these pods and as many places, or more. Any: what `pod` takes."""
    size = places or len(pods)
    objects: list[Resource] = [*others]
    if key is JOBSET:
        one = {"parallelism": size, "completions": size, "template": {"spec": template}}
        parent = jobset(jobs={"w": one})
        made = job(
            "s-w-0", owner=parent, parallelism=size, completions=size, labels={REPLICATED_JOB_NAME: "w"}
        )
        objects.append(parent)
    else:
        made = job(gang="true", parallelism=size, completions=size, template={"spec": template})
    objects.append(made)
    objects += [pod(f"p-{i}", owner=made, spec=spec, **fields) for i, spec in enumerate(pods)]
    group = read(key, world(*objects))
    assert group is not None
    return group.gang


def wanted(gang: Gang) -> Shape:
    (pod_set,) = gang.pod_sets
    return pod_set.shape


CASES: dict[str, tuple[Object, list[Object], int, Object]] = {
    "pods of an earlier template": (IN_A, [IN_B, IN_B], 2, IN_B),
    "admission has added a selector": (PLAIN, [IN_A, IN_A], 2, IN_A),
    "admission has added a container": (PLAIN, [pod_spec(3)] * 2, 2, pod_spec(3)),
    "their template asks for more": (pod_spec(3), [PLAIN] * 2, 2, PLAIN),
    "admission has added a toleration": (
        PLAIN,
        [pod_spec(tolerations=[{"key": "gpu", "operator": "Exists"}])],
        1,
        pod_spec(tolerations=[{"key": "gpu", "operator": "Exists"}]),
    ),
    "what every pod gets": (PLAIN, [pod_spec(tolerations=ADDED)] * 2, 2, PLAIN),
    "a place without a pod is as the template": (
        IN_A,
        [pod_spec(2)],
        2,
        pod_spec(2, nodeSelector={"zone": "a"}),
    ),
    "pods that differ": (
        PLAIN,
        [pod_spec(3), pod_spec(nodeSelector={"zone": "a"})],
        2,
        pod_spec(3, nodeSelector={"zone": "a"}),
    ),
    "no pod": (IN_A, [], 2, IN_A),
}


@pytest.mark.parametrize("key", [JOB, JOBSET])
@pytest.mark.parametrize(("template", "pods", "places", "expected"), CASES.values(), ids=CASES)
def test_the_places_are_as_the_pods(
    key: GroupKey, template: Object, pods: list[Object], places: int, expected: Object
) -> None:
    assert wanted(the_gang(key, template, pods, places)) == wanted(the_gang(key, expected, [], places))


@pytest.mark.parametrize("fields", [{"node": "n"}, {"deleting": True}, {"phase": "Succeeded"}])
def test_a_pod_that_waits_for_no_node_asks_for_none(fields: dict[str, Any]) -> None:
    assert wanted(the_gang(JOB, IN_A, [IN_B], **fields)) == wanted(the_gang(JOB, IN_A, [], 1))


@pytest.mark.parametrize("key", [JOB, JOBSET])
def test_what_pods_need_and_is_not_supported_is_refused(key: GroupKey) -> None:
    gate = the_gang(key, PLAIN, [PLAIN, pod_spec(resourceClaims=[{"name": "x"}])]).gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert "resourceClaims" in gate.message


def test_pods_that_differ_in_too_many_ways_are_refused() -> None:
    def ways(number: int) -> Gang:
        return the_gang(JOB, PLAIN, [pod_spec(i + 1) for i in range(number)])

    assert ways(MOST_WAYS).gate is None
    gate = ways(MOST_WAYS + 1).gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert gate.message.startswith(f"the pods of main differ from their template in {MOST_WAYS + 1} ways")


def test_a_pod_that_is_bound_or_gone_asks_for_nothing_more() -> None:
    made = job(gang="true", parallelism=2, completions=2)
    waiting = [pod(f"p-{i}", owner=made, spec=IN_A) for i in range(2)]
    there = world(made, *waiting)
    reader = Reader(JOB, there)

    def now(*changed: Pod | None) -> Shape:
        touched = Touched()
        for old, new in zip(waiting, changed, strict=False):
            touched.add(POD, old, new)
            if new is not None:
                there.put(POD, new)
            else:
                there.drop(POD, "ns", old.metadata.name)
        group, _ = reader.read(touched)
        assert group is not None
        return wanted(group.gang)

    bound = [pod(f"p-{i}", owner=made, spec=IN_A, node="n", plan=str(Place("main", i))) for i in range(2)]
    assert now().selector == (("zone", "a"),)
    assert now(bound[0]).selector == (("zone", "a"),)
    assert now(*bound).selector == ()
    assert now(*waiting).selector == (("zone", "a"),)
    assert now(None, None).selector == ()


def test_what_a_waiting_pod_refers_to_is_read_again_when_it_changes() -> None:
    """The template is: if its pods were not, each would differ from it."""
    uses = pod_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    made = job(gang="true", parallelism=1, completions=1, template={"spec": uses})
    there = world(made, pod("p-0", owner=made, spec=uses))
    reader = Reader(JOB, there)
    group, _ = reader.read(Touched())
    assert group is not None
    assert group.gang.gate is not None, "there is no claim"
    there.put(PERSISTENT_VOLUME, VOLUME)
    there.put(PERSISTENT_VOLUME_CLAIM, CLAIM)
    touched = Touched()
    touched.add(PERSISTENT_VOLUME_CLAIM, None, CLAIM)
    group, _ = reader.read(touched)
    assert group is not None
    assert group.gang.gate is None
    assert wanted(group.gang).volumes


@pytest.mark.parametrize("key", [JOB, JOBSET])
def test_the_native_group_that_the_job_controller_adds_refuses_no_gang(key: GroupKey) -> None:
    """As its alpha feature does for every Job of several pods (Kubernetes 1.37)."""
    grouped = pod_spec(schedulingGroup={"podGroupName": "j-pgt-0"})
    gang = the_gang(key, PLAIN, [grouped, grouped], others=[native_group("j-pgt-0")])
    assert gang.gate is None
    assert [(each.shape, each.count) for each in gang.pod_sets] == [
        (each.shape, each.count) for each in the_gang(key, PLAIN, [PLAIN, PLAIN]).pod_sets
    ]
    written = the_gang(key, grouped, [grouped, grouped]).gate
    assert written is not None
    assert "name the PodGroup j-pgt-0" in written.message
