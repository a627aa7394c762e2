"""Ends a plan: closes it once its gang stands, or undoes it if its minimum is out of reach.

If the owner can be suspended, one write undoes the plan. Pods that a controller would re-create are evicted
one by one. Eviction would lose other pods: these stay, or muster itself records and re-creates them.
"""

from dataclasses import replace

from muster.api.base import controller_of, is_true
from muster.core.words.decisions import Explanation
from muster.core.words.events import CommitFailed
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
    """Closes a plan that has nothing left to do: writes the gang's status, then deletes the plan."""
    status = status_patch(view, group, phase, explanation, plan.attempt)
    writes = (DeletePlan(plan),) if status is None else (status, DeletePlan(plan))
    return Step(replace(memory, told_at=now), writes)


def end(view: GangView, memory: Memory, now: float) -> Step:
    """Ends the plans of a group that has finished or is gone.

    Victims whose eviction has started are evicted completely; then the plans are deleted.
    """
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
    """Starts to undo the plan; the core takes back the unfilled places at once."""
    memory, events = commit_failed(view.id, replace(memory, giving_up=message), message, now, limits)
    released = release(view, group, plan, places, memory, now)
    return replace(released, events=events + released.events)


def release(view: GangView, group: Group, plan: Plan, places: Places, memory: Memory, now: float) -> Step:
    """Undoes a plan whose minimum was not reached: by one write, or else pod by pod.

    Eviction would lose a bound pod that has no controller. Such a pod stays, and the gang is Degraded, unless
    muster may re-create the pod: then a separate plan that records the pod comes first.
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
    """Whether suspending its owner ends this gang, is muster's to do, and ends nothing else."""
    return group.owner is not None and group.owner.admission and not view.owner_shared


def remake(view: GangView, plan: Plan, memory: Memory, now: float, limits: Limits) -> Step:
    """Deletes the recorded pods and re-creates them; done when another pod has each name.

    Muster cannot tell whether a name is free because muster deleted the pod or because a user deleted it in
    the same seconds. Creating one pod too many is better than losing one. Only if the group object is gone,
    too, did the user want the gang to end.
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
    # A gang that backs off waits for a change; the re-creation of its own pods does not count as one.
    until = memory.until if memory.until > now else now + limits.back_off[0]
    return Step(memory, (DeletePlan(plan),), (CommitFailed(view.id, until, plan.why),))
