"""Members that the API server refuses to bind: admission by a policy or webhook, a missing right.

The first refusal counts against the node, and the core chooses another. A second one counts against the
member: the start fails at once, so that the other members do not wait on their nodes, and is retried after a
pause of 1 s that doubles up to 28 s. The refused member is then bound first. The start is retried at once if
something changes that admission may have checked, or an admission policy or webhook does. The API server
reads these in the background, so the pauses then begin with 1 s again.

An internal error (500) is the server's own, or that of a webhook that fails. It counts as a refusal only if
it is the answer to more than `PATIENT` binds of a member in a row. An overloaded server says 429, 503 or 504.

A refused write of a claim counts against all pods that use the claim, at once: another node would not help.
So does a claim that others have given other devices, or have given its devices to, but only from the second
time on: the core chooses other devices first.

A refused write that frees a claim keeps nothing else from being undone. Its pod does not start meanwhile.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from muster.api.base import controller_of
from muster.api.core_v1 import Pod
from muster.core.words.events import CommitFailed, Event, PlacesLost
from muster.core.words.gang import GangId, Place
from muster.effects import Allocate, Bind, Deallocate, Patch
from muster.kube.clock import back_off
from muster.runtime.commit.claims import pending
from muster.runtime.commit.context import Context
from muster.runtime.commit.view import NEVER, Limits, Refusal, RetryState
from muster.runtime.plan_record import PlacementPlan
from muster.runtime.writes import Provision, TellOfClaim
from muster.translate.marks import unbound

#: Internal errors in a row, in answer to binds of one member, that are only retried.
PATIENT: Final = 4


def failed(
    gang: GangId, state: RetryState, bind: Bind, message: str, now: float, limits: Limits
) -> tuple[RetryState, tuple[Event, ...]]:
    """Handles a bind that the API server answered with an internal error."""
    key = member(bind.place, bind.pod)
    before = state.refusals.get(key)
    times = before.times + 1 if before else 1 - PATIENT
    if times > 0:
        return refused(gang, state, bind, message, now, limits)
    told = _told(bind, message)
    return replace(state, refusals={**state.refusals, key: Refusal(told, times, now, judged(bind.pod))}), ()


def refused(
    gang: GangId, state: RetryState, bind: Bind, message: str, now: float, limits: Limits
) -> tuple[RetryState, tuple[Event, ...]]:
    """Handles a refused bind; without a plan, a second refusal ends the start."""
    key = member(bind.place, bind.pod)
    before = state.refusals.get(key)
    times = max(before.times, 0) + 1 if before else 1
    until = now + back_off(limits.refused, times - 2)
    told = _told(bind, message)
    state = replace(state, refusals={**state.refusals, key: Refusal(told, times, until, judged(bind.pod))})
    lost = PlacesLost(gang, frozenset({bind.place}), frozenset({bind.node}), until)
    if times > 1 and not bind.planned:
        return replace(state, until=until), (lost, CommitFailed(gang, until, told))
    return state, (lost,)


def _told(bind: Bind, message: str) -> str:
    return f"pod {bind.pod.metadata.name} ({bind.place}) is refused by the API server: {message}"


def accepted(state: RetryState, bind: Bind) -> RetryState:
    """Forgets the refusals of a member that has been bound, and so has its devices."""
    state = _without(state, _of_devices(bind.place, bind.pod))
    return _without(state, member(bind.place, bind.pod))


def claim_accepted(state: RetryState, write: Patch) -> RetryState:
    """Forgets the refusals of a claim that has been written."""
    return _without(state, of_claim(write.namespace, write.name))


def devices_refused(
    state: RetryState, write: Provision, message: str, now: float, limits: Limits
) -> RetryState:
    """Handles a refused write of a claim of devices: the pods that it was written for are left alone."""
    for place, pod in write.users:
        if isinstance(write, TellOfClaim):
            told = f"the ResourceClaim in the status of pod {pod.metadata.name}"
        else:
            claim = write.claim.metadata.name if isinstance(write, Allocate) else write.name
            told = f"ResourceClaim {claim} of pod {pod.metadata.name}"
        told = f"{told} is refused by the API server: {message}"
        state = _devices_denied(state, place, pod, told, now, limits, first=2)
    return state


def freeing_refused(
    state: RetryState, write: Deallocate, message: str, now: float, limits: Limits
) -> RetryState:
    """Handles a refused write that frees a claim: the gang goes on without it, and it is retried later."""
    claim, known = write.claim, state.unfreed
    times = known[claim.key].times + 1 if claim.key in known else 2
    told = f"ResourceClaim {claim.metadata.name} cannot be freed: refused by the API server: {message}"
    refusal = Refusal(told, times, now + back_off(limits.refused, times - 2), None)
    others = {key: each for key, each in known.items() if now < each.until + limits.refused[1]}
    return replace(state, unfreed={**others, claim.key: refusal})


def claim_freed(state: RetryState, write: Deallocate) -> RetryState:
    """Forgets the refusals to free a claim."""
    if write.claim.key not in state.unfreed:
        return state
    return replace(state, unfreed={k: each for k, each in state.unfreed.items() if k != write.claim.key})


def to_free(context: Context, plan: PlacementPlan | None, *, all_: bool = False) -> tuple[Deallocate, ...]:
    """Returns the writes to make now that free claims (see `DeviceClaims.to_free`)."""
    return due(context.claims.to_free(plan, all_=all_), context.state, context.now)


def due(writes: tuple[Deallocate, ...], state: RetryState, now: float) -> tuple[Deallocate, ...]:
    """Returns those of the writes that have not been refused a moment ago."""
    known = state.unfreed
    return tuple(
        each for each in writes if each.claim.key not in known or not is_excluded(known[each.claim.key], now)
    )


def freeing_at(state: RetryState, now: float) -> float:
    """When the next refused write that frees a claim is retried."""
    return min((each.until for each in state.unfreed.values() if each.until > now), default=NEVER)


def unfreed(context: Context) -> Mapping[str, Refusal]:
    """Returns, by the uid of a pod without a node, the refusal to free devices that it is not to have."""
    known, plans = context.state.unfreed, context.view.plans
    if not known:
        return {}
    plan = plans[-1] if plans and isinstance(plans[-1], PlacementPlan) else None
    writes = context.claims.to_free(plan)
    return {
        uid: known[each.claim.key] for each in writes if each.claim.key in known for uid in sorted(each.pods)
    }


def devices_lost(context: Context, *, planned: bool) -> tuple[RetryState, tuple[Event, ...]] | None:
    """Gives back places whose devices others have taken: the core chooses others. None: there are none.

    Without a plan, a second time ends the start.
    """
    state, now, gang, known = context.state, context.now, context.view.id, refusals(context)
    conflicts = {
        place: message
        for place, message in context.claims.conflicts.items()
        if place not in known or not is_excluded(known[place], now)
    }
    if not conflicts:
        return None
    for place, message in conflicts.items():
        pod = context.places.ready[place]
        state = _devices_denied(state, place, pod, message, now, context.limits, first=1)
    lost = PlacesLost(gang, frozenset(conflicts), frozenset(), now)
    again = [state.refusals[_of_devices(place, context.places.ready[place])] for place in sorted(conflicts)]
    if planned or all(refusal.times == 1 for refusal in again):
        return state, (lost,)
    until = max(refusal.until for refusal in again)
    return replace(state, until=until), (lost, CommitFailed(gang, until, again[0].message))


def _devices_denied(
    state: RetryState, place: Place, pod: Pod, message: str, now: float, limits: Limits, first: int
) -> RetryState:
    key = _of_devices(place, pod)
    before = state.refusals.get(key)
    times = before.times + 1 if before else first
    until = now + back_off(limits.refused, times - 2)
    return replace(state, refusals={**state.refusals, key: Refusal(message, times, until, None)})


def _of_devices(place: Place, pod: Pod) -> str:
    """Returns the key of the refusals of a pod's claims of devices; no member has such a key."""
    return f"devices of {member(place, pod)}"


