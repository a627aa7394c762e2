"""Jobs (`batch/v1`): as gangs of their own, and as the parts that a JobSet is made of.

A Job has p = min(parallelism, completions) places. Its demand is known from its template, before
there is any pod. A place is retired once its Job has no further pod to start for it: then it is
satisfied and holds nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster import names
from muster.api.base import Kind, Object, ObjectMeta, Resource, controller_of, is_true
from muster.api.batch_v1 import Job, JobSpec
from muster.api.core_v1 import Pod, PodTemplate
from muster.api.fields import InvalidObject, convert
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import JOB, JOBSET
from muster.api.muster_v1alpha1 import Source
from muster.api.scheduling import POD_GROUP_LABEL
from muster.core.gang import Code, Gang, GangId, Gate, Place, PodId, PodSet, Shape
from muster.translate import marks
from muster.translate.group import Group, Member, Owner
from muster.translate.identity import GroupKey
from muster.translate.places import Block, fill
from muster.translate.pods import asked, completion_index, live, occupies, scheduling_gates
from muster.translate.priority import priority
from muster.translate.world import World

#: The pod set of a Job that is a gang of its own.
MAIN: Final = "main"
#: Places of one gang. A plan of more would not fit into one object anyway (docs/gangs.md).
MOST_PLACES: Final = 50_000


def read(key: GroupKey, world: World, before: Group | None = None) -> Group | None:
    """A Job that is a gang: asked for by `muster.dev/gang`, on itself or on its namespace."""
    job = world.jobs.get((key.namespace, key.name))
    if job is None or not is_gang(job, world):
        return None
    asks = demand(job.spec, world)
    filled = Filled()
    if asks.places <= MOST_PLACES:
        filled.take(MAIN, 0, asks.places, job, world.pods_of(job.metadata.uid), before)
    controller = controller_of(job)
    owner = owner_of(job, JOB) if controller is None else None
    return assemble(
        key, job, JOB, {MAIN: Part(asks, 1)}, filled, owner, job.spec.suspend, finished=job_finished(job)
    )


def is_gang(job: Job, world: World) -> bool:
    """Whether a Job is a gang of its own. A Job of a JobSet follows the JobSet."""
    controller = controller_of(job)
    if controller is not None and controller.kind == JOBSET.kind:
        return False
    return asks_for_gang(job.metadata, [job.spec.template], world)


def asks_for_gang(meta: ObjectMeta, templates: Sequence[Object], world: World) -> bool:
    """The object's own mark beats its namespace's; pods that name a PodGroup are that group's instead.

    `templates` are pod templates as JSON: this is asked for every change of every pod.
    """
    if world.schedulers is not None and not any(ours(_scheduler(one), world) for one in templates):
        return False
    own = marks.own_gang(meta)
    if own is not None:
        return own
    if not marks.namespace_gang(meta.namespace, world):
        return False
    labels = [at(template, "metadata", "labels") for template in templates]
    return not any(label in found for found in labels for label in POD_GROUP_LABEL.values())


def at(obj: Object, *path: str) -> Object:
    """The object at this path; an empty one where there is none."""
    for step in path:
        found = obj.get(step)
        if not isinstance(found, dict):
            return {}
        obj = found
    return obj


def _scheduler(template: Object) -> str:
    return str(at(template, "spec").get("schedulerName", ""))


def ours(scheduler: str, world: World) -> bool:
    return world.schedulers is None or scheduler in world.schedulers


@dataclass(frozen=True, slots=True)
class Demand:
    """What one Job asks for: so many places of one shape."""

    shape: Shape
    places: int
    priority: int = 0
    #: Invalid: it must not be started at all
    refusal: Gate | None = None
    #: scheduling gates in the template
    gates: str = ""


def demand(spec: JobSpec, world: World) -> Demand:
    """The demand of a Job with this spec."""
    places = spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)
    places = max(places, 0)
    try:
        template = convert(spec.template, PodTemplate, at=("spec", "template"))
    except InvalidObject as error:
        return Demand(Shape(requests=()), places, refusal=Gate(Code.INVALID, str(error)))
    shape, refusal = asked(template.spec)
    number = priority(template.spec, world)
    if isinstance(number, Gate):
        refusal, number = refusal or number, 0
    if not ours(template.spec.scheduler_name, world):
        refusal = Gate(
            Code.INVALID, f"its pods are scheduled by {template.spec.scheduler_name or 'default-scheduler'}"
        )
    elif group := _pod_group(template):
        refusal = Gate(
            Code.INVALID,
            f"its pods name the PodGroup {group}, and {names.GANG} makes it a gang of its own; take one away",
        )
    refusal = marks.refusal(template.metadata) or refusal
    return Demand(shape, places, number, refusal, scheduling_gates(template.spec))


def _pod_group(template: PodTemplate) -> str:
    """The PodGroup that the pods' labels name; "" without one."""
    return next(filter(None, map(template.metadata.labels.get, POD_GROUP_LABEL.values())), "")


