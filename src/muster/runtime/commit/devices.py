"""Claims of devices: allocated and reserved before their pods are bound, and freed if these are not bound.

A claim itself says which devices it has. Muster marks a claim before it allocates it, as it marks a pod that
it binds. A pod is bound once each of its claims has the devices that the core has assigned, and is reserved
for the pod. From then on the claim controller frees them, when the pod has ended.

Until then a claim of a pod without a node is freed as soon as its place is given up, or gets other devices.
Whether it is to be freed depends only on what the claim shows. So a claim that an earlier leader has
allocated is used or freed like any other. A claim that muster has not allocated is never freed here, and a
claim that is reserved for others keeps its devices.

A pod that requests resources by number, on a node that has them as devices, has a claim for these, too. The
scheduler makes it, under a name that follows from the pod, and tells the node of it in the pod's status.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from muster.api import kinds, pod_claims
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.pod_claims import DELETE_PROTECTION
from muster.api.resource_v1 import DeviceAsked, DeviceClass, ResourceClaim
from muster.api.rules.claims import MOST_RESERVED
from muster.core.words.devices import BY_NUMBER, Allocation, DeviceId
from muster.core.words.gang import NodeName, Place, PodId
from muster.effects import Allocate, Deallocate
from muster.names import PLAN
from muster.runtime.commit.places import Places
from muster.runtime.commit.view import GangView
from muster.runtime.plan_record import PlacementPlan, mark
from muster.runtime.writes import DropClaim, MakeClaim, Provision, TellOfClaim
from muster.translate.devices.by_number import Requests, claim_of, name_of, requests_of
from muster.translate.group import Group
from muster.translate.pods import live


class _Use(NamedTuple):
    """A claim of the pod of an assigned place, and the devices that the claim is to have."""

    claim: ResourceClaim
    place: Place
    pod: Pod
    wanted: Allocation
    #: of the claim that stands for resources
    requests: Requests | None = None

    @property
    def told(self) -> bool:
        """Whether the pod's status says of the claim what its node has to know."""
        if self.requests is None:
            return True
        return self.pod.status.extended_resource_claim_status == self.requests.status(
            self.claim.metadata.name
        )

    @property
    def served(self) -> bool:
        return self.allocated and self.reserved

    @property
    def allocated(self) -> bool:
        return frozenset(_devices(self.claim)) == frozenset(self.wanted.devices)

    @property
    def reserved(self) -> bool:
        return any(pod_claims.reserves(each, self.pod) for each in self.claim.status.reserved_for)


