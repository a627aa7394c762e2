"""What to do next for one gang: a pure function of what is seen, what is decided, and the time.

    step(view, memory, now, limits) -> writes, events for the core, when to look again

It is level-triggered: it never asks how a situation came about, only what is missing between what the
core has assigned and what the cluster shows. That is why recovery is no code of its own: a new leader
calls the same function on the same open plans and bound pods, and goes on where the old one stopped.
The essay on why nothing is left half done is docs/committing.md; the order of writes is

    GangPlan → victims → unsuspend, or wait for pods → binds → Gang status → delete the plan

Rules that everything below keeps:

- No bind, eviction or unsuspension without an open plan, except one bind that by itself completes a
  gang: it is its own transaction (a gang of one, a single lost member).
- A place is bound only while the plan and the core agree on its node. When they do not, the next
  attempt is recorded first, then its predecessor is deleted.
- The first bind waits until the minimum can be reached with the pods that are there.
- A plan is deleted only when its gang is whole, when none of it is bound, when its owner has been
  suspended, or when its members are of a kind that must not be deleted, and it says so (Degraded).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Final

import msgspec

from muster.api.base import Object, controller_of, is_true
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.api.muster_v1alpha1 import GangSpec, GangStatus
from muster.core.decisions import Explanation
from muster.core.events import CommitFailed, Event, PlacesLost
from muster.core.gang import Code, Gang, GangId, NodeName, Place, PodId
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    TooManyRequests,
    Unanswered,
    Unreachable,
)
from muster.names import PREEMPTED
from muster.runtime.plan import Leaving, Plan, PlanTooLarge, PodRef, encode, mark
from muster.runtime.writes import (
    Bind,
    CreateGang,
    CreatePlan,
    CreatePod,
    DeletePlan,
    EvictPod,
    PatchGang,
    PatchGangStatus,
    PatchPodStatus,
    RecordPods,
    Suspend,
    Unsuspend,
    Write,
)
from muster.translate.group import Group, Owner
from muster.translate.pods import live
from muster.translate.status import (
    Phase,
    gang_record,
    gang_spec,
    gang_status,
    preemption,
    unschedulable,
)

NEVER: Final = float("inf")
#: Entries of a Gang's `status.preemptions`; the oldest go first.
MOST_PREEMPTIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a commit, in seconds unless they say otherwise."""

    #: without progress (a pod appeared, a bind succeeded) before the minimum is given up
    patience: float = 60.0
    #: the same while victims are leaving: their grace periods count
    victims: float = 300.0
    #: pause after a failed commit: the first, doubled each time, and the longest
    back_off: tuple[float, float] = (5.0, 300.0)
    #: failed commits after which a gang waits for a change
    attempts: int = 5
    #: how long a node that refused a member, or a member that two nodes refused, is left alone
    exclusion: float = 300.0
    #: pause after a write whose fate is unknown or that the server had no time for
    retry: tuple[float, float] = (0.2, 10.0)
    #: between two writes of the same Gang's status that only tell
    tell: float = 1.0


@dataclass(frozen=True, slots=True)
class Victim:
    """A victim of the open plan as it is now."""

    recorded: Leaving
    owner: Owner | None  # None = pods go one by one
    pods: tuple[Pod, ...]  # of those recorded, what still occupies a node
    plans: tuple[Plan, ...]  # its own open plans, which end with it
    record: GangRecord | None = None


@dataclass(frozen=True, slots=True)
class GangView:
    """All that is known of a gang at one moment."""

    id: GangId
    epoch: int
    group: Group | None
    record: GangRecord | None
    plans: tuple[Plan, ...]  # open ones, by attempt
    assigned: Mapping[Place, NodeName]  # by the core; filled places may be among them
    nodes: Container[str]
    devices: Mapping[Place, int] = field(default_factory=dict)  # of assigned places that share a GPU
    called: tuple[Leaving, ...] = ()  # victims that the core has named, as far as they are still there
    victims: tuple[Victim, ...] = ()  # of the highest plan
    remade: tuple[Pod | None, ...] = ()  # who has the names of the pods that the highest plan makes anew
    explanation: Explanation | None = None
    owner_shared: bool = False  # other gangs of its owner have bound pods: another stage is running


