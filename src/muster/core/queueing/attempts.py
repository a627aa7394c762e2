"""The order in which gangs are served, and how much of what it wants each gang may have.

1. Gangs that have started and still lack places: a half-started gang is completed before a new one starts.
   Gangs with an open plan of an earlier leader are first, since their places are theirs already; then gangs
   with pods on nodes, or held places, by rank. Only caps limit these gangs.
2. Gangs that stay within their queue's entitlement. The queue with the least share of its entitlement
   in use is served first, ties by name, level by level down the tree; inside a queue by its own order.
   An elastic gang gets only what stays within: its minimum, and as much more as is left.
3. Gangs that would carry a queue over its entitlement, and the rest of elastic gangs. Everything that may
   start within entitlement has been tried by then. What is still free is capacity that no waiting gang can
   use within entitlement, and is lent. A queue that would itself stay within its entitlement is first (the
   start carries over only a queue above or below it): it takes back what a sibling borrowed of it. Then
   follow, as tie-breakers, the queue whose last such start is longest ago (never: first), the least share
   after the start, priority, and name. This order too is applied level by level.
4. Gangs whose hold has just run out: all other gangs could use the freed places first. A gang that has
   nothing else is new to its queue again.

A gang that does not fit holds nothing and is skipped; it does not block gangs behind it.

Inside a queue: `priority` (higher first, then age, then id), `fifo` (age, then id), or `fair`: the namespace
with the least dominant share of the queue's entitlement first (DRF, NSDI 2011), and by priority in it.

The order is maintained as gangs change (`lines.py`), and a cycle walks along it (`race.py`). A queue's share
changes only when one of its gangs starts, which moves the queue in one heap per level of the tree.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from muster.core.demand import Demand
from muster.core.queueing.admission import Admission, CapExceeded, Grant, refusal
from muster.core.queueing.fair_order import Cursor, FairOrder
from muster.core.queueing.pending import EquivalenceClass, Head, PendingQueue, PendingQueues
from muster.core.words.decisions import Explanation
from muster.core.words.gang import GangId
from muster.core.world.gangs import GangState
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account


class Tier(Enum):
    """The admission tier of an attempt."""

    #: the gang has started and lacks places: nothing new starts
    STARTED = "started"
    #: the gang's queue stays within its entitlement
    WITHIN = "within"
    #: the gang's queue would exceed its entitlement, on capacity that no gang can use within entitlement
    BORROWING = "borrowing"


class Attempt(NamedTuple):
    """One gang's attempt: the gang may have what is granted, if that fits."""

    state: GangState
    grant: Grant
    tier: Tier