@dataclass(frozen=True, slots=True)
class Part:
    """One pod set: `replicas` Jobs of one demand."""

    demand: Demand
    replicas: int

    @property
    def count(self) -> int:
        return self.replicas * self.demand.places


@dataclass(slots=True)
class Filled:
    """Places as they are taken, Job by Job."""

    members: dict[PodId, Member] = field(default_factory=dict)
    leaving: dict[PodId, Pod] = field(default_factory=dict)
    retired: set[Place] = field(default_factory=set)
    #: scheduling gates on pods
    gates: set[str] = field(default_factory=set)

    def take(
        self, pod_set: str, start: int, size: int, job: Job, pods: Iterable[Pod], before: Group | None
    ) -> None:
        """Puts the pods of a Job into its places, `size` of them from `start` on."""
        claims = []
        for pod in pods:
            uid = PodId(pod.metadata.uid)
            if not live(pod):
                if occupies(pod):
                    self.leaving[uid] = pod
            elif gates := scheduling_gates(pod.spec):
                self.gates.add(gates)
                self.members[uid] = Member(pod, None)
            else:
                claims.append(pod)
        claims.sort(key=_by_age)
        block = Block(pod_set, start, size, claims, slots=True)
        found = fill(block, before)
        for pod in claims:
            uid = PodId(pod.metadata.uid)
            self.members[uid] = Member(pod, found[uid])
        free = sorted(
            set(range(start, start + size)) - {place.index for place in found.values() if place is not None}
        )
        wanted = set(_still_wanted(job, block, free))
        self.retired.update(Place(pod_set, index) for index in free if index not in wanted)

    def leave(self, pods: Iterable[Pod]) -> None:
        """Pods of a Job that is being replaced: they keep their nodes, not their places."""
        self.leaving.update((PodId(pod.metadata.uid), pod) for pod in pods if occupies(pod))


def _by_age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)


def _still_wanted(job: Job, block: Block, free: Sequence[int]) -> Iterator[int]:
    """Of the free places, those that the Job has another pod to start for, as `fill` would place it."""
    if job_succeeded(job):
        return
    if job.spec.completions is None:
        # a work queue: no further pod once one of them has found it empty
        if not job.status.succeeded:
            yield from free
        return
    if job.spec.completion_mode != "Indexed":
        further = job.spec.completions - job.status.succeeded - len(block.pods)
        yield from free[: max(further, 0)]
        return
    ended = [*_ranges(job.status.completed_indexes), *_ranges(job.status.failed_indexes)]
    running = {completion_index(pod) for pod in block.pods}
    own = [
        place
        for place in free
        if (slot := place - block.start) not in running
        and not any(low <= slot <= high for low, high in ended)
    ]
    yield from own
    over = sum(high - low + 1 for low, high in ended)
    further = job.spec.completions - over - len(block.pods) - len(own)
    others = [place for place in free if place not in set(own)]
    yield from others[: max(further, 0)]


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """ "1,3-5" → (1, 1), (3, 5)."""
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        yield int(low), int(high or low)


