"""Claims are made from templates, freed when their pods have ended, and never another's."""

import re
from typing import Any

import msgspec
import pytest

from muster.api import pod_claims, rules
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.kinds import (
    EVENT,
    POD,
    POD_GROUP_K8S,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
)
from muster.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from muster.api.rules.claims import MOST_RESERVED
from muster.controllers import resource_claims
from muster.controllers.driver import Change, Controller
from muster.controllers.resource_claims import prefix
from muster.effects import Patch, RecordEvent
from tests.api.rules.devices import CASES, CLASS
from tests.controllers.memory import START, Memory

SPEC: Object = {"devices": {"requests": [{"name": "gpu", "exactly": CLASS}]}}
RESULT = {"request": "gpu", "driver": "gpu.example.com", "pool": "n0", "device": "gpu-0"}
ALLOCATION: Object = {"devices": {"results": [RESULT]}}
PROTECTION = "resource.kubernetes.io/delete-protection"


def step(memory: Memory) -> list[str]:
    """Reconciles all that is there until nothing changes; returns what Events say."""
    told: list[str] = []
    while True:
        revision = memory.revision
        controllers: list[Controller[Any]] = [resource_claims.of_pods(), resource_claims.freed()]
        for one in controllers:
            caches = memory.caches([watch.kind for watch in one.watches], one.indexes)
            keys = {
                key
                for watch in one.watches
                for obj in caches[watch.kind].items.values()
                for key in watch.keys(Change(caches, None, obj))
            }
            for key in sorted(keys):
                if (observed := one.observe(caches, key)) is not None:
                    effects = one.reconcile(observed, START)
                    told += [each.message for each in effects if isinstance(each, RecordEvent)]
                    memory.apply(effects)
        if memory.revision == revision or told:
            return told


def template(memory: Memory, name: str = "gpus", namespace: str = "ns", **meta: Object) -> None:
    memory.create(
        RESOURCE_CLAIM_TEMPLATE,
        namespace,
        {"metadata": {"name": name}, "spec": {"metadata": meta, "spec": SPEC}},
    )


def pod(memory: Memory, name: str = "a", namespace: str = "ns", **spec: Any) -> Object:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    return memory.create(
        POD, namespace, {"metadata": {"name": name}, "spec": {"resourceClaims": claims, **spec}}
    )


def claims(memory: Memory) -> list[ResourceClaim]:
    return memory.all(RESOURCE_CLAIM)


