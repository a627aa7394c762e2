"""In which order gangs are served, and how much of what each wants it may have.

1. Gangs that have begun and lack something of it: what is half there is finished before anything new starts.
   First those with an open plan of an earlier leader, whose places are theirs already; then those with pods
   on nodes, or held places, by rank. Only caps bind them.
2. Gangs that stay within their queue's entitlement. The queue with the least share of its entitlement
   in use is served first, ties by name, level by level down the tree; inside a queue by its own order.
   Of an elastic gang only what stays within counts: its minimum, and as much more as is left.
3. What would carry a queue over its entitlement: gangs, and the rest of elastic ones. Everything that may
   start within entitlement has been tried by then, so what is still free is capacity that nobody who waits
   can use within entitlement, and is lent. First a queue that would itself stay within its entitlement (one
   above or below it would not): what a sibling was lent of it comes back to it. Then the queue whose last
   such start is longest ago (never: first), then the least share that the start would lead to, then
   priority, then name; level by level, too.
4. Gangs whose hold has just run out: everyone else has had the chance to use it first. Those that have
   nothing else are new to their queue again.

A gang that does not fit holds nothing and is passed over; it blocks nobody behind it.

Inside a queue: `priority` (higher first, then age, then id), `fifo` (age, then id), or `fair`: the namespace
with the least dominant share of the queue's entitlement first (DRF, NSDI 2011), and by priority in it.

The order is kept, not made: a gang is put in its place when its state changes (`Lines`), and a cycle walks
along (`Turns`). In the line of a queue, gangs that want the same stand in one file, each file in order, and
the walk merges the files. So one refusal passes over all who want the same, and a cycle costs as much as
there are different wants, however many wait. A queue's share changes only when one of its gangs starts,
which moves it in one heap per level of the tree.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from typing import Any, NamedTuple

from muster.core.admission import Admission, Full, Offer, refusal
from muster.core.decisions import Explanation
from muster.core.gang import Gang, GangId, QueueOrder
from muster.core.gangs import GangState
from muster.core.placement import Want
from muster.core.queues import Queues
from muster.core.queues.account import Account

#: Rank or, in a queue of order fifo, age and id; no two of a line are equal.
_Key = tuple[Any, ...]  # Any: ranks and ages are never compared with each other


class Standing(Enum):
    """On what a turn is taken."""

    #: it has begun: nothing new starts
    BEGUN = "begun"
    #: its queue stays within its entitlement
    WITHIN = "within"
    #: its queue would be over: on capacity that nobody can use within entitlement
    OVER = "over"


class Turn(NamedTuple):
    """One gang's turn: it may have what is offered, if that fits."""

    state: GangState
    offer: Offer
    standing: Standing


@dataclass(slots=True, eq=False)
class File:
    """Gangs of one kind in their order: answered alike, whether they may start and whether they fit."""

    want: Want | None
    #: whether they fit depends on what they want, and on nothing else of theirs; else it is one gang
    plain: bool
    entries: list[tuple[_Key, GangState]] = field(default_factory=list)


class Line:
    """Gangs that lack something, in the order in which they are served."""

    def __init__(self, duration: Callable[[Gang], float] | None = None) -> None:
        """`duration`: how long a gang runs, if answers depend on that, too."""
        self._duration = duration
        self.files: dict[Hashable, File] = {}
        self._standing: dict[GangId, tuple[Hashable, _Key]] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[GangState]:
        if not self.files:
            return iter(())
        entries = (entry for file in self.files.values() for entry in file.entries)
        return (state for _, state in sorted(entries))

    def heads(self) -> "list[_Head]":
        """The first of each file."""
        return [(file.entries[0], 0, file) for file in self.files.values()]

    def heads_of(self, gangs: Iterable[GangId]) -> "list[_Head]":
        """The first of these in each file."""
        first: dict[Hashable, _Key] = {}
        for kind, key in [self._standing[gang] for gang in gangs if gang in self._standing]:
            first[kind] = min(key, first.get(kind, key))
        heads = []
        for kind, key in first.items():
            file = self.files[kind]
            position = bisect_left(file.entries, (key,))
            heads.append((file.entries[position], position, file))
        return heads

    def key(self, gang: GangId) -> _Key | None:
        """Where it stands; None: not in this line."""
        return self._standing[gang][1] if gang in self._standing else None

    def put(self, state: GangState, order: QueueOrder = QueueOrder.PRIORITY) -> bool:
        """Where it belongs as it is now, wherever it stood. False if it stands there already."""
        kind = self._kind(state, order)
        # Of equal length: while a queue's order changes, its gangs stand there with keys of either kind.
        key: _Key = (0, *state.rank[1:]) if order is QueueOrder.FIFO else state.rank
        if self._standing.get(state.id) == (kind, key):
            return False
        self.drop(state.id)
        self._standing[state.id] = kind, key
        file = self.files.get(kind)
        if file is None:
            file = self.files[kind] = File(state.want, state.plain)
        file.want = state.want
        insort(file.entries, (key, state))
        return True

    def drop(self, gang: GangId) -> None:
        kind, key = self._standing.pop(gang, (None, None))
        if key is None:
            return
        entries = self.files[kind].entries
        del entries[bisect_left(entries, (key,))]
        if not entries:
            del self.files[kind]

    def _kind(self, state: GangState, order: QueueOrder) -> Hashable:
        """Gangs of one kind get one answer: if one does not start, nor does any that ranks below it.

        Whether it fits depends on what it wants alone; whether its queue allows it, on who asks; whether
        victims can be found, on its priority too, which a queue of order fifo does not go by; whether it may
        pass somebody, on how long it runs.
        """
        gang = state.gang
        if not state.plain or gang is None:
            return state.id
        kind: tuple[Hashable, ...]
        kind = state.want, gang.namespace, gang.user, gang.preempts, state.begun
        if order is QueueOrder.FIFO:
            kind = *kind, gang.priority
        return kind if self._duration is None else (*kind, self._duration(gang))


