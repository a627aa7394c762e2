"""Ends a plan: closes it once its gang stands, or undoes it if its minimum is out of reach.

If the owner can be suspended, one write undoes the plan: the claims of the pods that it ends are freed with
them. Otherwise the devices of pods without a node are freed first. Pods that a controller would re-create are
evicted one by one. Eviction would lose other pods: these stay, or muster itself records and re-creates them.
"""

from dataclasses import replace
from typing import Final

from muster.api import kinds
from muster.api.base import controller_of, is_true
from muster.core.words.decisions import Explanation
from muster.core.words.events import CommitFailed, Event
from muster.core.words.gang import Code
from muster.effects import Create, Evict
from muster.kube.clock import back_off
from muster.names import PREEMPTED
from muster.runtime.commit.attempts import record_pods
from muster.runtime.commit.context import Context
from muster.runtime.commit.devices import DeviceClaims
from muster.runtime.commit.outcomes import commit_failed
from muster.runtime.commit.places import Places, minimum_met
from muster.runtime.commit.refusals import due, retry_at, to_free
from muster.runtime.commit.status import NAMED, degraded, status_patch, write_status
from muster.runtime.commit.victims import begun, end_victims
from muster.runtime.commit.view import GangView, RetryState, Step
from muster.runtime.plan_record import PlacementPlan, Plan, RecreationPlan
from muster.runtime.writes import Write, close_plan, delete_plan, suspend
from muster.translate.pods import live, rejected
from muster.translate.status import Phase

#: Seconds between two re-creations of members that their nodes refused: the first pause, which doubles each
#: time, and the longest.
REJECTED: Final = (1.0, 300.0)


def close(context: Context, plan: Plan, phase: Phase, explanation: Explanation | None) -> Step:
    """Closes a plan that has nothing left to do: writes the gang's status, then deletes the plan."""
    status = status_patch(context.view, context.group, phase, explanation, plan.attempt)
    return Step(replace(context.state, reported_at=context.now), close_plan(plan, status))


def end(view: GangView, state: RetryState, now: float) -> Step:
    """Ends the plans of a group that has finished or is gone.

    Victims whose eviction has started are evicted completely, and devices freed; then the plans are deleted.
    """
    writes: list[Write] = list(end_victims(begun(view.victims), view, now))
    if not writes and view.group is not None:
        claims = DeviceClaims(view, view.group, Places(view, view.group))
        writes += due(claims.to_free(None, all_=True), state, now)
    if not writes:
        writes += [delete_plan(plan) for plan in view.plans]
    if view.group is not None and not writes:
        status = status_patch(view, view.group, Phase.FINISHED, None, state.attempt)
        writes += [status] if status else []
    return Step(replace(state, reported_at=now, progress=None, giving_up=""), tuple(writes))


def give_up(context: Context, plan: PlacementPlan, message: str, *, refused: bool = False) -> Step:
    """Starts to undo the plan; the core takes back the unfilled places at once.

    A start of which a member was `refused` does not count as failed: it is retried soon, however often.
    """
    state = replace(context.state, giving_up=message)
    if refused:
        state = replace(state, until=retry_at(state, context.now, context.limits))
        events: tuple[Event, ...] = (CommitFailed(context.view.id, state.until, message),)
    else:
        state, events = commit_failed(context.view.id, state, message, context.now, context.limits)
    released = release(replace(context, state=state), plan)
    return replace(released, events=events + released.events)


