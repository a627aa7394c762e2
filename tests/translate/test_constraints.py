"""Ports, affinity, spread and volumes, from objects to the core's words; and what makes groups read again."""

from typing import Any

import msgspec
import pytest

from muster.api import groups
from muster.api.base import Object, Resource
from muster.api.core_v1 import Namespace, PersistentVolume, PersistentVolumeClaim
from muster.api.kinds import NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from muster.api.storage_v1 import StorageClass
from muster.core.words.gang import (
    Code,
    HostPort,
    NodeTerm,
    Operator,
    PodTerm,
    Requirement,
    Shape,
    Spread,
    Toleration,
)
from muster.translate import touched
from muster.translate.claims import claims_of
from muster.translate.identity import GroupKey
from muster.translate.podgroup.pod_sets import pod_set_name
from muster.translate.pods import asked, pod_bound
from muster.translate.touched import keys_touched
from muster.translate.world import World
from tests.translate.cluster import job as job_of
from tests.translate.cluster import jobset as jobset_of
from tests.translate.cluster import pod, pod_group, pod_spec, read, template, world

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
APP = {"matchLabels": {"app": "a"}}
IS_A = (Requirement("app", Operator.IN, ("a",)),)


def term(**fields: Any) -> Object:
    return {"topologyKey": "zone", "labelSelector": APP, **fields}


def near(**fields: Any) -> Object:
    return pod_spec(affinity={"podAffinity": {REQUIRED: [term(**fields)]}})


def apart(**fields: Any) -> Object:
    return pod_spec(affinity={"podAntiAffinity": {REQUIRED: [term(**fields)]}})


def spread(**fields: Any) -> Object:
    return pod_spec(topologySpreadConstraints=[{"topologyKey": "zone", "maxSkew": 1, **fields}])


def ports(*found: Object, **fields: Any) -> Object:
    return pod_spec() | {"containers": [{"name": "c", "ports": list(found)}], **fields}


def shape(spec: Object, *objects: Resource, labels: dict[str, str] | None = None) -> Shape:
    one = pod(spec=spec, labels=labels)
    found = asked(one, world(*objects, one))
    assert found.refusal is None
    return found.shape


def test_host_ports() -> None:
    given = ports({"containerPort": 80, "hostPort": 8080, "hostIP": "1.1.1.1"}, {"containerPort": 81})
    assert shape(given).ports == (HostPort(8080, "TCP", "1.1.1.1"),)
    assert shape(ports({"containerPort": 80, "protocol": "UDP"}, hostNetwork=True)).ports == (
        HostPort(80, "UDP"),
    )


def test_ports_of_init_containers_count_only_if_they_stay() -> None:
    port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    first = {"name": "i", **port}
    assert shape(pod_spec(initContainers=[first])).ports == ()
    assert shape(pod_spec(initContainers=[first | {"restartPolicy": "Always"}])).ports == (HostPort(80),)


def test_terms_mean_their_own_namespace_unless_they_say_others() -> None:
    assert shape(near()).pod_affinity == (PodTerm("zone", IS_A, ("ns",)),)
    assert shape(apart(namespaces=["b", "a"])).pod_anti_affinity == (PodTerm("zone", IS_A, ("a", "b")),)
    assert shape(apart(namespaceSelector={})).pod_anti_affinity == (PodTerm("zone", IS_A, None),)


def named(name: str, **labels: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Namespace)


def test_a_namespace_selector_means_those_that_there_are() -> None:
    spec = apart(namespaceSelector={"matchLabels": {"team": "x"}}, namespaces=["more"])
    found = shape(spec, named("one", team="x"), named("two", team="y"), named("three", team="x"))
    assert found.pod_anti_affinity == (PodTerm("zone", IS_A, ("more", "one", "three")),)


def test_a_new_namespace_is_evaluated_again() -> None:
    spec = apart(namespaceSelector={"matchLabels": {"team": "x"}})
    one, other, batch = pod("a", spec=spec), pod("b"), job_of(template={"spec": spec})
    seen = world(one, other, batch)
    new = named("new", team="x")
    seen.put(NAMESPACE, new)
    touched = keys_touched(NAMESPACE, None, new, seen)
    assert {key for key in touched if key.dialect in (groups.POD, groups.JOB)} == {
        GroupKey(groups.POD, "ns", "a"),
        GroupKey(groups.JOB, "ns", "j"),
    }
    assert not keys_touched(NAMESPACE, new, named("new", team="x"), seen)


