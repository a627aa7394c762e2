"""What a gang may have, before any search for where it fits: nothing, all it wants, or a part of it.

The answers are those of docs/names.md, in their order: `Invalid` (no such queue, or not for this gang),
`QueueClosed`, and `QuotaExceeded` (a hard cap, too many gangs). A gang that would carry a queue over its
entitlement gets no answer at first. It is checked again when all other gangs have been served, and keeps
`OverShare` if it does not start then either. Refusals carry the numbers that they rest on.

A gang is charged whole or not at all: it is refused unless every queue from its own up to the root allows
its minimum. What an elastic gang wants beyond the minimum is cut to what is left. If a hard cap refuses the
minimum, the gang may still have it once other gangs below that cap have left (`CapExceeded`). The search for
victims decides whether a gang has to leave.

Answers are cached per queue and want until some use or entitlement changes, so that ten thousand equal gangs
are checked once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from muster.core.demand import Demand, Part
from muster.core.words.amounts import PODS, counted
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Amounts, Code, Gang, Place
from muster.core.world.gangs import GangState, given_up
from muster.core.world.lacking import Demands
from muster.core.world.queues import Queues
from muster.core.world.queues.account import ROOT, Account
from muster.core.world.quotas import Quotas


class Grant(NamedTuple):
    """What a gang may have now, if it fits: its demand, or a smaller one with the same minimum."""

    demand: Demand
    #: indices of each part's vacant places, ascending
    vacant: Sequence[Sequence[int]]
    #: it is all that the gang wants
    whole: bool = True
    #: only after other gangs have left, wherever it would fit
    cap_exceeded: bool = False


@dataclass(frozen=True, slots=True)
class CapExceeded:
    """A refusal by a hard cap: the gang may have `demand`, its minimum, once gangs below it have left."""

    demand: Demand
    refusal: Explanation


@dataclass(frozen=True, slots=True)
class Lent:
    """What a gang may have on capacity that no gang can use within entitlement; None: nothing."""

    demand: Demand | CapExceeded | None
    #: why the gang waits if it does not start
    refusal: Explanation | None


@dataclass(slots=True)
class _Checked:
    """Cached answers for one queue, valid for one state of all accounts."""

    as_of: tuple[int, int] = (-1, -1)
    #: by want, and whether its gang has not begun. None: the queue would exceed its entitlement
    within: dict[tuple[Demand, bool], Demand | CapExceeded | Explanation | None] = field(default_factory=dict)
    beyond: dict[tuple[Demand, bool], Lent] = field(default_factory=dict)


class Admission:
    def __init__(self, queues: Queues, quotas: Quotas, demands: Demands) -> None:
        self._queues, self._quotas, self._demands = queues, quotas, demands
        self._checked: dict[str, _Checked] = {}
        #: the answer of the rules alone, by queue, namespace, user, and whether the gang is new
        self._doors: dict[tuple[str, str, str, bool], Explanation | None] = {}
        self._rules = -1
        self._told: dict[tuple[Code, str], Explanation] = {}

    def begun(self, state: GangState) -> Grant | None:
        """What a gang that has begun may have: what it lacks, within hard caps. It borrows nothing more.

        What an open plan of an earlier leader promises was allowed then, and is not checked again.
        """
        assert state.gang is not None
        assert state.demand is not None
        state.refusal = None
        account = self._queues.find(state.gang.queue)
        if (planned := self._planned(state)) is not None:
            return planned
        if message := self._uncreated(state, state.demand):
            state.refusal = self._tell(Code.QUOTA_EXCEEDED, message)
            return None
        if account is None or account.free:
            return self.offer(state, state.demand)
        asked, held = self._queues.asked(state, state.demand), given_up(state)
        room = {r: n + held.get(r, 0) for r, n in self._queues.room(account, borrow=False).items()}
        if message := self._queues.above_capability(account, asked):
            full = self._full(account, state.demand, message, asked, room)
            state.refusal = refusal(full)
            return self.offer(state, full) if isinstance(full, CapExceeded) else None
        part = self._cut(state.demand, room)
        state.refusal = self._short(state, part)
        return self.offer(state, part) if part is not None and state.refusal is None else None

    def within(self, state: GangState, account: Account) -> Demand | CapExceeded | Explanation | None:
        """What a gang may have of its demand within the entitlement of its queue and of the queues above it.

        An explanation: it is refused. None: it would carry one of these queues over its entitlement.
        """
        demand, gang = state.demand, state.gang
        assert gang is not None
        assert demand is not None
        new = not state.begun
        if (refusal := self._turned_away(account, gang, new)) is not None:
            return refusal
        if message := self._uncreated(state, state.demand):
            return self._tell(Code.QUOTA_EXCEEDED, message)
        if account.free:
            return demand
        known = self._of(account).within
        try:
            answer = known[demand, new]
        except KeyError:
            answer = known[demand, new] = self._within(account, demand, new)
        return self._short(state, answer) or answer

    def beyond(self, state: GangState, account: Account) -> Lent:
        """What a gang may have on lent capacity, and why it waits if it does not start."""
        demand, gang, new = state.demand, state.gang, not state.begun
        assert gang is not None
        assert demand is not None
        if (refusal := self._turned_away(account, gang, new)) is not None:
            return Lent(None, refusal)
        if message := self._uncreated(state, state.demand):
            return Lent(None, self._tell(Code.QUOTA_EXCEEDED, message))
        answer = self._lent(account, demand, new)
        short = self._short(state, answer.demand)
        return answer if short is None else Lent(None, short)

    def offer(self, state: GangState, granted: Demand | CapExceeded) -> Grant:
        """An answer of `within` or `beyond` as an offer to this gang, cut to what ResourceQuotas leave."""
        demand = state.demand
        assert demand is not None
        full = isinstance(granted, CapExceeded)
        answer = granted.demand if isinstance(granted, CapExceeded) else granted
        if self._quotas.concern(state):
            parts = cut(answer, self._quotas.room(state), self._quotas.charges(state))
            answer = self._demands.of(parts, answer.need, answer.rules)
        if answer is demand:
            return Grant(demand, state.vacant, cap_exceeded=full)
        vacant = {part.pod_set: indices for part, indices in zip(demand.parts, state.vacant, strict=True)}
        return Grant(answer, tuple(vacant[part.pod_set] for part in answer.parts), False, full)

    @property
    def rules(self) -> tuple[int, int]:
        """Changes when rules or quotas do. Apart from that, `allows` changes only with what gangs use."""
        return self._queues.rules_version, self._quotas.changes

    def allows(self, state: GangState, demand: Demand, queue: str | None = None) -> bool:
        """Whether rules and quotas allow a gang at least the minimum of `demand` now, even on lent capacity.

        `queue`: as if the gang were in that queue.
        """
        assert state.gang is not None
        gang = state.gang if queue is None else replace(state.gang, queue=queue)
        account = self._queues.find(gang.queue)
        new = not state.begun
        if account is None or self._turned_away(account, gang, new) is not None:
            return False
        if self._capped(account, demand, new) is not None:
            return False
        return not self._quotas.concern(state) or self._quotas.exceeded(state, demand) is None

    def admits(self, state: GangState) -> bool:
        """Whether a gang lacks only room (even below a hard cap): quotas admit pods to be created for it."""
        assert state.gang is not None
        account = self._queues.find(state.gang.queue)
        if account is None or self._turned_away(account, state.gang, not state.begun) is not None:
            return False
        return self._uncreated(state, state.demand) is None

    def refusal_of(self, state: GangState, demand: Demand) -> Explanation | None:
        """Why a gang's queue, or a ResourceQuota, refuses it `demand`; None: only room may be missing."""
        gang = state.gang
        assert gang is not None
        account, new = self._queues.find(gang.queue), not state.begun
        if account is None or (refusal := self._turned_away(account, gang, new)) is not None:
            return None if account is None else refusal
        if self._quotas.concern(state) and (message := self._quotas.exceeded(state, demand)):
            return self._tell(Code.QUOTA_EXCEEDED, message)
        return None if account.free else self._lent(account, demand, new).refusal

    def exhausted(self, state: GangState) -> Explanation | None:
        """Why a cap or a ResourceQuota refuses a gang now: others may have used it up since its attempt."""
        gang, demand = state.gang, state.demand
        assert gang is not None
        assert demand is not None
        if message := self._uncreated(state, demand):
            return self._tell(Code.QUOTA_EXCEEDED, message)
        account = self._queues.find(gang.queue)
        if account is None or not account.capped:
            return None
        if state.begun:
            message = self._queues.above_capability(account, self._queues.asked(state, demand))
            return self._tell(Code.QUOTA_EXCEEDED, message) if message else None
        told = self._lent(account, demand, True).refusal
        return told if told is not None and told.code is Code.QUOTA_EXCEEDED else None

    def elsewhere(self, state: GangState) -> Iterator[str]:
        """Names of other queues that allow a gang what it wants, sorted."""
        assert state.gang is not None
        assert state.demand is not None
        for name in sorted(self._queues.accounts):
            if name not in (ROOT, state.gang.queue) and self.allows(state, state.demand, name):
                yield name

    def bar(self, state: GangState) -> None:
        """Set the gang's refusal to the reason why its queue cannot be used."""
        assert state.gang is not None
        message = self._queues.barred(state.gang)
        state.refusal = self._tell(Code.INVALID, message) if message else None

    # -- helpers, in order of call

    def _planned(self, state: GangState) -> Grant | None:
        """An offer of only the places of the gang's open plan, if they make up its minimum; else None."""
        demand = state.demand
        assert demand is not None
        parts, vacant = [], []
        for part, indices in zip(demand.parts, state.vacant, strict=True) if state.planned else ():
            mine = [index for index in indices if Place(part.pod_set, index) in state.planned]
            if len(mine) < part.need:
                return None
            if mine:
                parts.append(replace(part, count=len(mine)))
                vacant.append(mine)
        if not parts or sum(map(len, vacant)) < demand.need:
            return None
        return Grant(self._demands.of(tuple(parts), demand.need, demand.rules), tuple(vacant), whole=False)

    def _uncreated(self, state: GangState, demand: Demand | None) -> str | None:
        """Why a ResourceQuota would refuse pods still to be created for `demand`; None: it would not."""
        if demand is None or not self._quotas.concern(state):
            return None
        return self._quotas.exceeded(state, demand)

    def _short(
        self, state: GangState, answer: Demand | CapExceeded | Explanation | None
    ) -> Explanation | None:
        """Why a part that the queue allows cannot start: a ResourceQuota refuses its pods. None: it can."""
        part = answer.demand if isinstance(answer, CapExceeded) else answer
        if not isinstance(part, Demand) or part is state.demand:
            return None
        message = self._uncreated(state, part)
        return self._tell(Code.QUOTA_EXCEEDED, message) if message else None

    def _of(self, account: Account) -> _Checked:
        checked = self._checked.get(account.name)
        as_of = (self._queues.usage_version, self._queues.division_version)
        if checked is None or checked.as_of != as_of:
            checked = self._checked[account.name] = _Checked(as_of)
        return checked

    def _turned_away(self, account: Account, gang: Gang, new: bool) -> Explanation | None:
        """Why the queue refuses the gang whatever is in use, until the rules change; None: it does not."""
        if self._rules != self._queues.rules_version or len(self._doors) >= _TOLD:
            self._doors.clear()
            self._rules = self._queues.rules_version
        key = account.name, gang.namespace, gang.user, new
        try:
            return self._doors[key]
        except KeyError:
            answer = self._doors[key] = self._at_the_door(account, gang, new)
            return answer

    def _at_the_door(self, account: Account, gang: Gang, new: bool) -> Explanation | None:
        if message := self._queues.barred(gang):
            return self._tell(Code.INVALID, message)
        closed = self._queues.closed(account) if new else None
        return None if closed is None else self._tell(Code.QUEUE_CLOSED, f"queue {closed.name} is closed")

    def _capped(self, account: Account, demand: Demand, new: bool) -> str | None:
        """Which hard cap has no room for the demand or, if it is `new`, for one more gang; None: no cap."""
        if not account.capped:
            return None
        least, _ = self._queues.amounts(demand)
        return (self._queues.full(account) if new else None) or self._queues.above_capability(account, least)

    def _within(
        self, account: Account, demand: Demand, new: bool
    ) -> Demand | CapExceeded | Explanation | None:
        room = self._queues.room(account, borrow=False)
        if not (room or account.capped):
            return demand  # nothing limits it
        least, most = self._queues.amounts(demand)
        if message := self._capped(account, demand, new):
            full = self._full(account, demand, message, least, room)
            return full if _fits(least, room) else None
        if _fits(most, room):
            return demand
        return self._cut(demand, room) if _fits(least, room) else None

    def _lent(self, account: Account, demand: Demand, new: bool) -> Lent:
        """The answer of `_beyond`, cached for equal demands until an account changes."""
        known = self._of(account).beyond
        answer = known.get((demand, new))
        if answer is None:
            answer = known[demand, new] = self._beyond(account, demand, new)
        return answer

    def _beyond(self, account: Account, demand: Demand, new: bool) -> Lent:
        least, most = self._queues.amounts(demand)
        room = self._queues.room(account, borrow=True)
        if message := self._capped(account, demand, new):
            full = self._full(account, demand, message, least, room)
            return Lent(full if isinstance(full, CapExceeded) else None, refusal(full))
        message = self._queues.exceeded(account, least)
        over = self._tell(Code.OVER_SHARE, message) if message else None
        return Lent(demand if _fits(most, room) else self._cut(demand, room), over)

    def _full(
        self, account: Account, demand: Demand, message: str, least: Amounts, room: dict[str, int]
    ) -> CapExceeded | Explanation:
        """What the gang may have once just enough has left below the caps; `room` becomes what is free then.

        It is a plain refusal while pods are leaving: muster never preempts for capacity that departing pods
        are about to free. It is one as well for a gang whose minimum is zero.
        """
        told = self._tell(Code.QUOTA_EXCEEDED, message)
        for resource, amount in self._queues.over_capability(account, least).items():
            room[resource] += amount
        part = self._cut(demand, room)
        return told if part is None or self._queues.lingers(account) else CapExceeded(part, told)

    def _cut(self, demand: Demand, room: Mapping[str, int]) -> Demand | None:
        parts = cut(demand, room)
        return self._demands.of(parts, demand.need, demand.rules) if parts else None

    def _tell(self, code: Code, message: str) -> Explanation:
        """An explanation; equal ones are one object, so that an unchanged reason is quickly recognised."""
        known = self._told.get((code, message))
        if known is None:
            if len(self._told) >= _TOLD:
                self._told.clear()
            known = self._told[code, message] = Explanation(code, "queue", message)
        return known


