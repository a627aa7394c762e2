"""What each gang lacks: a want, made of what it asks for and of the places that it has.

Equal wants are one object, whoever has them: whether a want fits, what its queue says to it and why it waits
are found out once for all gangs that want the same, and remembered by identity.
"""

from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from muster.core.constraints.concern import Concern, concern
from muster.core.events import Presence
from muster.core.gang import Gang, Place, PodSet, PodTerm
from muster.core.gangs import GangState, indices, presence
from muster.core.placement import Claim, Part, Rules, Want
from muster.core.presences import Presences, selects

#: A want, the indices of each part's vacant places, and what other pods see of each pod set's pods.
_Lack = tuple[Want, tuple[Sequence[int], ...], dict[str, Presence]]
#: Kinds of gangs of which it is remembered what they want.
_KEPT: Final = 1024


class Wants:
    """Computes what gangs want; equal wants are one object."""

    def __init__(self, presences: Presences) -> None:
        self._presences = presences
        #: what is found out about a want refers to it, and so keeps it: when one that nothing refers to goes
        #: makes no difference
        self._known: WeakValueDictionary[tuple[tuple[Part, ...], int, Rules | None], Want] = (
            WeakValueDictionary()
        )
        #: of gangs that have nothing yet, by what they ask for, as of `Presences.carriers`
        self._whole: dict[tuple[object, ...], _Lack | None] = {}
        self._as_of: object = None

    def of(self, parts: tuple[Part, ...], need: int, rules: Rules | None) -> Want:
        key = (parts, need, rules)
        want = self._known.get(key)
        if want is None:
            want = self._known[key] = Want(*key)
        return want

    def settle(self, state: GangState) -> None:
        """Bring `state.want` and `state.vacant` up to date. No want: nothing is lacking, or it is gated.

        A place whose hold is untold is vacant: it still wants its Assign.
        """
        state.want, state.vacant = None, ()
        gang = state.gang
        if gang is None:
            return
        state.rank = (-gang.priority, gang.submitted, state.id)
        if gang.gate is not None:
            return
        state.carried = self._presences.carried
        if state.begun or state.retired or state.lapsed:
            lack = self._lack(state, gang)
        else:
            lack = self._all(state, gang)
        if lack is not None:
            state.want, state.vacant, state.presences = lack

    def anew(self, claim: Claim) -> Claim:
        """The same claim on the ledger as it is, in a trial: somebody may have come who keeps it off."""
        parts = []
        for part in claim.want.parts:
            who = claim.presences[part.pod_set]
            apart = part.concern.apart | self._presences.keeping_off(who)
            parts.append(replace(part, concern=concern(part.shape, who, apart)))
        return claim._replace(want=self.of(tuple(parts), claim.want.need, claim.want.rules))

    def only(self, claim: Claim, places: Collection[Place]) -> Claim:
        """The same claim for these places and no others; the minimum must be among them."""
        if len(places) == sum(map(len, claim.vacant)):
            return claim
        parts, vacant = [], []
        for part, lacking in zip(claim.want.parts, claim.vacant, strict=True):
            if some := [index for index in lacking if Place(part.pod_set, index) in places]:
                parts.append(replace(part, count=len(some)))
                vacant.append(some)
        return claim._replace(want=self.of(tuple(parts), claim.want.need, claim.want.rules), vacant=vacant)

    def _all(self, state: GangState, gang: Gang) -> _Lack | None:
        """What a gang wants that has nothing yet, and so does every other of its kind."""
        if self._as_of != self._presences.carriers or len(self._whole) >= _KEPT:
            self._whole.clear()
            self._as_of = self._presences.carriers
        key = gang.pod_sets, gang.min_count, gang.namespace, gang.gather, gang.exclusive
        try:
            return self._whole[key]
        except KeyError:
            lack = self._whole[key] = self._lack(state, gang)
            return lack

    def _lack(self, state: GangState, gang: Gang) -> _Lack | None:
        told = (place for place, promise in state.holds.items() if promise.told)
        taken = indices(state.filled, state.retired, told)
        vacant = [_vacant(p.count, taken.get(p.name)) for p in gang.pod_sets]
        done = [p.count - len(v) for p, v in zip(gang.pod_sets, vacant, strict=True)]
        overall = max(gang.min_count - sum(done), 0)
        needs = [max(p.min_count - d, 0) for p, d in zip(gang.pod_sets, done, strict=True)]
        if not (overall or any(vacant) or any(needs)):
            return None
        # What the other sets cannot contribute to the overall minimum, this set must.
        room = sum(len(v) for v in vacant)
        needs = [max(n, overall - (room - len(v))) for n, v in zip(needs, vacant, strict=True)]
        if state.lapsed:
            vacant, needs = self._without_lapsed(state, vacant, needs, overall)
        chosen = [
            (p, presence(gang, p), v, n)
            for p, v, n in zip(gang.pod_sets, vacant, needs, strict=True)
            if v or n
        ]
        own = {term for p in gang.pod_sets for term in p.shape.apart}
        parts = tuple(Part(p.name, p.shape, len(v), n, self._concern(p, who, own)) for p, who, v, n in chosen)
        if not parts and not overall:
            return None
        want = self.of(parts, max(overall, sum(needs)), _rules(state, gang))
        return want, tuple(v for _, _, v, _ in chosen), {p.name: who for p, who, _, _ in chosen}

    def newly_concerned(self, state: GangState) -> bool:
        """Whether anti-affinity has turned up since `settle` that keeps pods of this gang off."""
        if state.want is None or state.carried == self._presences.carried:
            return False
        return any(
            self._presences.keeping_off(state.presences[part.pod_set]) - part.concern.apart
            for part in state.want.parts
        )

    def _concern(self, pod_set: PodSet, who: Presence, own: Set[PodTerm]) -> Concern:
        """`own`: the anti-affinity of the gang's pod sets, which keeps them off each other."""
        apart = self._presences.keeping_off(who)
        if own:
            apart |= {term for term in own if selects(term, who)}
        return concern(pod_set.shape, who, apart)

    def _without_lapsed(
        self, state: GangState, vacant: list[Sequence[int]], needs: list[int], overall: int
    ) -> tuple[list[Sequence[int]], list[int]]:
        """Leave lapsed places out as long as the minimum can do without them."""
        assert state.gang is not None
        if overall > 0 or any(needs):
            return vacant, needs
        kept: list[Sequence[int]] = [
            [i for i in v if Place(p.name, i) not in state.lapsed]
            for p, v in zip(state.gang.pod_sets, vacant, strict=True)
        ]
        return kept, needs


def _rules(state: GangState, gang: Gang) -> Rules | None:
    """What the gang asks of the topology. A gang that has begun is bound by its own places, like no other.

    Once a place is retired multiples no longer count: what is left of the gang is no multiple of anything.
    """
    if not (gang.gather or gang.exclusive):
        return None
    gather = gang.gather
    if state.retired:
        gather = tuple(replace(rule, multiple=1) for rule in gather)
    return Rules(gather, gang.exclusive, state.id if state.begun else None)


def _vacant(count: int, taken: set[int] | None) -> Sequence[int]:
    if not taken:
        return range(count)
    if len(taken) == count and max(taken) < count:
        return ()
    return [i for i in range(count) if i not in taken]
