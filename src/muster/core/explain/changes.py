"""The remedies: changes that would start a waiting gang. Each function yields at most one, if a dry run
confirms it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from muster.core.explain.question import LATER, NOT, NOW, Question
from muster.core.words.amounts import PODS, bare, show
from muster.core.words.decisions import PodSetExplanation, Remedy
from muster.core.words.gang import Amounts, Code, Gang, Gather, PodSet, Shape, Strategy
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Bools

#: Into how many parts a pod is cut.
FACTORS: Final = (2, 4)
#: Pod sets that are reduced, one at a time.
SETS: Final = 8
#: Queues, and gangs whose end is looked at, that are tried.
QUEUES: Final = 3
BLOCKERS: Final = 6
#: Rules about the topology that are left out, one at a time.
RULES: Final = 8
#: Victims that are named.
NAMED: Final = 3


def fewer_pods(question: Question) -> Iterator[Remedy]:
    """With fewer pods: one set reduced to what fits beside the others; else all sets that do not fit.

    None for gangs that have started: their size is what runs already.
    """
    if question.state.begun:
        return
    sets = question.case.pod_sets
    wanted = {told.name: told.wanted for told in sets}
    short = {told.name: told.fits for told in sets if told.fits < told.wanted}
    for told in sorted(sets, key=lambda told: (told.name not in short, -told.wanted))[:SETS]:
        for most in _sizes(question, wanted, told):
            if question.starts(_of_size(question.gang, wanted, {told.name: most})):
                yield Remedy(_fewer(question, wanted, {told.name: most}), NOW)
                return
    if len(short) > 1 and all(short.values()) and question.starts(_of_size(question.gang, wanted, short)):
        yield Remedy(_fewer(question, wanted, short), NOW)


def _sizes(question: Question, wanted: Mapping[str, int], told: PodSetExplanation) -> Iterator[int]:
    """Yield sizes to try: as many as there are slots; then, as reservations may allow fewer, what fits.

    The number that greedy placement reached is nearly always the answer. So the bisection above it (what fits
    with n pods fits with fewer) rarely takes a second step.
    """
    if told.fits and question.demand.fits_by_slots:
        yield told.fits

    def fits(count: int) -> bool:
        counts = {**wanted, told.name: count}
        some = [part for part in question.demand.parts if part.pod_set in counts]
        parts = tuple(replace(part, count=counts[part.pod_set], need=counts[part.pod_set]) for part in some)
        return question.fits(replace(question.demand, parts=parts, need=sum(counts.values()), minima=()))

    low, high = 0, told.wanted
    for guess in (told.fits, told.fits + 1):
        if low < guess < high:
            low, high = (guess, high) if fits(guess) else (low, guess)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low:
        yield low


def _of_size(gang: Gang, wanted: Mapping[str, int], counts: Mapping[str, int]) -> Gang:
    """Return the gang with so many pods; an elastic set gets so small a minimum instead."""

    def edited(pod_set: PodSet) -> PodSet:
        count = counts.get(pod_set.name)
        if count is None:
            return pod_set
        least = min(pod_set.min_count, count)
        if wanted[pod_set.name] < pod_set.count:
            return replace(pod_set, min_count=least)
        uncreated = min(pod_set.uncreated, count)
        return replace(
            pod_set, count=count, min_count=least, ranks=pod_set.ranks[:count], uncreated=uncreated
        )

    more = {name: count - wanted[name] for name, count in counts.items()}
    return replace(_needing(gang, more), pod_sets=tuple(map(edited, gang.pod_sets)))


def _needing(gang: Gang, more: Mapping[str, int]) -> Gang:
    """Return the gang with minima over several pod sets that are so much higher, by pod set."""
    subgroups = tuple(
        replace(
            subgroup,
            min_count=max(
                subgroup.min_count
                + sum(more.get(p.name, 0) for p in gang.pod_sets if p.subgroup == subgroup.name),
                0,
            ),
        )
        for subgroup in gang.subgroups
    )
    return replace(gang, subgroups=subgroups, min_count=max(gang.min_count + sum(more.values()), 0))


def _fewer(question: Question, wanted: Mapping[str, int], counts: Mapping[str, int]) -> str:
    """Return the wording: "with 12 GPUs (3 × 4)", "with 3 instead of 4 pods of worker"."""
    parts = {part.pod_set: part for part in question.demand.parts}
    least = {name: "a minimum of " if wanted[name] < parts[name].count else "" for name in counts}
    if len(parts) > 1:
        changes = [f"{least[name]}{n} instead of {wanted[name]} pods of {name}" for name, n in counts.items()]
        return f"with {' and '.join(changes)}"
    ((name, count),) = counts.items()
    resource, _, amount = question.case.asked(parts[name])[0]
    if resource == PODS:
        return f"with {least[name]}{show(PODS, count)}"
    return f"with {least[name]}{show(resource, count * amount)} ({count} × {bare(resource, amount)})"


def smaller_pods(question: Question) -> Iterator[Remedy]:
    """With smaller pods: twice as many of half the size, or four times as many of a quarter.

    The largest that help. Each pod keeps whole devices or whole CPUs.
    """
    if question.state.begun:
        return
    short = {part.pod_set: part for part, _ in question.short}
    for factor in FACTORS:
        cut = {name: _divided(part.shape, factor) for name, part in short.items() if part.need}
        if not cut or None in cut.values() or len(cut) < len(short):
            return
        if question.starts(_divide(question.gang, cut, factor, {name: short[name].need for name in cut})):
            changes = []
            for name, requests in cut.items():
                resource, _, amount = question.case.asked(part := short[name])[0]
                less = show(resource, dict(requests or ()).get(resource, 0))
                change = f"{part.need * factor} × {less} instead of {part.need} × {bare(resource, amount)}"
                changes.append(f"{name} as {change}" if len(question.demand.parts) > 1 else change)
            yield Remedy(f"with {' and '.join(changes)}", NOW)
            return


def _divide(gang: Gang, cut: Mapping[str, Amounts | None], factor: int, needs: Mapping[str, int]) -> Gang:
    """Return the gang with `factor` times as many pods of these sets, which have these requests."""

    def edited(pod_set: PodSet) -> PodSet:
        requests = cut.get(pod_set.name)
        if requests is None:
            return pod_set
        return replace(
            pod_set,
            shape=replace(pod_set.shape, requests=requests),
            count=pod_set.count * factor,
            min_count=pod_set.min_count * factor,
            uncreated=pod_set.uncreated * factor,
            ranks=(),
        )

    more = {name: need * (factor - 1) for name, need in needs.items()}
    return replace(_needing(gang, more), pod_sets=tuple(map(edited, gang.pod_sets)))


def _divided(shape: Shape, factor: int) -> Amounts | None:
    """Return divided requests: devices without remainder, or whole CPUs; the other amounts are rounded up.

    None if they cannot be divided so.
    """
    requests = shape.requests
    whole = [amount % factor == 0 for resource, amount in requests if "/" in resource]
    cpus = dict(requests).get("cpu", 0)
    if shape.gpu_share or not (all(whole) if whole else cpus >= 1000 * factor):
        return None
    return tuple((resource, -(-amount // factor)) for resource, amount in requests if resource != PODS)


def without_layer(question: Question) -> Iterator[Remedy]:
    """Without a layer: one rule about the network topology removed, of the gang or a subgroup; else all.

    Preferences prevent no start, so only required rules are removed.
    """
    gang, rules = question.gang, question.demand.rules
    if rules is None:
        return

    required = [
        (name, rule) for name, each in rules.each for rule in dict.fromkeys(each.gather) if _required(rule)
    ]
    for name, rule in required[:RULES]:
        if question.starts(_without(gang, name, rule)):
            if rule.strategy is Strategy.MUST_GATHER:
                yield Remedy(f"without {name and f'{name} '}having to be in one {rule.layer}", NOW)
            else:
                of = f" of {name}" if name else ""
                yield Remedy(f"without multiples of {rule.multiple} per {rule.layer}{of}", NOW)
            return
    if rules.exclusive and question.starts(replace(gang, exclusive="")):
        yield Remedy(f"without a {rules.exclusive} of its own", NOW)
    elif len(required) + bool(rules.exclusive) > 1:
        subgroups = tuple(replace(each, gather=()) for each in gang.subgroups)
        if question.starts(replace(gang, gather=(), exclusive="", subgroups=subgroups)):
            yield Remedy("without any rule about the topology", NOW)


def _without(gang: Gang, subgroup: str, rule: Gather) -> Gang:
    """Return the gang without this rule of a subgroup; "": of the gang itself."""

    def others(rules: tuple[Gather, ...]) -> tuple[Gather, ...]:
        # not the multiple: it no longer counts once a place is retired
        return tuple(each for each in rules if (each.layer, each.strategy) != (rule.layer, rule.strategy))

    if not subgroup:
        return replace(gang, gather=others(gang.gather))
    subgroups = (
        replace(each, gather=others(each.gather)) if each.name == subgroup else each
        for each in gang.subgroups
    )
    return replace(gang, subgroups=tuple(subgroups))


def _required(rule: Gather) -> bool:
    return rule.strategy is Strategy.MUST_GATHER or rule.multiple > 1


def other_queue(question: Question) -> Iterator[Remedy]:
    """In another queue: the first by name that admits the gang's demand, and in which it then starts.

    None for started gangs: they are charged already.
    """
    if question.state.begun or question.short:
        return
    others = sorted(question.parts.world.queues.accounts.keys() - {question.gang.queue})
    allowing = (
        name for name in others if question.parts.admission.allows(question.state, question.demand, name)
    )
    for name in islice(allowing, QUEUES):
        if question.starts(replace(question.gang, queue=name)):
            yield Remedy(f"in queue {name}", NOW)
            return


def blocker_ends(question: Question) -> Iterator[Remedy]:
    """When a gang ends: the smallest gang that holds the lacking resource and whose end would be enough.

    Only gangs that use enough of the lacking resource to make up for the shortage qualify, and if a
    ResourceQuota is full only those that are charged to it. A few of them are tried, smallest first.
    """
    for other in _blockers(question)[:BLOCKERS]:
        if question.has_room(without=other) and question.starts_without(other):
            yield Remedy(f"when {other.id} ends", LATER)
            return


def _blockers(question: Question) -> list[GangState]:
    """Return the gangs on usable nodes that use at least what is lacking in total, the smallest first."""
    case, world = question.case, question.parts.world
    lacking: dict[str, int] = {}
    usable: Bools = np.zeros(len(world.nodes), np.bool_)
    for resource, demanded in case.least.items():
        nodes = case.usable(resource)
        usable |= nodes
        lacking[resource] = max(demanded - case.free(resource, nodes), 0)
    found = [
        other
        for other in case.holds(PODS)
        if other is not question.state
        and all(other.usage.get(resource, 0) >= amount for resource, amount in lacking.items())
        and case.on(other, usable)
    ]
    if world.quotas.exceeded(question.state, question.demand) is not None:
        found = [other for other in found if world.quotas.frees(other, question.state)]
    scarcest = max(lacking, key=lambda resource: (lacking[resource], resource), default="")
    return sorted(found, key=lambda other: (other.usage.get(scarcest, 0), other.id))


def preempting(question: Question) -> Iterator[Remedy]:
    """By preemption: the victims if the policy were not Never (MayNotPreempt); or why there are none.

    A gang that may preempt and waits has found no victims. If other gangs hold what it lacks, the reason is
    given.
    """
    gang, state = question.gang, question.state
    if not state.waits or not question.parts.admission.admits(state):
        return
    found, sure = (None, True) if gang.preempts else question.victims()
    if found is not None:
        names = [str(victim.gang) for victim in found.gangs]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        lost = sum(victim.work_lost for victim in found.gangs)
        ended = f"{', '.join(names[:NAMED])}{more} would end, {lost:,.0f} resource-seconds of work lost"
        yield Remedy(f"if it might preempt (MayNotPreempt): {ended}", LATER)
        return
    told = question.explanation
    if not sure or not told.blockers or told.code is Code.HELD_FOR_RESERVATION:
        return
    if reason := question.parts.preemption.none_because(state, question.request):
        yield Remedy(reason, NOT)


_Change = Callable[[Question], Iterator[Remedy]]

#: Changes if there is no room for the gang, in the order in which they are reported: what the owner can
#: change first, then what others would have to do.
_ROOM: Final[tuple[_Change, ...]] = (fewer_pods, smaller_pods, without_layer, blocker_ends, preempting)
#: Changes if the gang's queue refuses it.
_QUEUE: Final[tuple[_Change, ...]] = (fewer_pods, smaller_pods, other_queue, blocker_ends)
#: Changes by reason. None of them helps against other reasons.
HELPING: Final[Mapping[Code, tuple[_Change, ...]]] = {
    Code.QUEUE_CLOSED: (other_queue,),
    Code.QUOTA_EXCEEDED: (*_QUEUE, preempting),
    Code.OVER_SHARE: _QUEUE,
    Code.NOTHING_MATCHES: (smaller_pods,),
    Code.HELD_FOR_RESERVATION: _ROOM,
    Code.INSUFFICIENT_CAPACITY: _ROOM,
    Code.TOPOLOGY_UNSATISFIED: _ROOM,
    Code.CONSTRAINT_UNSATISFIED: _ROOM,
    Code.FRAGMENTED: _ROOM,
}