class DeviceClaims:
    """The claims of a gang's pods that wait for a node. What visits all of them is computed when read."""

    def __init__(self, view: GangView, group: Group, places: Places) -> None:
        self._view, self._places, self._members = view, places, group.members

    @cached_property
    def any(self) -> bool:
        """Whether some pod has claims."""
        return bool(self._claiming)

    @cached_property
    def unmade(self) -> frozenset[Place]:
        """Assigned places whose pods have claims that others have not made (yet)."""
        lacking = frozenset(place for place, uses in self._assigned.items() if uses is None)
        return lacking - self._to_make.keys()

    @cached_property
    def unserved(self) -> Mapping[Place, tuple[Provision, ...]]:
        """Assigned places whose pods do not have all their devices yet, and what is to be written for that.

        Nothing is to be written for a claim that first has to lose other devices.
        """
        found: dict[Place, list[Provision]] = {place: [write] for place, write in self._to_make.items()}
        for uses in self._uses:
            if lacking := [use for use in uses if not use.served]:
                write = self._allocate(lacking)
                for use in lacking:
                    found.setdefault(use.place, []).extend([write] if write is not None else [])
            for use in (use for use in uses if use.served and not use.told):
                assert use.requests is not None
                status = use.requests.status(use.claim.metadata.name)
                found.setdefault(use.place, []).append(_tell(use.place, use.pod, status))
        for place, pod in self._mistold:
            found.setdefault(place, []).append(_tell(place, pod, None))
        return {place: tuple(writes) for place, writes in found.items()}

    @cached_property
    def conflicts(self) -> Mapping[Place, str]:
        """Assigned places whose pods cannot have the devices, since others have written claims; and why."""
        found: dict[Place, str] = {}
        for uses in self._uses:
            for number, use in enumerate(uses):
                if why := self._conflict(use, uses[0].wanted, number):
                    found.setdefault(use.place, f"pod {use.pod.metadata.name} ({use.place}): {why}")
        return found

    @property
    def served(self) -> int:
        """How many assigned pods have all their devices."""
        return len(self._assigned.keys() - self.unmade - self.unserved.keys()) if self._assigned else 0

    @property
    def waits(self) -> bool:
        """Whether devices of assigned places have to be freed by others first."""
        return any(True for uses in self._uses for use in uses for _ in self._others(use))

    def to_free(self, plan: PlacementPlan | None, *, all_: bool = False) -> tuple[Deallocate, ...]:
        """Returns the writes that free claims of which no place is assigned the devices.

        A place of an open plan of which the core has not decided yet keeps what it has. `all_`: none does.
        """
        undecided = plan.nodes.keys() if plan is not None and self._view.explanation is None else ()
        found = []
        for claim, pods in self._claims.values():
            dropped = set[str]()
            for place, pod in pods:
                known = place in self._view.assigned or place not in undecided
                if all_ or place is None or (known and not self._keeps(claim, place, pod)):
                    dropped.add(pod.metadata.uid)
            held = claim.status.allocation is not None or DELETE_PROTECTION in claim.metadata.finalizers
            unused = len(dropped) == len(pods) and held and self._is_free(claim)
            if unused or any(each.uid in dropped for each in claim.status.reserved_for):
                found.append(Deallocate(claim, frozenset(dropped)))
        return tuple(found)

    # -- below: in order of call

    @property
    def _mistold(self) -> Iterator[tuple[Place, Pod]]:
        """Yields places, with their pods, whose pods are told of a claim that they do not have there.

        An earlier attempt was on a node that has devices; a node that has a device plugin needs no claim.
        """
        for uid, pod in self._claiming.items():
            place = self._members[uid].place
            if pod.status.extended_resource_claim_status is None:
                continue
            if place is None or place not in self._places.missing:
                continue
            if self._places.ready.get(place) is pod and self._by_number(place) is None:
                yield place, pod

    @cached_property
    def _claiming(self) -> Mapping[PodId, Pod]:
        """The pods without a node that have claims, or are to have one for what they request by number."""
        found = self._members.claiming
        if not self._view.by_number:
            return found
        waiting = ((uid, member) for uid, member in self._members.items() if not member.pod.spec.node_name)
        more = {
            uid: member.pod
            for uid, member in waiting
            if self._by_number(member.place) is not None or self._numbered(member.pod) is not None
        }
        return {**found, **more}

    def _by_number(self, place: Place | None) -> Allocation | None:
        """Returns the devices that a place is assigned for what its pod requests by number."""
        allocations = self._view.allocations.get(place, ()) if place is not None else ()
        return next((one for one in allocations if one.claim == BY_NUMBER), None)

    @cached_property
    def _to_make(self) -> Mapping[Place, MakeClaim | DropClaim]:
        """Assigned places whose pods lack a claim that muster makes; another of its name goes first."""
        found: dict[Place, MakeClaim | DropClaim] = {}
        for place in (place for place, uses in self._assigned.items() if uses is None):
            pod = self._places.ready[place]
            if (wanted := self._by_number(place)) is None or (
                requests := self._requests(pod, wanted)
            ) is None:
                continue
            if (stale := self._numbered(pod)) is not None:
                meta = stale.metadata
                if meta.deletion_timestamp is None and not requests.are_of(stale):
                    found[place] = DropClaim(
                        kinds.RESOURCE_CLAIM, meta.namespace, meta.name, meta.uid, users=((place, pod),)
                    )
            else:
                found[place] = MakeClaim(
                    kinds.RESOURCE_CLAIM,
                    pod.metadata.namespace,
                    claim_of(pod, requests),
                    users=((place, pod),),
                )
        return found

    def _requests(self, pod: Pod, wanted: Allocation) -> Requests | None:
        """Returns the requests of the claim for these devices; None if there are others than it asks for."""
        resources = frozenset(resource for resource, _ in wanted.devices)
        try:
            found = requests_of(pod, resources, self._view.by_number)
        except ValueError:
            return None
        return found if found.shared_out(wanted) is not None else None

    @cached_property
    def _assigned(self) -> Mapping[Place, tuple[_Use, ...] | None]:
        """By missing place whose pod has claims, these; None: one does not exist, or is assigned nothing."""
        found: dict[Place, tuple[_Use, ...] | None] = {}
        for uid, pod in self._claiming.items():
            place = self._members[uid].place
            if place is not None and place in self._places.missing and self._places.ready.get(place) is pod:
                names = [*pod_claims.needed(pod), *([BY_NUMBER] if self._by_number(place) else [])]
                if not names:
                    continue
                claims = self._of(pod)
                uses = {name: self._use(place, pod, name, claims.get(name)) for name in names}
                known = tuple(use for use in uses.values() if use is not None)
                found[place] = known if len(known) == len(uses) else None
        return found

    @cached_property
    def _uses(self) -> tuple[tuple[_Use, ...], ...]:
        """The same by claim: several pods may share one. Each pod is there once."""
        found: dict[str, dict[str, _Use]] = {}
        for uses in self._assigned.values():
            for use in uses or ():
                found.setdefault(use.claim.key, {}).setdefault(use.pod.metadata.uid, use)
        return tuple(tuple(uses.values()) for uses in found.values())

    def _use(self, place: Place, pod: Pod, name: str, claim: ResourceClaim | None) -> _Use | None:
        wanted = next((one for one in self._view.allocations.get(place, ()) if one.claim == name), None)
        if claim is None or claim.metadata.deletion_timestamp is not None or wanted is None:
            return None
        if name != BY_NUMBER:
            return _Use(claim, place, pod, wanted)
        requests = self._requests(pod, wanted)
        if requests is None or not requests.are_of(claim):
            return None
        shared_out = requests.shared_out(wanted)
        return _Use(claim, place, pod, shared_out, requests) if shared_out is not None else None

    def _of(self, pod: Pod) -> dict[str, ResourceClaim]:
        """Returns the claims of a pod, by the names that they have in the pod."""
        names, templates = pod_claims.names(pod), pod_claims.templates(pod)
        found = {name: self._find(pod, known, own=name in templates) for name, known in names.items()}
        found[BY_NUMBER] = self._numbered(pod)
        return {name: claim for name, claim in found.items() if claim is not None}

    def _numbered(self, pod: Pod) -> ResourceClaim | None:
        """Returns the claim of what the pod requests by number."""
        return self._find(pod, name_of(pod), own=True)

    def _find(self, pod: Pod, name: str, *, own: bool) -> ResourceClaim | None:
        """Returns a claim of the pod's namespace that can be read; `own`: it must have been made for the pod.

        A claim that is being deleted keeps its devices until it is freed.
        """
        found = self._view.find(kinds.RESOURCE_CLAIM, f"{pod.metadata.namespace}/{name}")
        if not isinstance(found, ResourceClaim) or found.metadata.unreadable:
            return None
        return found if not own or pod_claims.is_made_for(pod, found) else None

    def _allocate(self, lacking: list[_Use]) -> Allocate | None:
        claim, place, wanted = lacking[0].claim, lacking[0].place, lacking[0].wanted
        if any(True for use in lacking for _ in self._others(use)):
            return None  # they are leaving, or the place is lost
        users = tuple((use.place, use.pod) for use in lacking if not use.reserved)
        if claim.status.allocation is not None:
            return Allocate(claim, users, "") if lacking[0].allocated else None
        node = self._places.missing[place]
        allocation = self._allocation(claim, wanted, node)
        at = mark(self._view.epoch, max((plan.attempt for plan in self._view.plans), default=0), place)
        return Allocate(claim, users, at, allocation) if allocation is not None else None

    def _conflict(self, use: _Use, first: Allocation, number: int) -> str:
        """Returns why a claim cannot get the devices for the pod that is its user of this number."""
        claim, name = use.claim, use.claim.metadata.name
        if claim.status.allocation is not None and not use.allocated and not self._is_free(claim):
            return f"ResourceClaim {name} has been allocated other devices by another client"
        if use.wanted.devices != first.devices:
            return f"ResourceClaim {name} is shared by pods that were assigned different devices"
        if not use.reserved and len(claim.status.reserved_for) + number >= MOST_RESERVED:
            return f"ResourceClaim {name} is reserved for {MOST_RESERVED} consumers already"
        for device, other in self._others(use):
            if not self._is_leaving(other):
                return f"device {device} has been allocated for another claim than {name}"
        return ""

    def _others(self, use: _Use) -> Iterator[tuple[DeviceId, ResourceClaim]]:
        """Yields devices that the claim is to have and another claim has, with that claim."""
        for _, device in use.wanted.devices:
            for key in self._view.holders(device):
                other = self._view.find(kinds.RESOURCE_CLAIM, key)
                if isinstance(other, ResourceClaim) and key != use.claim.key:
                    yield device, other

    def _is_leaving(self, claim: ResourceClaim) -> bool:
        """Whether the claim is about to be freed: no pod that it is reserved for goes on, or has started.

        Of pods that have not, muster has the claims: it frees those whose devices it has assigned elsewhere.
        """
        namespace, deleting = claim.metadata.namespace, claim.metadata.deletion_timestamp is not None
        ours = PLAN in claim.metadata.annotations and not deleting
        for each in claim.status.reserved_for:
            found = self._view.find(kinds.POD, f"{namespace}/{each.name}")
            pod = found if isinstance(found, Pod) and found.metadata.uid == each.uid else None
            stays = pod is not None and live(pod) and not (ours and not pod.spec.node_name)
            if not pod_claims.is_of_pod(each) or stays:
                return False
        return bool(claim.status.reserved_for) or deleting

    @cached_property
    def _claims(self) -> Mapping[str, tuple[ResourceClaim, list[tuple[Place | None, Pod]]]]:
        """By key, the claims that exist, and the pods without a node that have them."""
        found: dict[str, tuple[ResourceClaim, list[tuple[Place | None, Pod]]]] = {}
        for uid, pod in self._claiming.items():
            for claim in self._of(pod).values():
                found.setdefault(claim.key, (claim, []))[1].append((self._members[uid].place, pod))
        return found

    def _keeps(self, claim: ResourceClaim, place: Place, pod: Pod) -> bool:
        """Whether the claim is to have, for the pod of this place, the devices that it has."""
        uses = self._assigned.get(place) or ()
        mine = [use for use in uses if use.claim is claim and use.pod is pod]
        return any(claim.status.allocation is None or use.allocated for use in mine)

    def _is_free(self, claim: ResourceClaim) -> bool:
        """Whether muster has allocated the claim, and only pods of this gang that wait have reserved it."""
        waiting, reserved = self._claiming, claim.status.reserved_for
        own = all(pod_claims.is_of_pod(each) and each.uid in waiting for each in reserved)
        return own and PLAN in claim.metadata.annotations

    def _allocation(self, claim: ResourceClaim, wanted: Allocation, node: NodeName) -> Object | None:
        """Returns `status.allocation`, as kube-scheduler writes it; None: a class is gone.

        Drivers read their configuration there, and the controller that evicts pods from tainted devices reads
        which taints are tolerated.
        """
        asked = dict(_asked(claim))
        names = [*dict.fromkeys(name for name, _ in wanted.devices)]
        results = []
        for name, device in wanted.devices:
            driver, _, rest = device.partition("/")
            pool, _, each = rest.rpartition("/")
            result: Object = {"request": name, "driver": driver, "pool": pool, "device": each}
            if name in asked and asked[name].tolerations:
                result["tolerations"] = msgspec.to_builtins(asked[name].tolerations)
            results.append(result)
        config: list[Object] = []
        for of in dict.fromkeys(asked[name].device_class_name for name in names if name in asked):
            found = self._view.find(kinds.DEVICE_CLASS, of)
            if not isinstance(found, DeviceClass):
                return None
            some = [name for name in names if name in asked and asked[name].device_class_name == of]
            config += ({"source": "FromClass", "requests": some, **each} for each in found.spec.config)
        for own in claim.spec.devices.config:
            of_some = own.get("requests") or []
            if not of_some or any(name in of_some or name.partition("/")[0] in of_some for name in names):
                config.append({"source": "FromClaim", **own})
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        devices: Object = {"results": results, **({"config": config} if config else {})}
        return {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [term]}}


def _tell(place: Place, pod: Pod, status: Object | None) -> TellOfClaim:
    """Returns the write that tells the node which claim stands for the pod's resources; None: no claim."""
    meta = pod.metadata
    seen = {"resourceVersion": meta.resource_version, "uid": meta.uid}
    body: Object = {"metadata": seen, "status": {"extendedResourceClaimStatus": status}}
    return TellOfClaim(
        kinds.POD,
        meta.namespace,
        meta.name,
        body,
        "status",
        missing_ok=False,
        seen=meta.resource_version,
        users=((place, pod),),
    )


def _devices(claim: ResourceClaim) -> tuple[tuple[str, DeviceId], ...]:
    """Returns the devices that a claim has, each after the request that it is for."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return tuple((each.request, DeviceId(f"{each.driver}/{each.pool}/{each.device}")) for each in results)


def _asked(claim: ResourceClaim) -> Iterator[tuple[str, DeviceAsked]]:
    """Yields what a claim asks for, by the name that results have for it."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        yield from ((f"{request.name}/{one.name}", one) for one in request.first_available)