class Lines:
    """Where every gang stands that lacks something: with those that have begun, or in its queue."""

    def __init__(self, queues: Queues, duration: Callable[[Gang], float] | None = None) -> None:
        """`duration`: as in `Line`."""
        self._queues, self._duration = queues, duration
        self.begun, self.gated = Line(), Line()
        self.of_queue: dict[str, Line] = {}
        self._where: dict[GangId, Line] = {}
        #: who has come into a line, or stands elsewhere in it, since the last walk
        self.newcomers: set[GangId] = set()

    def __len__(self) -> int:
        """How many lack anything."""
        return len(self._where)

    def put(self, state: GangState) -> None:
        assert state.gang is not None
        order = QueueOrder.PRIORITY
        if state.want is None:
            line = self.gated
        elif first_claim(state):
            line = self.begun
        else:
            name = state.gang.queue
            known = self.of_queue.get(name)
            line = self.of_queue.setdefault(name, Line(self._duration)) if known is None else known
            account = self._queues.find(name)
            order = account.rules.order if account is not None else order
        before = self._where.get(state.id)
        if before is not line:
            if before is not None:
                before.drop(state.id)
            self._where[state.id] = line
        if line.put(state, order):
            self.newcomers.add(state.id)

    def drop(self, gang: GangId) -> None:
        line = self._where.pop(gang, None)
        if line is not None:
            line.drop(gang)


