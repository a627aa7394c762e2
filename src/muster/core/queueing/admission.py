"""What a gang may have, before any search for where it fits: nothing, all that it lacks, or a part of it.

The refusals are those of docs/names.md, in their order: `Invalid` (no such queue, or not for this gang),
`QueueClosed`, and `QuotaExceeded` (a hard cap, too many gangs, a ResourceQuota). A gang that would carry a
queue over its entitlement is asked about again when all other gangs have been served, and keeps `OverShare`
if it does not start then either. Refusals carry the numbers that they rest on.

A gang is charged whole or not at all: it is refused unless every queue from its own up to the root allows
its minimum. What an elastic gang lacks beyond the minimum is cut to what is left. If a hard cap refuses the
minimum, the gang may still have it once other gangs below that cap have left (`cap_exceeded`). The search for
victims decides whether a gang has to leave.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from muster.core.demand import Demand, cut
from muster.core.words.amounts import Usage
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code, Gang, Place
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


class Admission:
    def __init__(self, queues: Queues, quotas: Quotas, demands: Demands) -> None:
        self._queues, self._quotas, self._demands = queues, quotas, demands
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
            demand = self._demands.of(parts, demand.need, demand.rules)
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
        key, asked = (account, tier is Tier.BORROWING), demand.least
        if (room := self._rooms.get(key)) is None:
            room = self._rooms[key] = account.room(borrow=tier is Tier.BORROWING)
        if held:
            asked = asked.minus(held)
            room = {resource: amount + held[resource] for resource, amount in room.items()}
        if cap := account.cap_exceeded(asked, new=new):
            # Just enough will have left below the caps once it starts.
            over: dict[str, int] = {}
            for _, resource, excess in account.over_caps(asked):
                over[resource] = max(over.get(resource, 0), excess)
            room = {resource: amount + over.get(resource, 0) for resource, amount in room.items()}
        if tier is Tier.WITHIN and not demand.least.fits_in(room):
            return None
        part: Demand | None = demand
        if not demand.most.fits_in(room):
            parts = cut(demand, room, [part.usage for part in demand.parts])
            part = self._demands.of(parts, demand.need, demand.rules) if parts else None
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
        if not parts or sum(map(len, vacant)) < demand.need:
            return None
        planned = self._demands.of(tuple(parts), demand.need, demand.rules)
        return Attempt(state, Tier.STARTED, planned, tuple(vacant), whole=False)


def _refusal(code: Code, message: str) -> Explanation:
    return Explanation(code, "queue", message)
