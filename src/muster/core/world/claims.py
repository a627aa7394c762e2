"""Devices of all nodes: which are free, and how many pods with claims each node can still serve.

A device is free unless a pod or a promised place has it, or it is in use by others (`DevicesChanged.taken`).
Who has one by two accounts, as pods of a plan have whose claims are written already, has it once.

Pods that a trial puts on nodes have no devices yet: they *wait* there, as so many with these claims. Whether
further pods fit is decided for all of them together (`allocation.py`), so that no early choice keeps a later
pod of the gang off. Devices get names when a start is decided (`named`), and belong to their place from then
on.

What a node can serve depends on its `Room` alone, and is remembered by room: ten thousand equal nodes are
decided once. Rooms that claims cannot tell apart are decided once, too (`allocation.seen`).

A claim can be made hard on purpose. What it takes to decide it is work for the gangs that have it
(`core/work.py`). Answers may also be found between two cycles, when a command asks why a gang waits. Then
their work is owed, and counts when a cycle reads them first: such questions change no decision.

A resource that one node gives out by number, and another one has as devices, is one resource
(`with_devices`). A node that gives it out by number does so for all pods that request it, whatever devices it
has besides.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.words.devices import (
    BY_NUMBER,
    DEVICE_CLASS,
    Allocation,
    ClaimShape,
    DeviceAsk,
    DeviceId,
    DeviceKind,
    DeviceRequest,
    DevicesChanged,
    KindId,
    least,
)
from muster.core.words.events import NodeChanged
from muster.core.words.gang import NodeName, Shape
from muster.core.world.allocation import STEPS, Claims, Room, Served, seen, serve
from muster.names import GPU

_Ints = npt.NDArray[np.int32]
_Columns = npt.NDArray[np.intp]
#: Pods that wait for devices of one node: by the number of their claims, in order of arrival.
_Waiting = tuple[tuple[int, int], ...]

#: Rooms, and lists of claims, that are remembered; when there are more, everything is forgotten.
_ROOMS: Final = 20_000
_CLAIMS: Final = 2_000
#: Answers about rooms in which pods wait.
_ANSWERS: Final = 50_000
_NAMED: Final = 2_000
#: So many times the steps to name devices that are known to suffice.
_NAMING: Final = 16
#: A room whose answer is not known.
_UNKNOWN: Final = -1
_NOBODY: Final[dict[int, int]] = {}
#: Pods that a node serves if their claims ask for none of its devices.
ANY_NUMBER: Final = 2**31 - 1


class NodeClaims:
    def __init__(self, work: Callable[[int], None]) -> None:
        """`work` is called with the steps that answers took."""
        self._work = work
        #: by claims, steps that no cycle has counted yet; and whether no cycle goes on
        self.owed: dict[Claims, int] = {}
        self._between = False
        self.kinds: dict[KindId, DeviceKind] = {}
        self.devices: dict[NodeName, DevicesChanged] = {}
        #: how many pods and promised places have each device
        self._users: dict[DeviceId, int] = {}
        #: by node, its devices and their kinds
        self._kinds: dict[NodeName, dict[DeviceId, KindId]] = {}
        #: by kind, the nodes that have such devices
        self._having_kind: dict[KindId, dict[NodeName, None]] = {}
        #: by node, its room if all its devices are free
        self._whole: dict[NodeName, Room] = {}
        #: resources that some node has as devices, and how many nodes have each
        self.resources: frozenset[str] = frozenset()
        self._having = Counter[str]()
        #: the columns; `Nodes` replaces both when they move
        self.names: Sequence[NodeName] = ()
        self.column: Mapping[NodeName, int] = {}
        #: nodes whose room has changed since it was read last
        self._stale: dict[NodeName, None] = {}
        #: by column its room, and the columns for which it was made
        self._room: _Ints = np.zeros(0, np.int32)
        self._made_for: Mapping[NodeName, int] | None = None
        self._rooms: dict[Room, int] = {}
        self._listed: list[Room] = []
        #: numbers of claims, and by these the pods that each room serves
        self._numbers: dict[Claims, int] = {}
        self._served: list[_Ints] = []
        #: changes whenever rooms and claims get new numbers
        self.numbering = 0
        #: rooms in which pods wait, by number
        self._situations: list[tuple[int, _Waiting]] = []
        self._situation: dict[tuple[int, _Waiting], int] = {}
        #: as `_served`, by what the claims see of a room: pods, whether they might be more
        self._alike: list[dict[Hashable, tuple[int, bool]]] = []
        #: which of these might be more, but for the steps
        self._open: set[tuple[int, int]] = set()
        #: by column: pods of this trial by the number of their claims
        self._waiting: dict[int, dict[int, int]] = {}
        #: how the pods that wait in a room are served
        self._named: dict[tuple[int, _Waiting], Served] = {}
        self._beside: dict[tuple[int, int, _Waiting], int] = {}

    # Facts

    def change_kind(self, kind: KindId, is_: DeviceKind) -> list[NodeName]:
        """Record what a kind is. Return the nodes that have such devices, if that is new."""
        if self.kinds.get(kind) == is_:
            return []
        self.kinds[kind] = is_
        self._forget()
        return [*self._having_kind.get(kind, ())]

    def forget_kind(self, kind: KindId) -> None:
        """Forget a kind that no node has."""
        if kind not in self._having_kind:
            self.kinds.pop(kind, None)

    def change(self, fact: DevicesChanged) -> bool:
        """Record a node's devices. False if nothing changed."""
        name = NodeName(fact.node)
        none = DevicesChanged(name)
        if not fact.devices:
            fact = none  # counters that no device takes from
        if self.devices.get(name, none) == fact:
            return False
        for kind in {*self._kinds.get(name, {}).values()}:
            del self._having_kind[kind][name]
            if not self._having_kind[kind]:
                del self._having_kind[kind]
        if fact.devices:
            self.devices[name] = fact
            self._kinds[name] = dict(fact.devices)
            for kind in {*self._kinds[name].values()}:
                self._having_kind.setdefault(kind, {})[name] = None
            counts = sorted(Counter(self._kinds[name].values()).items())
            whole = Room(tuple((kind, total, 0) for kind, total in counts), fact.counters)
            before = self._whole.get(name, _NONE).resources
            self._whole[name] = self._listed[self._of(whole._replace(resources=before))]
        else:
            self._has(name, ())
            del self.devices[name]
            del self._kinds[name], self._whole[name]
        self._reread(name)
        return True

    def described(self, node: NodeChanged, had: Sequence[str] = ()) -> NodeChanged:
        """A node with its devices by class among its capacity, in place of those that it had.

        `had`: resources of its capacity that were its devices. What else its capacity names it gives out by
        number, so its devices do not count as that.
        """
        counts = Counter[str]()
        for kind, number, _ in self.room(node.name, empty=True).kinds:
            of = self.kinds.get(kind, _UNKNOWN_KIND)
            for answer in of.answers if not of.withheld else ():
                if answer.startswith(DEVICE_CLASS) or answer in of.resources:
                    counts[answer] += number
        own = [each for each in node.capacity if not each[0].startswith(DEVICE_CLASS) and each[0] not in had]
        for resource, amount in own:
            if amount:
                counts.pop(resource, None)
        self._has(node.name, tuple(sorted(counts)))
        if not counts and len(own) == len(node.capacity):
            return node
        others = [each for each in own if each[0] not in counts]
        return replace(node, capacity=tuple(sorted((*others, *counts.items()))))

    def resources_of(self, name: NodeName) -> tuple[str, ...]:
        """The resources that a node has as devices."""
        return self._whole.get(name, _NONE).resources

    def _has(self, name: NodeName, resources: tuple[str, ...]) -> None:
        """Record which resources a node has as devices."""
        if (whole := self._whole.get(name)) is None or whole.resources == resources:
            return
        self._having.subtract(whole.resources)
        self._having.update(resources)
        self.resources = frozenset(+self._having)
        self._whole[name] = whole._replace(resources=resources)
        self._reread(name)

    def with_devices(self, shape: Shape) -> Shape:
        """The shape of pods that need devices for what they request by number, where that is devices."""
        claimed = least(shape.claims)
        found = [
            DeviceRequest(resource, (DeviceAsk((resource,), number),))
            for resource, amount in shape.requests
            if resource in self.resources and (number := amount - claimed.get(resource, 0)) > 0
        ]
        if shape.gpu_share and GPU in self.resources:
            found.append(DeviceRequest(GPU, ()))  # in no way: a claim has whole devices
        if not found:
            return shape
        return replace(shape, claims=(*shape.claims, ClaimShape(BY_NUMBER, tuple(found))))

    # Use

    def use(self, node: NodeName, devices: Iterable[DeviceId], times: int) -> None:
        """Let a pod or a place have these devices (`times` -1: no longer)."""
        for device in devices:
            if number := self._users.get(device, 0) + times:
                self._users[device] = number
            else:
                del self._users[device]
        self._stale[node] = None

    def wait(self, columns: int | _Columns, claims: Claims, times: int | npt.NDArray[np.int64]) -> None:
        """Let pods wait for devices of these nodes (`times` below zero: no longer)."""
        number = self._number(claims)
        for column, pods in _each(columns, times):
            waiting = self._waiting.setdefault(column, {})
            waiting[number] = waiting.get(number, 0) + pods
            if not waiting[number]:
                del waiting[number]
                if not waiting:
                    del self._waiting[column]

    def named(self, column: int) -> dict[Claims, list[tuple[Allocation, ...]]] | None:
        """The devices for each pod that waits at a node, by its claims; None: not found within the steps."""
        name, pods = self.names[column], self._pods(column)
        self._settle()
        key = self._room.item(column), tuple(self._waiting.get(column, {}).items())
        if (served := self._named.get(key)) is None:
            if len(self._named) >= _NAMED:
                self._named.clear()
            room = self._listed[key[0]]
            claims = pods[0][0] if pods else ()
            served = self._named[key] = self._serve(claims, room, pods, steps=_NAMING * STEPS)
        if served.grants is None:
            return None
        room, busy, by_type = self._listed[key[0]], self._busy(name), list[list[DeviceId]]()
        for kinds in served.types:
            there = self._kinds[name].items()
            by_type.append([device for device, kind in there if kind in kinds and device not in busy])
        found: dict[Claims, list[tuple[Allocation, ...]]] = {}
        grants = iter(served.grants)
        for claims, count in pods:
            here = room.applying(claims)
            for _ in range(count):
                given: list[list[tuple[str, DeviceId]]] = [[] for _ in here]
                for claim, request, of, number in next(grants) if here else ():
                    mine, by_type[of] = by_type[of][:number], by_type[of][number:]
                    given[claim] += [(request, device) for device in mine]
                allocations = (Allocation(c.name, tuple(some)) for c, some in zip(here, given, strict=True))
                found.setdefault(claims, []).append(tuple(allocations))
        return found

    def _serve(
        self,
        by: Claims,
        room: Room,
        pods: Sequence[tuple[Claims, int]],
        more: Claims | None = None,
        steps: int = STEPS,
    ) -> Served:
        """As `serve`, with what claims ask for in this room; its steps are work of pods with claims `by`."""
        some = [(here, count) for claims, count in pods if (here := room.applying(claims))]
        if more is not None and not (more := room.applying(more)):
            return Served(ANY_NUMBER, False, (), ())
        served = serve(room, self.kinds, some, more, steps=steps)
        self._work(served.steps)
        if self._between and by in self._numbers:
            self.owed[by] = self.owed.get(by, 0) + served.steps
        return served

    # Slots

    def slots(self, claims: Claims, columns: _Columns | None = None) -> _Ints:
        """How many more pods with these claims the devices of each node serve."""
        number = self._number(claims)
        self._settle()
        rooms = self._room if columns is None else self._room[columns]
        served = self._served[number]
        if len(served) < len(self._rooms):
            more = np.full(len(self._rooms) - len(served), _UNKNOWN, np.int32)
            served = self._served[number] = np.concatenate((served, more))
        slots: _Ints = served[rooms]
        if (unknown := slots == _UNKNOWN).any():
            for room in np.unique(rooms[unknown]).tolist():
                served[room], open_ = self._further(number, room, claims)
                if open_:
                    self._open.add((number, room))
            slots = served[rooms]
        if self._waiting:
            at = {column: i for i, column in enumerate(columns.tolist())} if columns is not None else None
            for column in self._waiting:
                if at is None:
                    slots[column] = self.slots_at(claims, column)
                elif column in at:
                    slots[at[column]] = self.slots_at(claims, column)
        return slots

    def _further(self, number: int, room: int, claims: Claims) -> tuple[int, bool]:
        """How many pods with these claims a room serves, and whether they might be more."""
        if not (here := self._listed[room].applying(claims)):
            return ANY_NUMBER, False
        alike, key = self._alike[number], (here, seen(self._listed[room], self.kinds, here))
        if (known := alike.get(key)) is None:
            served = self._serve(claims, self._listed[room], (), claims)
            known = alike[key] = served.further, served.open
        return known

    def slots_at(self, claims: Claims, column: int) -> int:
        """As `slots`, for one node."""
        waiting = self._waiting.get(column)
        number = self._number(claims)
        self._settle()
        key = number, self._room.item(column), tuple(waiting.items()) if waiting else ()
        if (known := self._beside.get(key)) is None:
            if len(self._beside) >= _ANSWERS:
                self._beside.clear()
            known = self._beside[key] = self.beside(claims, column).further
        return known

    def undecided(self, claims: Claims) -> bool:
        """Whether some node might serve more pods with these claims than is known within the steps."""
        self.slots(claims)
        rooms = set(self._room.tolist()) if self._open else ()
        return any((self._number(claims), room) in self._open for room in rooms)

    def beside(self, claims: Claims, column: int) -> Served:
        """How many more pods with these claims a node serves, besides those that wait there."""
        return self._serve(claims, self.room(self.names[column]), self._pods(column), claims)

    def situations(self, columns: _Columns) -> npt.NDArray[np.int64]:
        """A number for each of these nodes: nodes with equal numbers serve the same pods besides those there.

        Numbers hold for as long as `numbering` stays the same.
        """
        self._settle()
        if len(self._situations) >= _ANSWERS:
            self._forget()
            self._settle()
        known = [
            self._situated(room, tuple(self._waiting.get(column, _NOBODY).items()))
            for column, room in zip(columns.tolist(), self._room[columns].tolist(), strict=True)
        ]
        return np.array(known, np.int64)

    def _situated(self, room: int, waiting: _Waiting) -> int:
        if (number := self._situation.get((room, waiting))) is None:
            number = self._situation[room, waiting] = len(self._situations)
            self._situations.append((room, waiting))
        return number

    def serves(self, situation: int, pods: Sequence[tuple[Claims, int]], steps: int) -> tuple[bool, int]:
        """Whether nodes in a situation serve all these pods too, as far as is found, and the steps it took.

        True, too, if the steps do not suffice to tell.
        """
        room, waiting = self._situations[situation]
        together = [*self._claimed(waiting), *pods]
        served = self._serve(pods[0][0], self._listed[room], together, steps=min(steps, STEPS))
        return served.open or served.grants is not None, served.steps

    def _pods(self, column: int) -> list[tuple[Claims, int]]:
        """The pods that wait at a node."""
        waiting = self._waiting.get(column)
        return self._claimed(waiting.items()) if waiting else []

    def _claimed(self, waiting: Iterable[tuple[int, int]]) -> list[tuple[Claims, int]]:
        lists = [*self._numbers]
        return [(lists[number], count) for number, count in waiting]

    def when_empty(self, claims: Claims, columns: _Columns) -> _Ints:
        """How many pods with these claims each of these nodes serves if all its devices are free.

        One, too, if that is not known within the steps.
        """
        known: dict[Room, int] = {}
        found = np.zeros(len(columns), np.int32)
        for i, column in enumerate(columns.tolist()):
            room = self.room(self.names[column], empty=True)
            if room not in known:
                served = self._serve(claims, room, (), claims)
                known[room] = max(served.further, int(served.open))
            found[i] = known[room]
        return found

    @contextmanager
    def between(self) -> Iterator[None]:
        """A context for questions that are asked between two cycles."""
        self._between = True
        try:
            yield
        finally:
            self._between = False

    def pay(self, claims: Claims) -> None:
        """Count as work of this cycle what was found for these claims between two cycles."""
        if not self._between and (owed := self.owed.pop(claims, 0)):
            self._work(owed)

    def room(self, name: NodeName, *, empty: bool = False) -> Room:
        """What is free of a node's devices; `empty`: if no pod had one."""
        whole = self._whole.get(name, _NONE)
        if empty or not (busy := self._busy(name)):
            return whole
        numbers, kind_of = dict[KindId, int](), self._kinds[name]
        left = dict(whole.counters)
        for device in busy:
            kind = kind_of[device]
            numbers[kind] = numbers.get(kind, 0) + 1
            for counter, amount in self.kinds[kind].consumes if left and kind in self.kinds else ():
                if counter in left:
                    left[counter] -= amount
        kinds = [(kind, total - numbers.get(kind, 0), numbers.get(kind, 0)) for kind, total, _ in whole.kinds]
        counters = tuple([(name, max(amount, 0)) for name, amount in left.items()])
        return Room(tuple(kinds), counters, whole.resources)

    def _busy(self, name: NodeName) -> Set[DeviceId]:
        """The devices of a node that are in use."""
        if (there := self._kinds.get(name)) is None:
            return frozenset()
        busy = {device for device in there.keys() & self._users.keys() if self._users[device] > 0}
        if taken := self.devices[name].taken:
            busy.update(there.keys() & taken)
        return busy

    def _settle(self) -> None:
        """Find the room of each column that has changed, or of all if columns have moved."""
        if self._made_for is not self.column:
            if len(self._rooms) + len(self.names) > max(_ROOMS, 2 * len(self.names)):
                self._forget()
            self._made_for = self.column
            self._room = np.full(len(self.names), self._of(_NONE), np.int32)
            for name in self.devices.keys() & self.column.keys():
                self._reread(name)
        elif self._stale:
            for name in self._stale:
                self._reread(name)
            if not self._listed:  # there were too many, which were forgotten
                self._settle()
        self._stale.clear()

    def _reread(self, name: NodeName) -> None:
        """Find the room of a node again."""
        column = self.column.get(name)
        if column is None or self._made_for is not self.column:
            return
        if len(self._rooms) >= max(_ROOMS, 2 * len(self.names)):
            self._forget()
        else:
            self._room[column] = self._of(self.room(name))

    def _of(self, room: Room) -> int:
        """The number of a room."""
        if (number := self._rooms.get(room)) is None:
            number = self._rooms[room] = len(self._listed)
            self._listed.append(room)
        return number

    def _number(self, claims: Claims) -> int:
        if (number := self._numbers.get(claims)) is None:
            if len(self._numbers) >= _CLAIMS and not self._waiting:
                self._forget()
                self._numbers.clear()
                self._served.clear()
                self._alike.clear()
                self.owed.clear()
            number = self._numbers[claims] = len(self._numbers)
            self._served.append(np.zeros(0, np.int32))
            self._alike.append({})
        return number

    def _forget(self) -> None:
        """Drop what is only remembered."""
        self._made_for = None
        self.numbering += 1
        self._situations.clear()
        self._situation.clear()
        self._rooms.clear()
        self._listed.clear()
        self._beside.clear()
        self._named.clear()
        self._open.clear()
        self._served = [np.zeros(0, np.int32) for _ in self._served]
        self._alike = [{} for _ in self._alike]


#: The room of a node without devices.
_NONE: Final = Room(())
_UNKNOWN_KIND: Final = DeviceKind()


def _each(columns: int | _Columns, times: int | npt.NDArray[np.int64]) -> Iterable[tuple[int, int]]:
    """Each column with its number of pods."""
    if isinstance(columns, int):
        return ((columns, times if isinstance(times, int) else times.item()),)
    many = repeat(times) if isinstance(times, int) else times.tolist()
    return zip(columns.tolist(), many, strict=False)
