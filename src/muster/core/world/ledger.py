"""The one ledger of resource use: charges by node name.

Facts (a bound pod, a held place) and trials (would this gang fit?) use the same calls, so there is no second
account that could differ. One call charges both a pod's amounts and what other pods see of it
(`footprints.py`). Within a trial (`trial.py`) each charge is logged, so that it can be undone. A trial ends
before columns move.

What a gang uses is given back once. A trial may lift some of it (a victim's pods, places that are placed
again). A look ahead within that trial gives back what ending gangs use (`Completions.give`), less what is
lifted already. A lift ends when its trial does.

A share of a GPU is charged to one device of its node. `take` returns the device, and `devices` returns those
taken in a trial; the caller names the device when the share is given back.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

import numpy as np

from muster.core.words.devices import DeviceId
from muster.core.words.events import NOTHING, Footprint, PodsBound
from muster.core.words.gang import Amounts, GangId, NodeName
from muster.core.world.allocation import Claims
from muster.core.world.devices import Device
from muster.core.world.footprints import Footprints, Terms, seen
from muster.core.world.nodes import Columns, Nodes, RowAmounts, Times, Where
from muster.core.world.trial import Trial, UndoLog
from muster.names import GPU_SHARE

#: Which device of the column a pod of this demand and this share is to take.
Choose = Callable[[int, RowAmounts, int], int]


class Share(NamedTuple):
    """Thousandths of a device; negative: given back."""

    node: NodeName
    share: int
    device: int


class Charged(NamedTuple):
    """Where a pod or a promised place is, what it takes, and what other pods see of it.

    `device` is set if it shares a GPU.
    """

    node: NodeName
    requests: Amounts
    device: int | None = None
    footprint: Footprint = NOTHING

    @classmethod
    def of(cls, pod: PodsBound) -> Self:
        return cls(pod.node, pod.requests, pod.footprint.device, pod.footprint)


class Ledger:
    def __init__(self, nodes: Nodes, device: Choose | None = None, log: UndoLog | None = None) -> None:
        """`device` chooses the device of a share; without it, shares go where they fit best.

        `log`: that of the world; without it, the ledger has its own.
        """
        self.nodes = nodes
        self.footprints = Footprints(nodes)
        self._device = device
        #: devices to be used first for shares, by node and thousandths
        self._reserved: dict[tuple[NodeName, int], list[int]] = {}
        self._room = nodes.room
        self.log = UndoLog() if log is None else log
        #: by gang, what it uses that a trial has lifted. Read-only for callers
        self.lifted: dict[GangId, Counter[Charged]] = {}

    def take(
        self,
        node: NodeName,
        requests: Amounts,
        device: int | None = None,
        footprint: Footprint = NOTHING,
        times: int = 1,
    ) -> int | None:
        """Charge `times` pods with these requests to a node, whether the node is known or not.

        Returns the device of a share of a GPU: `device`, or a chosen one. None: the pods have no share. A pod
        with a share is charged alone.
        """
        row_amounts, absent = self.nodes.taken(requests)
        share = self.nodes.share(row_amounts)
        if share:
            assert abs(times) == 1
            if device is None:
                assert times > 0, "a share is given back to the device that it was taken from"
                device = self._choose(node, row_amounts, share)
            self._note_share(node, times * share, device)
        self._note(self.nodes.column.get(node, node), row_amounts, times, footprint)
        if absent:
            self._note_absent(node, absent, times)
        return device if share else None

    def give(self, charged: Charged, times: int = 1) -> None:
        """Undo `times` takes; the device is what `take` returned."""
        self.take(*charged, -times)

    def lift(self, gang: GangId, charged: Charged) -> None:
        """Give back something that this gang uses, for a trial. `Completions` does not give it back again."""
        self.log.push_brief(self._end_lift, gang, charged)
        self.lifted.setdefault(gang, Counter())[charged] += 1
        self.give(charged)

    def charge(self, node: NodeName, amounts: Amounts, times: int = 1) -> None:
        """Charge amounts, without a pod or a device, to a node, whether the node is known or not."""
        row_amounts, absent = self.nodes.by_row(amounts)
        self._note(self.nodes.column.get(node, node), row_amounts, times, NOTHING)
        if absent:
            self._note_absent(node, absent, times)

    def rename(self, node: NodeName, old: Footprint, new: Footprint, times: int = 1) -> None:
        """Change what other pods see of `times` pods that are charged already. Not for trials."""
        if old is new or seen(old) == seen(new):
            return
        where = self.nodes.column.get(node, node)
        for sign, footprint in ((-1, old), (1, new)):
            if footprint is not NOTHING:
                self.footprints.note(where, sign * times, footprint)
        self._room.change()

    def take_at(
        self,
        columns: int | Columns,
        row_amounts: RowAmounts,
        times: Times = 1,
        footprint: Footprint = NOTHING,
    ) -> None:
        """Charge `times` pods to one column, or `times[i]` to each of several distinct ones.

        Shares of GPUs cannot be given back by this, since it does not know their devices. Nor does it know of
        resources that no node has: a trial that lets pods end leaves these charged, as nothing fits for it.
        """
        if isinstance(columns, np.ndarray) and len(columns) == 1:
            columns, times = columns.item(), times if isinstance(times, int) else times.item()
        if share := self.nodes.share(row_amounts):
            for column, pods in zip(
                np.atleast_1d(columns).tolist(), np.atleast_1d(times).tolist(), strict=True
            ):
                assert pods >= 0, "a share is given back to the device that it was taken from"
                for _ in range(pods):
                    node = self.nodes.names[column]
                    self._note_share(node, share, self._choose(node, row_amounts, share))
        self._note(columns, row_amounts, times, footprint)

    def wait(self, columns: int | Columns, claims: Claims, times: Times) -> None:
        """Let pods that were charged to these columns wait for devices (`NodeClaims.wait`), in a trial."""
        self.nodes.claims.wait(columns, claims, times)
        self.log.push(self.nodes.claims.wait, columns, claims, -times)

    def use(self, column: int, devices: tuple[DeviceId, ...]) -> None:
        """Let a pod have these devices of its node, for which it waits no longer (`wait`)."""
        node = self.nodes.names[column]
        self.nodes.claims.use(node, devices, 1)
        self.log.push(self.nodes.claims.use, node, devices, -1)
        self.nodes.changes.append(column)

    def keep(self, share: Share, times: int = 1) -> None:
        """Charge thousandths to a device without a pod (`times` -1: give them back)."""
        self._note_share(share.node, times * share.share, share.device)
        self.charge(share.node, ((GPU_SHARE, share.share),), times)

    def devices(self, trial: Trial) -> dict[tuple[NodeName, int], list[int]]:
        """Devices taken in a trial and not given back, in order, by node and thousandths."""
        taken: dict[tuple[NodeName, int], list[int]] = {}
        for node, share, device in self._shares(trial):
            devices = taken.setdefault((node, abs(share)), [])
            if share > 0:
                devices.append(device)
            elif device in devices:
                devices.remove(device)
        return taken

    @contextmanager
    def on(self, devices: Mapping[tuple[NodeName, int], Sequence[int]]) -> Iterator[None]:
        """A context in which shares use these devices first, in the form that `devices` returns."""
        before = self._reserved
        self._reserved = {where: [*numbers] for where, numbers in devices.items()}
        try:
            yield
        finally:
            self._reserved = before

    def shared(self, trial: Trial) -> Counter[Device]:
        """The sum of thousandths taken of each device in a trial, of devices where it is positive."""
        taken: Counter[Device] = Counter()
        for node, share, device in self._shares(trial):
            taken[node, device] += share
        return +taken

    def _shares(self, trial: Trial) -> Iterator[Share]:
        charge_share = self.nodes.charge_share
        for undo, *arguments in self.log.entries[trial.start :]:
            if undo == charge_share:
                node, share, device = arguments
                yield Share(node, -share, device)

    def _end_lift(self, gang: GangId, charged: Charged) -> None:
        self.lifted[gang][charged] -= 1
        if not +self.lifted[gang]:
            del self.lifted[gang]

    def _choose(self, node: NodeName, row_amounts: RowAmounts, share: int) -> int:
        if numbers := self._reserved.get((node, share)):
            return numbers.pop(0)
        column = self.nodes.column.get(node)
        if self._device is None or column is None:
            return self.nodes.devices.best_fit(node, share)
        return self._device(column, row_amounts, share)

    def _note_share(self, node: NodeName, share: int, device: int) -> None:
        self.nodes.charge_share(node, share, device)
        self.log.push(self.nodes.charge_share, node, -share, device)

    def _note_absent(self, node: NodeName, amounts: Amounts, times: int) -> None:
        self.nodes.charge_by_name(node, amounts, times)
        self.log.push(self.nodes.charge_by_name, node, amounts, -times)

    def _note(self, where: Where, row_amounts: RowAmounts, times: Times, footprint: Footprint) -> None:
        carried = self.footprints.note(where, times, footprint) if footprint is not NOTHING else ()
        if footprint.devices:
            self._use(where, footprint, times)
        self.nodes.charge(where, row_amounts, times)
        self.log.push(self._undo, where, row_amounts, times, footprint, carried, self._room.value)
        if times < 0 if isinstance(times, int) else (times < 0).any():
            self._room.change()

    def _use(self, where: Where, footprint: Footprint, times: Times) -> None:
        """Let a pod have the devices of its claims, or not any more."""
        assert isinstance(times, int)
        assert not isinstance(where, np.ndarray), "pods with claims of their own are charged one by one"
        node = self.nodes.names[where] if isinstance(where, int) else where
        self.nodes.claims.use(node, footprint.devices, times)

    def _undo(
        self,
        where: Where,
        row_amounts: RowAmounts,
        times: Times,
        footprint: Footprint,
        carried: Terms,
        room: int,
    ) -> None:
        if footprint is not NOTHING:
            self.footprints.note(where, -times, footprint)
        if footprint.devices:
            self._use(where, footprint, -times)
        self.nodes.charge(where, row_amounts, -times)
        self.footprints.forget(carried)
        self._room.value = room