def use(memory: Memory, claim: ResourceClaim, *pods: Object) -> None:
    """Allocates the claim for pods, as a scheduler does."""
    meta = claim.metadata
    memory.patch(RESOURCE_CLAIM, meta.namespace, meta.name, {"metadata": {"finalizers": [PROTECTION]}})
    reserved = [
        {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
        for each in pods
    ]
    status = {"status": {"allocation": ALLOCATION, "reservedFor": reserved}}
    memory.patch(RESOURCE_CLAIM, meta.namespace, meta.name, status, "status")


def end(memory: Memory, name: str, phase: str = "Succeeded") -> None:
    memory.patch(POD, "ns", name, {"status": {"phase": phase}}, "status")


def test_a_claim_is_made_once_and_recorded() -> None:
    memory = Memory()
    template(memory, labels={"a": "b"}, annotations={"c": "d"})
    made = pod(memory)
    assert step(memory) == []
    [claim] = claims(memory)
    meta = claim.metadata
    assert meta.generate_name == "a-gpu-"
    assert meta.labels == {"a": "b"}
    assert meta.annotations == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
    [owner] = meta.owner_references
    assert (owner.api_version, owner.kind, owner.name) == ("v1", "Pod", "a")
    assert (owner.uid, owner.controller) == (made["metadata"]["uid"], True)
    status = memory.read(POD, "ns/a").status
    assert status.resource_claim_statuses == [{"name": "gpu", "resourceClaimName": meta.name}]
    revision = memory.revision
    assert step(memory) == []
    assert memory.revision == revision


def test_each_claim_is_looked_at_once_however_many_a_pod_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims that were made, and are not recorded yet; those that the status says are not needed."""

    found, is_made_for = list[ResourceClaim](), pod_claims.is_made_for

    def looked(of: Pod, claim: ResourceClaim) -> bool:
        found.append(claim)
        return is_made_for(of, claim)

    def looks(number: int) -> int:
        found.clear()
        memory = Memory()
        template(memory)
        named = [{"name": f"c{i}", "resourceClaimTemplateName": "gpus"} for i in range(number)]
        made = pod(memory, resourceClaims=named)
        step(memory)
        meta = made["metadata"]
        unrecorded = {"status": {"resourceClaimStatuses": None}}
        memory.patch(POD, meta["namespace"], meta["name"], unrecorded, "status")
        controller = resource_claims.of_pods()
        caches = memory.caches([watch.kind for watch in controller.watches], controller.indexes)
        needs = controller.observe(caches, f"{meta['namespace']}/{meta['name']}")
        assert needs is not None
        with monkeypatch.context() as patched:
            patched.setattr(pod_claims, "is_made_for", looked)
            [recorded] = controller.reconcile(needs, START)
        assert isinstance(recorded, Patch)
        assert isinstance(recorded.body, dict)
        assert len(recorded.body["status"]["resourceClaimStatuses"]) == number
        return len(found)

    assert looks(8) == 8 * looks(1)


def test_a_claim_that_is_lost_is_made_again() -> None:
    memory = Memory()
    template(memory)
    pod(memory)
    step(memory)
    [first] = claims(memory)
    memory.delete(RESOURCE_CLAIM, "ns", first.metadata.name)
    step(memory)
    [second] = claims(memory)
    assert second.metadata.uid != first.metadata.uid
    [status] = memory.read(POD, "ns/a").status.resource_claim_statuses
    assert status["resourceClaimName"] == second.metadata.name


def test_a_pod_whose_template_is_missing_is_told_and_waits() -> None:
    memory = Memory()
    pod(memory)
    assert step(memory) == ['PodResourceClaim gpu: resource claim template "gpus" not found']
    assert claims(memory) == []
    template(memory, namespace="other")
    assert step(memory) != []
    template(memory)
    assert step(memory) == []
    assert len(claims(memory)) == 1


def test_pods_that_will_not_run_get_no_claims() -> None:
    memory = Memory()
    template(memory)
    pod(memory)
    end(memory, "a", "Failed")
    step(memory)
    assert claims(memory) == []


def test_a_claim_is_not_taken_from_another_pod_or_namespace() -> None:
    """Annotations and names say nothing: the owner's uid does."""
    memory = Memory()
    template(memory)
    other = pod(memory, "b")
    meta = {"annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "a",
        "uid": other["metadata"]["uid"],
        "controller": True,
    }
    for namespace in ("ns", "other"):
        memory.create(
            RESOURCE_CLAIM,
            namespace,
            {"metadata": {"name": "theirs", "ownerReferences": [owner], **meta}, "spec": SPEC},
        )
    mine = pod(memory)
    step(memory)
    statuses = memory.read(POD, "ns/a").status.resource_claim_statuses
    claim = memory.read(RESOURCE_CLAIM, f"ns/{statuses[0]['resourceClaimName']}")
    assert claim.metadata.owner_references[0].uid == mine["metadata"]["uid"]


def test_a_status_that_names_a_strangers_claim_is_mended() -> None:
    memory = Memory()
    template(memory)
    meta = {"name": "theirs", "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}
    memory.create(RESOURCE_CLAIM, "ns", {"metadata": meta, "spec": SPEC})
    pod(memory)
    status = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "theirs"}]}}
    memory.patch(POD, "ns", "a", status, "status")
    step(memory)
    [found] = memory.read(POD, "ns/a").status.resource_claim_statuses
    assert found["resourceClaimName"] != "theirs"
    assert {each.metadata.name for each in claims(memory)} == {"theirs", found["resourceClaimName"]}


def test_a_claim_of_a_pod_that_ended_is_freed_and_deleted() -> None:
    memory = Memory()
    template(memory)
    made = pod(memory, nodeName="n0")
    step(memory)
    use(memory, claims(memory)[0], made)
    step(memory)
    assert len(claims(memory)) == 1
    end(memory, "a")
    step(memory)
    assert claims(memory) == []


def test_a_shared_claim_is_freed_with_its_last_pod_and_stays() -> None:
    memory = Memory()
    named = [{"name": "gpu", "resourceClaimName": "shared"}]
    pods = [pod(memory, name, nodeName="n0", resourceClaims=named) for name in ("a", "b")]
    memory.create(RESOURCE_CLAIM, "ns", {"metadata": {"name": "shared"}, "spec": SPEC})
    use(memory, claims(memory)[0], *pods)
    end(memory, "a")
    step(memory)
    [claim] = claims(memory)
    assert [each.name for each in claim.status.reserved_for] == ["b"]
    assert claim.status.allocation is not None
    memory.delete(POD, "ns", "b")
    step(memory)
    [claim] = claims(memory)
    assert (claim.status.reserved_for, claim.status.allocation, claim.metadata.finalizers) == ([], None, [])


