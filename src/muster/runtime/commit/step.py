"""The step itself: what to do next, from the newest plan and what is missing of it."""

from dataclasses import replace

from muster.core.words.events import CommitFailed, PlacesLost
from muster.runtime.commit.attempts import record_attempt
from muster.runtime.commit.binding import Bindable, bindable, binds, why_unreachable
from muster.runtime.commit.context import Context, context_of
from muster.runtime.commit.ending import (
    close,
    end,
    give_up,
    recreate,
    refused_by_nodes,
    release,
    replace_rejected,
    suspendable,
)
from muster.runtime.commit.orphans import end_orphans
from muster.runtime.commit.outcomes import UNSHOWN, places_lost, plan_not_shown
from muster.runtime.commit.places import minimum_met
from muster.runtime.commit.refusals import (
    devices_lost,
    freeing_at,
    given_back,
    reconsidered,
    refusals,
    to_free,
)
from muster.runtime.commit.status import write_status
from muster.runtime.commit.victims import end_victims, saves_until
from muster.runtime.commit.view import NEVER, GangView, Limits, RetryState, Step
from muster.runtime.plan_record import PlacementPlan, RecreationPlan
from muster.runtime.writes import delete_plan, resume
from muster.translate.status import Phase


def step(view: GangView, state: RetryState, now: float, limits: Limits) -> Step:
    """Returns the next writes for a gang; `now` is Unix time in seconds. Never raises."""
    found = _next(view, state, now, limits)
    return _woken(found, freeing_at(found.state, now))


def _next(view: GangView, state: RetryState, now: float, limits: Limits) -> Step:
    if now < state.retry_at:
        return Step(state, wake=state.retry_at)
    late = [plan for plan in view.plans if plan.epoch != view.epoch and plan.uid not in state.adopted]
    superseded = [plan for plan in view.plans[:-1] if plan not in late]
    if late or superseded:
        return Step(state, tuple(map(delete_plan, [*late, *superseded])))
    plan = view.plans[-1] if view.plans else None
    group = view.group
    if group is None:
        return end(view, state, now)
    context = context_of(view, group, state, now, limits)
    if view.unfenced is not None and not group.finished:
        return _wait(context)
    if isinstance(plan, RecreationPlan):
        return recreate(context, plan)
    if group.finished:
        return end(view, state, now)
    if (ended := end_orphans(context, planned=plan is not None)) is not None:
        return ended
    return _begin(context) if plan is None else _continue(context, plan)


def _wait(context: Context) -> Step:
    """Only reports the status; the core takes back what it has assigned, and tries again later."""
    view, places, unfenced = context.view, context.places, context.view.unfenced
    if unfenced is not None and (places.missing or places.lost or view.chosen):
        until = max(unfenced.until, context.now + 1.0)
        return Step(context.state, events=(CommitFailed(view.id, until, unfenced.message),))
    return write_status(context)


def _begin(context: Context) -> Step:
    """Starts work when no plan is open: records a plan if there is something to do, or binds without one.

    A gang that is re-created is assigned its places one by one, as its old pods leave their nodes. Its
    plan is recorded once, when the assigned places make the gang whole.
    """
    view, gang, places = context.view, context.group.gang, context.places
    state = context.state
    if state.progress is not None or state.giving_up or not state.recordable:
        state = replace(state, progress=None, giving_up="", recordable=True)
    if (state.failures or state.refusals) and minimum_met(gang, places.settled):
        kept = state.refusals if places.missing or refusals(context) else {}
        state = replace(state, failures=0, refusals=kept)
    if state is not context.state:
        context = replace(context, state=state)
    if state.refusals and (changed := reconsidered(context)) is not None:
        # What it backs off for may be gone: the core ends the back-off.
        event = CommitFailed(view.id, context.now, "a refused pod has changed")
        return Step(replace(changed, until=context.now), events=(event,))
    if why := refused_by_nodes(context):
        again = replace_rejected(context, why)
        return again or replace(write_status(context), wake=state.recreate_at)
    if places.lost:
        return Step(state, events=(places_lost(context),))
    if context.suspended and not suspendable(context):
        return write_status(context)
    if not context.suspended and (freed := to_free(context, None)):
        return Step(state, freed)
    if not view.chosen and (lost := devices_lost(context, planned=False)) is not None:
        return Step(lost[0], events=lost[1])
    binding = bindable(context)
    if failed := given_back(context, bool(binding.possible)):
        return Step(state, events=(failed,))
    if (
        places.missing
        and _startable(context, binding)
        and minimum_met(gang, places.settled | places.missing.keys())
    ):
        # One bind that makes a gang whole, or adds to a whole one, is atomic and needs no plan. It is not if
        # a claim has to be written first.
        alone = len(places.missing) == 1 and not context.claims.any
        if not context.suspended and not view.chosen and alone:
            if binding.unprovisioned:
                return _provision(context, binding)
            return Step(state, tuple(binds(context, binding, state.attempt, planned=False)))
        if state.unshown >= UNSHOWN:
            state, events = plan_not_shown(view.id, state, context.now, context.limits)
            return Step(state, events=events)
        return record_attempt(context, view.chosen)
    return _woken(write_status(context), binding.excluded_until)


