"""Follows each start from its decision to its outcome, by what the scheduler records (`journal.Recorder`).

A start begins with an `Assign` and ends when its places are filled, released, or lost for good. Each has an
identity, `<epoch>-<number>`, that the log and the traces carry.
"""

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from muster.core.words.decisions import Assign, Decision, Evict, Release, Reserve, Wait
from muster.core.words.events import CommitFailed, Event, GangRemoved, GangSubmitted, PlacesLost, PodsBound
from muster.core.words.gang import Code, GangId, Place, PodId
from muster.journal import Began, Mark

log = logging.getLogger(__name__)

#: The gang whose writes the current task makes.
COMMITTED: Final[ContextVar[GangId | None]] = ContextVar("committed", default=None)


class Outcome(Enum):
    """How a start ended."""

    #: every assigned place has its pod
    BOUND = "bound"
    #: the scheduler gave all of its places up, or assigned them to other pods' nodes again
    RELEASED = "released"
    #: the API server or time refused it, and it was undone
    FAILED = "failed"
    #: the gang was preempted before it was whole
    PREEMPTED = "preempted"
    #: the gang finished or was deleted
    REMOVED = "removed"


@dataclass(slots=True)
class Start:
    """A start under way: what was decided, and which places still lack their pod."""

    id: str
    gang: GangId
    queue: str
    at: float
    #: seconds that the gang had waited; None: it was not waiting to start, or since when is not known
    waited: float | None
    pods: int
    nodes: int
    victims: tuple[GangId, ...]
    pending: set[Place] = field(repr=False)


#: Takes a start, when it ended, and how.
Ended = Callable[[Start, float, Outcome], None]


class Decisions:
    """A recorder that knows the starts under way, and the last reason of each gang that waits."""

    def __init__(self) -> None:
        self.open: dict[GangId, Start] = {}
        self.reasons: dict[GangId, Code] = {}
        self._queues: dict[GangId, str] = {}
        #: since when each gang waits to start: submitted, or preempted; None = it does not, or not known
        self._waiting_since: dict[GangId, float | None] = {}
        self._victims: dict[GangId, tuple[GangId, ...]] = {}
        self._epoch = self._number = 0
        self.on_start: list[Callable[[Start], None]] = []
        self.on_end: list[Ended] = []

    def decision_of(self, gang: GangId) -> str | None:
        """Returns the identity of a gang's start under way."""
        start = self.open.get(gang)
        return start.id if start is not None else None

    def write(self, at: float, what: Event | Decision | Mark) -> None:
        match what:
            case PodsBound(pods=pods, gang=gang, footprint=footprint) if gang is not None:
                if not footprint.leaving:  # a victim's pods say nothing about its next start
                    self._waiting_since[gang] = None
                self._bound(at, gang, pods)
            case GangSubmitted(gang):
                self._queues[gang.id] = gang.queue
                self._waiting_since.setdefault(gang.id, gang.submitted or None)
            case GangRemoved(gang):
                self._end(at, gang, Outcome.REMOVED)
                self._queues.pop(gang, None)
                self.reasons.pop(gang, None)
                self._waiting_since.pop(gang, None)
                self._victims.pop(gang, None)
            case Assign(gang, nodes):
                self._assigned(at, gang, nodes)
            case Evict(victims, beneficiary):
                self._victims[beneficiary] = tuple(victim.gang for victim in victims)
                for victim in victims:
                    if not victim.pods:
                        self._end(at, victim.gang, Outcome.PREEMPTED)
                        self._waiting_since[victim.gang] = at
            case Release(gang, places):
                self._released(at, gang, places)
            case CommitFailed(gang, message=message):
                if (start := self.open.get(gang)) is not None and start.waited is not None:
                    self._waiting_since[gang] = (
                        start.at - start.waited
                    )  # it never ran, even if pods were bound
                self._end(at, gang, Outcome.FAILED, message)
            case PlacesLost(gang, places):
                if (start := self.open.get(gang)) is not None:
                    start.pending |= places
            case Wait(gang, explanation):
                self._waits(gang, explanation.code, explanation.message)
            case Reserve(gang, nodes, begins):
                self._say(gang, "reserved %d nodes from %.0f on", len({*nodes.values()}), begins)
            case Began(epoch):
                self._epoch, self._number = epoch, 0
            case _:
                pass

    def _assigned(self, at: float, gang: GangId, nodes: Mapping[Place, str]) -> None:
        self.reasons.pop(gang, None)
        victims = self._victims.pop(gang, ())
        if (start := self.open.get(gang)) is not None:  # more of its places, or other nodes for them
            start.pending |= nodes.keys()
            start.pods = max(start.pods, len(start.pending))
            return
        since = self._waiting_since.get(gang)
        waited = max(at - since, 0.0) if since is not None else None
        self._number += 1
        identity = f"{self._epoch}-{self._number}"
        distinct = len({*nodes.values()})
        queue = self._queues.get(gang, "")
        start = Start(identity, gang, queue, at, waited, len(nodes), distinct, victims, {*nodes})
        self.open[gang] = start
        self._say(gang, "starts: %d pods on %d nodes, %d gangs evicted", len(nodes), distinct, len(victims))
        for tell in self.on_start:
            tell(start)

    def _bound(self, at: float, gang: GangId, pods: Mapping[PodId, Place | None]) -> None:
        start = self.open.get(gang)
        if start is not None:
            start.pending.difference_update(place for place in pods.values() if place is not None)
            if not start.pending:
                self._end(at, gang, Outcome.BOUND)

    def _released(self, at: float, gang: GangId, places: frozenset[Place]) -> None:
        start = self.open.get(gang)
        if start is not None:
            start.pending -= places
            if not start.pending:
                self._end(at, gang, Outcome.RELEASED)

    def _waits(self, gang: GangId, code: Code, message: str) -> None:
        level = logging.INFO if self.reasons.get(gang) is not code else logging.DEBUG
        self.reasons[gang] = code
        self._say(gang, "waits: %s: %s", code.value, message, level=level)

    def _end(self, at: float, gang: GangId, outcome: Outcome, message: str = "") -> None:
        if (start := self.open.get(gang)) is None:
            return
        why = f": {message}" if message else ""
        self._say(gang, "%s after %.3f s%s", outcome.value, at - start.at, why)
        del self.open[gang]
        for tell in self.on_end:
            tell(start, at, outcome)

    def _say(self, gang: GangId, message: str, *arguments: object, level: int = logging.INFO) -> None:
        if log.isEnabledFor(level):
            extra = {"gang": gang, "queue": self._queues.get(gang, ""), "decision": self.decision_of(gang)}
            log.log(level, f"gang %s {message}", gang, *arguments, extra=extra)


class InDecision(logging.Filter):
    """Adds to each record the gang whose writes the task makes, and the decision that they belong to."""

    def __init__(self, decisions: Decisions) -> None:
        super().__init__()
        self._decisions = decisions

    def filter(self, record: logging.LogRecord) -> bool:
        gang = COMMITTED.get()
        if gang is not None and not hasattr(record, "gang"):
            record.gang, record.decision = gang, self._decisions.decision_of(gang)
        return True
