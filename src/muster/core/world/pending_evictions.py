"""Pending evictions: victims that are leaving, and the capacity that they free, each counted once.

From the decision until they have gone, victims still use their nodes, while the places for which they make
room are held already. Both are charged, and what the two have in common is taken off again: on each node, of
each resource, the smaller of what a beneficiary's victims use and what it holds there. So a node is charged
for each beneficiary with the *greater* of the two. The capacity is neither free for other gangs meanwhile nor
counted twice. Whatever happens next (a pod ends, a place is filled) never needs more than is charged.

The greater is taken for each beneficiary by itself, not of the sums over all of them: one may start while
another's victims still exist. A look ahead counts it as the beneficiary's use (`completions.py`), so a
leaving pod is no longer part of what its own gang uses.

An eviction is pending as long as its beneficiary holds places, or an open plan promises it some, and victims
exist. If the beneficiary gives up, victims whose eviction has not begun stay; the others are seen as being
deleted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from muster.core.words.amounts import Usage
from muster.core.words.decisions import Victim
from muster.core.words.events import PodsBound
from muster.core.words.gang import Amounts, GangId, NodeName, Place, PodId
from muster.core.world.exclusive_domains import ExclusiveDomains
from muster.core.world.gangs import Gangs, GangState, Hold, occupy, used_by
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.queues import Terminating
from muster.core.world.trial import UndoLog

_NO_PODS: Final[Set[PodId]] = frozenset()


@dataclass(slots=True)
class PendingEviction:
    """All that leaves for one beneficiary."""

    pods: set[PodId] = field(default_factory=set)
    #: places that victims held and had not filled yet: a bind may be on its way
    promised: list[Charged] = field(default_factory=list)
    #: places held for the beneficiary with it; once one of them is filled, no bind of a victim is on its way
    places: set[Place] = field(default_factory=set)
    #: what is taken off the ledger, as it is charged to pods and to holds
    shared: dict[NodeName, Amounts] = field(default_factory=dict)


class PendingEvictions(dict[GangId, PendingEviction]):
    """The pending evictions by beneficiary. What leaves stays charged to the ledger until it has gone."""

    def __init__(
        self,
        ledger: Ledger,
        exclusive_domains: ExclusiveDomains,
        pods: Mapping[PodId, PodsBound],
        gangs: Gangs,
        log: UndoLog,
    ) -> None:
        super().__init__()
        self._ledger, self._exclusive_domains, self._log = ledger, exclusive_domains, log
        self._pods, self._gangs = pods, gangs
        #: by gang that is evicted as a whole, its beneficiary
        self.whole: dict[GangId, GangId] = {}
        #: by pod that leaves, its beneficiary
        self.leaving: dict[PodId, GangId] = {}
        #: pods that are being deleted, and the time of the first cycle that saw them; None: no cycle has
        self.deleted: dict[PodId, float | None] = {}
        self._changed: set[GangId] = set()
        #: gangs that are no longer victims, since the last `settle`
        self.over: set[GangId] = set()

    # -- how evictions begin

    def evict(self, beneficiary: GangId, victims: Iterable[Victim], places: Iterable[Place]) -> None:
        """Evict for a beneficiary, which holds these places. The ledger is not charged with the victims yet:
        `lower` does that.
        """
        for victim in victims:
            state = self._gangs[victim.gang]
            promised: list[Hold] = []
            if not victim.pods:
                promised = [hold for hold in state.holds.values() if hold.announced]
                for hold in state.holds.values():
                    occupy(state, hold.node, hold.requests, -1)
                state.holds.clear()
            whole = () if victim.pods else (victim.gang,)
            self._begin(beneficiary, victim.pods or state.pods.keys(), whole, promised, places)

    def found(self, beneficiary: GangId, victim: Victim) -> None:
        """Record an eviction of an open plan. The ledger is charged with the victim."""
        state = self._gangs.get(victim.gang)
        pods = victim.pods or (state.pods.keys() if state is not None else ())
        if any(pod in self._pods for pod in pods):
            self._begin(beneficiary, pods, () if victim.pods else (victim.gang,))

    def pods_bound(self, pods: Set[PodId], gang: GangId) -> None:
        """Add pods of an evicted gang that were still being bound: they leave, too."""
        beneficiary = self.whole.get(gang)
        if beneficiary is not None and (new := pods - self.leaving.keys()):
            self._begin(beneficiary, new, ())

    def _begin(
        self,
        beneficiary: GangId,
        pods: Iterable[PodId],
        whole: Iterable[GangId],
        promised: Iterable[Hold] = (),
        places: Iterable[Place] = (),
    ) -> None:
        self._save(beneficiary)
        eviction = self.setdefault(beneficiary, PendingEviction())
        eviction.pods |= self._pods.keys() & set(pods)
        eviction.promised += [hold.charged for hold in promised]
        eviction.places |= set(places)
        self.leaving.update(dict.fromkeys(eviction.pods, beneficiary))
        self.whole.update(dict.fromkeys(whole, beneficiary))
        self._changed.add(beneficiary)
        self._restamp(beneficiary, *(self._pods[pod].gang for pod in eviction.pods))

    def _save(self, beneficiary: GangId) -> None:
        """Let the trial that has begun, if any, restore what leaves for a beneficiary."""
        if self._log.depth:
            eviction = self.get(beneficiary)
            before = eviction and replace(
                eviction, pods={*eviction.pods}, promised=[*eviction.promised], places={*eviction.places}
            )
            self._log.push(self._restore, beneficiary, before, {**self.whole}, {**self.leaving})

    def _restore(
        self,
        beneficiary: GangId,
        eviction: PendingEviction | None,
        whole: dict[GangId, GangId],
        leaving: dict[PodId, GangId],
    ) -> None:
        pods = self.leaving.keys() ^ leaving.keys()
        self.whole, self.leaving = whole, leaving
        self.pop(beneficiary, None)
        if eviction is not None:
            self[beneficiary] = eviction
        self._restamp(beneficiary, *(self._pods[pod].gang for pod in pods))

    # -- how they end

    def pods_seen(self, pods: Iterable[PodId], *, deleted: bool) -> None:
        """Record that pods are on a node, or have left it; `deleted`: they are about to leave it."""
        for pod in pods if deleted or self.deleted else ():
            if deleted:
                self.deleted.setdefault(pod, None)
            else:
                self.deleted.pop(pod, None)

    def settle_deleted(self, now: float) -> None:
        """Begin a cycle, which sees all pods that are being deleted."""
        for pod, since in self.deleted.items():
            if since is None:
                self.deleted[pod] = now

    def pods_ended(self, pods: Iterable[PodId]) -> Set[PodId]:
        """Remove pods that have ended. Returns those that were leaving."""
        left = self.leaving.keys() & pods if self.leaving else _NO_PODS
        for pod in left:
            beneficiary = self.leaving.pop(pod)
            self[beneficiary].pods.discard(pod)
            self._changed.add(beneficiary)
            self._restamp(beneficiary)
        return left

    def give_up(self, beneficiary: GangId) -> None:
        """End the eviction for a beneficiary that no longer needs it: remaining victims stay."""
        if beneficiary in self:
            self.over |= self._end(beneficiary)

    def settle(self, *touched: Iterable[GangId]) -> set[GangId]:
        """Bring all that has changed up to date. Returns the gangs that have left, or may stay."""
        changed, self._changed = self._changed, set()
        over, self.over = self.over, set()
        for beneficiary in sorted(changed.union(*touched)) if self else ():
            eviction = self.get(beneficiary)
            if eviction is None:
                continue
            self._give_promised(beneficiary, eviction)
            if self._is_over(beneficiary, eviction):
                over |= self._end(beneficiary)
            else:
                self._share(beneficiary, eviction)
        return over

    def end_forsaken(self) -> set[GangId]:
        """End evictions whose beneficiary has neither holds nor an open plan. Returns their victims."""
        over: set[GangId] = set()
        for beneficiary in sorted(self):
            state = self._gangs.get(beneficiary)
            if state is None or not (state.holds or state.planned):
                over |= self._end(beneficiary)
        return over

    def _is_over(self, beneficiary: GangId, eviction: PendingEviction) -> bool:
        state = self._gangs.get(beneficiary)
        if state is None or state.gang is None or state.gang.gate is not None or state.back_off is not None:
            return True
        return not (eviction.pods or eviction.promised)

    def _give_promised(self, beneficiary: GangId, eviction: PendingEviction) -> None:
        """Release promised places once a place of the beneficiary is filled: no bind is under way then."""
        state = self._gangs.get(beneficiary)
        if state is not None and any(place in state.filled for place in eviction.places):
            for charged in eviction.promised:
                self._ledger.give(charged)
            eviction.promised.clear()
            self._restamp(beneficiary)

    def _end(self, beneficiary: GangId) -> set[GangId]:
        """End an eviction. Returns its victims: what still exists of them is theirs again."""
        eviction = self.pop(beneficiary)
        whole = [gang for gang, cause in self.whole.items() if cause == beneficiary]
        gangs = {*whole, *(self._pods[pod].gang for pod in eviction.pods)}
        for node, shared in eviction.shared.items():
            self._ledger.charge(node, shared)
        for charged in eviction.promised:
            self._ledger.give(charged)
        for pod in eviction.pods:
            del self.leaving[pod]
        for gang in whole:
            del self.whole[gang]
        self._restamp(beneficiary, *gangs)
        return {gang for gang in gangs if gang is not None}

    # -- what they use

    def of(self, gang: GangState) -> Usage:
        """What leaving pods of this gang use; their beneficiary is charged with it instead."""
        return used_by(self._pods[pod] for pod in self.leaving.keys() & gang.pods.keys())

    def usage(self) -> Iterator[Terminating]:
        """What victims still use, and what their beneficiaries hold, for the hard caps of queues."""
        for beneficiary, eviction in sorted(self.items()):
            state = self._gangs[beneficiary]
            by_queue: dict[str, list[PodsBound]] = {}
            for pod in sorted(eviction.pods):
                bound = self._pods[pod]
                if bound.gang is not None:
                    victim = self._gangs[bound.gang].gang
                    by_queue.setdefault(victim.queue if victim is not None else "", []).append(bound)
            yield Terminating(
                state.gang.queue if state.gang is not None else "",
                used_by(state.holds.values()),
                not state.pods,
                tuple(
                    (queue, self._used_by(pods), len(self.whole.keys() & {pod.gang for pod in pods}))
                    for queue, pods in by_queue.items()
                ),
            )

    def _used_by(self, pods: Sequence[PodsBound]) -> Usage:
        """What these pods use, and the rest of the domains that they occupy until they are gone."""
        usage, surcharges = used_by(pods), self._exclusive_domains.surcharges
        for gang in sorted(self.whole.keys() & surcharges.keys() & {pod.gang for pod in pods}):
            usage.add(surcharges[gang])
        return usage

    # -- what they charge

    def charged(self, victim: Victim) -> Iterator[Charged]:
        """What the ledger is charged with for a gang, or for some pods of it, that could be a victim."""
        state = self._gangs[victim.gang]
        for pod in sorted(victim.pods or state.pods):
            yield Charged.of(self._pods[pod])
        if not victim.pods:
            for _, hold in sorted(state.holds.items()):
                yield hold.charged

    def lift_victims(self, victims: Sequence[Victim]) -> None:
        """Let these be gone from the ledger, and from their exclusive domains, for a trial."""
        self._exclusive_domains.leave(victims)
        for victim in victims:
            for charged in self.charged(victim):
                self._ledger.lift(victim.gang, charged)

    def lift(self, beneficiary: GangId) -> None:
        """Let all that leaves for it be gone from the ledger: for a trial, or until `lower`."""
        eviction = self[beneficiary]
        for charged in self._all(eviction):
            self._ledger.lift(beneficiary, charged)
        for node, shared in eviction.shared.items():
            self._ledger.charge(node, shared)

    def lower(self, beneficiary: GangId) -> None:
        """Charge it again, less what it has in common with the places that are held now."""
        self._save(beneficiary)
        eviction = self[beneficiary]
        for charged in self._all(eviction):
            self._ledger.take(*charged)
        eviction.shared = {}
        self._restamp(beneficiary)
        self._share(beneficiary, eviction)

    def charged_to(self, beneficiary: GangId) -> tuple[list[Charged], Mapping[NodeName, Amounts]]:
        """What leaves for it, and the part of that which its places use already: charged once."""
        eviction = self.get(beneficiary)
        return ([], {}) if eviction is None else ([*self._all(eviction)], eviction.shared)

    def _all(self, eviction: PendingEviction) -> Iterator[Charged]:
        yield from (Charged.of(self._pods[pod]) for pod in sorted(eviction.pods))
        yield from eviction.promised

    def _restamp(self, *gangs: GangId | None) -> None:
        """Note that what these gangs leave at their ends has changed."""
        for gang in gangs:
            if gang is not None and (state := self._gangs.get(gang)) is not None:
                state.stamp += 1

    def _share(self, beneficiary: GangId, eviction: PendingEviction) -> None:
        """Take off what its victims and its own places have in common now.

        Shares of a GPU are counted twice, on the safe side: what they have in common depends on devices.
        """
        held = self._by_node(self._gangs[beneficiary].holds.values())
        left = self._by_node(self._all(eviction))
        common = {
            node: tuple(
                (resource, least)
                for resource, amount in sorted(amounts.items())
                if (least := min(amount, left[node].get(resource, 0)))
            )
            for node, amounts in held.items()
            if node in left
        }
        if common == eviction.shared:
            return
        for node, shared in eviction.shared.items():
            self._ledger.charge(node, shared)
        for node, shared in common.items():
            self._ledger.charge(node, shared, -1)
        eviction.shared = common
        self._restamp(beneficiary)

    def _by_node(self, some: Iterable[Hold | Charged]) -> dict[NodeName, dict[str, int]]:
        """What these take by node and resource, without those that share a GPU."""
        nodes = self._ledger.nodes
        sums: dict[NodeName, dict[str, int]] = {}
        for each in some:
            amounts = sums.setdefault(each.node, {})
            if not nodes.share(nodes.row_amounts(each.requests)):
                for resource, _, amount in nodes.asked(each.requests):
                    amounts[resource] = amounts.get(resource, 0) + amount
        return sums