@dataclass(frozen=True, slots=True)
class Refusal:
    """A member whose bind the API server refused, not for being late but for what it is."""

    nodes: frozenset[NodeName]
    message: str
    until: float  # left alone until then


@dataclass(frozen=True, slots=True)
class Memory:
    """What a leader remembers of a gang between two looks. Losing it costs time, never correctness."""

    attempt: int = 0  # the last that this leader made
    failures: int = 0  # commits undone since the gang last stood
    progress: tuple[int, int] | None = None  # how far the open plan has come
    since: float = 0.0  # when it last came further
    giving_up: str = ""  # why the open plan is being undone
    until: float = 0.0  # the gang backs off
    recordable: bool = True  # its pods, to make them anew: not if that has failed already
    refusals: Mapping[PodId, Refusal] = field(default_factory=dict)
    retries: int = 0
    retry_at: float = 0.0
    told_at: float = 0.0
    #: uids of open plans that this leader found when it began; other plans of older epochs came too late
    adopted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """Writes go out in order, and the first that fails ends the step; then the gang is looked at again."""

    memory: Memory
    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    wake: float = NEVER


def step(view: GangView, memory: Memory, now: float, limits: Limits) -> Step:
    if now < memory.retry_at:
        return Step(memory, wake=memory.retry_at)
    late = [plan for plan in view.plans if plan.epoch < view.epoch and plan.uid not in memory.adopted]
    superseded = [plan for plan in view.plans[:-1] if plan not in late]
    if late or superseded:
        return Step(memory, tuple(map(DeletePlan, [*late, *superseded])))
    if view.plans and view.plans[-1].remade:
        return _remake(view, view.plans[-1], memory, now, limits)
    if view.group is None or view.group.finished:
        return _end(view, memory, now)
    if view.plans:
        return _continue(view, view.group, view.plans[-1], memory, now, limits)
    return _begin(view, view.group, memory, now, limits)


def learn(
    gang: GangId, memory: Memory, write: Write, error: Exception | None, now: float, limits: Limits
) -> tuple[Memory, tuple[Event, ...]]:
    """What an outcome teaches: when to try again, what to leave alone, what to tell the core."""
    match error:
        case None:
            return replace(memory, retries=0), ()
        case Conflict() | AlreadyExists() | NotFound():
            return memory, ()  # someone was there first: the mirror will show what they did
        case Unanswered() | Unreachable() | TooManyRequests():
            return _pause(memory, error, now, limits), ()
        case ApiError(status=status) if status >= 500:
            return _pause(memory, error, now, limits), ()
    message = str(error)
    if isinstance(write, Bind):
        return _refused(gang, memory, write, message, now, limits)
    if isinstance(write, RecordPods):
        why = f"{memory.giving_up}; its pods cannot be recorded to make them anew: {message}"
        memory = replace(memory, giving_up=why, recordable=False)
        return memory, (CommitFailed(gang, memory.until, why),)
    if isinstance(write, (CreateGang, CreatePlan)):
        return _failed(gang, memory, f"the plan cannot be recorded: {message}", now, limits)
    return _pause(memory, error, now, limits), ()


# -- a gang without an open plan ---------------------------------------------------------------------


def _begin(view: GangView, group: Group, memory: Memory, now: float, limits: Limits) -> Step:
    """Nothing is under way: record a plan if there is something to do, or bind what needs none.

    A gang that is re-created gets its places one by one, as its old pods let go of their nodes; it is
    planned when what is assigned makes it whole, not once for each.
    """
    memory = replace(memory, progress=None, giving_up="", recordable=True)
    places = _Places(view, group, memory, now)
    if minimum_met(group.gang, places.settled):
        memory = replace(memory, failures=0)
    if places.lost:
        return Step(memory, events=(_lost(view, places.lost, now, limits),))
    suspended = group.owner is not None and group.owner.suspended
    if suspended and not _suspendable(view, group):
        return _tell(view, group, memory, now, limits)
    enough = minimum_met(group.gang, places.settled | places.missing.keys())
    if places.missing and enough and (suspended or view.called or places.bindable):
        if _is_transaction(view, places, suspended):
            return Step(memory, tuple(_binds(view, places, memory.attempt, planned=False)))
        return _record(view, group, places, view.called, memory, now, limits)
    told = _tell(view, group, memory, now, limits)
    return replace(told, wake=min(told.wake, places.unbenched))


