"""Learns from the outcomes of writes: when to retry, what to leave alone, and when a commit has failed."""

from collections.abc import Mapping
from dataclasses import replace

from muster.core.words.events import CommitFailed, Event, PlacesLost
from muster.core.words.gang import GangId, NodeName, Place, PodId
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    TooManyRequests,
    Unanswered,
    Unreachable,
)
from muster.runtime.commit.view import NEVER, GangView, Limits, Memory, Refusal
from muster.runtime.writes import Bind, CreateGang, CreatePlan, RecordPods, Write


def learn(
    gang: GangId, memory: Memory, write: Write, error: Exception | None, now: float, limits: Limits
) -> tuple[Memory, tuple[Event, ...]]:
    """Returns the new memory (when to retry, what to leave alone) and the events for the core."""
    match error:
        case None:
            return replace(memory, retries=0), ()
        case Conflict() | AlreadyExists() | NotFound():
            return memory, ()  # another writer was first: the mirror will show the result
        case Unanswered() | Unreachable() | TooManyRequests():
            return _pause(memory, error, now, limits), ()
        case ApiError(status=status) if status >= 500:
            return _pause(memory, error, now, limits), ()
    message = str(error)
    if isinstance(write, Bind):
        return _refused(gang, memory, write, message, now, limits)
    if isinstance(write, RecordPods):
        why = f"{memory.giving_up}; its pods cannot be recorded for re-creation: {message}"
        memory = replace(memory, giving_up=why, recordable=False)
        return memory, (CommitFailed(gang, memory.until, why),)
    if isinstance(write, (CreateGang, CreatePlan)):
        return commit_failed(gang, memory, f"the plan cannot be recorded: {message}", now, limits)
    return _pause(memory, error, now, limits), ()


def repeated(memory: Memory, repeats: int, now: float, limits: Limits) -> Memory:
    """Delays the next try of a write that was repeated `repeats` times in a row: it evidently has no effect.

    The answers to the write do not matter. The first repetition is free: its decision used an outdated view.
    """
    if repeats < 2:
        return memory
    first, longest = limits.retry
    delay = min(longest, first * 2 ** min(repeats - 2, 16))
    return replace(memory, retry_at=max(memory.retry_at, now + delay))


def _pause(memory: Memory, error: Exception, now: float, limits: Limits) -> Memory:
    asked = getattr(error, "retry_after", None) or 0.0
    first, longest = limits.retry
    delay = max(asked, min(longest, first * 2 ** min(memory.retries, 16)))
    return replace(memory, retries=memory.retries + 1, retry_at=now + delay)


def _refused(
    gang: GangId, memory: Memory, bind: Bind, message: str, now: float, limits: Limits
) -> tuple[Memory, tuple[Event, ...]]:
    """Handles a refused bind: the first counts against the node, a second elsewhere against the member."""
    pod = PodId(bind.pod.metadata.uid)
    before = memory.refusals.get(pod)
    nodes = (before.nodes if before else frozenset()) | {bind.node}
    until = now + limits.exclusion
    benched = until if before else now
    refusals = {p: r for p, r in memory.refusals.items() if r.until > now - limits.exclusion}
    refusals[pod] = Refusal(nodes, f"refused by the API server: {message}", benched)
    memory = replace(memory, refusals=refusals)
    if before and not bind.planned:
        return commit_failed(gang, memory, refusals[pod].message, now, limits)
    return memory, (PlacesLost(gang, frozenset({bind.place}), frozenset({bind.node}), until),)


def commit_failed(
    gang: GangId, memory: Memory, message: str, now: float, limits: Limits, until: float | None = None
) -> tuple[Memory, tuple[Event, ...]]:
    """Records a failed commit: the gang backs off; after `limits.attempts` failures it waits for a change."""
    memory = replace(memory, failures=memory.failures + 1)
    if until is None:
        first, longest = limits.back_off
        delay = min(longest, first * 2 ** (memory.failures - 1))
        until = NEVER if memory.failures >= limits.attempts else now + delay
    memory = replace(memory, until=until)
    return memory, (CommitFailed(gang, until, message),)


def places_lost(view: GangView, lost: Mapping[Place, NodeName], now: float, limits: Limits) -> PlacesLost:
    return PlacesLost(view.id, frozenset(lost), frozenset(lost.values()), now + limits.exclusion)
