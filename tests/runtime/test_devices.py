"""`commit.devices`: what is written to claims, and what is freed, in tables that need no cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from muster.api import kinds, pod_claims
from muster.api.base import AnyKind, Object, Resource
from muster.api.core_v1 import Pod
from muster.api.pod_claims import DELETE_PROTECTION, MOST_CLAIMS
from muster.api.resource_v1 import DeviceClass, ResourceClaim
from muster.core.words.decisions import Explanation
from muster.core.words.devices import BY_NUMBER, Allocation, DeviceId
from muster.core.words.gang import Code
from muster.effects import Allocate, Deallocate
from muster.names import PLAN
from muster.runtime.commit.devices import DeviceClaims
from muster.runtime.commit.places import Places
from muster.runtime.commit.step import step
from muster.runtime.commit.view import GangView, RetryState
from muster.runtime.writes import TellOfClaim
from muster.translate.devices.by_number import name_of
from tests.runtime.test_commit import LIMITS, A, group, kinds_of, place, plan, view

GPU, OTHER = DeviceId("d/pool/a/gpu-0"), DeviceId("d/pool/a/gpu-1")
TOLERATED = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}


def pod(index: int, claim: str = "", node: str = "") -> Pod:
    """A pod whose claim is made from a template, unless `claim` names it."""
    named = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": "t"}
    metadata = {"name": f"p{index}", "namespace": "ns", "uid": f"u{index}", "resourceVersion": "1"}
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"c{index}"}]}
    spec = {"nodeName": node, "resourceClaims": [{"name": "gpu", **named}]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {} if claim else status}, Pod)


def claim(
    name: str, owner: int | None = None, devices: Sequence[str] = (), pods: Sequence[int] = (), **changes: Any
) -> ResourceClaim:
    """A claim of the pod `owner`, with these devices and reservations; `ours`: marked by muster."""
    ours, spec = changes.pop("ours", bool(devices)), changes.pop("spec", SPEC)
    pod_of = {"apiVersion": "v1", "kind": "Pod", "name": f"p{owner}", "uid": f"u{owner}"}
    metadata: Object = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "7"}
    if owner is not None:
        metadata["ownerReferences"] = [{**pod_of, "controller": True}]
    if ours:
        metadata |= {"annotations": {PLAN: "1.1/w/0"}, "finalizers": [DELETE_PROTECTION]}
    status: Object = {}
    if devices:
        results = [
            {"request": "r", "driver": "d", "pool": "pool/a", "device": each.rpartition("/")[2]}
            for each in devices
        ]
        status["allocation"] = {"devices": {"results": results}}
        status["reservedFor"] = [{"resource": "pods", "name": f"p{one}", "uid": f"u{one}"} for one in pods]
    return msgspec.convert(
        {"metadata": {**metadata, **changes}, "spec": spec, "status": status}, ResourceClaim
    )


SPEC: Object = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}}
CLASS = msgspec.convert({"metadata": {"name": "k"}, "spec": {}}, DeviceClass)


def seen(
    pods: list[Pod], claims: Sequence[ResourceClaim], wanted: dict[int, DeviceId], *plans: Any, **changes: Any
) -> GangView:
    """A gang of two whose places have been assigned devices; by device, the other claims that have it."""
    objects: dict[tuple[AnyKind, str], Resource] = {(kinds.DEVICE_CLASS, "k"): CLASS}
    objects |= {(kinds.RESOURCE_CLAIM, each.key): each for each in claims}
    objects |= {(kinds.POD, each.key): each for each in [*pods, *changes.pop("others", [])]}
    held: dict[DeviceId, list[str]] = {}
    for each in claims:
        allocation = each.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            held.setdefault(DeviceId(f"d/{result.pool}/{result.device}"), []).append(each.key)
    made = view(group(2, pods), dict.fromkeys(wanted, A), *plans)
    return replace(
        made,
        allocations={
            place(index): (Allocation("gpu", (("r", device),)),) for index, device in wanted.items()
        },
        find=lambda kind, key: objects.get((kind, key)),
        holders=lambda device: held.get(device, ()),
        **changes,
    )


def claims_of(of: GangView) -> DeviceClaims:
    assert of.group is not None
    return DeviceClaims(of, of.group, Places(of, of.group))


TWO = {0: GPU, 1: OTHER}
PODS = [pod(0), pod(1)]
PLAN_OF_TWO = plan(dict.fromkeys(TWO, A))
FREE = [claim("c0", 0), claim("c1", 1)]
HELD = [claim("c0", 0, [GPU], [0]), claim("c1", 1, [OTHER], [1])]
WAITS = Explanation(Code.INSUFFICIENT_CAPACITY, "placement", "no devices")

NEXT = {
    "a gang of one has a plan, too": (
        replace(
            seen([pod(0)], FREE[:1], {0: GPU}),
            group=group(1, [pod(0)]),
        ),
        ["create Gang with plan"],
    ),
    "claims are written once the minimum can be reached": (seen(PODS[:1], FREE[:1], TWO, PLAN_OF_TWO), []),
    "a pod whose claim is not made cannot help to reach it": (seen(PODS, FREE[:1], TWO, PLAN_OF_TWO), []),
    "all claims are written": (seen(PODS, FREE, TWO, PLAN_OF_TWO), ["allocate", "allocate"]),
    "the rest of the claims": (seen(PODS, [HELD[0], FREE[1]], TWO, PLAN_OF_TWO), ["allocate"]),
    "pods are bound after their claims": (seen(PODS, HELD, TWO, PLAN_OF_TWO), ["bind", "bind"]),
    "a claim that is not reserved is": (
        seen(PODS, [claim("c0", 0, [GPU]), HELD[1]], TWO, PLAN_OF_TWO),
        ["allocate"],
    ),
    "a claim with other devices is freed first": (
        seen(PODS, [claim("c0", 0, ["d/pool/a/gpu-2"], [0]), FREE[1]], TWO, PLAN_OF_TWO),
        ["deallocate"],
    ),
    "devices of a place that is given up are freed": (
        seen(PODS, HELD, {}, PLAN_OF_TWO, explanation=WAITS),
        ["deallocate", "deallocate"],
    ),
    "devices of a place of which the core has not decided are kept": (seen(PODS, HELD, {}, PLAN_OF_TWO), []),
    "without a plan no claim keeps devices": (seen(PODS, HELD, {}), ["deallocate", "deallocate"]),
    "a claim that was marked and no more": (
        seen(PODS, [claim("c0", 0, ours=True), FREE[1]], {}),
        ["deallocate"],
    ),
    "what others have allocated is left alone": (
        seen(PODS, [claim("c0", 0, [GPU], ours=False), FREE[1]], {}),
        [],
    ),
    "a claim of another pod is none of its pod": (
        seen(PODS, [claim("c0", 5), FREE[1]], TWO, PLAN_OF_TWO),
        [],
    ),
    "a claim that is deleted is not there": (
        seen(PODS, [claim("c0", 0, deletionTimestamp="2026-01-01T00:00:00Z"), FREE[1]], TWO, PLAN_OF_TWO),
        [],
    ),
    "a claim that is deleted and has devices is freed": (
        seen(PODS, [claim("c0", 0, [GPU], [0], deletionTimestamp="2026-01-01T00:00:00Z")], TWO, PLAN_OF_TWO),
        ["deallocate"],
    ),
    "devices that a pod on its way out has": (
        seen(PODS, [*FREE, claim("gone", 7, [GPU], [7])], TWO, PLAN_OF_TWO),
        ["allocate"],
    ),
}


@pytest.mark.parametrize("case", NEXT.items(), ids=lambda case: case[0].replace(" ", "-"))
def test_what_is_written_next(case: tuple[str, tuple[GangView, list[str]]]) -> None:
    _, (of, expected) = case
    assert [each for each in kinds_of(of) if "Gang" not in each or "plan" in each] == expected


def test_devices_of_a_start_that_is_undone_are_freed_before_its_plan_is_closed() -> None:
    of = seen(PODS, HELD, TWO, PLAN_OF_TWO)
    assert of.group is not None
    free_job = replace(of, group=replace(of.group, owner=None))
    assert kinds_of(free_job, RetryState(giving_up="no devices")) == ["deallocate", "deallocate"]


def test_devices_that_another_claim_has_are_lost() -> None:
    """At first the core chooses others; a second time in a row the start is given up."""
    running = pod(7, node="a")
    taken = claim("taken", 7, [GPU], [7])
    of = seen(PODS, [*FREE, taken], TWO, PLAN_OF_TWO, others=[running])
    first = step(of, RetryState(), 0.0, LIMITS)
    [lost] = first.events
    assert getattr(lost, "places", None) == {place(0)}
    assert not first.writes
    again = step(of, first.state, 0.0, LIMITS)
    (refusal,) = again.state.refusals.values()
    assert (refusal.times, refusal.message) == (
        2,
        "pod p0 (w/0): device d/pool/a/gpu-0 has been allocated for another claim than c0",
    )


def test_a_claim_that_pods_share_is_written_once_and_kept_for_those_that_stay() -> None:
    pods = [pod(0, "shared"), pod(1, "shared")]
    both = {0: GPU, 1: GPU}
    of = seen(pods, [claim("shared")], both, PLAN_OF_TWO)
    [write] = step(of, RetryState(), 0.0, LIMITS).writes
    assert isinstance(write, Allocate)
    assert [one.metadata.name for _, one in write.users] == ["p0", "p1"]
    assert not claims_of(of).conflicts
    held = claim("shared", None, [GPU], [0, 1])
    assert kinds_of(seen(pods, [held], both, PLAN_OF_TWO)) == ["bind", "bind"]
    [freed] = claims_of(seen(pods, [held], {0: GPU}, explanation=WAITS)).to_free(None)
    assert freed == Deallocate(held, frozenset({"u1"}))
    differ = claims_of(seen(pods, [claim("shared")], TWO, PLAN_OF_TWO)).conflicts
    assert differ.keys() == {place(1)}
    assert "is shared by pods that were assigned different devices" in differ[place(1)]


def test_a_claim_that_others_reserve_is_not_freed_for_other_devices() -> None:
    reserved = claim("c", None, [GPU], [0, 9])
    of = seen([pod(0, "c"), pod(1)], [reserved, FREE[1]], {0: OTHER, 1: GPU}, PLAN_OF_TWO)
    assert claims_of(of).conflicts[place(0)].endswith("c has been allocated other devices by another client")
    assert claims_of(of).to_free(None) == (Deallocate(reserved, frozenset({"u0"})),)


def test_a_claim_is_reserved_for_256_pods_at_most() -> None:
    full = claim("c", None, [GPU], range(100, 356))
    of = seen([pod(0, "c"), pod(1)], [full, FREE[1]], {0: GPU, 1: OTHER}, PLAN_OF_TWO)
    assert "is reserved for 256 consumers already" in claims_of(of).conflicts[place(0)]


def test_an_allocation_says_what_drivers_and_the_controller_of_taints_read() -> None:
    """The configuration of the class and of the claim, tolerations, and the node."""
    spec: Object = {
        "devices": {
            "requests": [
                {"name": "r", "exactly": {"deviceClassName": "k", "tolerations": [TOLERATED]}},
                {"name": "s", "firstAvailable": [{"name": "x", "deviceClassName": "l"}]},
            ],
            "config": [
                {"opaque": {"driver": "d", "parameters": {"all": 1}}},
                {"requests": ["s"], "opaque": {"driver": "d", "parameters": {"s": 1}}},
                {"requests": ["s/y"], "opaque": {"driver": "d", "parameters": {"never": 1}}},
            ],
        }
    }
    config = [{"opaque": {"driver": "d", "parameters": {"class": 1}}}]
    classes = {
        "k": CLASS,
        "l": msgspec.convert({"metadata": {"name": "l"}, "spec": {"config": config}}, DeviceClass),
    }
    made = claim("c0", 0, spec=spec)
    of = seen([pod(0), pod(1)], [made, FREE[1]], TWO, PLAN_OF_TWO)
    wanted = Allocation("gpu", (("r", GPU), ("s/x", OTHER)))
    of = replace(
        of,
        allocations={**of.allocations, place(0): (wanted,)},
        find=lambda kind, key: classes.get(key) if kind is kinds.DEVICE_CLASS else made,
    )
    (write,) = claims_of(of).unserved[place(0)]
    assert isinstance(write, Allocate)
    assert write.allocation == {
        "devices": {
            "results": [
                {
                    "request": "r",
                    "driver": "d",
                    "pool": "pool/a",
                    "device": "gpu-0",
                    "tolerations": [TOLERATED],
                },
                {"request": "s/x", "driver": "d", "pool": "pool/a", "device": "gpu-1"},
            ],
            "config": [
                {"source": "FromClass", "requests": ["s/x"], **config[0]},
                {"source": "FromClaim", **spec["devices"]["config"][0]},
                {"source": "FromClaim", **spec["devices"]["config"][1]},
            ],
        },
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
            ]
        },
    }
    assert write.mark == "1.1/w/0"
    del classes["l"]
    assert claims_of(of).unserved[place(0)] == ()


def test_the_names_of_a_pods_claims_are_read_once_however_many_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once for what is written, and once for what is to be freed."""

    def reads(number: int) -> int:
        named = [{"name": f"c{index}", "resourceClaimName": f"c{index}"} for index in range(number)]
        metadata = {"name": "p0", "namespace": "ns", "uid": "u0", "resourceVersion": "1"}
        one = msgspec.convert({"metadata": metadata, "spec": {"resourceClaims": named}}, Pod)
        claims = claims_of(seen([one], [claim(f"c{index}") for index in range(number)], {0: GPU}))
        with monkeypatch.context() as patched:
            names = Mock(side_effect=pod_claims.names)
            patched.setattr(pod_claims, "names", names)
            assert claims.unmade == {place(0)}
            assert claims.to_free(None) == ()
        return names.call_count

    assert reads(MOST_CLAIMS) == reads(1) == 2