def _is_transaction(view: GangView, places: "_Places", suspended: bool) -> bool:
    """One bind that makes a gang whole, or adds to a whole one, happens or does not: it needs no plan."""
    return not suspended and not view.called and len(places.missing) == 1


def _record(
    view: GangView,
    group: Group,
    places: "_Places",
    victims: tuple[Leaving, ...],
    memory: Memory,
    now: float,
    limits: Limits,
) -> Step:
    """The next attempt: all that is filled is carried over, all that is assigned is to be filled."""
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
        memory, events = _failed(view.id, memory, str(error), now, limits, until=NEVER)
        return Step(memory, events=events)
    create: list[Write] = [CreatePlan(plan, body)]
    if view.record is None:
        create.insert(0, CreateGang(group.namespace, group.record, gang_record(group)))
    return Step(replace(memory, attempt=attempt), tuple(create))


def _next_attempt(view: GangView, memory: Memory) -> int:
    last = view.record.status.attempt if view.record else 0
    return 1 + max(memory.attempt, last, *(plan.attempt for plan in view.plans), 0)


# -- a gang with an open plan ------------------------------------------------------------------------


def _continue(view: GangView, group: Group, plan: Plan, memory: Memory, now: float, limits: Limits) -> Step:
    """Whatever is the next thing missing: a newer plan, victims, pods, binds, or the end of the plan."""
    places = _Places(view, group, memory, now, plan)
    suspended = group.owner is not None and group.owner.suspended
    whole = minimum_met(group.gang, places.settled)
    if memory.giving_up and (suspended or not whole):
        return _release(view, group, plan, places, memory, now, limits)
    if plan.unreadable and plan.epoch == view.epoch:  # another would not be read back either
        return _give_up(view, group, plan, places, plan.unreadable, memory, now, limits)
    if places.lost:
        return Step(memory, events=(_lost(view, places.lost, now, limits),))

    # 1. The core has decided otherwise since: record that first.
    called = tuple(victim for victim in view.called if victim not in plan.victims)
    moved = any(plan.nodes.get(place) != node for place, node in places.missing.items())
    if called or (moved and minimum_met(group.gang, places.settled | places.missing.keys())):
        leaving = tuple(victim.recorded for victim in view.victims if victim.pods)
        return _record(view, group, places, leaving + called, memory, now, limits)

    progress = (-sum(len(victim.pods) for victim in view.victims), len(places.settled) + len(places.ready))
    if memory.progress is None or progress > memory.progress:
        memory = replace(memory, progress=progress, since=now)

    # 2. Victims leave first.
    if any(victim.pods for victim in view.victims):
        if writes := tuple(_end_victims(view)):
            return Step(memory, writes)
        if now >= memory.since + limits.victims:
            return _give_up(view, group, plan, places, "victims did not leave", memory, now, limits)
        told = _tell(view, group, memory, now, limits)
        return replace(told, wake=min(told.wake, memory.since + limits.victims))

    # 3. Its pods may be made.
    if group.owner is not None and group.owner.suspended:
        if not group.owner.admission:
            return _give_up(view, group, plan, places, "its owner was suspended", memory, now, limits)
        return Step(memory, (Unsuspend(group.namespace, group.owner),))

    # 4. Binds, once they can reach the minimum.
    if places.bindable and minimum_met(group.gang, places.settled | places.bindable.keys()):
        return Step(memory, tuple(_binds(view, places, plan.attempt)))

    # 5. The end, good or bad.
    unfilled = [place for place in plan.nodes if place in places.missing]
    overdue = now >= memory.since + limits.patience
    if whole and (overdue or not unfilled):
        return _close(view, group, plan, memory, now)
    if message := _hopeless(group, plan, places, memory, now):
        return _give_up(view, group, plan, places, message, memory, now, limits)
    if overdue:
        here, wanted = len(places.settled), len(plan.nodes)
        message = f"{here} of {wanted} pods were bound within {limits.patience:.0f} s"
        return _give_up(view, group, plan, places, message, memory, now, limits)
    told = _tell(view, group, memory, now, limits)
    return replace(told, wake=min(told.wake, memory.since + limits.patience, places.unbenched))


