"""Writes the status of queues' objects: what the core knows, when it has changed, at most once a second.

No decision of the scheduler depends on this status; it is for people to read. Of many queues, those that have
waited longest are written first, within the budget of all refreshes (`runtime.budget`). The queue `default`
has a status only if it has an object: muster's, or else one that is adopted. What is adopted has the fields
that its users know.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

import msgspec

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.elastic_quota import REQUEST, RUNTIME, ElasticQuota
from muster.api.muster_v1alpha1 import Queue, QueueStatus
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account
from muster.effects import Patch
from muster.kube.clock import back_off
from muster.runtime.budget import WriteBudget, Writer
from muster.translate.adopted import BY_NAME, Adopted, QueueObjects, queue_of
from muster.translate.queues import conditions, requested, status_of

#: Seconds between two reports.
PACE: Final = 1.0
#: Longest pause, in seconds, before a status that could not be written is written again; the first is `PACE`.
LONGEST_PAUSE: Final = 30.0
#: An object of a queue.
Shown = Queue | VolcanoQueue | ElasticQuota
#: No version of the queues.
_UNREPORTED: Final = (-1, -1, -1)


class Observed(Protocol):
    queues: QueueObjects

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
            if last is None and _of_others(found, status):
                continue  # it shows what its own scheduler has allocated, which may run beside muster
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
            if annotations := body["status"].pop("annotations", None):
                body["metadata"] = {"annotations": annotations}
            if "state" in status:  # others close queues: nothing that they have written is overwritten
                body["metadata"] = {"resourceVersion": found.metadata.resource_version}
            meta = found.metadata
            yield Patch(
                *(kind, meta.namespace, meta.name, body), "status" if kind.status else "", missing_ok=False
            )

    def written(self, report: Patch, error: Exception | None) -> None:
        """Takes the outcome: a status that was not written is written again after a pause."""
        if error is not None:
            self._written.pop(queue_of(report.kind, report.name), None)
            self._failed = True

    def wait(self, now: float) -> float:
        """Returns the seconds until there is something to write; infinite if there is nothing."""
        return float("inf") if self._settled() else max(self._next - now, 0.0)

    def _object(self, name: str) -> tuple[AnyKind, Shown | None]:
        """Returns the object of the queue that counts, and its kind."""
        counts, kind, key = self._observed.queues.counts(name), kinds.QUEUE, name
        if isinstance(counts, Adopted):
            kind, key = BY_NAME[counts.of].kind, counts.object
        found = self._observed.find(kind, key) if counts is not None else None
        return kind, found if isinstance(found, Queue | VolcanoQueue | ElasticQuota) else None

    def _status(self, account: Account, found: Shown, now: datetime) -> tuple[Object, tuple[str, ...]]:
        """Returns the status, and those of its fields that are amounts.

        Of Volcano's the scheduler writes what is allocated; the state is others', once it is set. Of an
        ElasticQuota it writes what is used, and as annotations what may be used and what is asked for.
        """
        status = status_of(account, self._queues)
        if isinstance(found, ElasticQuota):
            told = {RUNTIME: status["entitled"], REQUEST: requested(account)}
            texts = {
                key: msgspec.json.encode(amounts, order="sorted").decode() for key, amounts in told.items()
            }
            return {"used": status["used"], "annotations": texts}, ("used",)
        if isinstance(found, VolcanoQueue):
            first = {} if found.status.state else {"state": "Open"}
            return {**first, "allocated": status["used"]}, ("allocated",)
        covers = self._observed.queues.covered(found.metadata.name)
        ready = conditions(account, found.status.conditions, now, covers=covers)
        return {**status, "conditions": msgspec.to_builtins(ready)}, ("used", "entitled", "borrowed")

    def _settled(self) -> bool:
        return self._reported == self._queues.version and not self._failed


def _of_others(found: Shown, status: Object) -> bool:
    """Whether muster has nothing to say of an adopted queue: it has allocated nothing there."""
    match found:
        case VolcanoQueue():
            return not (status["allocated"] or "state" in status)
        case ElasticQuota():
            return not status["used"] and bool(found.status.used)
    return False


def _shows(found: Shown, status: Object) -> bool:
    """Whether an object has this status."""
    if isinstance(found, Queue):
        return msgspec.convert(status, QueueStatus) == found.status
    if isinstance(found, ElasticQuota):
        annotations: Object = status["annotations"]
        return (
            found.status.used == status["used"] and annotations.items() <= found.metadata.annotations.items()
        )
    return "state" not in status and found.status.allocated == status["allocated"]