def _startable(context: Context, binding: Bindable) -> bool:
    """Whether a plan, once recorded, has something to do.

    Pods that are left of a gang below its minimum run on until all replacements that it needs exist: a plan
    that waits for one in vain (a Job backs off up to 6 minutes) would end them, or evict victims for nothing.
    """
    places, possible = context.places, binding.possible
    if context.suspended or not (context.view.chosen or possible):
        return context.suspended
    return not places.filled or minimum_met(context.group.gang, places.settled | possible)


def _continue(context: Context, plan: PlacementPlan) -> Step:
    """Does the next missing thing: a newer plan, victims, pods, binds, or the end of the plan."""
    view, group, places = context.view, context.group, context.places
    state, now, limits = replace(context.state, unshown=0), context.now, context.limits
    context = replace(context, state=state)
    whole = minimum_met(group.gang, places.settled)
    if state.giving_up and (context.suspended or not whole):
        return release(context, plan)
    if plan.unreadable and plan.epoch == view.epoch:  # another record would be unreadable, too
        return give_up(context, plan, plan.unreadable)
    if places.lost:
        return Step(state, events=(places_lost(context),))
    if not whole and (message := why_unreachable(context, plan)):
        return give_up(context, plan, message, refused=True)

    if not whole and (message := refused_by_nodes(context)):
        return give_up(context, plan, message)

    # 1. The core has decided otherwise since: record its decision first.
    chosen = tuple(victim for victim in view.chosen if victim not in plan.victims)
    moved = any(plan.nodes.get(place) != node for place, node in places.missing.items())
    if chosen or (moved and minimum_met(group.gang, places.settled | places.missing.keys())):
        leaving = tuple(victim.recorded for victim in view.victims if victim.pods)
        return record_attempt(context, leaving + chosen)

    members = len(places.settled) + len(places.ready) + context.claims.served
    progress = (-sum(len(victim.pods) for victim in view.victims), members)
    if state.progress is None or progress > state.progress:
        state = replace(state, progress=progress, since=now)
        context = replace(context, state=state)

    # 2. Victims leave first.
    if any(victim.pods for victim in view.victims):
        saving = max(map(saves_until, view.victims))
        due = max(state.since, saving) + limits.victim_timeout
        if now >= due:
            return give_up(context, plan, f"victims did not leave{context.last_error}")
        if writes := tuple(end_victims(view.victims, view, now)):
            told = write_status(context) if state.trouble else Step(state)
            return told if told.writes else Step(state, writes)
        return _woken(write_status(context), saving if now < saving else due)

    # 3. The owner may create the pods.
    if group.owner is not None and group.owner.suspended:
        if not group.owner.admission:
            return give_up(context, plan, "its owner was suspended")
        return Step(state, (resume(group.namespace, group.owner),))

    # 4. Bind the pods once they can reach the minimum. Since 1, the plan and the core agree on their nodes.
    if freed := to_free(context, plan):
        return Step(state, freed)
    if (lost := devices_lost(context, planned=True)) is not None:
        return Step(lost[0], events=lost[1])
    binding = bindable(context)
    stuck = view.explanation is not None and not minimum_met(
        group.gang, places.settled | places.missing.keys()
    )
    patience = limits.victim_timeout if binding.unprovisioned else limits.progress_timeout
    due = state.since + (limits.unplaced if stuck else patience)
    possible = binding.possible if now < due else ()
    if possible and minimum_met(group.gang, places.settled | possible):
        if binding.writes:
            return _provision(context, binding)
        if binding.places and minimum_met(group.gang, places.settled | binding.places.keys()):
            return Step(state, tuple(binds(context, binding, plan.attempt)))
    if whole and (failed := given_back(context, bool(binding.possible))):
        return Step(state, events=(failed,))

    # 5. The plan ends: closed or given up.
    if whole and (now >= due or places.missing.keys().isdisjoint(plan.nodes)):
        if freed := to_free(context, None, all_=True):
            return Step(state, freed)
        return close(replace(context, state=replace(state, failures=0)), plan, Phase.STANDING, None)
    if now >= due:
        bound = f"{len(places.settled)} of {len(plan.nodes)} pods were bound"
        if stuck and view.explanation is not None:
            return give_up(context, plan, f"{bound}, and the rest does not start: {view.explanation.message}")
        last = context.last_error
        if binding.unprovisioned:
            last = f"; {len(binding.unprovisioned)} wait for volumes{last}"
        if unmade := len(context.claims.unmade):
            last = f"; {unmade} wait for ResourceClaims to be made{last}"
        return give_up(context, plan, f"{bound} within {patience:.0f} s{last}")
    freed_at = now + limits.freeing if context.claims.waits else NEVER
    return _woken(write_status(context), min(due, binding.excluded_until, freed_at))


def _woken(reported: Step, at: float) -> Step:
    """Returns the step with a time, `at`, at which it is repeated at the latest."""
    return replace(reported, wake=at) if at < reported.wake else reported


def _provision(context: Context, binding: Bindable) -> Step:
    """Has the volumes made, and the devices allocated, that are still missing."""
    state = context.state
    if lost := binding.unprovisionable:
        until = context.now + context.limits.exclusion
        event = PlacesLost(context.view.id, frozenset(lost), frozenset(lost.values()), until)
        return Step(replace(state, volumes={}), events=(event,))
    if writes := binding.writes:
        return Step(state, tuple(writes.values()))
    return write_status(context)
