"""Predicts what would happen if objects were submitted, by running the scheduler on a hypothetical cluster.

The proposed objects are added to the mirror of the cluster. A new scheduler receives the same events as a
live one would. Nothing is written anywhere. Objects that controllers would create at once for a
proposed object count as created: a gang is planned from its templates, like a gang that `muster submit`
creates, and the pods of an independent Job or JobSet are named after the places that they fill.

A proposed object that exists in the cluster is edited as `muster submit` would edit it (`kube.apply`), and
refused if an API server would refuse the edit. Such a job is planned with the pods that it has there.

If gangs of the cluster wait, the cluster without the proposal is evaluated, too. Both evaluations are then
continued in simulated time (`forecast.py`): a gang that starts later with the proposal is delayed by it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology
from muster.api.layers import chain_of
from muster.api.rates import Rates
from muster.app.plan.decisions import Decision, Delay, Outcome, Told, decisions, outcome_of
from muster.app.plan.forecast import cycles, starts
from muster.app.plan.mirror import SnapshotMirror
from muster.app.plan.money import idle, with_losses
from muster.app.plan.proposal import propose
from muster.app.plan.risk import Stakes
from muster.core.cycle import Config, Scheduler
from muster.core.words.decisions import Decision as Decided
from muster.core.words.events import Event
from muster.core.words.gang import GangId
from muster.translate import adopted
from muster.translate.group import Group
from muster.workloads.snapshot import Objects


@dataclass(slots=True)
class Plan:
    """One decision per proposed gang, then one per waiting gang of the cluster, each in deciding order."""

    decisions: list[Decision]
    #: number of decisions about proposed gangs
    proposed: int
    #: the time of the plan, seconds since the epoch
    now: float
    #: outcomes of the cluster's gangs without the proposal
    before: Mapping[str, Outcome] = field(default_factory=dict)
    #: remarks about the objects
    notes: list[str] = field(default_factory=list)


def plan(snapshot: SnapshotMirror, cluster: Objects, proposed: Objects, prices: Rates) -> Plan:
    """Plans the proposed objects on the cluster, whose mirror is `snapshot`.

    `prices`: for the risk of preemption. Raises Invalid if an edit changes an immutable field.
    """
    at, schedulers, groups = snapshot.now, snapshot.schedulers, snapshot.mirror.groups
    notes = [*_notes(cluster, "in the snapshot"), *_notes(proposed, "that are not planned")]
    notes += proposed.advice()
    for kind in cluster.hidden:
        if kind in (kinds.DEVICE_CLASS, kinds.RESOURCE_SLICE):
            notes.append(f"{kind.plural} may not be listed; which resources are devices is not said")
        elif kind in (kinds.RESOURCE_CLAIM, kinds.RESOURCE_CLAIM_TEMPLATE):
            if any(name[0] is kinds.DEVICE_CLASS for name in cluster.items):
                what = "count as free" if kind is kinds.RESOURCE_CLAIM else "are not found by jobs"
                notes.append(f"{kind.plural} may not be listed; devices that they speak of {what}")
        elif kind not in kinds.FOREIGN:
            notes.append(f"{kind.plural} may not be listed; what they add to new pods is not counted")
    if others := [f"{kind.plural}.{kind.group}" for kind in cluster.hidden if kind in kinds.FOREIGN]:
        notes.append(f"{', '.join(others)} of other schedulers may not be listed, and do not count")
    for kind in cluster.absent:
        if any(kind is name[0] for name in proposed.items):
            notes.append(
                f"the cluster does not know the kind {kind.kind} ({kind.api_version}) and would refuse it"
            )
    as_it_is = snapshot.as_it_is()
    own, refusals = propose(snapshot, proposed, notes)
    core = scheduler(Config(steps=None), [*as_it_is, *snapshot.changes()])
    decided, served = _decide(core, at)
    found = Plan(*decisions(decided, served, core, groups, own, refusals), at, notes=notes)
    notes += _faults(snapshot, core)
    if schedulers is not None:
        notes += _left_to_others(proposed, found, schedulers)
    found.decisions = [with_losses(each, snapshot, prices) for each in found.decisions]
    notes += idle(found.decisions[: found.proposed], snapshot, prices)
    stakes = Stakes.among(snapshot.known.values(), snapshot.mirror.queues.all_counting(), prices)
    for decision in found.decisions[: found.proposed]:
        group = groups.get(GangId(decision.gang))
        if group is not None:
            notes += (f"{_called(decision, group)}: {warning}" for warning in group.warnings)
            for risk in stakes.of([group.gang]):
                told = filter(None, (risk.message, risk.warning))
                notes += (f"{_called(decision, group)}: {each}" for each in told)
    notes[:] = dict.fromkeys(notes)  # the pods of an independent job have the same notes
    waiting = {GangId(decision.gang) for decision in found.decisions[found.proposed :]}
    if waiting:
        then = starts(core, decided, at, waiting)
        _compare(found, waiting, then, scheduler(Config(remedies=0, steps=None), as_it_is))
    return found


def _called(decision: Decision, group: Group) -> str:
    """The gang, or the job that an independent pod belongs to."""
    single = not group.source.kind and decision.gang.count("/") == 2
    return f"each pod of {decision.gang.rpartition('/')[0]}" if single else decision.gang


def scheduler(config: Config, events: Iterable[Event]) -> Scheduler:
    """A scheduler to which these events have happened."""
    core = Scheduler(config)
    for event in events:
        core.apply(event)
    return core


def _decide(core: Scheduler, now: float) -> tuple[list[Decided], dict[GangId, None]]:
    """All decisions at `now`, and the gangs that lacked something, in the order of their first attempts."""
    decided: list[Decided] = []
    served: dict[GangId, None] = {}
    for cycle in cycles(core, now):
        decided += cycle
        served |= dict.fromkeys(state.id for state in core.served)
    return decided, served


def _compare(found: Plan, waiting: set[GangId], then: Mapping[GangId, float], core: Scheduler) -> None:
    """Records how the plan differs from the cluster as it is; delays go to the first gang that starts."""
    decided, _ = _decide(core, found.now)
    told = Told(decided)
    found.before = {
        str(gang): outcome_of(told, gang, core.world.gangs[gang].explanation)
        for gang in waiting & core.world.gangs.keys()
    }
    before = starts(core, decided, found.now, waiting)
    delays = [
        Delay(str(gang), None if gang not in then else then[gang] - at)
        for gang, at in sorted(before.items())
        if then.get(gang, inf) > at
    ]
    causes = [n for n, each in enumerate(found.decisions[: found.proposed]) if each.assignments]
    if delays and causes:
        found.decisions[causes[0]] = msgspec.structs.replace(found.decisions[causes[0]], delays=delays)


def _left_to_others(proposed: Objects, found: Plan, schedulers: frozenset[str]) -> Iterator[str]:
    """Notes about jobs and pods of other schedulers, for which there is no decision."""
    decided = {tuple(each.gang.split("/")[:2]) for each in found.decisions[: found.proposed]}
    for (kind, namespace, name), resource in proposed.items.items():
        match resource:
            case Pod(spec=spec):
                named = {spec.scheduler_name}
            case Job(spec=spec):
                named = {_scheduler_of(spec.template)}
            case JobSet(spec=spec):
                templates = (
                    each.template.get("spec", {}).get("template", {}) for each in spec.replicated_jobs
                )
                named = set(map(_scheduler_of, templates))
            case _:
                continue
        left = (namespace, name) not in decided or named.isdisjoint(schedulers)
        if left and (others := named - schedulers):
            theirs = " and ".join(each or "default-scheduler" for each in sorted(others))
            yield (
                f"{kind.kind} {resource.key} is left to {theirs}; muster decides about pods with "
                f"schedulerName: {' or '.join(sorted(schedulers))}"
            )


def _scheduler_of(template: Object) -> str:
    return str(template.get("spec", {}).get("schedulerName", ""))


def _faults(snapshot: SnapshotMirror, core: Scheduler) -> Iterator[str]:
    """Notes about faults of queues and layers; decisions that depend on these faults mention them as well."""
    told = set[str]()
    for (kind, *_), resource in snapshot.known.items():
        name = resource.metadata.name
        if kind in kinds.QUEUES:
            queue = adopted.queue_of(kind, name)
            account = core.world.queues.find(queue) if queue not in told else None
            if account is not None and (fault := account.fault or account.refused):
                told.add(queue)
                yield f"Queue {queue} cannot be used: {fault}"
        elif isinstance(resource, ClusterNetworkTopology) and (error := chain_of(resource).error):
            yield f"ClusterNetworkTopology {name} cannot be used: {error}"


def _notes(objects: Objects, where: str) -> Iterator[str]:
    if objects.ignored:
        count = sum(objects.ignored.values())
        some = ", ".join(f"{n} × {what}" for what, n in objects.ignored.most_common(5))
        yield f"left out: {count} object{'s' * (count != 1)} of other kinds {where}: {some}" + (
            " and others" if len(objects.ignored) > 5 else ""
        )
    if objects.repeated:
        yield f"objects that occur more than once {where}: {objects.repeated}; the last of each counts"
