"""How many pods the devices of one node can serve, and which devices each pod gets: decided for all of them.

Pods that are put on a node together are decided together. One pod at a time, each taking the first devices
that satisfy it, fails gangs that fit: the first pod takes what only the second could use.

Of a node only the *room* matters: how many devices of each kind are free, how many are in use, and what is
left of each counter. Kinds that no claim in question tells apart are one *type*, so a room is a short list
of numbers. Pods are served one after the other, each in every way that its claims allow; states of the room
from which the rest was tried in vain are not tried again. With few types there are few states, so this is
exact and short: pods of one shape on equal devices take one step each. Types that the fewest requests can use
are taken first, and alternatives in the order of their request.

A claim can be made hard on purpose, so a question has `STEPS`. An answer beyond them says so: what was found
until then is right, but more might fit.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from muster.core.words.devices import (
    ALL,
    BY_NUMBER,
    MOST_OF_CLAIM,
    ClaimShape,
    Counters,
    DeviceAsk,
    DeviceConstraint,
    DeviceKind,
    KindId,
)

#: Steps of one question: choices of a number of devices of one type, for one request of one pod.
STEPS: Final = 4_000
#: Pods with claims that are put on one node at most, and requests of one pod; of more, nothing is decided.
MOST: Final = 256
_REQUESTS: Final = 128

#: The claims of one pod.
Claims = tuple[ClaimShape, ...]


class Room(NamedTuple):
    """What devices of a node are free: equal for nodes that serve the same pods."""

    #: kind, free devices, devices in use; sorted
    kinds: tuple[tuple[KindId, int, int], ...]
    #: by counter, sorted, what free devices may still take
    counters: Counters = ()
    #: resources that the node has as devices, sorted
    resources: tuple[str, ...] = ()

    def applying(self, claims: Claims) -> Claims:
        """What claims ask for here: those by number only for what is devices here."""
        if not claims or claims[-1].name != BY_NUMBER:
            return claims
        *others, last = claims
        here = tuple(request for request in last.requests if request.name in self.resources)
        return (*others, replace(last, requests=here)) if here else (*others,)


class Grant(NamedTuple):
    """So many devices of a type, by its number, for one request: `request` or `request/alternative`."""

    #: its number among the claims of the pod
    claim: int
    request: str
    type: int
    number: int


class Served(NamedTuple):
    """How many more pods a room serves, and how."""

    further: int
    #: a larger number might be possible: the steps did not suffice
    open: bool
    #: what each pod gets, in order; None if the first pods cannot all be served
    grants: tuple[tuple[Grant, ...], ...] | None
    #: by type, its kinds
    types: tuple[tuple[KindId, ...], ...]
    #: that it took
    steps: int = 0


def serve(
    room: Room,
    kinds: Mapping[KindId, DeviceKind],
    pods: Sequence[tuple[Claims, int]],
    more: Claims | None = None,
    most: int = MOST,
    steps: int = STEPS,
) -> Served:
    """Serve all these pods (claims and how many), and then as many with `more` as possible, up to `most`.

    None is further, and there are no grants, if not all of the first can be served.
    """
    each = [*(claims for claims, _ in pods), *([] if more is None else [more])]
    requests = max((sum(len(claim.requests) for claim in claims) for claims in each), default=0)
    if requests > _REQUESTS or sum(count for _, count in pods) > MOST:
        return Served(0, True, None, ())
    return _Search(room, kinds, pods, more, most, steps).answer()


def seen(room: Room, kinds: Mapping[KindId, DeviceKind], claims: Claims) -> Hashable:
    """What pods with these claims can tell of a room: rooms in which it is equal serve equally many.

    It names neither kinds nor values of attributes. So rooms are alike whose devices all differ, if no claim
    can tell one such device from another.
    """
    types, free = _types(room, kinds, {claims: None})
    counters = {name for each in types for name, _ in each.kind.consumes}
    names = {rule.attribute for claim in claims for rule in claim.constraints}
    values: dict[tuple[str, str], int] = {}
    found = []
    for each, number in zip(types, free, strict=True):
        compared = [pair for pair in each.kind.attributes if pair[0] in names]
        numbered = tuple((pair[0], values.setdefault(pair, len(values))) for pair in compared)
        found.append((each.answers, numbered, each.kind.consumes, number, each.total))
    return tuple(found), tuple(each for each in room.counters if each[0] in counters)


@dataclass(frozen=True, slots=True)
class _Type:
    """Devices that no claim in question tells apart."""

    kinds: tuple[KindId, ...]
    kind: DeviceKind
    attributes: Mapping[str, str]
    total: int
    answers: "_Answers"


@dataclass(frozen=True, slots=True)
class _Ask:
    """One alternative of a request: where its devices may be from."""

    label: str
    #: None: all
    count: int | None
    types: tuple[int, ...]
    constraints: tuple[tuple[int, DeviceConstraint], ...]


def _least(ask: _Ask) -> int:
    return 1 if ask.count is None else ask.count


#: How many devices, of which types.
_Need = tuple[int, list[int]]
#: What is free by type, then what is left by counter.
_State = tuple[int, ...]
#: Per ask, whether a kind matches, and whether its taints are tolerated.
_Answers = tuple[tuple[bool, bool], ...]
#: Per constraint, the values that its devices have so far.
_Values = Mapping[int, frozenset[str]]


class _Search:
    def __init__(
        self,
        room: Room,
        kinds: Mapping[KindId, DeviceKind],
        pods: Sequence[tuple[Claims, int]],
        more: Claims | None,
        most: int,
        steps: int,
    ) -> None:
        self._left = self._steps = steps
        self._first = [claims for claims, count in pods for _ in range(count)]
        self._more, self._most = more, most
        shapes = dict.fromkeys([*self._first, *([] if more is None else [more])])
        self._counters = {name: i for i, (name, _) in enumerate(room.counters)}
        self._types, free = _types(room, kinds, shapes)
        self._start: _State = (*free, *(amount for _, amount in room.counters))
        self._consumes = [self._consumed(each.kind) for each in self._types]
        self._asks = {claims: self._resolved(claims) for claims in shapes}
        self._matched = {claims: [*self._values_of(asks)] for claims, asks in self._asks.items()}
        #: how many pods, the first among them, have been served before a state in vain
        self._vain: set[tuple[int, _State]] = set()
        #: by state, the most of the further pods from there, and the first step to it
        self._best: dict[_State, tuple[int, tuple[tuple[Grant, ...], _State] | None]] = {}
        #: the best answer so far, and the best that there can be
        self._found: list[tuple[Grant, ...]] | None = None
        self._count, self._target = -1, 0

    def answer(self) -> Served:
        types = tuple(each.kinds for each in self._types)
        if self._more is not None:
            self._target = self._at_most(self._start, self._more)
        self._serve(0, self._start, [])
        over, steps = self._left < 0, self._steps - max(self._left, 0)
        if self._found is None:
            return Served(0, over, None, types, steps)
        open_ = over and self._count < self._target
        return Served(self._count, open_, tuple(self._found), types, steps)

    def _serve(self, position: int, state: _State, chosen: list[tuple[Grant, ...]]) -> bool:
        """Serve the pods from this one on. True: no better answer is possible, or the steps are used up."""
        if position == len(self._first):
            return self._end(state, chosen)
        if (position, state) in self._vain:
            return False
        for after, grants in self._ways(self._first[position], state):
            chosen.append(grants)
            if self._serve(position + 1, after, chosen):
                return True
            chosen.pop()
        if self._left < 0:
            return True
        self._vain.add((position, state))
        return False

    def _end(self, state: _State, chosen: list[tuple[Grant, ...]]) -> bool:
        """Serve as many further pods as possible from here, and keep the best answer."""
        count = 0 if self._more is None else self._further(state, self._target)
        if count > self._count:
            self._count, self._found = count, list(chosen)
            for _ in range(count):
                step = self._best[state][1]
                assert step is not None
                self._found.append(step[0])
                state = step[1]
        return count >= self._target or self._left < 0

    def _further(self, state: _State, target: int) -> int:
        """Return how many further pods this state serves, up to the target."""
        if (known := self._best.get(state)) is not None:
            return known[0]
        assert self._more is not None
        target = min(target, self._at_most(state, self._more))
        best: tuple[int, tuple[tuple[Grant, ...], _State] | None] = (0, None)
        if target > 0:
            # A path is as long as there are pods; what is left open by its end is decided on the way back.
            for after, grants in self._ways(self._more, state):
                count = 1 + self._further(after, target - 1)
                if count > best[0]:
                    best = count, (grants, after)
                if best[0] >= target or self._left < 0:
                    break
        self._best[state] = best
        return best[0]

    def _at_most(self, state: _State, claims: Claims) -> int:
        """Return a bound of the pods with these claims that a state serves, by the devices of requests.

        Of devices that must have equal values, those of one value serve one pod at a time.
        """
        bound, together, least = self._most, set[int](), 0
        for _, request in self._asks[claims]:
            usable = {t for ask in request for t in ask.types}
            need = min(map(_least, request), default=1)
            if need:
                bound = min(bound, sum(state[t] for t in usable) // need)
            together |= usable
            least += need
        for by_value in self._matched[claims]:
            fits = [min(sum([state[t] for t in types]) // need for need, types in some) for some in by_value]
            bound = min(bound, sum(fits))
        return min(bound, sum(state[t] for t in together) // least) if least else bound

    def _ways(self, claims: Claims, state: _State) -> Iterator[tuple[_State, tuple[Grant, ...]]]:
        """Yield each state after one pod with these claims is served, once, and what the pod gets."""
        seen: set[_State] = set()
        for after, grants in self._requests(self._asks[claims], 0, state, {}, ()):
            if after not in seen:
                seen.add(after)
                yield after, grants

    def _requests(
        self,
        requests: Sequence[tuple[int, tuple[_Ask, ...]]],
        position: int,
        state: _State,
        values: _Values,
        grants: tuple[Grant, ...],
    ) -> Iterator[tuple[_State, tuple[Grant, ...]]]:
        if position == len(requests):
            yield state, grants
            return
        claim, alternatives = requests[position]
        most = MOST_OF_CLAIM - sum(grant.number for grant in grants if grant.claim == claim)
        for ask in alternatives:
            for after, then, got in self._devices(claim, ask, most, state, values):
                yield from self._requests(requests, position + 1, after, then, (*grants, *got))
                if self._left < 0:
                    return

    def _devices(
        self, claim: int, ask: _Ask, most: int, state: _State, values: _Values
    ) -> Iterator[tuple[_State, _Values, tuple[Grant, ...]]]:
        """Yield the ways in which one alternative gets its devices, if they are not more than `most`."""
        self._left -= 1
        if ask.count is not None:
            if ask.count <= most:
                yield from self._some(claim, ask, 0, ask.count, state, values, ())
            return
        if sum(self._types[t].total for t in ask.types) > most:
            return
        got: tuple[Grant, ...] = ()
        for t in ask.types:
            total = self._types[t].total
            if state[t] < total or (taken := self._take(ask, t, total, state, values)) is None:
                return
            state, values = taken
            got = (*got, Grant(claim, ask.label, t, total))
        if got:
            yield state, values, got

    def _some(
        self,
        claim: int,
        ask: _Ask,
        position: int,
        count: int,
        state: _State,
        values: _Values,
        got: tuple[Grant, ...],
    ) -> Iterator[tuple[_State, _Values, tuple[Grant, ...]]]:
        """Yield the ways to get so many devices of the types from this position on."""
        if not count:
            yield state, values, got
            return
        if sum(state[t] for t in ask.types[position:]) < count:
            return
        t = ask.types[position]
        for number in range(min(state[t], count), -1, -1):
            self._left -= 1
            if self._left < 0:
                return
            if not number:
                yield from self._some(claim, ask, position + 1, count, state, values, got)
            elif (taken := self._take(ask, t, number, state, values)) is not None:
                grant = Grant(claim, ask.label, t, number)
                yield from self._some(claim, ask, position + 1, count - number, *taken, (*got, grant))

    def _take(
        self, ask: _Ask, t: int, number: int, state: _State, values: _Values
    ) -> tuple[_State, _Values] | None:
        """Return what is left after so many devices of a type are taken; None if that is not allowed."""
        for c, constraint in ask.constraints:
            value = self._types[t].attributes.get(constraint.attribute)
            before = values.get(c, frozenset())
            if value is None or (number > 1 or value in before if constraint.distinct else before - {value}):
                return None
            values = {**values, c: before | {value}}
        left = [*state]
        left[t] -= number
        for i, amount in self._consumes[t]:
            left[i] -= number * amount
            if left[i] < 0:
                return None
        return tuple(left), values

    def _consumed(self, kind: DeviceKind) -> list[tuple[int, int]]:
        """Positions in the state, and amounts, of the counters that a device takes."""
        base = len(self._types)
        return [(base + self._counters[name], amount) for name, amount in kind.consumes]

    def _resolved(self, claims: Claims) -> list[tuple[int, tuple[_Ask, ...]]]:
        """Return the requests of a pod, with the number of their claim, those with the least choice first."""
        found, number = [], 0
        for c, claim in enumerate(claims):
            numbered = list(enumerate(claim.constraints, number))
            number += len(numbered)
            for request in claim.requests:
                found.append(
                    (c, tuple(self._ask(request.name, ask, numbered) for ask in request.alternatives))
                )
        return found

    def _values_of(self, requests: Sequence[tuple[int, tuple[_Ask, ...]]]) -> Iterator[list[list[_Need]]]:
        """Yield, for each constraint of equal values, what each request that it binds needs, by value."""
        matching = {
            i: rule
            for _, request in requests
            for ask in request
            for i, rule in ask.constraints
            if not rule.distinct
        }
        for i, rule in matching.items():
            by_value: dict[str, list[int]] = {}
            for t, each in enumerate(self._types):
                if (value := each.attributes.get(rule.attribute)) is not None:
                    by_value.setdefault(value, []).append(t)
            bound = [r for _, r in requests if r and all(i in dict(ask.constraints) for ask in r)]
            needs = [
                (max(min(_least(ask) for ask in r), 1), {t for ask in r for t in ask.types}) for r in bound
            ]
            if needs:
                yield [
                    [(need, [t for t in types if t in usable]) for need, usable in needs]
                    for types in by_value.values()
                ]

    def _ask(self, request: str, ask: DeviceAsk, numbered: Sequence[tuple[int, DeviceConstraint]]) -> _Ask:
        label = f"{request}/{ask.name}" if ask.name else request
        bound = tuple((i, rule) for i, rule in numbered if rule.binds(request, label))
        if ask.count == ALL:
            # All that match: none may be in use, tainted for the pod, or withheld.
            matching = [t for t, each in enumerate(self._types) if matches(ask, each.kind)]
            usable = all(tolerates(ask, self._types[t].kind) for t in matching)
            return _Ask(label, None, tuple(matching) if usable else (), bound)
        types = [t for t, each in enumerate(self._types) if usable_by(ask, each.kind)]
        return _Ask(label, ask.count, tuple(types), bound)


def matches(ask: DeviceAsk, kind: DeviceKind) -> bool:
    return kind.answers.issuperset(ask.selectors)


def tolerates(ask: DeviceAsk, kind: DeviceKind) -> bool:
    return not kind.withheld and (not kind.tainted or ask.tolerations in kind.answers)


def usable_by(ask: DeviceAsk, kind: DeviceKind) -> bool:
    return matches(ask, kind) and tolerates(ask, kind)


def _types(
    room: Room, kinds: Mapping[KindId, DeviceKind], shapes: Mapping[Claims, None]
) -> tuple[list[_Type], list[int]]:
    """Return the types of a room's devices, and what is free of each: what the fewest asks can use first."""
    asks = [
        ask
        for claims in shapes
        for claim in claims
        for request in claim.requests
        for ask in request.alternatives
    ]
    named = sorted({c.attribute for claims in shapes for claim in claims for c in claim.constraints})
    counters = {name for name, _ in room.counters}
    together: dict[tuple[_Answers, object], list[tuple[KindId, int, int]]] = {}
    for kind, free, busy in room.kinds:
        is_ = kinds.get(kind)
        if is_ is None or not counters.issuperset(name for name, _ in is_.consumes):
            continue  # not known yet
        answers = tuple((matches(ask, is_), tolerates(ask, is_)) for ask in asks)
        if not any(matching for matching, _ in answers):
            continue
        values = dict(is_.attributes)
        key = answers, (tuple(values.get(name) for name in named), is_.consumes)
        together.setdefault(key, []).append((kind, free, busy))
    found = []
    for (answers, _), members in together.items():
        first = kinds[members[0][0]]
        use = sum(matching and tolerated for matching, tolerated in answers)
        free = sum(n for _, n, _ in members)
        total = free + sum(n for _, _, n in members)
        ids = tuple(kind for kind, *_ in members)
        found.append((use, free, _Type(ids, first, dict(first.attributes), total, answers)))
    found.sort(key=lambda each: (each[0], each[1], each[2].kinds))
    return [each for _, _, each in found], [free for _, free, _ in found]
