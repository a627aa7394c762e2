"""Which gang is served next (`Attempts`), and what it may have (`Admission`), before any search for where it
fits.

The order of a cycle (docs/concepts/queues.md, "Which gang is next"):

    1. gangs that have started and lack places; of these, gangs with an open plan of an earlier leader first
    2. within entitlement: of the queue with the least share (DRF, NSDI 2011), the first gang
    3. gangs that would exceed their queue's entitlement, by the share that the queue would have then
    4. gangs whose hold has just run out: all others could use the freed places first

A gang that does not fit holds nothing and is skipped. The order is maintained as gangs change, and a cycle
walks along it (`pending.py`). The share of a queue changes only when one of its gangs starts, which moves the
queue in one heap per level of the tree.

A gang may have all that it lacks, a part of it, or nothing. What an elastic gang lacks beyond the minimum is
cut to what is left. The refusals are those of docs/reference/names.md, in their order, with the numbers that
they rest on. A gang of step 3 that does not start keeps `OverShare`. If a hard cap refuses the minimum, the
gang may still have it once other gangs below that cap have left (`cap_exceeded`); the search for victims
decides whether a gang has to leave.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import Self

from muster.core.demand import Demand, cut
from muster.core.queueing.pending import (
    Cursor,
    EquivalenceClass,
    FairOrder,
    Head,
    PendingQueues,
    share,
    share_after,
)
from muster.core.words.amounts import Usage
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code, Gang, GangId, Place
from muster.core.world.gangs import GangState, given_up
from muster.core.world.lacking import Demands
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account
from muster.core.world.quotas import Quotas


class Tier(Enum):
    """The admission tier of an attempt."""

    #: the gang has started and lacks places: nothing new starts, only hard caps limit its minimum
    STARTED = "started"
    #: the gang's queue stays within its entitlement
    WITHIN = "within"
    #: the gang's queue would exceed its entitlement, on capacity that no gang can use within entitlement
    BORROWING = "borrowing"


@dataclass(slots=True, eq=False)
class Grant:
    """What gangs with equal demand may have in one tier, if it fits."""

    #: all that they lack, or a part of it with the same minimum; None: nothing
    demand: Demand | None
    #: why they wait if they do not start; None: no reason
    refusal: Explanation | None = None
    #: only once other gangs below a hard cap have left, wherever it would fit
    cap_exceeded: bool = False


@dataclass(slots=True, eq=False)
class Attempt:
    """One gang's attempt to start: it may have `demand`, if that fits."""

    state: GangState
    tier: Tier
    demand: Demand
    #: indices of each part's vacant places, ascending
    vacant: Sequence[Sequence[int]]
    #: it is all that the gang lacks
    whole: bool = True
    #: as in `Grant`
    cap_exceeded: bool = False
    #: set if it would have started, but beyond the entitlement of its queue
    borrows: bool = False


