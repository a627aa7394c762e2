"""Company: whether who passes a reserved gang leaves it able to bear those around it when its time has come.

Room is not all that a passer can take away. A gang may keep away from pods of his, he may keep away from it,
its spread may become uneven, or a domain that one of the two wants alone may have the other in it. Which of
a gang's places that spoils is no amount that could be kept up to date, so it is tried: the reserved gang is
placed on the ledger as it will be at its time, with the passer there. He passes if it fits, wherever.

Reservations leave each other able to bear it from the first: each is found beside the pods of those before it
(`meet`).

Trying costs a placement, and is asked only where company can matter: a reserved gang that minds it, or a
passer who keeps others off.
"""

from itertools import takewhile
from math import inf

from muster.core.backfill.timetable import Reservation, Timetable
from muster.core.cluster import Cluster
from muster.core.nodes import Columns
from muster.core.placement import Claim, Want


class Company:
    def __init__(self, cluster: Cluster, timetable: Timetable) -> None:
        self._ledger, self._fit, self._ends = cluster.ledger, cluster.fit, cluster.ends
        self._wants, self._timetable = cluster.wants, timetable

    def matters(self, each: Reservation, claim: Claim) -> bool:
        """Whether those who are placed by this claim may keep the reserved gang off nodes that have room."""
        if each.start == inf:  # it has no time that it could miss
            return False
        return each.want.constrained or _alone(each.want) or _alone(claim.want) or _keeps_off(claim)

    def spoiled(self, claim: Claim, columns: Columns, until: float, now: float) -> Reservation | None:
        """A reservation that could not be kept if those who have been placed by this claim stayed until then.

        `columns`: where they are.
        """
        for each in tuple(self._timetable):
            if each.at < until and self.matters(each, claim) and not self._fits(each, claim, columns, now):
                return each
        return None

    def meet(self, claim: Claim, start: float, until: float) -> Claim:
        """Put those with reservations from `start` to `until` on the ledger, as others see them.

        Returns the claim as it is beside them: kept off by whom it has not known, and from domains that
        one of the two wants alone. Who comes later is no company that a gang could wait for: where that is
        asked for, only those are there who have begun by `start`.
        """
        there = [each for each in self._timetable if each.until > start and each.at < until]
        if any(part.shape.near for part in claim.want.parts):
            there = [each for each in there if each.at <= start]
        alone, kept_off = _alone(claim.want), False
        if not (alone or claim.want.constrained):
            there = [each for each in there if _alone(each.want) or _keeps_off(each.claim)]
        for each in there:
            kept_off |= _keeps_off(each.claim)
            for place, node in each.nodes.items():
                column = self._ledger.nodes.column.get(node)
                if column is not None and (who := each.claim.presences.get(place.pod_set)) is not None:
                    self._ledger.take_at(column, (), 1, who)
            for want in (claim.want, each.want):
                if _alone(want):
                    claim = claim.keeping_off(self._fit.exclusion.domains(want, each.columns))
        return self._wants.anew(claim) if kept_off else claim

    def _fits(self, each: Reservation, passer: Claim, columns: Columns, now: float) -> bool:
        theirs = each.claim
        if _keeps_off(passer):  # it has not been known so far that he keeps it off
            theirs = self._wants.anew(theirs)
        if _alone(passer.want):
            theirs = theirs.keeping_off(self._fit.exclusion.domains(passer.want, columns))
        saved, mark = self._timetable.save(), self._ledger.mark()
        self._timetable.drop(each.gang)
        by_then = takewhile(lambda end: end[0] <= each.at, self._ends.after(now))
        self._ends.give(state for _, state in by_then)
        self._timetable.withhold(each.at, each.until, sharing=theirs.want.sharing)
        fits = isinstance(self._fit.fit(self.meet(theirs, each.at, each.until)), dict)
        self._ledger.rollback(mark)
        self._timetable.restore(saved)
        return fits


def _alone(want: Want) -> bool:
    """It wants domains for itself."""
    return want.rules is not None and bool(want.rules.exclusive)


def _keeps_off(claim: Claim) -> bool:
    return any(who.apart for who in claim.presences.values())
