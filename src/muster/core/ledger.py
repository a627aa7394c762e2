"""The one ledger of who uses what where: charges by node name, and speculation with marks.

Facts (a bound pod, a held place) and trials (would this gang fit?) go through the same two calls, so
there is no second account that could differ: a pod's amounts and what other pods see of it (`presences.py`)
are charged in one breath. A trial takes a mark first; `rollback` undoes everything after it, newest
first, and `commit` makes it last. Marks do not nest across a change of columns.

What a gang uses is given back once. A trial may lift some of it (a victim's pods, places that are found
anew), and a look ahead within that trial gives back what gangs use that end by then (`Ends.give`). The ledger
knows what is lifted, and so what is left to give back. A lift ends when its trial does.

A share of a GPU is charged to one device of its node: whoever takes it is told which, or asks `devices` what
was taken since a mark, and names it when it is given back.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NewType

import numpy as np
import numpy.typing as npt

from muster.core.devices import Choose, Device
from muster.core.events import NOTHING, Presence
from muster.core.gang import Amounts, GangId, NodeName
from muster.core.nodes import Columns, Demand, Nodes
from muster.core.presences import Presences, Terms, seen
from muster.names import GPU_SHARE

#: How much had been tried.
Mark = NewType("Mark", int)


class Charge(NamedTuple):
    """`times` pods on one node, or `times[i]` on each of several distinct columns."""

    where: NodeName | int | Columns
    demand: Demand
    times: int | npt.NDArray[np.int64]
    presence: Presence
    #: anti-affinity that nobody was known to carry before
    carried: Terms


class Share(NamedTuple):
    """Thousandths of a device; negative: given back."""

    node: NodeName
    share: int
    device: int


class Charged(NamedTuple):
    """Where a pod or a promised place is, what it takes, on which device, if it shares one, and what others
    see of it."""

    node: NodeName
    requests: Amounts
    device: int | None
    presence: Presence


class Ledger:
    def __init__(self, nodes: Nodes, device: Choose | None = None) -> None:
        """`device` says where shares go; if it is not given, where they fit best."""
        self.nodes = nodes
        self.presences = Presences(nodes)
        self._device = device
        #: devices that shares go on first, by node and thousandths
        self._reserved: dict[tuple[NodeName, int], list[int]] = {}
        #: how often something was given back for good; as long as it stays the same, room is only taken
        self.given = 0
        self._trial: list[Charge | Share] = []
        #: by gang, what is on its record and has been taken away by a trial. Not to be written to
        self.lifted: dict[GangId, Counter[Charged]] = {}
        #: the same in order, with how much had been tried before
        self._lifts: list[tuple[int, GangId, Charged]] = []
        self._marks = 0

    def mark(self) -> Mark:
        self._marks += 1
        return Mark(len(self._trial))

    def rollback(self, mark: Mark) -> None:
        while len(self._trial) > mark:
            match self._trial.pop():
                case Charge(where, demand, times, presence, carried):
                    self._charge(where, demand, -times, presence)
                    self.presences.forget(carried)
                case Share(node, share, device):
                    self._share(node, -share, device)
        self._end_lifts(mark)
        self._marks -= 1

    def commit(self, mark: Mark) -> None:
        """What was tried since the mark lasts (unless an earlier mark is rolled back)."""
        self._end_lifts(mark)
        self._marks -= 1
        if not self._marks:
            self.given += any(isinstance(entry, Charge) and _gives(entry.times) for entry in self._trial)
            self._trial.clear()

    def take(
        self,
        node: NodeName,
        requests: Amounts,
        device: int | None = None,
        presence: Presence = NOTHING,
    ) -> int | None:
        """Charge a pod with these requests to a node, present or not.

        Returns the device that its share of a GPU is on: `device`, or one that is chosen. None: no share.
        """
        demand = self.nodes.demand(requests)
        share = self.nodes.share(demand)
        if share:
            if device is None:
                device = self._choose(node, demand, share)
            self._note_share(node, share, device)
        self._note(self.nodes.column.get(node, node), demand, 1, presence)
        return device if share else None

    def give(
        self,
        node: NodeName,
        requests: Amounts,
        device: int | None = None,
        presence: Presence = NOTHING,
        times: int = 1,
    ) -> None:
        """Undo a `take`; `device` is what it returned. Several times at once only if it is on none."""
        demand = self.nodes.demand(requests)
        share = self.nodes.share(demand)
        if share:
            assert device is not None, "a share is given back to the device that it was taken from"
            assert times == 1
            self._note_share(node, -share, device)
        self._note(self.nodes.column.get(node, node), demand, -times, presence)

    def lift(self, gang: GangId, charged: Charged) -> None:
        """Give back what is on this gang's record, for a trial. `Ends` does not give it back again."""
        assert self._marks, "only a trial lifts"
        self._lifts.append((len(self._trial), gang, charged))
        self.lifted.setdefault(gang, Counter())[charged] += 1
        self.give(*charged)

    def charge(self, node: NodeName, demand: Demand, times: int = 1) -> None:
        """Charge an amount to a node, present or not: no pod, and on no device."""
        self._note(self.nodes.column.get(node, node), demand, times, NOTHING)

    def rename(self, node: NodeName, old: Presence, new: Presence, times: int = 1) -> None:
        """What others see of so many pods that are charged already is not what it was. Not for trials."""
        if old is new or seen(old) == seen(new):
            return
        where = self.nodes.column.get(node, node)
        for sign, presence in ((-1, old), (1, new)):
            if presence is not NOTHING:
                self.presences.note(where, sign * times, presence)
        self.given += 1

    def take_at(
        self,
        columns: int | Columns,
        demand: Demand,
        times: int | npt.NDArray[np.int64] = 1,
        presence: Presence = NOTHING,
    ) -> None:
        """Charge `times` pods to one column, or `times[i]` to each of several distinct ones.

        Shares of GPUs are not given back by this: it does not know from which device.
        """
        if isinstance(columns, np.ndarray) and len(columns) == 1:
            columns, times = columns.item(), times if isinstance(times, int) else times.item()
        if share := self.nodes.share(demand):
            for column, pods in zip(
                np.atleast_1d(columns).tolist(), np.atleast_1d(times).tolist(), strict=True
            ):
                assert pods >= 0, "a share is given back to the device that it was taken from"
                for _ in range(pods):
                    node = self.nodes.names[column]
                    self._note_share(node, share, self._choose(node, demand, share))
        self._note(columns, demand, times, presence)

    def keep(self, share: Share, times: int = 1) -> None:
        """Charge thousandths to a device (`times` -1: no longer): no pod."""
        self._note_share(share.node, times * share.share, share.device)
        self.charge(share.node, ((self.nodes.row(GPU_SHARE), share.share),), times)

    def devices(self, mark: Mark) -> dict[tuple[NodeName, int], list[int]]:
        """Devices that were taken since the mark, and not given back, in order, by node and thousandths."""
        taken: dict[tuple[NodeName, int], list[int]] = {}
        for entry in self._trial[mark:]:
            if not isinstance(entry, Share):
                continue
            devices = taken.setdefault((entry.node, abs(entry.share)), [])
            if entry.share > 0:
                devices.append(entry.device)
            elif entry.device in devices:
                devices.remove(entry.device)
        return taken

    @contextmanager
    def on(self, devices: Mapping[tuple[NodeName, int], Sequence[int]]) -> Iterator[None]:
        """In here, shares that are taken go on these devices first, told as by `devices`."""
        before = self._reserved
        self._reserved = {where: [*numbers] for where, numbers in devices.items()}
        try:
            yield
        finally:
            self._reserved = before

    def shared(self, mark: Mark) -> Counter[Device]:
        """Thousandths that have been taken of each device since the mark, all together."""
        taken = Counter[Device]()
        for entry in self._trial[mark:]:
            if isinstance(entry, Share):
                taken[entry.node, entry.device] += entry.share
        return +taken

    def _end_lifts(self, mark: Mark) -> None:
        while self._lifts and self._lifts[-1][0] >= mark:
            _, gang, charged = self._lifts.pop()
            self.lifted[gang][charged] -= 1
            if not +self.lifted[gang]:
                del self.lifted[gang]

    def _choose(self, node: NodeName, demand: Demand, share: int) -> int:
        if numbers := self._reserved.get((node, share)):
            return numbers.pop(0)
        column = self.nodes.column.get(node)
        if self._device is None or column is None:
            return self.nodes.devices.best_fit(node, share)
        return self._device(column, demand, share)

    def _note_share(self, node: NodeName, share: int, device: int) -> None:
        self._share(node, share, device)
        if self._marks:
            self._trial.append(Share(node, share, device))

    def _note(
        self,
        where: NodeName | int | Columns,
        demand: Demand,
        times: int | npt.NDArray[np.int64],
        presence: Presence,
    ) -> None:
        carried = self._charge(where, demand, times, presence)
        if self._marks:
            self._trial.append(Charge(where, demand, times, presence, carried))
        else:
            self.given += _gives(times)

    def _share(self, node: NodeName, share: int, device: int) -> None:
        if share > 0:
            self.nodes.devices.take(node, share, device)
        else:
            self.nodes.devices.give(node, -share, device)

    def _charge(
        self,
        where: NodeName | int | Columns,
        demand: Demand,
        times: int | npt.NDArray[np.int64],
        presence: Presence,
    ) -> Terms:
        """Returns anti-affinity that nobody was known to carry before."""
        carried = self.presences.note(where, times, presence) if presence is not NOTHING else ()
        if not isinstance(times, int):
            assert isinstance(where, np.ndarray)
            self.nodes.charge_many(where, demand, times)
        elif isinstance(where, int):
            self.nodes.charge(where, demand, times)
        else:
            assert isinstance(where, str)
            self.nodes.charge_elsewhere(where, demand, times)
        return carried


def _gives(times: int | npt.NDArray[np.int64]) -> bool:
    return times < 0 if isinstance(times, int) else bool((times < 0).any())