class Attempts:
    """The attempts of a cycle.

    A gang that cannot start with what it may have (`infeasible`) makes no attempt. It is skipped with all of
    its class behind it, or, if all gangs are to be `seen`, only its queue's refusal is recorded. The caller
    that starts a gang charges it to the queues before the next attempt; pending queues change only after the
    walk.
    """

    def __init__(
        self,
        pending: PendingQueues,
        queues: Queues,
        admission: "Admission",
        infeasible: Callable[[GangState, Demand, Tier, bool], bool],
        fits: Callable[[Demand], bool],
    ) -> None:
        """`fits`: whether this may fit, as far as is known. `infeasible`: whether a gang is known not to
        start with this demand, in this tier, or once a hard cap allows it (`Grant.cap_exceeded`)."""
        self._pending, self._queues, self._admission = pending, queues, admission
        self._infeasible, self._fits = infeasible, fits
        self.begin()

    def begin(
        self,
        lapsed: Collection[GangId] = (),
        seen: Callable[[GangState], object] | None = None,
        only: Collection[GangId] | None = None,
    ) -> Self:
        """Begin a cycle. `lapsed` gangs, whose hold has just run out, are last.

        `seen`: infeasible gangs are visited too, each class as one except for gangs for which this is true.
        `only`: all gangs but these, and gangs behind them, are infeasible (`cycle/incremental.py`).
        """
        self._lapsed, self._seen, self._only = lapsed, seen, only
        self._last: list[GangState] = []
        #: all gangs that were visited, in order of first attempt; gangs without an attempt are last
        self.served: dict[GangId, GangState] = {}
        return self

    def __iter__(self) -> Iterator[Attempt]:
        if not self._pending:
            return
        if self._pending.started:
            started = [state for state in self._pending.started if not self._is_last(state)]
            yield from self._complete(sorted(started, key=lambda state: not state.planned))
        if heads := self._heads():
            yield from self._start(heads)
        self._lapsed = ()
        for state in sorted(self._last, key=lambda state: state.rank):
            yield from self._complete([state]) if state.begun else self._start(self._alone(state))
        for state in self._pending.gated:
            state.refusal = None
            self.served[state.id] = state

    def _complete(self, states: Iterable[GangState]) -> Iterator[Attempt]:
        for state in states:
            self.served[state.id] = state
            if (attempt := self._admission.started(state)) is not None:
                yield attempt

    def _heads(self) -> dict[Account, list[Head]]:
        """The heads of all queues; gangs of a queue that cannot be used are refused."""
        found: dict[Account, list[Head]] = {}
        for name, pending in sorted(self._pending.of_queue.items()):
            account = self._queues.find(name)
            if account is None or account.fault or account.children:
                for state in pending:
                    self.served[state.id] = state
                    assert state.gang is not None
                    state.refusal = self._admission.barred(state.gang)
            elif heads := pending.heads() if self._only is None else pending.heads_of(self._only):
                found[account] = heads
        return found

    def _alone(self, state: GangState) -> dict[Account, list[Head]]:
        """A gang whose hold has run out and that has nothing else: new to its queue."""
        account = self._queues.find(state.gang.queue) if state.gang is not None else None
        peers = EquivalenceClass(state.demand, [(state.rank, state)])
        return {account: [peers.head()]} if account is not None else {}

    def _start(self, heads: dict[Account, list[Head]]) -> Iterator[Attempt]:
        """Within the entitlement of the queues first, then beyond."""
        queues = self._queues
        over: dict[Account, list[Head]] = {}
        cursors = [Cursor(account, some, self._skips_within) for account, some in heads.items()]
        yield from self._serve(FairOrder(queues.root, cursors, share), Tier.WITHIN, over)
        if not over:
            return
        cursors = [Cursor(account, some, self._skips_beyond) for account, some in over.items()]
        order = FairOrder(queues.root, cursors, share_after, lambda: queues.usage_version, self._fits)
        yield from self._serve(order, Tier.BORROWING, over)

    def _serve(self, order: FairOrder, tier: Tier, over: dict[Account, list[Head]]) -> Iterator[Attempt]:
        """Attempts in this order. Gangs that would exceed an entitlement are put into `over`."""
        queues, admission = self._queues, self._admission
        for cursor in order:
            account, version = cursor.account, queues.usage_version
            first: Head | None = None
            grants: dict[EquivalenceClass, Grant | None] = {}
            while queues.usage_version == version and (head := cursor.head()) is not None:
                key, state, _, peers = head
                if tier is Tier.BORROWING:
                    first = first or head
                    if peers is not first[3] or state.rank[0] != first[1].rank[0]:
                        break  # its queue has another key now: another queue may be next
                if self._lapsed and self._is_last(state):
                    cursor.next()
                    continue
                if peers not in grants:
                    grants[peers] = admission.grant(state, account, tier)
                if (grant := grants[peers]) is None:
                    over.setdefault(account, []).append(cursor.leave())
                    continue
                cursor.next()
                self.served[state.id] = state
                state.refusal = grant.refusal
                if self._refused(state, grant, tier, peers):
                    if self._seen is not None and tier is Tier.WITHIN and not self._lapsed:
                        for other in cursor.alike(peers, self._seen):
                            self.served[other.id] = other
                            other.refusal = state.refusal
                    continue
                attempt = admission.attempt(state, grant, tier)
                yield attempt
                if tier is Tier.BORROWING:
                    if queues.usage_version != version:
                        queues.borrowed(account, attempt.demand.most)
                elif attempt.borrows and state.demand is not None:
                    over.setdefault(account, []).append(EquivalenceClass(state.demand, [(key, state)]).head())
                elif not attempt.whole and state.demand is not None and state.demand is not peers.demand:
                    rest = EquivalenceClass(state.demand, [(key, state)])
                    over.setdefault(account, []).append(rest.head())

    def _refused(self, state: GangState, grant: Grant, tier: Tier, peers: EquivalenceClass) -> bool:
        """Whether the gang is known not to start with what it may have."""
        if grant.demand is None or (self._seen is None and grant.demand is peers.demand):
            return grant.demand is None  # of all that it lacks, the cursor has tested it already
        return self._infeasible(state, grant.demand, tier, grant.cap_exceeded)

    def _skips_within(self, account: Account, head: Head) -> bool:
        _, state, _, peers = head
        if self._seen is not None or peers.demand is None:
            return False
        return self._infeasible(state, peers.demand, Tier.WITHIN, False)

    def _skips_beyond(self, account: Account, head: Head) -> bool:
        """An infeasible gang is skipped even if it is to be seen: it must not decide which queue is next."""
        _, state, position, peers = head
        demand = peers.demand
        if demand is None:
            return False
        if self._seen is None:
            return self._infeasible(state, demand, Tier.BORROWING, False)
        grant = self._admission.grant(state, account, Tier.BORROWING)
        state.refusal = refusal = grant.refusal if grant is not None else None
        if not self._infeasible(state, demand, Tier.BORROWING, False):
            return False
        for _, other in peers.entries[position:]:
            if not (self._lapsed and self._is_last(other)):
                self.served[other.id] = other
                other.refusal = refusal or state.refusal
        return True

    def _is_last(self, state: GangState) -> bool:
        if state.id not in self._lapsed:
            return False
        self._last.append(state)
        return True


