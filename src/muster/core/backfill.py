"""Reservations and backfill: who may start while somebody who comes before him waits.

Small gangs would pass a large one for ever if whatever fits were simply started. A *reservation* ends that:
the first gang in order that does not fit gets a set of places and a time, the first instant at which it
fits when those who end by then have gone. It is found with `Fit` on the ledger as it will be then, so that
fragmentation, topology and constraints are part of it. Whoever comes later starts if he fits now and ends
by that time (as expected: `ends.py`), or if he fits *beside* it: on the ledger with what the reservation
will still need withheld. So the reserved gang can start at its time, at the latest, whatever has been
started meanwhile.

One reservation at a time, for the head, is EASY backfilling (Lifka, JSSPP 1995): the head's wait is
bounded, and everybody becomes the head in turn. Under `strict` nobody passes the head at all, under `none`
everybody who fits does.

Greedy placement is not monotone: more room may fit less. The instants are therefore tried one after the
other, no bisection. Before the first trial the sums of what is free must suffice, which skips most of them;
after `TRIALS` trials the steps grow, and what is then found is a time at which the gang fits, if perhaps
not the first.

A reservation is kept from cycle to cycle as long as nothing has ended and nothing has changed but what was
started beside it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from math import inf
from typing import Final

import numpy as np

from muster.core.decisions import Explanation, Reserve
from muster.core.ends import Ends, Pods
from muster.core.events import NOTHING
from muster.core.exact import Verdict
from muster.core.fit import Claim, Fit
from muster.core.gang import Code, GangId, NodeName, Place
from muster.core.gangs import GangState
from muster.core.ledger import Ledger
from muster.core.nodes import Columns, Nodes
from muster.core.patterns import Longs
from muster.core.placement import Want

#: Instants that are tried one by one before the steps grow.
TRIALS: Final = 256


class Backfill(Enum):
    """Who may pass a gang that waits."""

    #: nobody
    STRICT = "strict"
    #: whoever fits; nothing is reserved
    NONE = "none"
    #: whoever does not delay the first that waits
    EASY = "easy"


@dataclass(frozen=True, slots=True)
class Start:
    """The earliest time at which a gang fits, where, and which gangs have to end for it."""

    at: float
    placed: Mapping[Place, int]
    basis: tuple[GangId, ...]
    #: columns, and per row of the ledger and column what is in use there once it has started
    columns: Columns
    used: Longs


@dataclass(slots=True)
class Reservation:
    gang: GangId
    want: Want
    at: float
    nodes: Mapping[Place, NodeName]
    columns: dict[int, int]
    #: rows × columns: what must be left of what is free now, negative where enough is going to be given back
    lack: Longs

    #: what those are told who would delay it
    refusal: Explanation


class Reservations:
    """The reservations of a cycle, and what they leave to others."""

    def __init__(self, backfill: Backfill, nodes: Nodes, ledger: Ledger, fit: Fit, ends: Ends) -> None:
        self._backfill = backfill
        self._nodes, self._ledger, self._fit, self._ends = nodes, ledger, fit, ends
        #: who is passed only by those who do not delay him; None: nobody so far in this cycle
        self.head: Reservation | None = None
        #: nobody starts any more in this cycle
        self._closed = False
        #: what those are told who are kept back
        self.refusal: Explanation | None = None
        self._kept: Reservation | None = None
        self._as_of = (-1, -1)
        self._now = 0.0
        self._told: Reserve | None = None
        #: wants that would fit but for the reservation if they outlive it, in this cycle
        self._held: set[Want] = set()
        #: wants that fit at no time that can be told, in this cycle
        self._never: set[Want] = set()

    def begin(self, now: float) -> None:
        """A new cycle."""
        as_it_was = self._as_of == (self._nodes.revision, self._ends.moved)
        kept = self.head if as_it_was else None
        self._kept = kept if kept is not None and kept.at > now else None
        self.head = self.refusal = None
        self._closed = False
        self._now = now
        self._held.clear()
        self._never.clear()

    def end(self) -> list[Reserve]:
        """The cycle is over. Returns the reservation, if it is another than the one that was told last."""
        self._as_of = self._nodes.revision, self._ends.moved
        head, told = self.head, self._told
        if head is None:
            self._told = None
            return []
        same = told is not None and (told.gang, told.nodes) == (head.gang, head.nodes)
        # What is overdue ends any moment, now as before.
        if same and told and (told.start == head.at or max(told.start, head.at) <= self._now):
            return []
        self._told = Reserve(head.gang, head.nodes, head.at)
        return [self._told]

    @property
    def wanted(self) -> bool:
        """Whether somebody who does not fit is still to be told."""
        return self._backfill is not Backfill.NONE and self.head is None and not self._closed

    def wait(self, state: GangState, claim: Claim) -> None:
        """A gang has to wait for its minimum: the first one is kept from being passed, as far as can be."""
        if self._backfill is Backfill.STRICT:
            self._closed = True
            self.refusal = _refusal(f"{state.id} is before it, and nobody may pass", state.id)
        elif self._backfill is Backfill.EASY and claim.want not in self._never:
            self._reserve(state, claim)

    def _reserve(self, state: GangState, claim: Claim) -> None:
        kept, self._kept = self._kept, None
        if kept is not None and (kept.gang, kept.want) == (state.id, claim.want):
            self.head, self.refusal = kept, kept.refusal
            return
        start = self.earliest(claim, self._now)
        if start is None:
            self._never.add(claim.want)
            return
        names = self._nodes.names
        used_now = self._nodes.used[:, start.columns]
        self.refusal = _refusal(f"would fit, but {state.id} {_start(start.at, self._now)}", state.id)
        self.head = Reservation(
            state.id,
            claim.want,
            start.at,
            {place: names[column] for place, column in sorted(start.placed.items())},
            {column: i for i, column in enumerate(start.columns.tolist())},
            start.used - used_now,
            self.refusal,
        )

    def passes(self, state: GangState) -> bool:
        """Whether this gang ends before the reserved one starts."""
        if self.head is None:
            return True
        assert state.gang is not None
        return self._now + self._ends.duration(state.gang) <= self.head.at

    def holds_back(self, state: GangState, want: Want) -> bool:
        """Whether it is known that this gang has to wait for the first that waits."""
        if self._closed:
            return True
        return want in self._held and state.plain and not self.passes(state)

    def fit(self, state: GangState, claim: Claim) -> dict[Place, int] | Verdict | Reservation:
        """As `Fit.fit`; the reservation, and the ledger as it was, if the gang would fit but for that."""
        mark = self._ledger.mark()
        placed = self.beside(state, claim, self._fit.fit(claim))
        if not isinstance(placed, Reservation):
            self._ledger.commit(mark)
            return placed
        self._ledger.rollback(mark)
        elsewhere = self._elsewhere(placed, claim)
        if elsewhere is None:
            self._held.add(claim.want)
            return placed
        return elsewhere

    def beside(
        self, state: GangState, claim: Claim, placed: dict[Place, int] | Verdict
    ) -> dict[Place, int] | Verdict | Reservation:
        """What has been placed, if that leaves the reserved gang what it needs, else the reservation."""
        head = self.head
        if isinstance(placed, Verdict):
            return placed
        if head is None:
            self._kept = None  # found without him who starts now
        elif self.passes(state):
            self._returns(head, placed, claim)
        elif not self._leaves_enough(head):
            return head
        return placed

    def earliest(self, claim: Claim, now: float) -> Start | None:
        """The first time at which this claim fits, if nothing else is started. None if none is known."""
        short = self._shortage(claim.want)
        basis: list[GangId] = []
        given: Counter[Pods] = Counter()
        tried, next_trial = 0, 0
        mark = self._ledger.mark()
        found = None
        ends = [(end, state) for end, state in self._ends.after(now) if end < inf]
        for i, (end, state) in enumerate(ends):
            basis.append(state.id)
            for resource in short:
                short[resource] -= state.usage[resource]
            given.update(self._ends.pods_of(state))
            same_instant = i + 1 < len(ends) and ends[i + 1][0] == end
            if same_instant or any(amount > 0 for amount in short.values()):
                continue
            if i < next_trial and i + 1 < len(ends):
                continue
            self._give(given)
            given.clear()
            found = self._try(claim, end, basis)
            if found is not None:
                break
            tried += 1
            next_trial = i + 1 + max(0, tried - TRIALS)
        self._ledger.rollback(mark)
        return found

    def _give(self, given: Mapping[Pods, int]) -> None:
        for (node, requests, device, presence), times in given.items():
            if device is None and presence is NOTHING:
                self._ledger.charge(node, self._nodes.demand(requests), -times)
            else:
                for _ in range(times):
                    self._ledger.give(node, requests, device, presence)

    def _try(self, claim: Claim, at: float, basis: list[GangId]) -> Start | None:
        mark = self._ledger.mark()
        placed = self._fit.fit(claim)
        found = None
        if not isinstance(placed, Verdict):
            columns = np.unique(np.fromiter(placed.values(), np.intp, len(placed)))
            found = Start(at, placed, tuple(basis), columns, self._nodes.used[:, columns])
        self._ledger.rollback(mark)
        return found

    def _shortage(self, want: Want) -> dict[str, int]:
        """By resource how much more has to be free, all nodes together, before anything can fit."""
        nodes = self._nodes
        short: dict[str, int] = {}
        amounts = [nodes.demand(part.shape.requests) for part in want.parts]
        for row in {row for demand in amounts for row, _ in demand}:
            asked = [dict(demand).get(row, 0) for demand in amounts]
            least = sum(part.need * a for part, a in zip(want.parts, asked, strict=True))
            rest = want.need - sum(part.need for part in want.parts)
            least += rest * min(
                (a for p, a in zip(want.parts, asked, strict=True) if p.count > p.need), default=0
            )
            free = int(np.maximum(nodes.free(row), 0).sum(dtype=np.int64))
            if least > free:
                short[nodes.resource(row)] = least - free
        return short

    def _leaves_enough(self, head: Reservation) -> bool:
        columns = np.fromiter(head.columns, np.intp, len(head.columns))
        return all(
            bool((self._nodes.free(row)[columns] >= lack).all())
            for row, lack in enumerate(head.lack)
            if (lack > 0).any()
        )

    def _elsewhere(self, head: Reservation, claim: Claim) -> dict[Place, int] | None:
        """Placed with what the reservation needs withheld."""
        mark = self._ledger.mark()
        withheld = list(self._withheld(head))
        for columns, row, amounts in withheld:
            self._ledger.take_at(columns, ((row, 1),), amounts)
        placed = self._fit.fit(claim)
        if isinstance(placed, Verdict):
            self._ledger.rollback(mark)
            return None
        for columns, row, amounts in withheld:
            self._ledger.take_at(columns, ((row, 1),), -amounts)
        self._ledger.commit(mark)
        return placed

    def _withheld(self, head: Reservation) -> Iterator[tuple[Columns, int, Longs]]:
        all_columns = np.fromiter(head.columns, np.intp, len(head.columns))
        for row, lack in enumerate(head.lack):
            some = lack > 0
            if some.any():
                yield all_columns[some], row, lack[some]

    def _returns(self, head: Reservation, placed: Mapping[Place, int], claim: Claim) -> None:
        """What this gang takes of the reserved places it is going to give back in time."""
        demands = {part.pod_set: self._nodes.demand(part.shape.requests) for part in claim.want.parts}
        for place, column in placed.items():
            i = head.columns.get(column)
            if i is not None:
                for row, amount in demands[place.pod_set]:
                    head.lack[row, i] -= amount


def _start(at: float, now: float) -> str:
    if at <= now:
        return "waits for longer and is expected to start any moment"
    when = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"waits for longer and is expected to start at {when}"


def _refusal(message: str, gang: GangId) -> Explanation:
    return Explanation(Code.HELD_FOR_RESERVATION, "reservation", message, blockers=(gang,))