def test_a_pod_with_more_claims_than_are_read_is_not_looked_at() -> None:
    named = [{"name": f"c{index}", "resourceClaimName": f"c{index}"} for index in range(MOST_CLAIMS + 1)]
    one = msgspec.convert({"metadata": {"name": "p0", "uid": "u0"}, "spec": {"resourceClaims": named}}, Pod)
    members = group(1, [one]).members
    assert members.keys() == {"u0"}
    assert not members.claiming


def test_a_claim_by_number_that_is_being_deleted_is_waited_for() -> None:
    """Muster neither makes it again nor deletes it, but frees its devices."""
    spec = {"containers": [{"name": "m", "resources": {"limits": {"example.com/gpu": "1"}}}]}
    metadata = {"name": "p0", "namespace": "ns", "uid": "u0", "resourceVersion": "1"}
    one = msgspec.convert({"metadata": metadata, "spec": spec}, Pod)
    wanted = Allocation(BY_NUMBER, (("example.com/gpu", GPU),))
    held = claim(name_of(one), 0, [GPU], [0], deletionTimestamp="2026-01-01T00:00:00Z")
    of = replace(
        seen([one], [held], {0: GPU}),
        allocations={place(0): (wanted,)},
        by_number={"k": "example.com/gpu"},
    )
    claims = claims_of(of)
    assert claims.unmade == {place(0)}
    assert not claims.unserved
    assert claims.to_free(None) == (Deallocate(held, frozenset({"u0"})),)


