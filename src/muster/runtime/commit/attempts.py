"""Records attempts: each is a plan, written before its first effect, that lists everything to be done."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from muster.api.core_v1 import Pod
from muster.core.words.gang import NodeName, PodId
from muster.runtime.commit.context import Context
from muster.runtime.commit.outcomes import commit_failed
from muster.runtime.commit.status import changed_spec
from muster.runtime.commit.view import NEVER, GangView, RetryState, Step
from muster.runtime.plan_record import PlacementPlan, PlanTooLarge, PodRef, RecreationPlan, VictimRef
from muster.runtime.writes import RecordPods, record_plan
from muster.translate.status import Phase, gang_status


def record_attempt(context: Context, victims: tuple[VictimRef, ...]) -> Step:
    """Records the next attempt: it carries over every filled place and every assigned place to be filled."""
    view, group, places, state = context.view, context.group, context.places, context.state
    attempt = _next_attempt(view, state)
    plan = PlacementPlan(
        gang=view.id,
        record=group.record,
        namespace=group.namespace,
        epoch=view.epoch,
        attempt=attempt,
        nodes={**{p: NodeName(pod.spec.node_name) for p, pod in places.filled.items()}, **places.missing},
        pods={p: PodId(pod.metadata.uid) for p, pod in chain(places.filled.items(), places.ready.items())},
        victims=victims,
        lease=group.lease,
    )
    waits = view.explanation is not None or not places.ready
    phase = Phase.STARTING if places.filled or not (victims or waits) else Phase.NOMINATED
    status = gang_status(group, view.names, phase, epoch=view.epoch, attempt=attempt)
    body = {**status, **changed_spec(view.record, group)}
    # Users may read the Gangs of their namespace, and no GangPlans: a plan that names others is not held.
    hidden = any(not view.names.may_name(victim.gang, group.namespaces) for victim in victims)
    most = 0 if hidden else context.limits.held_plan
    try:
        writes = record_plan(plan, group, view.record, body, most)
    except PlanTooLarge as error:
        state, events = commit_failed(view.id, state, str(error), context.now, context.limits, until=NEVER)
        return Step(state, events=events)
    return Step(replace(state, attempt=attempt), writes)


def record_pods(context: Context, pods: Iterable[Pod], *, alone: bool = False) -> Step:
    """Records an attempt that ends these pods and re-creates them from what was recorded before."""
    view, group, state = context.view, context.group, context.state
    attempt = _next_attempt(view, state)
    header = (view.id, group.record, group.namespace, view.epoch, attempt)
    plan = RecreationPlan(*header, (), state.giving_up, alone, lease=group.lease)
    refs = tuple(PodRef(pod.metadata.namespace, pod.metadata.name, PodId(pod.metadata.uid)) for pod in pods)
    return Step(replace(state, attempt=attempt), (RecordPods(plan, refs),))


def _next_attempt(view: GangView, state: RetryState) -> int:
    last = view.record.status.attempt if view.record else 0
    return 1 + max(state.attempt, last, *(plan.attempt for plan in view.plans), 0)