class Turns:
    """The turns of one cycle.

    Who is `hopeless` with what he may have gets no turn: he is passed over with all his kind behind him, or,
    if everybody is to be `seen`, only told what his queue says. Whoever starts a gang settles it with the
    queues before the next turn; lines change when the walk is over.
    """

    def __init__(
        self,
        lines: Lines,
        queues: Queues,
        admission: Admission,
        lapsed: Collection[GangId],
        hopeless: Callable[[GangState, Want | Full, bool], bool],
        *,
        seen: bool,
        only_new: bool = False,
    ) -> None:
        """`only_new`: everybody but newcomers is known to be hopeless (`quiet.py`)."""
        self._lines, self._queues, self._admission = lines, queues, admission
        self._lapsed, self._hopeless, self._seen, self._only_new = lapsed, hopeless, seen, only_new
        self._last: list[GangState] = []
        #: what would be over, by queue
        self._over: dict[Account, list[_Head]] = {}
        #: everybody that was looked at, in order of first turn; those that have none come last
        self.served: dict[GangId, GangState] = {}

    def __iter__(self) -> Iterator[Turn]:
        if not self._lines:
            return
        if self._lines.begun:
            begun = [state for state in self._lines.begun if not self._is_last(state)]
            yield from self._to_finish(sorted(begun, key=lambda state: not state.planned))
        yield from self._within()
        over = {account: heads for account, heads in self._over.items() if heads}
        if over:
            yield from self._beyond(over)
        for state in sorted(self._last, key=lambda state: state.rank):
            yield from self._to_finish([state]) if state.begun else self._anew(state)
        for state in self._lines.gated:
            state.refusal = None
            self.served[state.id] = state

    def _to_finish(self, states: Iterable[GangState]) -> Iterator[Turn]:
        for state in states:
            self.served[state.id] = state
            offer = self._admission.begun(state)
            if offer is not None:
                yield Turn(state, offer, Standing.BEGUN)

    def _within(self) -> Iterator[Turn]:
        queues, admission, served, hopeless = self._queues, self._admission, self.served, self._hopeless
        walks: dict[Account, Walk] = {}
        barred: dict[str, Line] = {}
        for name, line in self._lines.of_queue.items():
            account = queues.find(name)
            if account is None or account.fault or account.children:
                barred[name] = line
            elif heads := line.heads_of(self._lines.newcomers) if self._only_new else line.heads():
                walks[account] = Walk(account, heads, self._hopeless_within)
        for name in sorted(barred):
            self._bar(barred[name])
        if not walks:
            return
        for walk in _Race(queues.root, walks, lambda account, walk: (account.share(), account.name)):
            moves = queues.moves
            answers: dict[File, Want | Full | Explanation | None] = {}
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
                known = not self._seen and answer is file.want  # the walk has asked about that
                if isinstance(answer, Explanation) or not (known or not hopeless(state, answer, False)):
                    continue
                offer = admission.offer(state, answer)
                yield Turn(state, offer, Standing.WITHIN)
                if not offer.whole and state.want is not None and state.want is not file.want:
                    rest = File(state.want, False, [(key, state)])
                    over.append((rest.entries[0], 0, rest))
                if queues.moves != moves:
                    break

    def _beyond(self, over: Mapping[Account, list["_Head"]]) -> Iterator[Turn]:
        queues, admission, served, hopeless = self._queues, self._admission, self.served, self._hopeless

        def key(account: Account, walk: Walk) -> tuple[bool, int, float, int, str]:
            head = walk.head
            assert head is not None
            (_, state), _, file = head
            assert file.want is not None
            least = queues.demand(file.want)[0]
            beyond = queues.exceeds(account, least)
            return beyond, account.carried_over, account.share(least), state.rank[0], account.name

        walks = {account: self._walk_over(account, heads) for account, heads in over.items()}
        for walk in _Race(queues.root, walks, key):
            head, moves = walk.head, queues.moves
            assert head is not None
            first, priority = head[2], head[0][1].rank[0]
            answer = admission.beyond(head[0][1], walk.account)
            # The key is the same for all of a kind and priority: the turn stays here until one starts.
            while head is not None and head[2] is first and head[0][1].rank[0] == priority:
                state = head[0][1]
                walk.next()
                if not (self._lapsed and self._is_last(state)):
                    served[state.id] = state
                    state.refusal = answer.refusal
                    if answer.want is not None and not hopeless(state, answer.want, True):
                        yield Turn(state, admission.offer(state, answer.want), Standing.OVER)
                        if queues.moves != moves:
                            queues.overshot(walk.account)
                            break
                head = walk.head

    def _anew(self, state: GangState) -> Iterator[Turn]:
        """Its hold has run out, and it has nothing else: its queue treats it like any other."""
        assert state.gang is not None
        account = self._queues.find(state.gang.queue)
        if account is None:
            return
        self.served[state.id] = state
        answer, standing = self._admission.within(state, account), Standing.WITHIN
        state.refusal = refusal(answer)
        if answer is None:
            lent = self._admission.beyond(state, account)
            answer, standing, state.refusal = lent.want, Standing.OVER, lent.refusal
        if answer is None or isinstance(answer, Explanation):
            return
        moves = self._queues.moves
        yield Turn(state, self._admission.offer(state, answer), standing)
        if standing is Standing.OVER and self._queues.moves != moves:
            self._queues.overshot(account)

    def _hopeless_within(self, head: "_Head") -> bool:
        (_, state), _, file = head
        return not self._seen and file.want is not None and self._hopeless(state, file.want, False)

    def _walk_over(self, account: Account, heads: list["_Head"]) -> "Walk":
        """Seen or not, who is hopeless takes no part in the race: what he would take counts for nobody."""

        def hopeless(head: "_Head") -> bool:
            (_, state), position, file = head
            if file.want is None:
                return False
            if not self._seen:
                return self._hopeless(state, file.want, True)
            state.refusal = told = self._admission.beyond(state, account).refusal
            if not self._hopeless(state, file.want, True):
                return False
            for _, other in file.entries[position:]:
                if not (self._lapsed and self._is_last(other)):
                    self.served[other.id] = other
                    other.refusal = told or state.refusal
            return True

        return Walk(account, heads, hopeless)

    def _is_last(self, state: GangState) -> bool:
        if state.id not in self._lapsed:
            return False
        self._last.append(state)
        return True

    def _bar(self, line: Line) -> None:
        for state in line:
            self.served[state.id] = state
            self._admission.bar(state)


