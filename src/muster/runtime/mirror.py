"""Keeps a copy of the cluster's objects, and returns what has changed since the last drain.

The mirror puts objects into `translate`'s world as they arrive; a change only notes which groups it touches.
`drain` then reads each touched group once, however many of its pods have changed meanwhile, compares it
with the last reading, and returns the differences as events for the core. A reading costs as much as what has
changed, however large the gang is. A change of a running pod that says nothing new, as most do, touches no
group: the pod is replaced where it is kept.

A pod that occupies a node is always charged: to its gang, or as a foreign pod if no gang is left to charge,
as after its JobSet has finished. So the mirror never reports more free capacity than there is.

A mirror does not know where objects come from: `watched.py` keeps one up to date by watching an API server,
and `muster plan` fills one from a file.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

from muster.api import kinds
from muster.api.base import AnyKind, LabelSelector, Resource
from muster.api.core_v1 import Node, Pod
from muster.api.fields import UNREADABLE
from muster.api.pod_claims import has_claims
from muster.api.rates import Rates
from muster.api.requests import as_it_runs
from muster.core.words.devices import ClaimShape, DeviceId
from muster.core.words.events import (
    AvoidanceChanged,
    Event,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    PlacesRetired,
    PodsBound,
    PodsEnded,
    QueueRemoved,
    StartFailed,
)
from muster.core.words.gang import Avoidance, GangId, Place, PodId
from muster.runtime.allowances import Allowances
from muster.runtime.plan_record import Plan
from muster.runtime.recorded_plans import RecordedPlans
from muster.runtime.used_nodes import UsedNodes
from muster.translate.adopted import EVERY, QueueObjects
from muster.translate.devices import Devices
from muster.translate.dialects import Reader, group_of
from muster.translate.group import Group, Touched
from muster.translate.identity import GroupKey, in_order
from muster.translate.pods import bound_at, occupies, pod_bound, says_the_same
from muster.translate.queues import queue_changed
from muster.translate.start_failures import Counted, start_failed
from muster.translate.touched import (
    asking_for_devices,
    everything,
    keys_touched,
    pods_below,
    pods_looking_at_namespaces,
    regrouped,
    relabelled,
)
from muster.translate.world import KINDS, UNRANKED, World

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Changes:
    """The changes since the last drain: events for the core, in order, and gangs to visit."""

    events: list[Event] = field(default_factory=list)
    gangs: dict[GangId, None] = field(default_factory=dict)  # a set that keeps its order
    #: gangs of which running pods have changed, but in nothing that decides about them
    renewed: dict[GangId, None] = field(default_factory=dict)


class Mirror:
    """Holds the objects of the cluster, and reads groups from them.

    `schedulers`, `whole`, `victims`, `unranked`, `awaiting`: see `World`. `counted`: which failures at the
    start of pods are reported. `adopts`: which queues of other schedulers count (`translate.adopted`).

    `selector`: labels of the nodes that muster may use (`UsedNodes`). `lease`: the Lease of this scheduler
    (`RecordedPlans`).
    """

    def __init__(
        self,
        schedulers: frozenset[str] | None = None,
        *,
        whole: bool = False,
        selector: LabelSelector | None = None,
        lease: str = "",
        victims: frozenset[str] = frozenset(),
        unranked: int = UNRANKED,
        counted: Counted | None = None,
        adopts: frozenset[str] = EVERY,
        awaiting: frozenset[str] = frozenset(),
    ) -> None:
        self.world = World(
            schedulers, whole=whole, lease=lease, victims=victims, unranked=unranked, awaiting=awaiting
        )
        #: groups as last drained
        self.groups: dict[GangId, Group] = {}
        self._by_key: dict[GroupKey, Group] = {}
        self._ids: dict[tuple[str, str], GangId] = {}  # by namespace and name of the record
        self._of_owner: dict[str, dict[GangId, None]] = {}
        self._plans = RecordedPlans(lease)
        #: pods that use a node: as last reported, and the pod as it was then, if nothing else was reported
        self._charged: dict[PodId, tuple[PodsBound, Pod | None]] = {}
        self._readers: dict[GroupKey, Reader] = {}
        #: groups to read again, with the objects that have changed since
        self._stale: dict[GroupKey, Touched] = {}
        self._allowances = Allowances(self.world)
        self.queues, self.devices = QueueObjects(adopts), Devices(self.world.asks)
        #: which failures at the start of pods are reported, and the pods of which one has been
        self.counted = counted or Counted()
        self._failed: set[PodId] = set()
        self._pods: dict[PodId, Pod | None] = {}  # changed since the last drain; None = gone
        self._pending = Changes()
        self._nodes = UsedNodes(selector or LabelSelector())
        #: names of the nodes that muster uses, and of all nodes
        self.nodes, self.present = self._nodes.names, self._nodes.present
        #: prices of GPUs, for what evictions lose
        self.rates = Rates()

    # -- what the committer reads

    def plans(self, gang: GangId) -> list[Plan]:
        group = self.groups.get(gang)
        if group is not None:
            found = self._plans.of((group.namespace, group.record))
        else:
            found = [plan for plan in self._plans if self._id(plan) == gang]
        return sorted(found, key=lambda plan: (plan.attempt, plan.epoch, plan.name))

    def planned(self) -> list[GangId]:
        return sorted({self._id(plan) for plan in self._plans})

    def others(self, record: Resource | None) -> str:
        """Returns the Lease of the other scheduler that a Gang or a plan belongs to, if it does."""
        return self._plans.others(record)

    def holders(self, device: DeviceId) -> Sequence[str]:
        """Returns the ResourceClaims that have a device, as `namespace/name`."""
        return self.devices.holders(device)

    @property
    def by_number(self) -> Mapping[str, str]:
        """By class of devices, the resource as which these are counted."""
        return self.world.classes

    def gangs_of(self, owner_uid: str) -> Iterable[GangId]:
        return self._of_owner.get(owner_uid, ())

    def names(self, word: str) -> bool:
        """Whether a word is the `namespace/name` of what may exist: a gang, or anything in a namespace."""
        return ("", word.partition("/")[0]) in self.world.namespaces or word in self.groups

    # -- changes

    def drain(self, now: float) -> Changes:
        """Reads what has changed since the last drain; `now` dates the ends of pods."""
        changes, self._pending = self._pending, Changes()
        if vanished := self._nodes.vanished:  # their pods are lost
            some = (bound.gang for bound, _ in self._charged.values() if bound.node in vanished)
            changes.gangs.update((gang, None) for gang in some if gang is not None)
            vanished.clear()
        if self.devices.reread:
            self.devices.reread = False
            self._ask_again({*asking_for_devices(self.world)})
        changes.events += self.devices.events()
        pods, self._pods = self._pods, {}
        stale = bool(self._stale)
        self._read_stale(changes, pods)
        if stale and self.world.asks.many and (room := self.world.asks.keep(self._claims())):
            self._ask_again({key for key in asking_for_devices(self.world) if key.namespace in room})
            self._read_stale(changes, pods)
        if stale:  # a plan whose gang is gone, or whose id another gang has taken
            for record in self._plans.records():
                if record not in self._ids:
                    changes.gangs.update((self._id(plan), None) for plan in self._plans.of(record))
        ended = _one_by_one(pods, lambda uid: self._charge(uid, pods[uid], changes))
        if ended:
            changes.events.append(PodsEnded(tuple(ended), now))
        if self.devices.stale:
            changes.events += self.devices.events()
        failed: list[StartFailed] = []
        _one_by_one(pods, lambda uid: failed.extend(self._start_failures(uid, pods[uid], now)))
        failed.sort(key=lambda event: (event.at, event.origin, event.node))
        changes.events += failed
        metered, disrupted = self._allowances.due()
        _one_by_one(metered, lambda where: changes.events.extend(self._allowances.of_quotas(where)))
        _one_by_one(disrupted, lambda where: changes.events.extend(self._allowances.of_budgets(where)))
        return changes

    def change(self, kind: AnyKind, old: Resource | None, new: Resource | None) -> None:
        """Takes in an object of a `WATCHED` kind: `old` is None for a new one, `new` for one that is gone."""
        latest = new or old
        assert latest is not None, "a change has an object"
        _CHANGE[kind](self, _Change(kind, old, new, latest))

    def _object(self, change: "_Change") -> None:
        """Takes in an object that groups are read from."""
        self._put(change)
        self._touch(change)

    def _put(self, change: "_Change") -> None:
        if change.new is not None:
            self.world.put(change.kind, change.new)
        else:
            meta = change.latest.metadata
            self.world.drop(change.kind, meta.namespace, meta.name)

    def _touch(self, change: "_Change") -> None:
        """Notes the groups to read again."""
        kind, old, new, _ = change
        whole = self.world.rehomed or regrouped(kind, old, new, self.world)
        self.world.rehomed = False
        for key in in_order(keys_touched(kind, old, new, self.world)):
            touched = self._stale.setdefault(key, Touched())
            touched.add(kind, old, new)
            touched.anew |= whole

    def _pod(self, change: "_Change") -> None:
        _, old, new, latest = change
        self._put(change)
        self._allowances.pod(latest.metadata.namespace)
        if isinstance(old, Pod) and isinstance(new, Pod) and self._renew(old, new):
            return
        self._pods[PodId(latest.metadata.uid)] = new if isinstance(new, Pod) else None
        if isinstance(latest, Pod) and has_claims(latest) and not (new and occupies(latest)):
            self.devices.pod(latest.metadata.uid, bound=False)  # its claims have the devices still
        self._touch(change)

    def _owner(self, change: "_Change") -> None:
        self._object(change)
        if change.old is None or change.new is None:
            # a Job of the same name may take its gang's id before the next drain, but not its pods
            below = pods_below(change.latest, self.world)
            self._pods.update((PodId(pod.metadata.uid), pod) for pod in below)

    def _namespace(self, change: "_Change") -> None:
        self._object(change)
        if relabelled(change.old, change.new):
            looking = pods_looking_at_namespaces(self.world)
            self._pods.update((PodId(pod.metadata.uid), pod) for pod in looking)

    def _topology(self, change: "_Change") -> None:
        self._object(change)
        self._pending.events.append(LayersChanged(self.world.layers.chain))

    def _quota(self, change: "_Change") -> None:
        self._object(change)
        self._allowances.quota(change.latest.metadata.namespace)

    def _node(self, change: "_Change") -> None:
        self._pending.events += self._nodes.change(change.old, change.new)

    def _claims(self) -> dict[str, set[ClaimShape]]:
        """Returns the claims of devices that gangs have, by namespace."""
        found: dict[str, set[ClaimShape]] = {}
        for group in self.groups.values():
            for pod_set in group.gang.pod_sets:
                if pod_set.shape.claims:
                    found.setdefault(group.namespace, set()).update(pod_set.shape.claims)
        return found

    def _ask_again(self, keys: set[GroupKey]) -> None:
        """Notes groups to read again although their objects are the same: their claims are read otherwise."""
        for key in in_order(keys):
            self._stale.setdefault(key, Touched()).others.setdefault(kinds.DEVICE_CLASS, set()).add("")

    def _read_stale(self, changes: Changes, pods: dict[PodId, Pod | None]) -> None:
        stale, self._stale = self._stale, {}
        for key, touched in stale.items():
            self._read(key, touched, changes, pods)

    def _devices(self, change: "_Change") -> None:
        self.devices.change(change.old, change.new)

    def _device_class(self, change: "_Change") -> None:
        self._devices(change)
        self._object(change)

    def _device_claim(self, change: "_Change") -> None:
        self._devices(change)
        self._object(change)
        meta = change.latest.metadata
        for user, _ in self.world.asking_for(kinds.RESOURCE_CLAIM, meta.namespace, meta.name):
            if isinstance(user, Pod) and (uid := PodId(user.metadata.uid)) in self._charged:
                self._charged[uid] = self._charged[uid][0], None  # its devices are to be read again
                self._pods.setdefault(uid, user)

    def _queue(self, change: "_Change") -> None:
        name, old, new = self.queues.change(change.kind, change.latest, gone=change.new is None)
        if self.world.queue_rules.change(name, new):
            for key in in_order({*everything(self.world)}):
                self._stale.setdefault(key, Touched()).add(kinds.QUEUE, old, new)
        if new is not None:
            event = queue_changed(new)
            if old is None or queue_changed(old) != event:
                self._pending.events.append(event)
        elif old is not None:
            self._pending.events.append(QueueRemoved(name))

    def _budget(self, change: "_Change") -> None:
        self._allowances.budget(change.latest, gone=change.new is None)

    def _gang(self, change: "_Change") -> None:
        self._plan(change)
        meta = change.latest.metadata
        if gang := self._ids.get((meta.namespace, meta.name)):
            self._pending.gangs[gang] = None

    def _plan(self, change: "_Change") -> None:
        for plan in self._plans.change(change.old, change.new):
            self._pending.gangs[self._id(plan)] = None

    def _renew(self, old: Pod, new: Pod) -> bool:
        """Takes in a change of a running pod that says nothing new, as most do; False: it may say more."""
        uid = PodId(new.metadata.uid)
        charged, settled = self._charged.get(uid, (None, None))
        if charged is None or settled is not old or not says_the_same(new, old):
            return False  # `settled`: the state that was last read and charged
        if as_it_runs(new) is not new or bound_at(new) != charged.at:
            return False
        key = group_of(new, self.world)
        group = self._by_key.get(key) if key is not None else None
        if key is not None and group is not None:
            if not self._readers[key].renew(group, old, new):
                return False
            self._pending.renewed[group.gang.id] = None
        self._charged[uid] = charged, new
        return True

    def avoid(self, rules: Avoidance) -> None:
        """Avoids nodes by these rules from now on."""
        self._pending.events.append(AvoidanceChanged(rules))

    def select(self, selector: LabelSelector, nodes: Iterable[Node]) -> None:
        """Uses only nodes with these labels from now on; `nodes`: all that there are."""
        self._nodes.selector = selector
        for node in nodes:
            self._pending.events += self._nodes.change(node, node)

    def _id(self, plan: Plan) -> GangId:
        """Returns the gang of a plan: by its record, since ids may change when a namesake arrives or leaves.

        A plan whose gang is gone keeps that gang's id, unless another gang has the id now.
        """
        known = self._ids.get((plan.namespace, plan.record))
        if known is None and plan.gang in self.groups:
            return GangId(f"{plan.namespace}/gang:{plan.record}")  # no group has a name with a colon
        return known or plan.gang

    def _read(self, key: GroupKey, touched: Touched, changes: Changes, pods: dict[PodId, Pod | None]) -> None:
        old, reader = self._by_key.get(key), self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = Reader(key, self.world)
        new, moved = reader.read(touched)
        if old is not None:
            self._forget(key, old, new, changes)
        if new is not None:
            self._keep(key, old, new, changes)
        else:
            del self._readers[key]
        for uid, pod in _pods_that_changed(old, new, moved, every=touched.anew):
            pods.setdefault(uid, pod)

    def _forget(self, key: GroupKey, old: Group, new: Group | None, changes: Changes) -> None:
        gang = old.gang.id
        changes.gangs[gang] = None
        if old.owner is not None and (gangs := self._of_owner.get(old.owner.uid)):
            gangs.pop(gang, None)
            if not gangs:
                del self._of_owner[old.owner.uid]
        if self._ids.get(record := (old.namespace, old.record)) == gang:
            del self._ids[record]
        if new is not None and new.gang.id == gang:
            return
        del self._by_key[key]
        if self.groups.get(gang) is old:
            del self.groups[gang]
            if not old.finished:
                changes.events.append(GangRemoved(gang))

    def _keep(self, key: GroupKey, old: Group | None, new: Group, changes: Changes) -> None:
        gang = new.gang.id
        before = old if old is not None and old.gang.id == gang and not old.finished else None
        if before is not None and before.gang == new.gang:
            new = replace(new, gang=before.gang)  # the object that the core has: not kept twice
        if (other := self.groups.get(gang)) is not None and other is not old and not other.finished:
            changes.events.append(GangRemoved(gang))  # of a namesake that has not been read again yet
        self._by_key[key] = self.groups[gang] = new
        self._ids[new.namespace, new.record] = gang
        if new.owner is not None:
            self._of_owner.setdefault(new.owner.uid, {})[gang] = None
        changes.gangs[gang] = None
        if new.finished:
            if before is not None:
                changes.events.append(GangRemoved(gang))
            return
        if before is None or before.gang is not new.gang:
            changes.events.append(GangSubmitted(new.gang))
        if new.retired != (before.retired if before is not None else frozenset()):
            changes.events.append(PlacesRetired(gang, new.retired))

    def _charge(self, uid: PodId, pod: Pod | None, changes: Changes) -> bool:
        """Reports a pod's node and gang to the core if they have changed. True: the pod has ended."""
        before, old = self._charged.get(uid, (None, None))
        if pod is None or not occupies(pod):
            self._charged.pop(uid, None)
            return before is not None
        if has_claims(pod):
            self.devices.pod(uid, bound=True)
        gang, place = self._whose(uid, pod)
        # neither being resized, nor dependent on namespaces
        settled = pod if as_it_runs(pod) is pod and pod.spec.affinity is None else None
        if before is None or not (
            old is not None
            and settled is not None
            and says_the_same(pod, old)
            and (before.gang, before.at) == (gang, bound_at(pod))
            and before.pods[uid] == place
        ):
            bound = pod_bound(pod, gang, place, self.world)
            if bound != before:
                before = bound
                changes.events.append(bound)
        self._charged[uid] = before, settled
        return False

    def _start_failures(self, uid: PodId, pod: Pod | None, now: float) -> Iterator[StartFailed]:
        """Yields the failure of a pod at its start, once."""
        if pod is None:
            self._failed.discard(uid)
        elif pod.status.phase == "Failed" and uid not in self._failed:
            key = group_of(pod, self.world)
            group = self._by_key.get(key) if key is not None else None
            if group is not None:
                origin = group.gang.origin or group.gang.id
                if (failed := start_failed(pod, self.counted, origin, now)) is not None:
                    self._failed.add(uid)
                    yield failed

    def _whose(self, uid: PodId, pod: Pod) -> tuple[GangId | None, Place | None]:
        key = group_of(pod, self.world)
        group = self._by_key.get(key) if key is not None else None
        if group is None or group.finished:
            return None, None
        member = group.members.get(uid)
        return group.gang.id, member.place if member is not None else None


