"""Computes the next step for one gang: a pure function of what is seen, what is decided, and the time.

    step(view, memory, now, limits) -> writes, events for the core, when to look again

The function is level-triggered: it depends only on the difference between what the core has assigned and
what the cluster shows, never on how the difference arose. Therefore recovery needs no code of its own: a
new leader calls the same function on the same open plans and bound pods, and continues where the old
leader stopped. docs/committing.md explains why nothing is left half done; the order of writes is

    GangPlan → victims → unsuspend, or wait for pods → binds → Gang status → delete the plan

Rules that everything below keeps:

- No bind, eviction or unsuspension without an open plan, except one bind that by itself completes a
  gang: it is its own transaction (a gang of one, a single lost member).
- A place is bound only while the plan and the core agree on its node. When they do not, the next
  - A place is bound only while the plan and the core agree on its node. If they do not, the next
- The first bind waits until the minimum can be reached with the pods that are there.
- A plan is deleted only when its gang is whole, when none of it is bound, when its owner has been
    suspended, or when its members are of a kind that must not be deleted; the status then says Degraded.
"""

from dataclasses import replace

from muster.core.words.events import CommitFailed
from muster.core.words.gang import PodId
from muster.runtime.commit.attempts import record_attempt
from muster.runtime.commit.ending import close, end, give_up, release, remake, suspendable
from muster.runtime.commit.outcomes import places_lost
from muster.runtime.commit.places import Places, benched, binds, minimum_met
from muster.runtime.commit.status import tell
from muster.runtime.commit.victims import end_victims
from muster.runtime.commit.view import Fenced, GangView, Limits, Memory, Step
from muster.runtime.plan import Plan
from muster.runtime.writes import DeletePlan, Unsuspend
from muster.translate.group import Group
from muster.translate.status import Phase


def step(view: GangView, memory: Memory, now: float, limits: Limits) -> Step:
    """Returns the next writes for a gang; `now` is Unix time in seconds. Never raises."""
    if now < memory.retry_at:
        return Step(memory, wake=memory.retry_at)
    late = [plan for plan in view.plans if plan.epoch != view.epoch and plan.uid not in memory.adopted]
    superseded = [plan for plan in view.plans[:-1] if plan not in late]
    if late or superseded:
        return Step(memory, tuple(map(DeletePlan, [*late, *superseded])))
    if view.fenced is not None and view.group is not None and not view.group.finished:
        return _wait(view, view.group, view.fenced, memory, now, limits)
    if view.plans and view.plans[-1].remade:
        return remake(view, view.plans[-1], memory, now, limits)
    if view.group is None or view.group.finished:
        return end(view, memory, now)
    if view.plans:
        return _continue(view, view.group, view.plans[-1], memory, now, limits)
    return _begin(view, view.group, memory, now, limits)


def _wait(view: GangView, group: Group, fenced: Fenced, memory: Memory, now: float, limits: Limits) -> Step:
    """Only reports the status; the core takes back what it has assigned, and tries again later."""
    places = Places(view, group, memory, now)
    if places.missing or places.lost or view.called:
        return Step(memory, events=(CommitFailed(view.id, max(fenced.until, now + 1.0), fenced.message),))
    return tell(view, group, memory, now, limits)


def _begin(view: GangView, group: Group, memory: Memory, now: float, limits: Limits) -> Step:
    """Starts work when no plan is open: records a plan if there is something to do, or binds without one.

    A gang that is re-created is assigned its places one by one, as its old pods leave their nodes. Its
    plan is recorded once, when the assigned places make the gang whole.
    """
    memory = replace(memory, progress=None, giving_up="", recordable=True)
    places = Places(view, group, memory, now)
    if minimum_met(group.gang, places.settled):
        memory = replace(memory, failures=0)
    if places.lost:
        return Step(memory, events=(places_lost(view, places.lost, now, limits),))
    suspended = group.owner is not None and group.owner.suspended
    if suspended and not suspendable(view, group):
        return tell(view, group, memory, now, limits)
    enough = minimum_met(group.gang, places.settled | places.missing.keys())
    if places.missing and enough and (suspended or view.called or places.bindable):
        if _is_transaction(view, places, suspended):
            return Step(memory, tuple(binds(view, places, memory.attempt, planned=False)))
        return record_attempt(view, group, places, view.called, memory, now, limits)
    told = tell(view, group, memory, now, limits)
    return replace(told, wake=min(told.wake, places.unbenched))


