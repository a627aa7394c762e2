"""The order in which gangs are served, and how much of what it lacks each gang may have.

1. Gangs that have started and still lack places: a half-started gang is completed before a new one starts.
   Gangs with an open plan of an earlier leader are first, since their places are theirs already; then gangs
   with pods on nodes, or held places, by rank. Only caps limit these gangs.
2. Gangs that stay within their queue's entitlement. The queue with the least share of its entitlement
   in use is served first, ties by name, level by level down the tree; inside a queue by its own order.
   An elastic gang gets only what stays within: its minimum, and as much more as is left.
3. Gangs that would carry a queue over its entitlement, and the rest of elastic gangs. Everything that may
   start within entitlement has been tried by then. What is still free is capacity that no waiting gang can
   use within entitlement, and is borrowed. A queue that would itself stay within its entitlement is first
   (the start carries over only a queue above or below it): it takes back what a sibling borrowed of it. Then
   follow, as tie-breakers, the queue whose last such start is longest ago (never: first), the least share
   after the start, priority, and name. This order too is applied level by level.
4. Gangs whose hold has just run out: all other gangs could use the freed places first. A gang that has
   nothing else is new to its queue again.

A gang that does not fit holds nothing and is skipped; it does not block gangs behind it.

Inside a queue: `priority` (higher first, then age, then id), `fifo` (age, then id), or `fair`: the namespace
with the least dominant share of the queue's entitlement first (DRF, NSDI 2011), and by priority in it.

The order is maintained as gangs change, and a cycle walks along it (`pending.py`). The share of a queue
changes only when one of its gangs starts, which moves the queue in one heap per level of the tree.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from muster.core.demand import Demand
from muster.core.queueing.admission import Admission, Attempt, Grant, Tier
from muster.core.queueing.pending import Cursor, EquivalenceClass, FairOrder, Head, PendingQueues
from muster.core.words.gang import GangId
from muster.core.world.gangs import GangState
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account


class Attempts:
    """The attempts of one cycle.

    A gang that cannot start with what it may have (`infeasible`) makes no attempt. It is skipped with all of
    its class behind it, or, if all gangs are to be `seen`, only its queue's refusal is recorded. The caller
    that starts a gang charges it to the queues before the next attempt; pending queues change only after the
    walk.
    """

    def __init__(
        self,
        pending: PendingQueues,
        queues: Queues,
        admission: Admission,
        lapsed: Collection[GangId],
        infeasible: Callable[[GangState, Demand, Tier, bool], bool],
        fits: Callable[[Demand], bool],
        *,
        seen: Callable[[GangState], object] | None = None,
        only: Collection[GangId] | None = None,
    ) -> None:
        """Attempts of the gangs in `pending`; `lapsed` gangs, whose hold has just run out, are last.

        `infeasible`: whether a gang is known not to start with this demand, in this tier, or once a hard cap
        allows it (`Grant.cap_exceeded`). `fits`: whether this may fit, as far as is known. `seen`: infeasible
        gangs are visited too, each class as one except for gangs for which this is true. `only`: all gangs
        but these, and the gangs behind them, are known to be infeasible (`cycle/incremental.py`).
        """
        self._pending, self._queues, self._admission = pending, queues, admission
        self._lapsed, self._infeasible, self._fits = lapsed, infeasible, fits
        self._seen, self._only = seen, only
        self._last: list[GangState] = []
        #: all gangs that were visited, in order of first attempt; gangs without an attempt are last
        self.served: dict[GangId, GangState] = {}

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
        yield from self._serve(FairOrder(queues.root, cursors, _share), Tier.WITHIN, over)
        if not over:
            return
        cursors = [Cursor(account, some, self._skips_beyond) for account, some in over.items()]
        order = FairOrder(queues.root, cursors, _share_after, lambda: queues.usage_version, self._fits)
        yield from self._serve(order, Tier.BORROWING, over)

    def _serve(self, order: FairOrder, tier: Tier, over: dict[Account, list[Head]]) -> Iterator[Attempt]:
        """Attempts in this order. Gangs that would exceed an entitlement are put into `over`."""
        queues, admission = self._queues, self._admission
        for cursor in order:
            account, version, first = cursor.account, queues.usage_version, cursor.head()
            grants: dict[EquivalenceClass, Grant | None] = {}
            while queues.usage_version == version and (head := cursor.head()) is not None:
                key, state, _, peers = head
                if tier is Tier.BORROWING and not _ranks_alike(head, first):
                    break  # another queue may be next
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
                        queues.borrowed(account)
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


def _share(account: Account, cursor: Cursor) -> tuple[Any, ...]:  # Any: comparable
    """The key of a queue within its entitlement: its share."""
    return account.share(account.used), account.name


def _share_after(account: Account, cursor: Cursor) -> tuple[Any, ...]:  # Any: comparable
    """The key of a queue beyond its entitlement, which depends on the gang that is next."""
    head = cursor.head()
    assert head is not None
    _, state, _, peers = head
    assert peers.demand is not None
    least = peers.demand.least
    after, exceeds = account.share(account.used.plus(least)), account.exceeds(least)
    return exceeds, account.last_borrowed, after, state.rank[0], account.name


def _ranks_alike(head: Head, first: Head | None) -> bool:
    """Whether the queue has the same key with this gang as its head: of the same class and priority."""
    return first is not None and head[3] is first[3] and head[1].rank[0] == first[1].rank[0]