def _hopeless(group: Group, plan: Plan, places: "_Places", memory: Memory, now: float) -> str:
    """Why the minimum cannot be reached whatever comes: members that are refused everywhere."""
    benched = {place: pod for place, pod in places.ready.items() if _benched(memory, pod, now)}
    hoped_for = (plan.nodes.keys() | places.settled | places.missing.keys()) - benched.keys()
    if not benched or minimum_met(group.gang, hoped_for):
        return ""
    place, pod = min(benched.items(), key=lambda item: item[0])
    return f"pod {pod.metadata.name} ({place}): {memory.refusals[PodId(pod.metadata.uid)].message}"


def _close(view: GangView, group: Group, plan: Plan, memory: Memory, now: float) -> Step:
    memory = replace(memory, failures=0)
    status = _status(view, group, Phase.STANDING, None, plan.attempt)
    writes = (DeletePlan(plan),) if status is None else (status, DeletePlan(plan))
    return Step(replace(memory, told_at=now), writes)


def _give_up(
    view: GangView,
    group: Group,
    plan: Plan,
    places: "_Places",
    message: str,
    memory: Memory,
    now: float,
    limits: Limits,
) -> Step:
    """From now on the plan is undone; the core takes back what is not filled, at once."""
    memory, events = _failed(view.id, replace(memory, giving_up=message), message, now, limits)
    released = _release(view, group, plan, places, memory, now, limits)
    return replace(released, events=events + released.events)


def _release(
    view: GangView, group: Group, plan: Plan, places: "_Places", memory: Memory, now: float, limits: Limits
) -> Step:
    """Undoes a plan whose minimum was not reached: one write, or else pod by pod.

    A bound pod without a controller would be lost by that. It stays, and the gang is Degraded, unless the
    pod may be made anew: then a plan of its own comes first, in which the pod is recorded.
    """
    begun = tuple(victim for victim in view.victims if _begun(victim))
    if writes := tuple(_end_victims(replace(view, victims=begun))):
        return Step(memory, writes)
    owner = group.owner
    if owner is not None and _suspendable(view, group):
        suspend = () if owner.suspended else (Suspend(group.namespace, owner),)
        return Step(memory, (*suspend, DeletePlan(plan)))
    alone = [pod for pod in places.filled.values() if controller_of(pod) is None]
    if alone and group.recreate and memory.recordable and not plan.unreadable:
        return _record_pods(view, plan, alone, memory)
    if places.filled and group.controlled:
        message = f"released: {memory.giving_up}"
        return Step(memory, tuple(EvictPod(pod, message) for pod in places.filled.values()))
    if places.filled:
        status = _status(view, group, Phase.DEGRADED, _degraded(group, places, memory), plan.attempt)
        writes = (DeletePlan(plan),) if status is None else (status, DeletePlan(plan))
        return Step(replace(memory, told_at=now), writes)
    return Step(memory, (DeletePlan(plan),))


def _record_pods(view: GangView, plan: Plan, pods: Iterable[Pod], memory: Memory) -> Step:
    attempt = _next_attempt(view, memory)
    why = memory.giving_up
    anew = Plan(view.id, plan.record, plan.namespace, view.epoch, attempt, nodes={}, why=why)
    refs = (PodRef(pod.metadata.namespace, pod.metadata.name, PodId(pod.metadata.uid)) for pod in pods)
    return Step(replace(memory, attempt=attempt), (RecordPods(anew, tuple(refs)),))