class Attempts:
    """The attempts of one cycle.

    A gang that is `hopeless` with what it may have gets no attempt. It is skipped with all of its kind behind
    it, or, if all gangs are to be `seen`, only its queue's refusal is recorded. The caller that starts a gang
    charges it to the queues before the next attempt; lines change only after the walk.
    """

    def __init__(
        self,
        lines: PendingQueues,
        queues: Queues,
        admission: Admission,
        lapsed: Collection[GangId],
        hopeless: Callable[[GangState, Demand | CapExceeded, bool], bool],
        fits: Callable[[Demand], bool],
        *,
        seen: bool,
        only: Collection[GangId] | None = None,
    ) -> None:
        """Attempts of the gangs in `lines`; `lapsed` gangs, whose hold has just run out, are last.

        `fits`: whether this may fit, as far as is known. `only`: all gangs but these, and the gangs behind
        them, are known to be hopeless (`quiet.py`).
        """
        self._pending, self._queues, self._admission = lines, queues, admission
        self._lapsed, self._hopeless, self._fits = lapsed, hopeless, fits
        self._seen, self._only = seen, only
        self._last: list[GangState] = []
        #: by queue, gangs that would carry it over its entitlement
        self._over: dict[Account, list[Head]] = {}
        #: all gangs that were visited, in order of first attempt; gangs without an attempt are last
        self.served: dict[GangId, GangState] = {}

    def __iter__(self) -> Iterator[Attempt]:
        if not self._pending:
            return
        if self._pending.begun:
            begun = [state for state in self._pending.begun if not self._is_last(state)]
            yield from self._to_finish(sorted(begun, key=lambda state: not state.planned))
        yield from self._within()
        over = {account: heads for account, heads in self._over.items() if heads}
        if over:
            yield from self._beyond(over)
        for state in sorted(self._last, key=lambda state: state.rank):
            yield from self._to_finish([state]) if state.begun else self._anew(state)
        for state in self._pending.gated:
            state.refusal = None
            self.served[state.id] = state

    def _to_finish(self, states: Iterable[GangState]) -> Iterator[Attempt]:
        for state in states:
            self.served[state.id] = state
            offer = self._admission.begun(state)
            if offer is not None:
                yield Attempt(state, offer, Tier.STARTED)

    def _within(self) -> Iterator[Attempt]:
        queues, admission, served, hopeless = self._queues, self._admission, self.served, self._hopeless
        walks: dict[Account, Cursor] = {}
        barred: dict[str, PendingQueue] = {}
        for name, line in self._pending.of_queue.items():
            account = queues.find(name)
            if account is None or account.fault or account.children:
                barred[name] = line
            elif heads := line.heads() if self._only is None else line.heads_of(self._only):
                walks[account] = Cursor(account, heads, self._hopeless_within)
        for name in sorted(barred):
            self._bar(barred[name])
        if not walks:
            return
        for walk in FairOrder(queues.root, walks, lambda account, walk: (account.share(), account.name)):
            moves = queues.usage_version
            answers: dict[EquivalenceClass, Demand | CapExceeded | Explanation | None] = {}
            account, over = walk.account, self._over.setdefault(walk.account, [])
            while (head := walk.head) is not None:
                (key, state), _, file = head
                if self._lapsed and self._is_last(state):
                    walk.next()
                    continue
                if file in answers:
                    answer = answers[file]
                else:
                    answer = answers[file] = admission.within(state, account)
                if answer is None:
                    over.append(walk.leave())
                    continue
                walk.next()
                served[state.id] = state
                state.refusal = refusal(answer)
                known = not self._seen and answer is file.demand  # the walk has tested that already
                if isinstance(answer, Explanation) or not (known or not hopeless(state, answer, False)):
                    continue
                offer = admission.offer(state, answer)
                yield Attempt(state, offer, Tier.WITHIN)
                if not offer.whole and state.demand is not None and state.demand is not file.demand:
                    rest = EquivalenceClass(state.demand, [(key, state)])
                    over.append((rest.entries[0], 0, rest))
                if queues.usage_version != moves:
                    break

    def _beyond(self, over: Mapping[Account, list[Head]]) -> Iterator[Attempt]:
        queues, admission, served, hopeless = self._queues, self._admission, self.served, self._hopeless

        def key(account: Account, walk: Cursor) -> tuple[bool, int, float, int, str]:
            head = walk.head
            assert head is not None
            (_, state), _, file = head
            assert file.demand is not None
            least = queues.amounts(file.demand)[0]
            beyond = queues.exceeds(account, least)
            return beyond, account.last_borrowed, account.share(least), state.rank[0], account.name

        walks = {account: self._walk_over(account, heads) for account, heads in over.items()}
        for walk in FairOrder(queues.root, walks, key, lambda: queues.usage_version, self._fits):
            head, moves = walk.head, queues.usage_version
            assert head is not None
            first, priority = head[2], head[0][1].rank[0]
            answer = admission.beyond(head[0][1], walk.account)
            # The key is the same for all gangs of a kind and priority: this queue is next until one starts.
            while head is not None and head[2] is first and head[0][1].rank[0] == priority:
                state = head[0][1]
                walk.next()
                if not (self._lapsed and self._is_last(state)):
                    served[state.id] = state
                    state.refusal = answer.refusal
                    if answer.demand is not None and not hopeless(state, answer.demand, True):
                        yield Attempt(state, admission.offer(state, answer.demand), Tier.BORROWING)
                        if queues.usage_version != moves:
                            queues.borrowed(walk.account)
                            break
                head = walk.head

    def _anew(self, state: GangState) -> Iterator[Attempt]:
        """The attempt of a gang whose hold has run out and that has nothing else: like any of its queue."""
        assert state.gang is not None
        account = self._queues.find(state.gang.queue)
        if account is None:
            return
        self.served[state.id] = state
        answer, standing = self._admission.within(state, account), Tier.WITHIN
        state.refusal = refusal(answer)
        if answer is None:
            lent = self._admission.beyond(state, account)
            answer, standing, state.refusal = lent.demand, Tier.BORROWING, lent.refusal
        if answer is None or isinstance(answer, Explanation):
            return
        moves = self._queues.usage_version
        yield Attempt(state, self._admission.offer(state, answer), standing)
        if standing is Tier.BORROWING and self._queues.usage_version != moves:
            self._queues.borrowed(account)

    def _hopeless_within(self, head: Head) -> bool:
        (_, state), _, file = head
        return not self._seen and file.demand is not None and self._hopeless(state, file.demand, False)

    def _walk_over(self, account: Account, heads: list[Head]) -> "Cursor":
        """A walk over gangs beyond the entitlement, without hopeless gangs.

        A hopeless gang takes no part in the race, even if it is to be seen: its demand must not decide
        which queue is next.
        """

        def hopeless(head: Head) -> bool:
            (_, state), position, file = head
            if file.demand is None:
                return False
            if not self._seen:
                return self._hopeless(state, file.demand, True)
            state.refusal = told = self._admission.beyond(state, account).refusal
            if not self._hopeless(state, file.demand, True):
                return False
            for _, other in file.entries[position:]:
                if not (self._lapsed and self._is_last(other)):
                    self.served[other.id] = other
                    other.refusal = told or state.refusal
            return True

        return Cursor(account, heads, hopeless)

    def _is_last(self, state: GangState) -> bool:
        if state.id not in self._lapsed:
            return False
        self._last.append(state)
        return True

    def _bar(self, line: PendingQueue) -> None:
        for state in line:
            self.served[state.id] = state
            self._admission.bar(state)
