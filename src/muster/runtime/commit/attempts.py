"""Records attempts: each is a plan, written before its first effect, that lists everything to be done."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from muster.api.core_v1 import Pod
from muster.core.words.gang import NodeName, PodId
from muster.runtime.commit.outcomes import commit_failed
from muster.runtime.commit.places import Places
from muster.runtime.commit.view import NEVER, GangView, Limits, Memory, Step
from muster.runtime.plan import Leaving, Plan, PlanTooLarge, PodRef, encode
from muster.runtime.writes import CreateGang, CreatePlan, RecordPods, Write
from muster.translate.group import Group
from muster.translate.status import gang_record


def record_attempt(
    view: GangView,
    group: Group,
    places: Places,
    victims: tuple[Leaving, ...],
    memory: Memory,
    now: float,
    limits: Limits,
) -> Step:
    """Records the next attempt: it carries over every filled place and every assigned place to be filled."""
    attempt = _next_attempt(view, memory)
    plan = Plan(
        gang=view.id,
        record=group.record,
        namespace=group.namespace,
        epoch=view.epoch,
        attempt=attempt,
        nodes={**{p: NodeName(pod.spec.node_name) for p, pod in places.filled.items()}, **places.missing},
        pods={p: PodId(pod.metadata.uid) for p, pod in chain(places.filled.items(), places.ready.items())},
        victims=victims,
    )
    try:
        body = encode(plan)
    except PlanTooLarge as error:
        memory, events = commit_failed(view.id, memory, str(error), now, limits, until=NEVER)
        return Step(memory, events=events)
    create: list[Write] = [CreatePlan(plan, body)]
    if view.record is None:
        create.insert(0, CreateGang(group.namespace, group.record, gang_record(group)))
    return Step(replace(memory, attempt=attempt), tuple(create))


def record_pods(view: GangView, plan: Plan, pods: Iterable[Pod], memory: Memory) -> Step:
    """Records an attempt that ends these pods and re-creates them from what was recorded before."""
    attempt = _next_attempt(view, memory)
    why = memory.giving_up
    anew = Plan(view.id, plan.record, plan.namespace, view.epoch, attempt, nodes={}, why=why)
    refs = (PodRef(pod.metadata.namespace, pod.metadata.name, PodId(pod.metadata.uid)) for pod in pods)
    return Step(replace(memory, attempt=attempt), (RecordPods(anew, tuple(refs)),))


def _next_attempt(view: GangView, memory: Memory) -> int:
    last = view.record.status.attempt if view.record else 0
    return 1 + max(memory.attempt, last, *(plan.attempt for plan in view.plans), 0)