def _remake(view: GangView, plan: Plan, memory: Memory, now: float, limits: Limits) -> Step:
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
                evictions.append(EvictPod(found, f"is made anew: {plan.why}"))
    if evictions or creations:
        return Step(memory, (*evictions, *creations))
    if leaving:
        return _tell(view, group, memory, now, limits)
    places = _Places(view, group, memory, now)
    if places.filled and not minimum_met(group.gang, places.settled):
        return _release(view, group, plan, places, memory, now, limits)
    # That its pods went and came back is no change that a gang that backs off has waited for.
    until = memory.until if memory.until > now else now + limits.back_off[0]
    return Step(memory, (DeletePlan(plan),), (CommitFailed(view.id, until, plan.why),))


def _end(view: GangView, memory: Memory, now: float) -> Step:
    """The group has finished or is gone: what it began with victims is ended, then nothing is left."""
    begun = tuple(victim for victim in view.victims if _begun(victim))
    writes: list[Write] = list(_end_victims(replace(view, victims=begun)))
    if not writes:
        writes += [DeletePlan(plan) for plan in view.plans]
    if view.group is not None and not writes:
        status = _status(view, view.group, Phase.FINISHED, None, memory.attempt)
        writes += [status] if status else []
    return Step(replace(memory, told_at=now, progress=None, giving_up=""), tuple(writes))


# -- victims -----------------------------------------------------------------------------------------


def _end_victims(view: GangView) -> Iterator[Write]:
    """What is still to be done to end them; nothing while they are all on their way."""
    for victim in view.victims:
        alive = [pod for pod in victim.pods if live(pod)]
        owner = victim.owner
        if not alive or (owner is not None and owner.suspended):
            continue
        if (told := preempted(victim.record, victim.recorded, view.id)) is not None:
            yield told
        if victim.recorded.whole:
            yield from map(DeletePlan, victim.plans)
        if owner is not None:
            yield Suspend(alive[0].metadata.namespace, owner)
        else:
            yield from (EvictPod(pod, f"makes room for {view.id}") for pod in alive)


def preempted(record: GangRecord | None, victim: Leaving, by: GangId) -> PatchGangStatus | None:
    """Notes in the victim's record who ended it, when and at what loss; None if that is there already.

    It is written before the victim is ended, and says the same whoever writes it, so that neither a crash nor
    another leader loses it or tells it twice.
    """
    if record is None:
        return None
    pods = None if victim.whole else len(victim.pods)
    entry = preemption(by, victim.at, victim.work_lost, pods, reclaimed=victim.reclaimed)
    known = record.status.preemptions
    if entry in known:
        return None
    meta = record.metadata
    body = {"status": {"preemptions": [*known[1 - MOST_PREEMPTIONS :], entry]}}
    return PatchGangStatus(meta.namespace, meta.name, meta.resource_version, body)


def _begun(victim: Victim) -> bool:
    """Whether some of its pods are gone or going, so that the rest must follow."""
    alive = sum(live(pod) for pod in victim.pods)
    return 0 < alive < len(victim.recorded.pods)


# -- places ------------------------------------------------------------------------------------------


class _Places:
    """The places of a gang, by what is true of each."""

    def __init__(
        self, view: GangView, group: Group, memory: Memory, now: float, plan: Plan | None = None
    ) -> None:
        #: with a live pod on a node
        self.filled: dict[Place, Pod] = {}
        #: with a pod that could be bound
        self.ready: dict[Place, Pod] = {}
        for member in group.members.values():
            pod, place = member.pod, member.place
            if place is None or not live(pod):
                continue
            if pod.spec.node_name:
                self.filled[place] = pod
            elif not pod.spec.scheduling_gates:
                self.ready[place] = pod
        #: satisfied: filled, or nobody will come any more
        self.settled: Set[Place] = self.filled.keys() | group.retired
        unfilled = {p: n for p, n in sorted(view.assigned.items()) if p not in self.settled}
        #: assigned to nodes that are there no more
        self.lost = {place: node for place, node in unfilled.items() if node not in view.nodes}
        #: assigned, to be filled
        self.missing = {place: node for place, node in unfilled.items() if place not in self.lost}
        #: to be filled now: plan and core agree, the pod is there and not on the bench
        self.bindable: dict[Place, tuple[Pod, NodeName]] = {}
        #: when the first of those on the bench may be tried again
        self.unbenched = NEVER
        for place, node in self.missing.items():
            ready = self.ready.get(place)
            if ready is None or (plan is not None and plan.nodes.get(place) != node):
                continue
            if _benched(memory, ready, now):
                until = memory.refusals[PodId(ready.metadata.uid)].until
                self.unbenched = min(self.unbenched, until)
            else:
                self.bindable[place] = (ready, node)