class Admission:
    def __init__(
        self,
        queues: Queues,
        quotas: Quotas,
        demands: Demands,
        charged: Callable[[Demand], Usage] = attrgetter("least"),
    ) -> None:
        """`charged`: what a gang is charged with at least for the minimum of a demand."""
        self._queues, self._quotas, self._demands = queues, quotas, demands
        self._charged = charged
        #: grants, so that ten thousand equal gangs are checked once, and what queues have left to grant
        #: (`Account.room`); both are dropped when `Queues.version` changes
        self._grants: dict[tuple[Account, Demand, Tier, bool], Grant | None] = {}
        self._rooms: dict[tuple[Account, bool], dict[str, int]] = {}
        self._as_of = (-1, -1, -1)

    def grant(self, state: GangState, account: Account | None, tier: Tier) -> Grant | None:
        """What a gang may have of its demand in this tier.

        None, only within the entitlement: it would carry its queue, or a queue above it, over that.
        """
        assert state.gang is not None
        assert state.demand is not None
        refusal = self._forbidden(state, state.demand, state.gang if tier is not Tier.STARTED else None)
        if refusal is not None:
            return Grant(None, refusal)
        grant = self._grant(state, account, state.demand, tier)
        if grant is None or grant.demand is None or grant.demand is state.demand:
            return grant
        # The places that are left out may be the ones that no ResourceQuota counts.
        message = self._quotas.exceeded(state, grant.demand)
        return Grant(None, _refusal(Code.QUOTA_EXCEEDED, message)) if message else grant

    def started(self, state: GangState) -> Attempt | None:
        """The attempt of a gang that has started: it borrows nothing more. None: it may have nothing.

        What an open plan of an earlier leader promises was allowed then, and is not checked again.
        """
        assert state.gang is not None
        assert state.demand is not None
        state.refusal = None
        if (planned := self._planned(state)) is not None:
            return planned
        account = self._queues.find(state.gang.queue)
        grant = self.grant(state, account, Tier.STARTED)
        assert grant is not None
        state.refusal = grant.refusal
        return self.attempt(state, grant, Tier.STARTED) if grant.demand is not None else None

    def attempt(self, state: GangState, grant: Grant, tier: Tier) -> Attempt:
        """The attempt of one gang with what was granted, cut to what ResourceQuotas leave."""
        assert state.demand is not None
        assert grant.demand is not None
        demand = grant.demand
        if self._quotas and self._quotas.apply_to(state):
            parts = cut(demand, self._quotas.room(state), self._quotas.costs(state, demand))
            demand = self._demands.of_parts(demand, parts)
        if demand is state.demand:
            return Attempt(state, tier, demand, state.vacant, cap_exceeded=grant.cap_exceeded)
        vacant = {p.pod_set: indices for p, indices in zip(state.demand.parts, state.vacant, strict=True)}
        some = tuple(vacant[part.pod_set] for part in demand.parts)
        return Attempt(state, tier, demand, some, whole=False, cap_exceeded=grant.cap_exceeded)

    def refusal(self, state: GangState, demand: Demand, queue: str | None = None) -> Explanation | None:
        """Why rules, ResourceQuotas, hard caps or entitlements refuse a gang `demand` now; None: none does.

        `queue`: as if the gang were in that queue.
        """
        assert state.gang is not None
        gang = state.gang if queue is None else replace(state.gang, queue=queue)
        if (refusal := self._forbidden(state, demand, gang)) is not None:
            return refusal
        grant = self._grant(state, self._queues.accounts[gang.queue], demand, Tier.BORROWING)
        return grant.refusal if grant is not None else None

    def used_up(self, state: GangState, demand: Demand) -> Explanation | None:
        """Why a hard cap or a ResourceQuota, which others may have used up meanwhile, refuses a gang now."""
        assert state.gang is not None
        account = self._queues.find(state.gang.queue)
        if (account is None or account.free) and not self._quotas.apply_to(state):
            return None
        refusal = self.refusal(state, demand)
        return refusal if refusal is not None and refusal.code is Code.QUOTA_EXCEEDED else None

    def allows(self, state: GangState, demand: Demand, queue: str | None = None) -> bool:
        """Whether a gang may have at least the minimum of `demand` now, even on borrowed capacity."""
        refusal = self.refusal(state, demand, queue)
        return refusal is None or refusal.code is Code.OVER_SHARE

    def admits(self, state: GangState) -> bool:
        """Whether a gang lacks only room (even below a hard cap): rules and ResourceQuotas admit it."""
        return state.demand is not None and self._forbidden(state, state.demand, state.gang) is None

    def barred(self, gang: Gang) -> Explanation | None:
        """Why the gang can never start in the queue it names, under the current rules."""
        message = self._queues.barred(gang)
        return _refusal(Code.INVALID, message) if message else None

    # -- helpers, in order of call

    def _forbidden(self, state: GangState, demand: Demand, gang: Gang | None) -> Explanation | None:
        """Why a gang is refused whatever its queue uses: by rules (None as `gang`: by no rule), or quotas."""
        if gang is not None:
            if (message := self._queues.barred(gang)) is not None:
                return _refusal(Code.INVALID, message)
            if (closed := self._queues.closed(gang.queue)) and not state.begun:
                return _refusal(Code.QUEUE_CLOSED, f"queue {closed} is closed")
        message = self._quotas.exceeded(state, demand) if self._quotas else None
        return _refusal(Code.QUOTA_EXCEEDED, message) if message else None

    def _grant(self, state: GangState, account: Account | None, demand: Demand, tier: Tier) -> Grant | None:
        if account is None or account.free:
            return Grant(demand)
        if (version := self._queues.version) != self._as_of:
            self._grants.clear()
            self._rooms.clear()
            self._as_of = version
        new = not state.begun
        if state.holds and (held := given_up(state)):
            return self._evaluate(account, demand, tier, new, held)
        key = account, demand, tier, new
        if key not in self._grants:
            self._grants[key] = self._evaluate(account, demand, tier, new)
        return self._grants[key]

    def _evaluate(
        self, account: Account, demand: Demand, tier: Tier, new: bool, held: Usage | None = None
    ) -> Grant | None:
        """`new`: it is one more gang of its queue; `held`: what it uses now, and gives up for the demand."""
        key, least = (account, tier is Tier.BORROWING), self._charged(demand)
        asked = least
        if (room := self._rooms.get(key)) is None:
            room = self._rooms[key] = account.room(borrow=tier is Tier.BORROWING)
        if held:
            asked = asked.minus(held)
            room = {resource: amount + held[resource] for resource, amount in room.items()}
        over: dict[str, int] = {}
        if cap := account.cap_exceeded(asked, new=new):
            # Just enough will have left below the caps once it starts.
            for _, resource, excess in account.over_caps(asked):
                over[resource] = max(over.get(resource, 0), excess)
            room = {resource: amount + over.get(resource, 0) for resource, amount in room.items()}
        if tier is Tier.WITHIN and not least.fits_in(room):
            return None
        part: Demand | None = demand
        # Of a gang with exclusive domains these are charged, so more pods take no more (`ChargedDomains`).
        if least is demand.least and not demand.most.fits_in(room):
            parts = cut(demand, room, [part.usage for part in demand.parts])
            part = self._demands.of_parts(demand, parts) if parts else None
            if part is not None and not part.most.fits_in(room):  # its minimum alone takes more
                if tier is Tier.WITHIN:
                    return None
                more = part.most.minus(held or {})
                if any(excess > over.get(resource, 0) for _, resource, excess in account.over_caps(more)):
                    part, cap = None, cap or account.cap_exceeded(more, new=False)
        if cap:
            refusal = _refusal(Code.QUOTA_EXCEEDED, cap)
            # Muster never preempts for capacity that departing pods are about to free.
            if part is None or account.awaits_terminating:
                return Grant(None, refusal)
            return Grant(part, refusal, cap_exceeded=True)
        everything = self._queues.root.entitled
        exceeded = account.share_exceeded(asked, everything) if tier is Tier.BORROWING else None
        return Grant(part, _refusal(Code.OVER_SHARE, exceeded) if exceeded else None)

    def _planned(self, state: GangState) -> Attempt | None:
        """An attempt at only the places of the gang's open plan, if they make up its minimum; else None."""
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
        if not parts:
            return None
        planned = self._demands.of_parts(demand, parts)
        if planned.short([part.count for part in parts]):
            return None
        return Attempt(state, Tier.STARTED, planned, tuple(vacant), whole=False)


def _refusal(code: Code, message: str) -> Explanation:
    return Explanation(code, "queue", message)