class _Change(NamedTuple):
    kind: AnyKind
    old: Resource | None
    new: Resource | None
    #: `new`, or `old` if the object is gone
    latest: Resource


#: What is done about a change of each kind that a mirror shows: what groups are read from, nodes, and the
#: scheduler's own records.
_CHANGE: Final[Mapping[AnyKind, Callable[[Mirror, _Change], None]]] = {
    **dict.fromkeys(KINDS, Mirror._object),
    kinds.POD: Mirror._pod,
    kinds.JOB: Mirror._owner,
    kinds.JOBSET: Mirror._owner,
    kinds.NAMESPACE: Mirror._namespace,
    kinds.CLUSTER_NETWORK_TOPOLOGY: Mirror._topology,
    kinds.RESOURCE_QUOTA: Mirror._quota,
    kinds.NODE: Mirror._node,
    kinds.DEVICE_CLASS: Mirror._device_class,
    kinds.RESOURCE_SLICE: Mirror._devices,
    kinds.RESOURCE_CLAIM: Mirror._device_claim,
    **dict.fromkeys(kinds.QUEUES, Mirror._queue),
    kinds.PDB: Mirror._budget,
    kinds.GANG: Mirror._gang,
    kinds.GANG_PLAN: Mirror._plan,
}
#: These kinds.
WATCHED: Final = tuple(_CHANGE)


def _one_by_one(items: Iterable[T], act: Callable[[T], bool | None]) -> list[T]:
    """Returns the items for which `act` returns True. One that cannot be read does not stop the others."""
    chosen = []
    for item in items:
        try:
            if act(item):
                chosen.append(item)
        except UNREADABLE:
            log.exception("%s cannot be read, and is set aside", item)
    return chosen


def _pods_that_changed(
    old: Group | None, new: Group | None, moved: Iterable[PodId], *, every: bool
) -> Iterator[tuple[PodId, Pod]]:
    """Yields pods whose place or gang may have changed with this reading: all of them if the gang has."""
    if every or new is None or old is None or _told_as(old) != _told_as(new):
        for group in filter(None, (new, old)):
            yield from ((uid, member.pod) for uid, member in group.members.items())
            yield from group.leaving.items()
        return
    for uid in sorted(moved):
        member = new.members.get(uid)
        if pod := member.pod if member is not None else new.leaving.get(uid):
            yield uid, pod


def _told_as(group: Group) -> tuple[GangId, bool]:
    return group.gang.id, group.finished