def minimum_met(gang: Gang, places: Iterable[Place]) -> bool:
    """Whether these places satisfy all stated minima of `gang`."""
    counts: dict[str, int] = {}
    for place in places:
        counts[place.pod_set] = counts.get(place.pod_set, 0) + 1
    return sum(counts.values()) >= gang.min_count and all(
        counts.get(pod_set.name, 0) >= pod_set.min_count for pod_set in gang.pod_sets
    )


def _binds(view: GangView, places: _Places, attempt: int, *, planned: bool = True) -> Iterator[Bind]:
    for place, (pod, node) in sorted(places.bindable.items(), key=lambda item: item[0]):
        stamp, device = mark(view.epoch, attempt, place), view.devices.get(place)
        yield Bind(pod, place, node, stamp, device, planned)


def _suspendable(view: GangView, group: Group) -> bool:
    """Whether suspending its owner ends this gang, is ours to do, and ends nothing else."""
    return group.owner is not None and group.owner.admission and not view.owner_shared


# -- failures ----------------------------------------------------------------------------------------


def _pause(memory: Memory, error: Exception, now: float, limits: Limits) -> Memory:
    asked = getattr(error, "retry_after", None) or 0.0
    first, longest = limits.retry
    delay = max(asked, min(longest, first * 2 ** min(memory.retries, 16)))
    return replace(memory, retries=memory.retries + 1, retry_at=now + delay)


def _refused(
    gang: GangId, memory: Memory, bind: Bind, message: str, now: float, limits: Limits
) -> tuple[Memory, tuple[Event, ...]]:
    """The first refusal is held against the node, a second elsewhere against the member."""
    pod = PodId(bind.pod.metadata.uid)
    before = memory.refusals.get(pod)
    nodes = (before.nodes if before else frozenset()) | {bind.node}
    until = now + limits.exclusion
    benched = until if before else now
    refusals = {p: r for p, r in memory.refusals.items() if r.until > now - limits.exclusion}
    refusals[pod] = Refusal(nodes, f"refused by the API server: {message}", benched)
    memory = replace(memory, refusals=refusals)
    if before and not bind.planned:
        return _failed(gang, memory, refusals[pod].message, now, limits)
    return memory, (PlacesLost(gang, frozenset({bind.place}), frozenset({bind.node}), until),)


def _failed(
    gang: GangId, memory: Memory, message: str, now: float, limits: Limits, until: float | None = None
) -> tuple[Memory, tuple[Event, ...]]:
    """A commit has failed: the gang backs off, and after enough of them it waits for a change."""
    memory = replace(memory, failures=memory.failures + 1)
    if until is None:
        first, longest = limits.back_off
        delay = min(longest, first * 2 ** (memory.failures - 1))
        until = NEVER if memory.failures >= limits.attempts else now + delay
    memory = replace(memory, until=until)
    return memory, (CommitFailed(gang, until, message),)


def _lost(view: GangView, lost: Mapping[Place, NodeName], now: float, limits: Limits) -> PlacesLost:
    return PlacesLost(view.id, frozenset(lost), frozenset(lost.values()), now + limits.exclusion)


def _benched(memory: Memory, pod: Pod, now: float) -> bool:
    refusal = memory.refusals.get(PodId(pod.metadata.uid))
    return refusal is not None and now < refusal.until


# -- what people read --------------------------------------------------------------------------------


def _tell(view: GangView, group: Group, memory: Memory, now: float, limits: Limits) -> Step:
    """Writes how the gang stands, if that has changed and was not written just now."""
    write = _told(view, group, memory, now)
    if write is None:
        return Step(memory)
    if now < memory.told_at + limits.tell:
        return Step(memory, wake=memory.told_at + limits.tell)
    if not isinstance(write, CreateGang):  # a new record says nothing yet: its first reason follows at once
        memory = replace(memory, told_at=now)
    return Step(memory, (write,))