def _without(state: RetryState, key: str) -> RetryState:
    if key not in state.refusals:
        return state
    return replace(state, refusals={one: r for one, r in state.refusals.items() if one != key})


def claim_refused(state: RetryState, write: Patch, message: str, now: float, limits: Limits) -> RetryState:
    """Handles a refused write of a claim: the pods that use it are left alone for a while."""
    key = of_claim(write.namespace, write.name)
    before = state.refusals.get(key)
    times = before.times + 1 if before else 2
    until = now + back_off(limits.refused, times - 2)
    told = f"claim {write.name} is refused by the API server: {message}"
    return replace(state, refusals={**state.refusals, key: Refusal(told, times, until, None)})


def of_claim(namespace: str, name: str) -> str:
    """Returns the key of a claim's refusal; no member has such a key."""
    return f"claim {namespace}/{name}"


def given_back(context: Context, possible: bool) -> CommitFailed | None:
    """Gives the free places of a gang back to the core if their pods have claims that are refused.

    `possible`: whether another of the gang's missing pods can be bound; it comes first.
    """
    known = refusals(context)
    refused_ = [known[place] for place in sorted(context.places.missing) if place in known]
    waits = [each for each in refused_ if each.seen is None and is_excluded(each, context.now)]
    if possible or not waits:
        return None
    return CommitFailed(context.view.id, max(each.until for each in waits), waits[0].message)