def test_labels_that_a_term_takes_from_the_pod() -> None:
    spec = near(matchLabelKeys=["hash", "none"], mismatchLabelKeys=["tenant"])
    assert shape(spec, labels={"hash": "1", "tenant": "t"}).pod_affinity[0].labels == (
        Requirement("app", Operator.IN, ("a",)),
        Requirement("hash", Operator.IN, ("1",)),
        Requirement("tenant", Operator.NOT_IN, ("t",)),
    )


def test_a_selector_of_nothing_and_one_of_everything() -> None:
    assert shape(spread(labelSelector=None)).spread[0].labels == (Requirement("", Operator.IN, ()),)
    assert shape(spread(labelSelector={})).spread[0].labels == ()


def test_spreads() -> None:
    plain = shape(spread(labelSelector=APP)).spread
    assert plain == (Spread("zone", 1, IS_A),)
    full = spread(
        labelSelector=APP,
        maxSkew=2,
        minDomains=3,
        whenUnsatisfiable="ScheduleAnyway",
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
        matchLabelKeys=["hash"],
    )
    labels = (*IS_A, Requirement("hash", Operator.IN, ("1",)))
    assert shape(full, labels={"hash": "1"}).spread == (Spread("zone", 2, labels, False, 3, False, True),)


def test_preferences() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    affinity = {
        "nodeAffinity": {PREFERRED: [{"weight": 7, "preference": zone}]},
        "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term()}]},
        "podAntiAffinity": {PREFERRED: [{"weight": 2, "podAffinityTerm": term(namespaceSelector={})}]},
    }
    found = shape(pod_spec(affinity=affinity))
    assert found.preferred == ((7, NodeTerm((Requirement("zone", Operator.IN, ("b",)),))),)
    assert found.preferred_pod_affinity == (
        (1, PodTerm("zone", IS_A, ("ns",))),
        (-2, PodTerm("zone", IS_A, None)),
    )
    assert found.pod_affinity == found.pod_anti_affinity == ()


def test_a_pod_on_a_node_shows_what_others_must_respect() -> None:
    spec = apart() | ports({"containerPort": 80, "hostPort": 80})
    seen = pod_bound(pod(spec=spec, node="n", labels={"app": "a"}, deleting=True)).footprint
    assert (seen.namespace, seen.labels, seen.leaving) == ("ns", (("app", "a"),), True)
    assert seen.ports == (HostPort(80),)
    assert seen.pod_anti_affinity == (PodTerm("zone", IS_A, ("ns",)),)


def test_requests_of_a_bound_pod_count_whatever_its_other_fields_are() -> None:
    odd = spread(whenUnsatisfiable="Maybe")
    assert pod_bound(pod(spec=odd, node="n")).requests == (("cpu", 1000),)


# Labels of pods that are not there yet


def test_the_pods_of_a_job_have_the_labels_that_its_controller_adds() -> None:
    batch = job_of(gang="true", template={"metadata": {"labels": {"app": "a"}}, "spec": apart()})
    group = read(GroupKey(groups.JOB, "ns", "j"), world(batch))
    assert group is not None
    assert group.gang.namespace == "ns"
    assert dict(group.gang.pod_sets[0].labels) == {
        "app": "a",
        "job-name": "j",
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": "uid-j",
        "batch.kubernetes.io/controller-uid": "uid-j",
    }


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("jobset.sigs.k8s.io/jobset-name", False),
        ("jobset.sigs.k8s.io/job-key", True),
        ("batch.kubernetes.io/job-completion-index", True),
    ],
)
def test_labels_that_differ_within_a_template_cannot_be_matched(key: str, refused: bool) -> None:
    spec = apart(labelSelector={"matchLabels": {key: "s"}})
    group = read(
        GroupKey(groups.JOBSET, "ns", "s"), world(jobset_of(jobs={"w": {"template": {"spec": spec}}}))
    )
    assert group is not None
    gate = group.gang.gate
    assert (gate is not None and gate.code is Code.INVALID and f"the label {key}, which" in gate.message) == (
        refused
    )