def _told(view: GangView, group: Group, memory: Memory, now: float) -> Write | None:
    places = _Places(view, group, memory, now)
    if not group.source.kind:  # a gang of one has no record: its pod says it
        pod = next((pod for pod in places.ready.values()), None)
        if pod is None or view.explanation is None or view.assigned:
            return None
        body = unschedulable(pod, view.explanation, datetime.fromtimestamp(now, UTC))
        return PatchPodStatus(pod, body) if body else None
    phase, explanation = _phase(view, group, places, memory)
    if view.record is None:
        known = explanation is not None or phase is not Phase.WAITING
        return CreateGang(group.namespace, group.record, gang_record(group)) if known else None
    spec = gang_spec(group)
    if msgspec.convert(spec, GangSpec) != view.record.spec:
        version = view.record.metadata.resource_version
        return PatchGang(group.namespace, group.record, version, {"spec": spec})
    return _status(view, group, phase, explanation, max(memory.attempt, view.record.status.attempt))


def _phase(view: GangView, group: Group, places: _Places, memory: Memory) -> tuple[Phase, Explanation | None]:
    if view.plans and view.plans[-1].remade:
        message = f"its pods are made anew: {view.plans[-1].why}"
        return Phase.WAITING, Explanation(Code.COMMIT_FAILED, "commit", message)
    if view.plans:
        leaving = sum(len(victim.pods) for victim in view.victims)
        if leaving:
            message = f"its places are promised; {leaving} pods that make room for it are leaving"
            return Phase.HELD, Explanation(Code.WAITING_FOR_VICTIMS, "commit", message)
        return (Phase.STARTING if places.filled else Phase.HELD), None
    if minimum_met(group.gang, places.settled):
        return Phase.STANDING, None
    if places.filled and not group.controlled:
        return Phase.DEGRADED, view.explanation or _degraded(group, places, memory)
    if places.missing:  # some of them, perhaps, while what else it lacks is still taken
        return Phase.HELD, view.explanation
    return Phase.WAITING, view.explanation


def _degraded(group: Group, places: _Places, memory: Memory) -> Explanation:
    awaited = places.missing.keys() - places.ready.keys()
    if awaited and not memory.giving_up:
        nodes = ", ".join(sorted({places.missing[place] for place in awaited}))
        message = (
            f"{len(awaited)} of its pods {'is' if len(awaited) == 1 else 'are'} gone, with no controller to "
            f"make them anew; for others that ask for the same, places are held on {nodes}"
        )
        return Explanation(Code.MEMBERS_MISSING, "commit", message)
    lacking = max(group.gang.min_count - len(places.settled), 0)
    message = (
        f"{len(places.filled)} of at least {group.gang.min_count} pods run and {lacking} are lacking"
        f"{f' ({memory.giving_up})' if memory.giving_up else ''}; they have no controller that would make "
        "them anew, so muster does not delete them. What is lacking has first claim on what gets free"
    )
    return Explanation(Code.COMMIT_FAILED, "commit", message)


def _status(
    view: GangView, group: Group, phase: Phase, explanation: Explanation | None, attempt: int
) -> PatchGangStatus | None:
    """The write that makes the record say this; None if it does, or if there is no record."""
    if view.record is None:
        return None
    body = gang_status(phase, explanation, epoch=view.epoch, attempt=attempt, warnings=group.warnings)
    wanted = msgspec.convert(_without_nulls(body["status"]), GangStatus)
    is_now = view.record.status
    if all(getattr(wanted, name) == getattr(is_now, name) for name in _TOLD):
        return None
    return PatchGangStatus(group.namespace, group.record, view.record.metadata.resource_version, body)


#: Of what a status write says, what makes it worth a write.
_TOLD: Final = ("phase", "reason", "explanation", "attempt", "warnings")


def _without_nulls(patch: Object) -> Object:
    """What a merge patch leaves in the object."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in patch.items()
        if value is not None
    }
