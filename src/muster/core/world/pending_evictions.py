"""Pending evictions: victims that are leaving, and the capacity that they free, each counted once.

From the decision until they have gone, victims still use their nodes, while the places for which they make
room are held already. Both are charged, and what the two have in common is taken off again: on each node, of
each resource, the smaller of what a beneficiary's victims use and what it holds there. So a node is charged
for each beneficiary with the *greater* of the two. The capacity is neither free for other gangs meanwhile nor
counted twice. Whatever happens next (a pod ends, a place is filled) never needs more than is charged.

The greater is taken for each beneficiary by itself, not of the sums over all of them: one may start while
another's victims still exist.

A departure lasts as long as its beneficiary holds places, or an open plan promises it some, and victims
exist. If the beneficiary gives up, victims whose eviction has not begun stay; the others are seen as being
deleted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from muster.core.words.amounts import PODS
from muster.core.words.decisions import Victim
from muster.core.words.events import PodsBound
from muster.core.words.gang import Amounts, GangId, NodeName, Place, PodId
from muster.core.world.gangs import GangState, Hold
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.nodes import RowAmounts
from muster.core.world.queues.terminating import Leaving


@dataclass(slots=True)
class Departure:
    """All that leaves for one beneficiary."""

    pods: set[PodId] = field(default_factory=set)
    #: gangs that are evicted as a whole
    whole: set[GangId] = field(default_factory=set)
    #: places that victims held and had not filled yet: a bind may be on its way
    promised: list[Charged] = field(default_factory=list)
    #: places held for the beneficiary with it; once one of them is filled, no bind of a victim is on its way
    places: set[Place] = field(default_factory=set)
    #: what is taken off the ledger, as it is charged to pods and to holds
    shared: dict[NodeName, RowAmounts] = field(default_factory=dict)


class Departures:
    def __init__(self, ledger: Ledger, pods: Mapping[PodId, PodsBound], gangs: Mapping[GangId, GangState]):
        self._ledger = ledger
        self._pods = pods
        self._gangs = gangs
        #: by beneficiary
        self._departures: dict[GangId, Departure] = {}
        #: by gang that is evicted as a whole, its beneficiary
        self.whole: dict[GangId, GangId] = {}
        #: by pod that leaves, its beneficiary
        self.leaving: dict[PodId, GangId] = {}
        self._changed: set[GangId] = set()
        #: gangs that are no longer victims, since the last `settle`
        self._over: set[GangId] = set()
        #: how often gangs were found to be victims no longer
        self.spared = 0
        #: pods that are being deleted, and the time of the first cycle that saw them; None: no cycle has
        self.deleted: dict[PodId, float | None] = {}

    def __contains__(self, beneficiary: GangId) -> bool:
        return beneficiary in self._departures

    def __bool__(self) -> bool:
        return bool(self._departures)

    @property
    def beneficiaries(self) -> Iterable[GangId]:
        return self._departures.keys()

    def begin(
        self,
        beneficiary: GangId,
        pods: Iterable[PodId],
        whole: Iterable[GangId],
        promised: Iterable[Hold] = (),
        places: Iterable[Place] = (),
    ) -> None:
        """Add victims of a beneficiary. The ledger stays charged with them."""
        departure = self._departures.setdefault(beneficiary, Departure())
        departure.pods |= self._pods.keys() & set(pods)
        departure.whole |= set(whole)
        departure.promised += [
            Charged(hold.node, hold.requests, hold.device, hold.presence) for hold in promised
        ]
        departure.places |= set(places)
        self.leaving.update(dict.fromkeys(departure.pods, beneficiary))
        self.whole.update(dict.fromkeys(departure.whole, beneficiary))
        self._changed.add(beneficiary)

    def of(self, gang: GangState) -> Amounts:
        """What leaving pods of this gang use; their beneficiary is charged with it instead."""
        if not self.leaving:
            return ()
        sums: dict[str, int] = {}
        for pod in self.leaving.keys() & gang.pods.keys():
            for resource, amount in (*self._pods[pod].requests, (PODS, 1)):
                sums[resource] = sums.get(resource, 0) + amount
        return tuple(sums.items())

    def lingering(self) -> Iterator[Leaving]:
        """By beneficiary, what its victims still use and what it holds itself, as queues count it."""
        for beneficiary, departure in sorted(self._departures.items()):
            state = self._gangs[beneficiary]
            left: dict[str, tuple[Counter[str], set[GangId]]] = {}
            for pod in sorted(departure.pods):
                bound = self._pods[pod]
                if bound.gang is None:
                    continue
                victim = self._gangs[bound.gang].gang
                taken, gangs = left.setdefault(victim.queue if victim is not None else "", (Counter(), set()))
                for resource, amount in (*bound.requests, (PODS, 1)):
                    taken[resource] += amount
                if bound.gang in self.whole:
                    gangs.add(bound.gang)
            held: Counter[str] = Counter()
            for promise in state.holds.values():
                for resource, amount in (*promise.requests, (PODS, 1)):
                    held[resource] += amount
            yield Leaving(
                state.gang.queue if state.gang is not None else "",
                tuple(sorted(held.items())),
                not state.pods,
                tuple(
                    (queue, tuple(sorted(taken.items())), len(gangs))
                    for queue, (taken, gangs) in left.items()
                ),
            )

    def pods_seen(self, pods: Iterable[PodId], *, deleted: bool) -> None:
        """Record that pods are on a node, or have left it; `deleted`: they are about to leave it."""
        for pod in pods:
            if deleted:
                self.deleted.setdefault(pod, None)
            else:
                self.deleted.pop(pod, None)

    def settle_deleted(self, now: float) -> None:
        """Begin a cycle, which sees all pods that are being deleted."""
        for pod, since in self.deleted.items():
            if since is None:
                self.deleted[pod] = now

    def found(self, beneficiary: GangId, victim: Victim) -> None:
        """Record, from an open plan, that this victim leaves for the beneficiary."""
        state = self._gangs.get(victim.gang)
        pods = victim.pods or (state.pods.keys() if state is not None else ())
        if any(pod in self._pods for pod in pods):
            self.begin(beneficiary, pods, () if victim.pods else (victim.gang,))

    def pods_bound(self, pods: Set[PodId], gang: GangId) -> None:
        """Add pods of an evicted gang that were still being bound: they leave, too."""
        beneficiary = self.whole.get(gang)
        if beneficiary is not None and (new := pods - self.leaving.keys()):
            self.begin(beneficiary, new, ())

    def pods_ended(self, pods: Iterable[PodId]) -> Set[PodId]:
        """Remove pods that have ended. Returns those that were leaving."""
        left = self.leaving.keys() & pods
        for pod in left:
            beneficiary = self.leaving.pop(pod)
            self._departures[beneficiary].pods.discard(pod)
            self._changed.add(beneficiary)
        return left

    def lift(self, beneficiary: GangId) -> None:
        """Charge the ledger as if all that leaves for it had left. Undo it by rollback, or by `lower`."""
        departure = self._departures.get(beneficiary)
        if departure is not None:
            for gang, charged in self._charged(departure):
                if gang is None:
                    self._ledger.give(*charged)
                else:
                    self._ledger.lift(gang, charged)
            for node, row_amounts in departure.shared.items():
                self._ledger.charge(node, row_amounts)

    def lower(self, beneficiary: GangId) -> None:
        """Charge it again, less what it has in common with the places that are held now."""
        departure = self._departures.get(beneficiary)
        if departure is not None:
            for _, charged in self._charged(departure):
                self._ledger.take(*charged)
            departure.shared = {}
            self._share(beneficiary, departure)

    def give_up(self, beneficiary: GangId) -> None:
        """End the departure of a beneficiary that no longer needs it: remaining victims stay."""
        if beneficiary in self._departures:
            self._over |= self._end(beneficiary)

    def settle(self, *touched: Iterable[GangId]) -> set[GangId]:
        """Bring all that has changed up to date. Returns the gangs that have left, or may stay."""
        changed, self._changed = self._changed, set()
        over, self._over = self._over, set()
        for beneficiary in sorted(changed.union(*touched)) if self._departures else ():
            departure = self._departures.get(beneficiary)
            if departure is None:
                continue
            self._give_promised(beneficiary, departure)
            if self._is_over(beneficiary, departure):
                over |= self._end(beneficiary)
            else:
                self._share(beneficiary, departure)
        self.spared += bool(over)
        return over

    def end_forsaken(self) -> set[GangId]:
        """End departures whose beneficiary has neither holds nor an open plan. Returns their victims."""
        over: set[GangId] = set()
        for beneficiary in sorted(self._departures):
            state = self._gangs.get(beneficiary)
            if state is None or not (state.holds or state.planned):
                over |= self._end(beneficiary)
        self.spared += bool(over)
        return over

    def _charged(self, departure: Departure) -> Iterator[tuple[GangId | None, Charged]]:
        """On whose record it is, if on any gang's, and what."""
        for pod in sorted(departure.pods):
            bound = self._pods[pod]
            yield bound.gang, Charged(bound.node, bound.requests, bound.presence.device, bound.presence)
        for promised in departure.promised:
            yield None, promised

    def _is_over(self, beneficiary: GangId, departure: Departure) -> bool:
        state = self._gangs.get(beneficiary)
        if state is None or state.gang is None or state.gang.gate is not None:
            return True
        if state.back_off is not None:
            return True
        return not (departure.pods or departure.promised)

    def _give_promised(self, beneficiary: GangId, departure: Departure) -> None:
        """Release promised places once a place of the beneficiary is filled: no bind is under way then."""
        state = self._gangs.get(beneficiary)
        if state is not None and any(place in state.filled for place in departure.places):
            for charged in departure.promised:
                self._ledger.give(*charged)
            departure.promised.clear()

    def _end(self, beneficiary: GangId) -> set[GangId]:
        """End a departure. Returns its victims: what still exists of them is theirs again."""
        departure = self._departures.pop(beneficiary)
        gangs = {*departure.whole, *(self._pods[pod].gang for pod in departure.pods)}
        for node, row_amounts in departure.shared.items():
            self._ledger.charge(node, row_amounts)
        for charged in departure.promised:
            self._ledger.give(*charged)
        for pod in departure.pods:
            del self.leaving[pod]
        for gang in departure.whole:
            del self.whole[gang]
        return {gang for gang in gangs if gang is not None}

    def _share(self, beneficiary: GangId, departure: Departure) -> None:
        """Take off what its victims and its own places have in common now.

        Shares of a GPU are counted twice, on the safe side: what they have in common depends on devices.
        """
        nodes = self._ledger.nodes

        def whole(node: NodeName, requests: Amounts) -> tuple[NodeName, RowAmounts]:
            row_amounts = nodes.row_amounts(requests)
            return node, () if nodes.share(row_amounts) else row_amounts

        held = _by_node(whole(hold.node, hold.requests) for hold in self._gangs[beneficiary].holds.values())
        left = _by_node(whole(node, requests) for _, (node, requests, _, _) in self._charged(departure))
        common = {
            node: tuple(
                (row, least)
                for row, amount in sorted(amounts.items())
                if (least := min(amount, left[node].get(row, 0)))
            )
            for node, amounts in held.items()
            if node in left
        }
        if common == departure.shared:
            return
        for node, shared in departure.shared.items():
            self._ledger.charge(node, shared)
        for node, shared in common.items():
            self._ledger.charge(node, shared, -1)
        departure.shared = common


def _by_node(charged: Iterable[tuple[NodeName, RowAmounts]]) -> dict[NodeName, dict[int, int]]:
    sums: dict[NodeName, dict[int, int]] = {}
    for node, row_amounts in charged:
        amounts = sums.setdefault(node, {})
        for row, amount in row_amounts:
            amounts[row] = amounts.get(row, 0) + amount
    return sums
