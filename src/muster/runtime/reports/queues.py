"""Writes the status of Queue objects: what the core knows, when it has changed, at most once a second.

No decision of the scheduler depends on this status; it is for people to read. Of many queues, those that have
waited longest are written first, within the budget of all refreshes (`runtime.budget`). The queue `default`
has a status only if a Queue object of that name exists: muster's, or else Volcano's.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

import msgspec

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.muster_v1alpha1 import Queue, QueueStatus
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account
from muster.effects import Patch
from muster.kube.clock import back_off
from muster.runtime.budget import WriteBudget, Writer
from muster.translate.queues import conditions, status_of

#: Seconds between two reports.
PACE: Final = 1.0
#: Longest pause, in seconds, before a status that could not be written is written again; the first is `PACE`.
LONGEST_PAUSE: Final = 30.0
#: No version of the queues.
_UNREPORTED: Final = (-1, -1, -1)


class Observed(Protocol):
    def find(self, kind: AnyKind, key: str) -> Resource | None: ...


class QueueReports:
    def __init__(self, queues: Queues, observed: Observed, budget: WriteBudget) -> None:
        self._queues, self._observed, self._budget = queues, observed, budget
        #: what was last written, by name, and of which object; what was written last is last
        self._written: dict[str, tuple[str, Object]] = {}
        self._reported = _UNREPORTED
        self._next = 0.0
        #: whether a write of the last report has failed, and how many reports in a row have failed before it
        self._failed, self._failures = False, 0

    def due(self, now: datetime) -> Iterator[Patch]:
        """Yields the statuses to write now."""
        queues = self._queues
        if now.timestamp() < self._next or self._settled():
            return
        self._failures = self._failures + 1 if self._failed else 0
        self._reported, self._failed = queues.version, False
        self._next = now.timestamp() + back_off((PACE, LONGEST_PAUSE), self._failures)
        turns = {name: turn for turn, name in enumerate(self._written, 1)}
        for name in sorted(queues.accounts, key=lambda name: (turns.get(name, 0), name)):
            kind, found = self._object(name)
            if found is None:
                self._written.pop(name, None)
                continue
            status, amounts = self._status(queues.accounts[name], found, now)
            uid, last = found.metadata.uid, self._written.get(name)
            if _shows(found, status) or last == (uid, status):
                continue
            if (
                kind is kinds.QUEUE_VOLCANO
                and last is None
                and not (status["allocated"] or "state" in status)
            ):
                continue  # it shows what Volcano's scheduler has allocated, which may run beside muster
            if not self._budget.take(Writer.QUEUES, now.timestamp()):
                self._reported = _UNREPORTED
                self._next = max(self._next, self._budget.next(Writer.QUEUES))
                return
            self._written.pop(name, None)
            self._written[name] = uid, status
            # None removes what a merge patch would keep
            gone = {
                field: {r: status[field].get(r) for r in {*getattr(found.status, field), *status[field]}}
                for field in amounts
            }
            body: Object = {"status": {**status, **gone}}
            if "state" in status:  # others close queues: nothing that they have written is overwritten
                body["metadata"] = {"resourceVersion": found.metadata.resource_version}
            yield Patch(kind, "", name, body, "status", missing_ok=False)

    def written(self, report: Patch, error: Exception | None) -> None:
        """Takes the outcome: a status that was not written is written again after a pause."""
        if error is not None:
            self._written.pop(report.name, None)
            self._failed = True

    def wait(self, now: float) -> float:
        """Returns the seconds until there is something to write; infinite if there is nothing."""
        return float("inf") if self._settled() else max(self._next - now, 0.0)

    def _object(self, name: str) -> tuple[AnyKind, Queue | VolcanoQueue | None]:
        """Returns the object of the queue that counts, and its kind."""
        own = self._observed.find(kinds.QUEUE, name)
        if isinstance(own, Queue):
            return kinds.QUEUE, own
        volcano = self._observed.find(kinds.QUEUE_VOLCANO, name)
        return kinds.QUEUE_VOLCANO, volcano if isinstance(volcano, VolcanoQueue) else None

    def _status(
        self, account: Account, found: Queue | VolcanoQueue, now: datetime
    ) -> tuple[Object, tuple[str, ...]]:
        """Returns the status, and those of its fields that are amounts.

        Of Volcano's the scheduler writes what is allocated. The state is others', once it is set.
        """
        status = status_of(account, self._queues)
        if isinstance(found, VolcanoQueue):
            first = {} if found.status.state else {"state": "Open"}
            return {**first, "allocated": status["used"]}, ("allocated",)
        covers = self._observed.find(kinds.QUEUE_VOLCANO, found.metadata.name) is not None
        told = conditions(account, found.status.conditions, now, covers=covers)
        return {**status, "conditions": msgspec.to_builtins(told)}, ("used", "entitled", "borrowed")

    def _settled(self) -> bool:
        return self._reported == self._queues.version and not self._failed


def _shows(found: Queue | VolcanoQueue, status: Object) -> bool:
    """Whether an object has this status."""
    if isinstance(found, Queue):
        return msgspec.convert(status, QueueStatus) == found.status
    return "state" not in status and found.status.allocated == status["allocated"]