def test_a_claim_that_is_allocated_and_not_reserved_stays_until_it_is_deleted() -> None:
    memory = Memory()
    memory.create(RESOURCE_CLAIM, "ns", {"metadata": {"name": "early"}, "spec": SPEC})
    use(memory, claims(memory)[0])
    step(memory)
    [claim] = claims(memory)
    assert claim.status.allocation is not None
    assert claim.metadata.finalizers == [PROTECTION]
    memory.delete(RESOURCE_CLAIM, "ns", "early")
    step(memory)
    assert claims(memory) == []


def test_a_finalizer_without_an_allocation_is_a_schedulers_who_has_begun() -> None:
    memory = Memory()
    body = {"metadata": {"name": "begun", "finalizers": [PROTECTION]}, "spec": SPEC}
    memory.create(RESOURCE_CLAIM, "ns", body)
    step(memory)
    assert claims(memory)[0].metadata.finalizers == [PROTECTION]


def test_reservations_of_groups_and_strangers_stay() -> None:
    memory = Memory()
    memory.create(RESOURCE_CLAIM, "ns", {"metadata": {"name": "shared"}, "spec": SPEC})
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}
    memory.patch(
        *(
            RESOURCE_CLAIM,
            "ns",
            "shared",
            {"status": {"allocation": ALLOCATION, "reservedFor": [group]}},
            "status",
        )
    )
    step(memory)
    assert [each.name for each in claims(memory)[0].status.reserved_for] == ["g"]


@pytest.mark.parametrize(("reserved", "expected"), [(0, 1), (MOST_RESERVED, MOST_RESERVED)])
def test_a_pod_that_was_bound_by_hand_gets_its_reservation(reserved: int, expected: int) -> None:
    memory = Memory()
    memory.create(RESOURCE_CLAIM, "ns", {"metadata": {"name": "shared"}, "spec": SPEC})
    others = [{"apiGroup": "x", "resource": "y", "name": f"o{n}", "uid": f"o{n}"} for n in range(reserved)]
    status: Object = {"status": {"allocation": ALLOCATION, "reservedFor": others}}
    memory.patch(RESOURCE_CLAIM, "ns", "shared", status, "status")
    pod(memory, nodeName="n0", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}])
    step(memory)
    assert len(claims(memory)[0].status.reserved_for) == expected


def test_the_claims_of_a_group_are_not_made_for_its_pods() -> None:
    memory = Memory()
    template(memory)
    pod(memory, schedulingGroup={"podGroupName": "g"})
    assert step(memory) == []
    assert claims(memory) == []
    shared = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    memory.create(POD_GROUP_K8S, "ns", {"metadata": {"name": "g"}, "spec": {"resourceClaims": shared}})
    assert step(memory) == ["PodResourceClaim gpu: the claims of PodGroups are not supported yet"]
    assert claims(memory) == []
    memory.patch(POD_GROUP_K8S, "ns", "g", {"spec": {"resourceClaims": []}})
    step(memory)
    assert len(claims(memory)) == 1
    assert memory.all(EVENT) == []


@pytest.mark.parametrize(
    ("pod", "claim", "expected"),
    [
        ("a", "gpu", "a-gpu-"),
        ("p" * 50, "gpus", "p" * 50 + "-gpus-"),
        ("p" * 60, "c" * 38, "p" * 34 + "-" + "c" * 21),
        ("p" * 253, "c" * 63, "p" * 45 + "-" + "c" * 11),
    ],
)
def test_long_names_are_cut_in_both_parts(pod: str, claim: str, expected: str) -> None:
    assert prefix(pod, claim) == expected
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9-])?", expected)


@pytest.mark.parametrize(
    "spec",
    [case.spec for case in CASES if case.kind is RESOURCE_CLAIM and not case.refused],
)
def test_a_claim_is_made_as_its_template_says(spec: Object) -> None:
    body = rules.default(
        RESOURCE_CLAIM_TEMPLATE, {"spec": {"spec": msgspec.json.decode(msgspec.json.encode(spec))}}
    )
    read = msgspec.convert(body, ResourceClaimTemplate)
    again = rules.default(RESOURCE_CLAIM, {"spec": msgspec.to_builtins(read.spec.spec)})
    assert without_empty(again["spec"]) == without_empty(body["spec"]["spec"])


def without_empty(value: Any) -> Any:  # Any: JSON
    if isinstance(value, dict):
        inner = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in ([], {})}
    return [without_empty(item) for item in value] if isinstance(value, list) else value