def _is_transaction(view: GangView, places: Places, suspended: bool) -> bool:
    """Whether one bind needs no plan: it makes a gang whole or adds to a whole one, so it is atomic."""
    return not suspended and not view.called and len(places.missing) == 1


def _continue(view: GangView, group: Group, plan: Plan, memory: Memory, now: float, limits: Limits) -> Step:
    """Does the next missing thing: a newer plan, victims, pods, binds, or the end of the plan."""
    places = Places(view, group, memory, now, plan)
    suspended = group.owner is not None and group.owner.suspended
    whole = minimum_met(group.gang, places.settled)
    if memory.giving_up and (suspended or not whole):
        return release(view, group, plan, places, memory, now)
    if plan.unreadable and plan.epoch == view.epoch:  # another record would be unreadable, too
        return give_up(view, group, plan, places, plan.unreadable, memory, now, limits)
    if places.lost:
        return Step(memory, events=(places_lost(view, places.lost, now, limits),))

    # 1. The core has decided otherwise since: record its decision first.
    called = tuple(victim for victim in view.called if victim not in plan.victims)
    moved = any(plan.nodes.get(place) != node for place, node in places.missing.items())
    if called or (moved and minimum_met(group.gang, places.settled | places.missing.keys())):
        leaving = tuple(victim.recorded for victim in view.victims if victim.pods)
        return record_attempt(view, group, places, leaving + called, memory, now, limits)

    progress = (-sum(len(victim.pods) for victim in view.victims), len(places.settled) + len(places.ready))
    if memory.progress is None or progress > memory.progress:
        memory = replace(memory, progress=progress, since=now)

    # 2. Victims leave first.
    if any(victim.pods for victim in view.victims):
        if writes := tuple(end_victims(view.victims, view.id)):
            return Step(memory, writes)
        if now >= memory.since + limits.victims:
            return give_up(view, group, plan, places, "victims did not leave", memory, now, limits)
        told = tell(view, group, memory, now, limits)
        return replace(told, wake=min(told.wake, memory.since + limits.victims))

    # 3. The owner may create the pods.
    if group.owner is not None and group.owner.suspended:
        if not group.owner.admission:
            return give_up(view, group, plan, places, "its owner was suspended", memory, now, limits)
        return Step(memory, (Unsuspend(group.namespace, group.owner),))

    # 4. Bind the pods once they can reach the minimum.
    if places.bindable and minimum_met(group.gang, places.settled | places.bindable.keys()):
        return Step(memory, tuple(binds(view, places, plan.attempt)))

    # 5. The plan ends: closed or given up.
    unfilled = [place for place in plan.nodes if place in places.missing]
    overdue = now >= memory.since + limits.patience
    if whole and (overdue or not unfilled):
        return close(view, group, plan, Phase.STANDING, None, replace(memory, failures=0), now)
    if message := _hopeless(group, plan, places, memory, now):
        return give_up(view, group, plan, places, message, memory, now, limits)
    if overdue:
        here, wanted = len(places.settled), len(plan.nodes)
        message = f"{here} of {wanted} pods were bound within {limits.patience:.0f} s"
        return give_up(view, group, plan, places, message, memory, now, limits)
    told = tell(view, group, memory, now, limits)
    return replace(told, wake=min(told.wake, memory.since + limits.patience, places.unbenched))


def _hopeless(group: Group, plan: Plan, places: Places, memory: Memory, now: float) -> str:
    """Why the minimum cannot be reached whatever pods arrive: members refused everywhere. Empty if it can."""
    refused = {place: pod for place, pod in places.ready.items() if benched(memory, pod, now)}
    hoped_for = (plan.nodes.keys() | places.settled | places.missing.keys()) - refused.keys()
    if not refused or minimum_met(group.gang, hoped_for):
        return ""
    place, pod = min(refused.items(), key=lambda item: item[0])
    return f"pod {pod.metadata.name} ({place}): {memory.refusals[PodId(pod.metadata.uid)].message}"