def job_finished(job: Job) -> bool:
    return any(is_true(job.status.conditions, type_) for type_ in ("Complete", "Failed"))


def job_succeeded(job: Job) -> bool:
    """Nothing more will be started because it has succeeded. (A failed Job's JobSet may start it anew.)"""
    return any(is_true(job.status.conditions, type_) for type_ in ("Complete", "SuccessCriteriaMet"))


def owner_of(resource: Job | JobSet, kind: Kind[Any]) -> Owner:  # Any: Job or JobSet
    meta = resource.metadata
    return Owner(
        kind=kind,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        suspended=resource.spec.suspend,
        admission=marks.mark(meta, names.ADMISSION) == "gang",
    )


def assemble(
    key: GroupKey,
    source: Resource,
    kind: Kind[Any],  # Any: Job or JobSet
    parts: dict[str, Part],
    filled: Filled,
    owner: Owner | None,
    suspended: bool,
    *,
    finished: bool,
    order: Gate | None = None,
) -> Group:
    """The gang of a Job, a JobSet or one stage of it. `order`: another stage comes first."""
    meta = source.metadata
    total = sum(part.count for part in parts.values())
    gate = (
        marks.refusal(meta)
        or _refused(parts, total)
        or marks.hold(meta)
        or _suspended(owner, suspended)
        or _gated(parts, filled, suspended)
        or order
        or (None if owner and owner.admission else _missing(total, filled))
    )
    # a gang that could not be planned anyway must not cost arrays of that size
    sets = {name: part for name, part in parts.items() if part.count} if total <= MOST_PLACES else {}
    return Group(
        gang=Gang(
            id=GangId("/".join(filter(None, (key.namespace, key.name, key.stage)))),
            pod_sets=tuple(
                PodSet(name, part.demand.shape, part.count, part.count) for name, part in sets.items()
            ),
            min_count=sum(part.count for part in sets.values()),
            submitted=meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
            # the highest: a gang must not be preempted through its least important member
            priority=max((part.demand.priority for part in parts.values()), default=0),
            gate=gate,
        ),
        namespace=key.namespace,
        record=key.record,
        source=Source(api_version=kind.api_version, kind=kind.kind, name=meta.name, uid=meta.uid),
        owner=owner,
        members=filled.members,
        retired=frozenset(filled.retired),
        finished=finished,
        controlled=True,
        leaving=filled.leaving,
    )


def _refused(parts: dict[str, Part], total: int) -> Gate | None:
    for name, part in parts.items():
        if part.demand.refusal is not None:
            gate = part.demand.refusal
            return gate if name == MAIN else replace(gate, message=f"{name}: {gate.message}")
    if total > MOST_PLACES:
        return Gate(Code.INVALID, f"{total} pods at once; muster plans at most {MOST_PLACES} for one gang")
    return None


def _suspended(owner: Owner | None, suspended: bool) -> Gate | None:
    if suspended and not (owner and owner.admission):
        return Gate(Code.GATED, "spec.suspend is true; set it to false to let it start")
    return None


def _gated(parts: dict[str, Part], filled: Filled, suspended: bool) -> Gate | None:
    """Gates on its pods, or on the template of pods that are not there yet."""
    gates = filled.gates | ({part.demand.gates for part in parts.values()} if suspended else set())
    gates.discard("")
    if not gates:
        return None
    return Gate(Code.GATED, f"scheduling gate {', '.join(sorted(gates))}; whoever set it has to remove it")


def _missing(total: int, filled: Filled) -> Gate | None:
    """Before the first pod is bound, all must be there; later, places wait for their replacements."""
    if any(member.pod.spec.node_name for member in filled.members.values()):
        return None
    placed = sum(member.place is not None for member in filled.members.values())
    there = placed + len(filled.retired)
    if there >= total:
        return None
    return Gate(Code.MEMBERS_MISSING, f"{there} of {total} pods exist")


def job_spec(template: Object) -> JobSpec:
    """The spec of a JobTemplate; raises InvalidObject."""
    return convert(template.get("spec", {}), JobSpec, at=("spec",))
