"""What the committer reads of the mirror: gangs, plans, records, and what a gang's victims are now.

Nothing here has a state. What a plan records is found by uid: a pod or an owner that was created again under
the same name is never taken for the one that was meant.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from muster.api import kinds
from muster.api.base import Object, Resource
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.api.rates import Rates
from muster.core.words.decisions import Victim as ChosenVictim
from muster.core.words.devices import DeviceId
from muster.core.words.gang import GangId, PodId
from muster.names import GPU_PRODUCT
from muster.runtime.commit.view import Unfenced, Victim
from muster.runtime.consent import Known
from muster.runtime.plan_record import (
    OwnerRef,
    Plan,
    PodRef,
    RecreationPlan,
    VictimRef,
    occupying,
)
from muster.translate.group import Group, Owner
from muster.translate.losses import priced, seconds_lost
from muster.translate.pods import live, occupies

#: Seconds between two starts of a gang whose record is another scheduler's, each of which fails at once.
FOREIGN: Final = 30.0


class Observed(Known, Protocol):
    """What the committer reads of the mirror."""

    @property
    def nodes(self) -> Container[str]: ...

    @property
    def present(self) -> Container[str]: ...

    @property
    def rates(self) -> Rates: ...

    def plans(self, gang: GangId) -> Sequence[Plan]:
        """Returns the open plans of `gang`, by attempt."""
        ...

    def planned(self) -> Iterable[GangId]:
        """Gangs that have open plans."""
        ...

    def gangs_of(self, owner_uid: str) -> Iterable[GangId]:
        """Gangs of this owner: several if it has stages."""
        ...

    def holders(self, device: DeviceId) -> Sequence[str]:
        """Returns the ResourceClaims that have a device, as `namespace/name`."""
        ...

    @property
    def by_number(self) -> Mapping[str, str]:
        """By class of devices, the resource as which these are counted."""
        ...

    def others(self, record: Resource | None) -> str:
        """Returns the Lease of the other scheduler that a Gang belongs to; "" = it is this one's."""
        ...


def look_up(observed: Observed, victim: ChosenVictim, now: float) -> VictimRef:
    """Looks up the pods and the owner of a victim, by uid, as the plan records them."""
    group = observed.groups.get(victim.gang)
    if group is None:
        return VictimRef(victim.gang, None, ())
    bound = [*(member.pod for member in group.members.values()), *group.leaving.values()]
    pods = tuple(
        PodRef(pod.metadata.namespace, pod.metadata.name, PodId(pod.metadata.uid))
        for pod in bound
        if occupies(pod) and (not victim.pods or pod.metadata.uid in victim.pods)
    )
    owner = None if victim.pods else _sole_owner(observed, group)
    ref = _owner_ref(group.namespace, owner) if owner is not None else None
    return VictimRef(victim.gang, ref, pods, not victim.pods, now, victim.work_lost, victim.reclaimed)


def victim_of(observed: Observed, recorded: VictimRef) -> Victim:
    pods = tuple(filter(None, (occupying(ref, observed.find) for ref in recorded.pods)))
    group = observed.groups.get(recorded.gang)
    owner = _sole_owner(observed, group) if group is not None and recorded.owner is not None else None
    if owner is not None and recorded.owner is not None and owner.uid != recorded.owner.uid:
        owner = None
    plans = tuple(observed.plans(recorded.gang))
    return Victim(recorded, owner, pods, plans, record_of(observed, group), group)


def lost(observed: Observed, victim: Victim, now: float) -> Object:
    """Returns what the eviction of a victim loses: GPU-hours, and their price if rates are known."""
    if victim.group is None:
        return {}
    lost = seconds_lost(victim.group.gang, victim.pods, partial(_product, observed), now)
    return priced(lost, observed.rates)


def record_of(observed: Observed, group: Group | None) -> GangRecord | None:
    if group is None:
        return None
    found = observed.find(kinds.GANG, f"{group.namespace}/{group.record}")
    return found if isinstance(found, GangRecord) and not observed.others(found) else None


def foreign(observed: Observed, group: Group | None, now: float) -> Unfenced | None:
    """Returns why nothing of a gang is to be written if its record is another scheduler's."""
    if group is None:
        return None
    lease = observed.others(observed.find(kinds.GANG, f"{group.namespace}/{group.record}"))
    if not lease:
        return None
    message = (
        f"Gang {group.record} belongs to the scheduler of lease {lease}: give one of the two other "
        "schedulerNames, or delete the Gang if that scheduler is gone"
    )
    return Unfenced(message, now + FOREIGN, foreign=True)


def namesakes(observed: Observed, plan: Plan) -> Iterator[Pod | None]:
    """Yields, for each pod that the plan re-creates, the pod that has its name now."""
    for pod in plan.pods if isinstance(plan, RecreationPlan) else ():
        found = observed.find(kinds.POD, f"{plan.namespace}/{pod.name}")
        yield found if isinstance(found, Pod) else None


def is_shared(observed: Observed, group: Group) -> bool:
    """Whether suspending the owner would also end pods of another gang (of another stage)."""
    if group.owner is None:
        return False
    others = (observed.groups.get(gang) for gang in observed.gangs_of(group.owner.uid))
    return any(other is not None and other.gang.id != group.gang.id and _has_bound(other) for other in others)


def _sole_owner(observed: Observed, group: Group) -> Owner | None:
    """Returns the owner whose suspension ends this gang in one write, if there is one."""
    owner = group.owner
    return owner if owner is not None and owner.admission and not is_shared(observed, group) else None


def _product(observed: Observed, node: str) -> str:
    found = observed.find(kinds.NODE, node)
    return found.metadata.labels.get(GPU_PRODUCT, "") if found is not None else ""


def _owner_ref(namespace: str, owner: Owner) -> OwnerRef:
    return OwnerRef(owner.kind.api_version, owner.kind.kind, namespace, owner.name, owner.uid)


def _has_bound(group: Group) -> bool:
    return any(live(m.pod) and m.pod.spec.node_name for m in group.members.values())