def test_pods_of_one_group_are_alike_in_the_labels_that_they_look_at() -> None:
    label = "scheduling.x-k8s.io/pod-group"

    def member(name: str, app: str, spec: Object) -> Any:
        return pod(name, labels={label: "g", "app": app, "own": name}, spec=spec)

    def sets(spec: Object) -> dict[str, dict[str, str]]:
        members = [member("a", "a", spec), member("b", "b", spec), member("c", "a", spec)]
        seen = world(pod_group("g", 3), *members)
        group = read(GroupKey(groups.POD_GROUP, "ns", "g"), seen)
        assert group is not None
        return {pod_set.name: dict(pod_set.labels) for pod_set in group.gang.pod_sets}

    assert list(sets(pod_spec()).values()) == [{label: "g"}]
    assert [labels["app"] for labels in sets(apart()).values()] == ["a", "b"]


# Names of pod sets, which stand on bound pods


def test_names_of_pod_sets_never_change() -> None:
    zone = NodeTerm((Requirement("zone", Operator.IN, ("a",)),))
    assert pod_set_name(Shape((("cpu", 1000),))) == "pods-5fe63f9f"
    old = Shape((("cpu", 1000),), (("a", "b"),), (zone,), (Toleration("k", "v"),))
    assert pod_set_name(old) == "pods-19a64b8d"
    assert pod_set_name(Shape((("cpu", 1000),), ports=(HostPort(80),))) == "pods-a7094a03"


def test_names_do_not_follow_namespaces_that_come_and_go() -> None:
    one = Shape((), pod_anti_affinity=(PodTerm("zone", IS_A, ("a",)),))
    other = Shape((), pod_anti_affinity=(PodTerm("zone", IS_A, ("a", "b")),))
    assert pod_set_name(one) == pod_set_name(other)
    assert pod_set_name(one, namespaces=True) != pod_set_name(other, namespaces=True)


# Volumes


def claim(volume: str = "", storage: str = "", name: str = "d") -> PersistentVolumeClaim:
    spec = {"volumeName": volume, "storageClassName": storage}
    obj = {"metadata": {"namespace": "ns", "name": name}, "spec": spec}
    return msgspec.convert(obj, PersistentVolumeClaim)


def volume(zone: str = "", name: str = "v") -> PersistentVolume:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}
    return msgspec.convert({"metadata": {"name": name}, "spec": affinity}, PersistentVolume)