def release(context: Context, plan: Plan) -> Step:
    """Undoes a plan whose minimum was not reached: by one write, or else pod by pod.

    Eviction would lose a bound pod that has no controller. Such a pod stays, and the gang is Degraded, unless
    muster may re-create the pod: then a separate plan that records the pod comes first.
    """
    view, group, state = context.view, context.group, context.state
    filled = context.places.filled
    if writes := tuple(end_victims(begun(view.victims), view, context.now)):
        return Step(state, writes)
    owner = group.owner
    if owner is not None and suspendable(context):
        closed = _failed(context, plan)
        first = () if owner.suspended else (suspend(group.namespace, owner),)
        return replace(closed, writes=(*first, *closed.writes))
    if freed := to_free(context, None, all_=True):
        return Step(state, freed)
    alone = [*(pod for pod in filled.values() if controller_of(pod) is None), *group.rejected]
    readable = isinstance(plan, RecreationPlan) or not plan.unreadable
    if alone and group.recreate and state.recordable and readable:
        return record_pods(context, alone)
    if filled and group.controlled:
        why = view.names.text(f"released: {state.giving_up}", group.namespaces)
        return Step(state, tuple(Evict(pod, why) for pod in filled.values()))
    if filled:
        return close(context, plan, Phase.DEGRADED, degraded(context))
    return _failed(context, plan)


def refused_by_nodes(context: Context) -> str:
    """Returns a message about members that their nodes refused; "" if none of them is to be re-created."""
    pods = context.group.rejected if context.group.recreate else ()
    few = ", ".join(f"{pod.metadata.name} ({pod.status.reason})" for pod in pods[:NAMED])
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return f"refused by their nodes: {few}{more}" if pods else ""


def replace_rejected(context: Context, why: str) -> Step | None:
    """Re-creates only the members that their nodes refused, after pauses as in `REJECTED`.

    Returns None while it is too early for that.
    """
    state, now = context.state, context.now
    if now < state.recreate_at:
        return None
    again = now + back_off(REJECTED, state.rejections)
    state = replace(state, rejections=state.rejections + 1, recreate_at=again, giving_up=why)
    return record_pods(replace(context, state=state), context.group.rejected, alone=True)


def _failed(context: Context, plan: Plan) -> Step:
    """Closes a plan that has come to nothing: the gang waits, and says why."""
    why = Explanation(Code.COMMIT_FAILED, "commit", context.state.giving_up)
    return close(context, plan, Phase.WAITING, why if context.state.giving_up else None)


def suspendable(context: Context) -> bool:
    """Whether suspending its owner ends this gang, is muster's to do, and ends nothing else."""
    owner = context.group.owner
    return owner is not None and owner.admission and not context.view.owner_shared


def recreate(context: Context, plan: RecreationPlan) -> Step:
    """Deletes the recorded pods and re-creates them; done when another pod has each name.

    Muster cannot tell whether a name is free because muster deleted the pod or because a user deleted it in
    the same seconds. Creating one pod too many is better than losing one. Only if the group object is gone,
    too, did the user want the gang to end.
    """
    view, group = context.view, context.group
    if not group.source.uid:
        return Step(context.state, (delete_plan(plan),))
    state = replace(context.state, giving_up=plan.why)
    context = replace(context, state=state)
    evictions, creations, leaving = [], [], 0
    for recorded, found in zip(plan.pods, view.namesakes, strict=True):
        if found is None:
            creations.append(Create(kinds.POD, plan.namespace, recorded.body))
        elif found.metadata.uid == recorded.uid:
            if found.metadata.deletion_timestamp is not None:
                leaving += 1
            elif live(found) or is_true(found.status.conditions, PREEMPTED) or rejected(found):
                evictions.append(Evict(found))  # of pods that come again, the fewest writes
    if evictions or creations:
        return Step(state, (*evictions, *creations))
    if leaving:
        return write_status(context)
    if plan.alone:
        return Step(replace(state, giving_up=""), (delete_plan(plan),))
    places = context.places
    if places.filled and not minimum_met(group.gang, places.settled):
        return release(context, plan)
    # A gang that backs off waits for a change; the re-creation of its own pods does not count as one.
    pause = context.limits.refused if state.refusals else context.limits.back_off
    until = state.until if state.until > context.now else context.now + pause[0]
    return Step(state, (delete_plan(plan),), (CommitFailed(view.id, until, plan.why),))