def member(place: Place, pod: Pod) -> str:
    """Returns what a pod and its successor have in common: the place, or the name if muster re-creates it."""
    return pod.metadata.name if controller_of(pod) is None else str(place)


def refusals(context: Context) -> Mapping[Place, Refusal]:
    """Returns the refusals of members that wait, by place: their own, or of claims without volumes."""
    known, kept = context.state.refusals, unfreed(context)
    if not known and not kept:
        return {}
    found: dict[Place, Refusal] = {}
    for place, pod in context.places.ready.items():
        if pod.metadata.uid in kept:
            found[place] = kept[pod.metadata.uid]
            continue
        keys = [member(place, pod)]
        if pod.spec.volumes:
            claims = pending(context.view.find, pod)
            keys += [of_claim(claim.metadata.namespace, claim.metadata.name) for claim in claims]
        if context.claims.any:
            keys.append(_of_devices(place, pod))
        if key := next((each for each in keys if each in known), ""):
            found[place] = known[key]
    return found


def is_excluded(refusal: Refusal, now: float) -> bool:
    return refusal.times > 1 and now < refusal.until


def blocking(context: Context) -> Mapping[Place, Refusal]:
    """Returns the refused places that are not tried now: excluded, or the core has no other node for them."""
    stuck, missing = context.view.explanation is not None, context.places.missing
    return {
        place: refusal
        for place, refusal in refusals(context).items()
        if is_excluded(refusal, context.now) or (stuck and place not in missing)
    }


def retry_at(state: RetryState, now: float, limits: Limits) -> float:
    """When a start that failed because of refusals is retried."""
    known = (*state.refusals.values(), *state.unfreed.values())
    return max([now + limits.refused[0], *(refusal.until for refusal in known)])


def reconsidered(context: Context) -> RetryState | None:
    """Returns the state in which refused members are tried at once, if something of them has changed."""
    changed = {}
    for place, refusal in refusals(context).items():
        pod = context.places.ready[place]
        if refusal.seen is not None and refusal.seen != judged(pod):
            changed[member(place, pod)] = replace(refusal, until=context.now, seen=judged(pod))
    return replace(context.state, refusals={**context.state.refusals, **changed}) if changed else None


def readmitted(state: RetryState, now: float) -> RetryState:
    """Returns the state in which all that was refused is tried at once: admission has changed."""
    refusals, unfreed = (
        {key: replace(refusal, times=min(refusal.times, 1), until=now) for key, refusal in known.items()}
        for known in (state.refusals, state.unfreed)
    )
    until, retry_at = min(state.until, now), min(state.retry_at, now)
    return replace(state, refusals=refusals, unfreed=unfreed, until=until, retries=0, retry_at=retry_at)


def judged(pod: Pod) -> object:
    """Returns what of a pod admission may judge by and its user may change while it waits."""
    meta = pod.metadata
    return meta.uid, meta.labels, unbound(meta.annotations), pod.spec