def storage_class(
    name: str, mode: str, provisioner: str = "x", zones: list[str] | None = None
) -> StorageClass:
    topology = {"matchLabelExpressions": [{"key": "zone", "values": zones}]}
    body = {"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner}
    return msgspec.convert({**body, "allowedTopologies": [topology] if zones else []}, StorageClass)


WITH_CLAIM = pod_spec(volumes=[{"name": "x", "persistentVolumeClaim": {"claimName": "d"}}])


def test_a_bound_volume_says_on_which_nodes_it_is() -> None:
    assert shape(WITH_CLAIM, claim("v"), volume()).volumes == ()
    zone = NodeTerm((Requirement("zone", Operator.IN, ("b",)),))
    assert shape(WITH_CLAIM, claim("v"), volume("b")).volumes == ((zone,),)


LATE = storage_class("late", "WaitForFirstConsumer", "kubernetes.io/no-provisioner")
UNBOUND: dict[str, tuple[list[Resource], Code, str]] = {
    "no claim": ([], Code.GATED, "there is no PersistentVolumeClaim d"),
    "not bound": ([claim()], Code.GATED, "d is not bound to a volume yet"),
    "no volume": ([claim("v")], Code.GATED, "its volume v is not there"),
    "made by hand": ([claim(storage="late"), LATE], Code.INVALID, "WaitForFirstConsumer"),
}


def test_a_claim_that_waits_for_its_first_pod_keeps_it_only_where_volumes_can_be_made() -> None:
    anywhere = storage_class("late", "WaitForFirstConsumer")
    assert shape(WITH_CLAIM, claim(storage="late"), anywhere).volumes == ()
    somewhere = storage_class("late", "WaitForFirstConsumer", zones=["b", "a"])
    zones = NodeTerm((Requirement("zone", Operator.IN, ("a", "b")),))
    assert shape(WITH_CLAIM, claim(storage="late"), somewhere).volumes == ((zones,),)


@pytest.mark.parametrize(("objects", "code", "message"), UNBOUND.values(), ids=UNBOUND.keys())
def test_a_claim_without_a_volume_keeps_its_pod(objects: list[Resource], code: Code, message: str) -> None:
    one = pod(spec=WITH_CLAIM)
    group = read(GroupKey(groups.POD, "ns", "a"), world(one, *objects))
    assert group is not None
    assert group.gang.gate is not None
    assert group.gang.gate.code is code
    assert message in group.gang.gate.message


def test_claims_and_volumes_are_evaluated_again_when_they_change() -> None:
    key = GroupKey(groups.POD, "ns", "a")
    seen = world(pod("a", spec=WITH_CLAIM), pod("b"), claim())
    assert key in keys_touched(PERSISTENT_VOLUME_CLAIM, claim(), claim("v"), seen)
    assert not keys_touched(PERSISTENT_VOLUME_CLAIM, claim("v"), claim("v"), seen)
    assert not keys_touched(PERSISTENT_VOLUME_CLAIM, None, claim("v", name="e"), seen)


def test_a_volume_concerns_those_whose_claim_names_it_whichever_claim_it_names_itself() -> None:
    """A volume's `claimRef` may be of another namespace; the claim is what the pods are read from."""
    seen = world(pod("a", spec=WITH_CLAIM), pod("b"), claim("v"))
    assert keys_touched(PERSISTENT_VOLUME, None, volume(), seen) == {GroupKey(groups.POD, "ns", "a")}
    assert not keys_touched(PERSISTENT_VOLUME, None, volume(name="w"), seen)
    seen.put(PERSISTENT_VOLUME_CLAIM, claim("w"))
    assert not keys_touched(PERSISTENT_VOLUME, volume(), None, seen)
    seen.drop(PERSISTENT_VOLUME_CLAIM, "ns", "d")
    assert not keys_touched(PERSISTENT_VOLUME, None, volume(name="w"), seen)


def test_a_change_of_a_claim_visits_its_users_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"spec": WITH_CLAIM}
    others = [make(f"other-{i}") for i in range(3) for make in (pod, job_of)]
    jobset = jobset_of(jobs={"w": {"template": made}})
    objects = [pod("a", spec=WITH_CLAIM), job_of(gang="true", template=made), jobset, claim("v"), *others]
    seen, visited = world(*objects), list[str]()
    read = touched._reading

    def visits(kind: Any, obj: Resource, world: World) -> Any:  # Any: as of the original
        visited.append(obj.metadata.name)
        return read(kind, obj, world)

    def reads(templates: object) -> Any:
        raise AssertionError("templates are read again")

    monkeypatch.setattr(touched, "_reading", visits)
    monkeypatch.setattr(touched, "_specs", reads)
    users = {GroupKey(groups.POD, "ns", "a"), GroupKey(groups.JOB, "ns", "j")}
    users |= {GroupKey(groups.JOBSET, "ns", "s")}
    for kind, obj in ((PERSISTENT_VOLUME_CLAIM, claim()), (PERSISTENT_VOLUME, volume())):
        visited.clear()
        assert keys_touched(kind, None, obj, seen) == users
        assert sorted(visited) == ["a", "j", "s"]


@pytest.mark.parametrize("volumes", [None, "x", {}, [None, "x", {}], [{"persistentVolumeClaim": 1}]])
def test_the_claims_of_a_template_that_nothing_can_read_are_none(volumes: object) -> None:
    assert claims_of(job_of(template={"spec": {"volumes": volumes}})) == set()


def test_specs_without_any_of_this_look_at_nothing() -> None:
    plain = asked(template(pod_spec())).shape
    assert plain == Shape((("cpu", 1000),))
