"""How a plan ends: closed once its gang stands, or undone if its minimum is out of reach.

One write undoes it where the owner can be suspended. Pods that a controller would make anew are evicted one
by one; others would be lost by that, so they stay, or are recorded and made anew by muster itself.
"""

from dataclasses import replace

from muster.api.base import controller_of, is_true
from muster.core.decisions import Explanation
from muster.core.events import CommitFailed
from muster.names import PREEMPTED
from muster.runtime.commit.attempts import record_pods
from muster.runtime.commit.outcomes import commit_failed
from muster.runtime.commit.places import Places, minimum_met
from muster.runtime.commit.status import degraded, status_patch, tell
from muster.runtime.commit.victims import begun, end_victims
from muster.runtime.commit.view import GangView, Limits, Memory, Step
from muster.runtime.plan import Plan
from muster.runtime.writes import CreatePod, DeletePlan, EvictPod, Suspend, Write
from muster.translate.group import Group
from muster.translate.pods import live
from muster.translate.status import Phase


def close(
    view: GangView,
    group: Group,
    plan: Plan,
    phase: Phase,
    explanation: Explanation | None,
    memory: Memory,
    now: float,
) -> Step:
    """Nothing more is to be done: the record says how the gang stands, then the plan goes."""
    status = status_patch(view, group, phase, explanation, plan.attempt)
    writes = (DeletePlan(plan),) if status is None else (status, DeletePlan(plan))
    return Step(replace(memory, told_at=now), writes)


def end(view: GangView, memory: Memory, now: float) -> Step:
    """The group has finished or is gone: what it began with victims is ended, then nothing is left."""
    writes: list[Write] = list(end_victims(begun(view.victims), view.id))
    if not writes:
        writes += [DeletePlan(plan) for plan in view.plans]
    if view.group is not None and not writes:
        status = status_patch(view, view.group, Phase.FINISHED, None, memory.attempt)
        writes += [status] if status else []
    return Step(replace(memory, told_at=now, progress=None, giving_up=""), tuple(writes))


def give_up(
    view: GangView,
    group: Group,
    plan: Plan,
    places: Places,
    message: str,
    memory: Memory,
    now: float,
    limits: Limits,
) -> Step:
    """From now on the plan is undone; the core takes back what is not filled, at once."""
    memory, events = commit_failed(view.id, replace(memory, giving_up=message), message, now, limits)
    released = release(view, group, plan, places, memory, now)
    return replace(released, events=events + released.events)


def release(view: GangView, group: Group, plan: Plan, places: Places, memory: Memory, now: float) -> Step:
    """Undoes a plan whose minimum was not reached: one write, or else pod by pod.

    A bound pod without a controller would be lost by that. It stays, and the gang is Degraded, unless the
    pod may be made anew: then a plan of its own comes first, in which the pod is recorded.
    """
    if writes := tuple(end_victims(begun(view.victims), view.id)):
        return Step(memory, writes)
    owner = group.owner
    if owner is not None and suspendable(view, group):
        suspend = () if owner.suspended else (Suspend(group.namespace, owner),)
        return Step(memory, (*suspend, DeletePlan(plan)))
    alone = [pod for pod in places.filled.values() if controller_of(pod) is None]
    if alone and group.recreate and memory.recordable and not plan.unreadable:
        return record_pods(view, plan, alone, memory)
    if places.filled and group.controlled:
        message = f"released: {memory.giving_up}"
        return Step(memory, tuple(EvictPod(pod, message) for pod in places.filled.values()))
    if places.filled:
        return close(view, group, plan, Phase.DEGRADED, degraded(group, places, memory), memory, now)
    return Step(memory, (DeletePlan(plan),))


def suspendable(view: GangView, group: Group) -> bool:
    """Whether suspending its owner ends this gang, is ours to do, and ends nothing else."""
    return group.owner is not None and group.owner.admission and not view.owner_shared


def remake(view: GangView, plan: Plan, memory: Memory, now: float, limits: Limits) -> Step:
    """Deletes the recorded pods and makes them anew, and is done when each name is taken by another pod.

    Whether a name is free because of us or because a user deleted the pod in these seconds cannot be told:
    it is better to have made one too many than to have lost one. Only where the group object has gone, too,
    the user wanted the end of it.
    """
    group = view.group
    if group is None or not group.source.uid:
        return Step(memory, (DeletePlan(plan),))
    memory = replace(memory, giving_up=plan.why)
    evictions, creations, leaving = [], [], 0
    for recorded, found in zip(plan.remade, view.remade, strict=True):
        if found is None:
            creations.append(CreatePod(plan.namespace, recorded.name, recorded.body))
        elif found.metadata.uid == recorded.uid:
            if found.metadata.deletion_timestamp is not None:
                leaving += 1
            elif live(found) or is_true(found.status.conditions, PREEMPTED):
                evictions.append(EvictPod(found, f"is re-created: {plan.why}"))
    if evictions or creations:
        return Step(memory, (*evictions, *creations))
    if leaving:
        return tell(view, group, memory, now, limits)
    places = Places(view, group, memory, now)
    if places.filled and not minimum_met(group.gang, places.settled):
        return release(view, group, plan, places, memory, now)
    # That its pods went and came back is no change that a gang that backs off has waited for.
    until = memory.until if memory.until > now else now + limits.back_off[0]
    return Step(memory, (DeletePlan(plan),), (CommitFailed(view.id, until, plan.why),))