#: The next of a file: its entry, the position of that, the file.
_Head = tuple[tuple[_Key, GangState], int, File]


class Walk:
    """A way along the gangs of one queue, from its files: next is the first of their heads.

    In a fair queue the heads of each namespace are compared among themselves, and the next namespace is the
    one with the least share.
    """

    def __init__(self, account: Account, heads: list[_Head], hopeless: Callable[[_Head], bool]) -> None:
        """`hopeless`: whether a head, and all of its file behind it, is passed over."""
        self.account = account
        self._hopeless = hopeless
        #: the head that was found last: not asked about again
        self._found: _Head | None = None
        #: of each namespace, in a fair queue
        self._heads: dict[str, list[_Head]] = {}
        if account.rules.order is QueueOrder.FAIR:
            for head in heads:
                gang = head[0][1].gang
                self._heads.setdefault(gang.namespace if gang is not None else "", []).append(head)
        else:
            self._heads[""] = heads
        for some in self._heads.values():
            heapify(some)

    @property
    def head(self) -> _Head | None:
        """Of whom it is the turn now; None: nobody is left."""
        while heads := self._next():
            head = heads[0]
            if head is self._found or not self._hopeless(head):
                self._found = head
                return head
            heappop(heads)
        return None

    def next(self) -> None:
        """Take the head out."""
        heads = self._next()
        _, position, file = heads[0]
        position += 1
        if position < len(file.entries):
            heapreplace(heads, (file.entries[position], position, file))
        else:
            heappop(heads)

    def leave(self) -> _Head:
        """Take the head out, and all of its file behind it."""
        return heappop(self._next())

    def _next(self) -> list[_Head]:
        """The heads of which the first is next; none if nobody is left."""
        if len(self._heads) == 1:
            (heads,) = self._heads.values()
            return heads
        waiting = ((self.account.share_of(name), name) for name, heads in self._heads.items() if heads)
        _, least = min(waiting, default=(0.0, None))
        return self._heads[least] if least is not None else []


class _Race:
    """Which queue is next: at each level of the tree the one with the least key, down to a leaf.

    A heap per level. Whoever takes a walk from here may change its head, and what its queues use, before he
    takes the next: keys change only on the path of that walk, so it costs one replacement per level. Who is
    alone is first as long as he goes on.
    """

    def __init__(
        self, root: Account, walks: Mapping[Account, Walk], key: Callable[[Account, Walk], tuple[Any, ...]]
    ) -> None:
        self._root, self._walks, self._key = root, walks, key
        #: by inner queue. A key (Any: comparable) ends with the queue's name, so that no two are equal
        self._heaps: dict[Account, list[tuple[Any, Account]]] = {}

    def __iter__(self) -> Iterator[Walk]:
        walks = {account: walk for account, walk in self._walks.items() if walk.head is not None}
        if len(walks) == 1:
            (walk,) = walks.values()
            while walk.head is not None:
                yield walk
            return
        below: dict[Account, list[Account]] = {}
        for account in walks:
            for child, parent in pairwise((*account.path, self._root)):
                if child in (children := below.setdefault(parent, [])):
                    break
                children.append(child)
        self._grow(self._root, below)
        while (first := self._first(self._root)) is not None:
            yield first
            self._moved(first)

    def _moved(self, walk: Walk) -> None:
        """The head of the first walk, or what its queues use, has changed."""
        for child, parent in pairwise((*walk.account.path, self._root)):
            heap = self._heaps[parent]
            best = self._first(child)
            if best is None:
                heappop(heap)
            elif (key := self._key(child, best)) != heap[0][0]:
                heapreplace(heap, (key, child))

    def _grow(self, account: Account, below: Mapping[Account, list[Account]]) -> None:
        heap = self._heaps[account] = []
        for child in below.get(account, ()):
            if child in below:
                self._grow(child, below)
            best = self._first(child)
            assert best is not None
            heappush(heap, (self._key(child, best), child))

    def _first(self, account: Account) -> Walk | None:
        while (heap := self._heaps.get(account)) is not None:
            if not heap:
                return None
            account = heap[0][1]
        walk = self._walks.get(account)
        return walk if walk is not None and walk.head is not None else None


def first_claim(state: GangState) -> bool:
    """It has begun and lacks something of it."""
    if not state.begun:
        return False
    return state.waits or bool(state.planned) or any(not hold.told for hold in state.holds.values())