def refusal(answer: Demand | CapExceeded | Explanation | None) -> Explanation | None:
    """Why a gang waits if it does not start, as far as its queue is concerned; None: no reason."""
    if isinstance(answer, CapExceeded):
        return answer.refusal
    return answer if isinstance(answer, Explanation) else None


#: Explanations kept.
_TOLD: Final = 10_000


def _fits(asked: Sequence[tuple[str, int]], room: Mapping[str, int]) -> bool:
    return all(amount <= room[resource] for resource, amount in asked if resource in room)


def cut(
    demand: Demand, room: Mapping[str, int], charges: Mapping[str, Mapping[str, int]] | None = None
) -> tuple[Part, ...]:
    """As many places of each part as there is room for, but at least the minimum.

    A place takes what its pod requests or, with `charges`, what its pod set is charged.

    A minimum over all parts is filled with the smallest pods; the rest of the room goes to the parts in their
    order.
    """
    left = dict(room)
    counts = [0] * len(demand.parts)
    costs = [_cost(part, left, charges) for part in demand.parts]

    def add(p: int, count: int) -> None:
        counts[p] += count
        for resource, amount in costs[p].items():
            left[resource] -= count * amount

    def most(p: int) -> int:
        fitting = [max(left[resource], 0) // amount for resource, amount in costs[p].items()]
        return min([demand.parts[p].count - counts[p], *fitting])

    def size(p: int) -> float:
        return max((amount / max(room[resource], 1) for resource, amount in costs[p].items()), default=0.0)

    for p, part in enumerate(demand.parts):
        add(p, part.need)
    rest = demand.need - sum(counts)
    for p in sorted(range(len(demand.parts)), key=size):
        some = max(min(rest, demand.parts[p].count - counts[p]), 0)
        add(p, some)
        rest -= some
    for p in range(len(demand.parts)):
        add(p, most(p))
    return tuple(
        replace(part, count=count) for part, count in zip(demand.parts, counts, strict=True) if count
    )


def _cost(
    part: Part, limited: Mapping[str, int], charges: Mapping[str, Mapping[str, int]] | None
) -> dict[str, int]:
    """What one place takes of the limited resources."""
    if charges is not None:
        amounts = charges.get(part.pod_set, {})
    else:
        amounts = {**dict(counted(part.shape.requests)), PODS: 1}
    return {resource: amount for resource, amount in amounts.items() if amount > 0 and resource in limited}
