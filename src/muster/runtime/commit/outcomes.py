"""Learns from the outcomes of writes: when to retry, what to leave alone, and when a commit has failed."""

from dataclasses import replace
from typing import Final

from muster.api import kinds
from muster.core.words.events import CommitFailed, Event, PlacesLost
from muster.core.words.gang import GangId
from muster.effects import Bind, Create, Deallocate, Patch
from muster.kube.clock import back_off
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
    Unanswered,
    Unauthorized,
    Unreachable,
)
from muster.runtime.commit.claims import chosen
from muster.runtime.commit.context import Context
from muster.runtime.commit.refusals import (
    PATIENT,
    accepted,
    claim_accepted,
    claim_freed,
    claim_refused,
    devices_refused,
    failed,
    freeing_refused,
    refused,
)
from muster.runtime.commit.view import NEVER, Limits, RetryState
from muster.runtime.writes import Provision, RecordPods, Write, namespace_of

#: A start fails after this many consecutive plans that the server accepted and that no object shows.
UNSHOWN: Final = 3


def learn(
    gang: GangId, state: RetryState, write: Write, error: Exception | None, now: float, limits: Limits
) -> tuple[RetryState, tuple[Event, ...]]:
    """Returns the new state (when to retry, what to leave alone) and the events for the core."""
    match error:
        case None:
            match write:
                case Bind():
                    state = accepted(state, write)
                case Deallocate():
                    state = claim_freed(state, write)
                case Patch(kinds.PERSISTENT_VOLUME_CLAIM):
                    state = claim_accepted(chosen(state, write), write)
                case _ if records_plan(write):
                    state = replace(state, unshown=state.unshown + 1)
            passed = state.retries and state.retry_at <= now  # no other write of this round has failed
            return (replace(state, retries=0, trouble="") if passed else state), ()
        case Conflict() | AlreadyExists() | NotFound():
            return state, ()  # another writer was first: the mirror will show the result
        case Unanswered() | Unreachable() | TooManyRequests() | Unauthorized():
            return _pause(state, write, error, now, limits), ()
        case ApiError(status=status) if status >= 500:
            if isinstance(write, Bind) and status == ServerError.status:
                state, events = failed(gang, state, write, str(error), now, limits)
                if events:  # a refusal, which has a pause of its own
                    return state, events
            if status == ServerError.status and state.retries >= PATIENT:
                if _records(write):
                    return _unrecorded(gang, state, error, now, limits)
                if isinstance(write, Deallocate):
                    return freeing_refused(state, write, str(error), now, limits), ()
            return _pause(state, write, error, now, limits), ()
    message = str(error)
    if isinstance(write, Bind):
        return refused(gang, state, write, message, now, limits)
    if isinstance(write, Provision):
        return devices_refused(state, write, message, now, limits), ()
    if isinstance(write, Deallocate):
        return freeing_refused(state, write, message, now, limits), ()
    if isinstance(write, Patch) and write.kind is kinds.PERSISTENT_VOLUME_CLAIM:
        return claim_refused(state, write, message, now, limits), ()
    if isinstance(write, RecordPods):
        why = f"{state.giving_up}; its pods cannot be re-created: {message}"
        state = replace(state, giving_up=why, recordable=False)
        return state, (CommitFailed(gang, state.until, why),)
    if _records(write):
        return _unrecorded(gang, state, error, now, limits)
    return _pause(state, write, error, now, limits), ()


def _unrecorded(
    gang: GangId, state: RetryState, error: Exception, now: float, limits: Limits
) -> tuple[RetryState, tuple[Event, ...]]:
    """Fails a start whose record the server refuses. It is retried as binds are.

    Until then nothing of the gang is written: its status would go into the same object.
    """
    until = now + back_off(limits.refused, state.retries)
    state = replace(state, retries=state.retries + 1, until=until, retry_at=until)
    return state, (CommitFailed(gang, until, f"the plan cannot be recorded: {error}"),)


def _records(write: Write) -> bool:
    """Whether the write records a plan, or the Gang before it."""
    return records_plan(write) or (isinstance(write, Create) and write.kind is kinds.GANG)


def records_plan(write: Write) -> bool:
    match write:
        case Create(kinds.GANG_PLAN) | Create(kinds.GANG, body={"plan": {}}):
            return True
        case Patch(kinds.GANG, body={"plan": {}}):
            return True
        case _:
            return False


def plan_not_shown(
    gang: GangId, state: RetryState, now: float, limits: Limits
) -> tuple[RetryState, tuple[Event, ...]]:
    """Fails a start whose plan the server does not keep; it is retried every 28 s, with one write each."""
    message = (
        "the API server took the plan, and the Gang does not show it: are the definitions of muster's kinds "
        "of this version? (muster crds | kubectl apply -f -)"
    )
    state = replace(state, unshown=UNSHOWN - 1, until=now + limits.refused[1])
    return state, (CommitFailed(gang, state.until, message),)


def repeated(state: RetryState, repeats: int, now: float, limits: Limits) -> RetryState:
    """Delays the next try of a write that was repeated `repeats` times in a row: it evidently has no effect.

    The answers to the write do not matter. The first repetition is free: its decision used an outdated view.
    """
    if repeats < 2:
        return state
    return replace(state, retry_at=max(state.retry_at, now + back_off(limits.retry, repeats - 2)))


def _pause(state: RetryState, write: Write, error: Exception, now: float, limits: Limits) -> RetryState:
    """Delays the next round of writes; several failures in one round delay it once."""
    asked = getattr(error, "retry_after", None) or 0.0
    retries = state.retries if state.retry_at > now else state.retries + 1
    delay = max(asked, back_off(limits.retry, retries - 1))
    retry_at = max(state.retry_at, now + delay)
    return replace(
        state, retries=retries, retry_at=retry_at, trouble=str(error), trouble_in=namespace_of(write)
    )


def commit_failed(
    gang: GangId, state: RetryState, message: str, now: float, limits: Limits, until: float | None = None
) -> tuple[RetryState, tuple[Event, ...]]:
    """Records a failed commit: the gang backs off; after `limits.attempts` failures it waits for a change.

    Not if the last error was the server's: no change would tell that it has passed.
    """
    state = replace(state, failures=state.failures + 1)
    if until is None:
        delay = back_off(limits.back_off, state.failures - 1)
        until = NEVER if state.failures >= limits.attempts and not state.trouble else now + delay
    state = replace(state, until=until)
    return state, (CommitFailed(gang, until, message),)


def places_lost(context: Context) -> PlacesLost:
    """Reports the places that were assigned to nodes that no longer exist."""
    lost = context.places.lost
    until = context.now + context.limits.exclusion
    return PlacesLost(context.view.id, frozenset(lost), frozenset(lost.values()), until)