@pytest.mark.parametrize("by_number", [{"k": "example.com/gpu"}, {}], ids=["some by number", "none"])
def test_a_pod_that_is_told_of_a_claim_is_told_of_none_before_it_is_bound_without(
    by_number: dict[str, str],
) -> None:
    """Its earlier place was on a node with devices, the place that it has now needs no claim."""
    spec = {"containers": [{"name": "m", "resources": {"limits": {"example.com/gpu": "1"}}}]}
    metadata = {"name": "p0", "namespace": "ns", "uid": "u0", "resourceVersion": "1"}
    told = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": []}}
    before, after = (
        msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod) for status in (told, {})
    )

    def assigned(one: Pod) -> GangView:
        of = seen([one], [], {0: GPU}, plan({0: A}))
        return replace(of, group=group(1, [one]), allocations={}, by_number=by_number)

    [write] = step(assigned(before), RetryState(), 0.0, LIMITS).writes
    assert isinstance(write, TellOfClaim)
    assert isinstance(write.body, dict)
    assert write.body["status"] == {"extendedResourceClaimStatus": None}
    assert write.users == ((place(0), before),)
    assert kinds_of(assigned(after)) == ["bind"]
    without_plan = replace(assigned(before), plans=())
    assert "bind" not in kinds_of(without_plan)


def test_pods_on_nodes_and_those_without_claims_are_not_looked_at() -> None:
    bound = seen([pod(0, node="a"), pod(1)], HELD, {1: OTHER}, PLAN_OF_TWO)
    assert bound.group is not None
    assert [each.metadata.name for each in bound.group.members.claiming.values()] == ["p1"]
    assert kinds_of(bound) == ["bind"]
