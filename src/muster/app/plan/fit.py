"""Whether a job could ever start on given nodes, answered by the scheduler itself.

The job is read as the live scheduler would read it, into the snapshot of a cluster that has only
`SURROUNDINGS`: nodes, topology, priority classes and the like. Each gang of the job is tried there alone. The
advice is verified the same way.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from muster.api import kinds, quantity
from muster.api.base import Kind, ObjectMeta
from muster.api.fields import convert
from muster.api.muster_v1alpha1 import Queue
from muster.app.plan.proposal import propose
from muster.app.plan.snapshot import SnapshotMirror
from muster.core.offline import misfit
from muster.core.words.decisions import Explanation
from muster.core.words.events import Event, LayersChanged, NodeChanged
from muster.core.words.gang import Code, Gang, GangId, Gate, NodeName, Operator, Shape
from muster.core.world.devices import WHOLE
from muster.embedded import nodespec
from muster.embedded.nodespec import NodeSpec
from muster.names import GPU, GPU_PRODUCT, GPU_SHARE
from muster.translate.priority import ranked
from muster.translate.queues import queue_changed
from muster.workloads.jobfile import JobFile
from muster.workloads.kubernetes.objects import JOBS
from muster.workloads.snapshot import Objects, typed

#: What decides whether a job could ever start, apart from other jobs and quotas. Any: of many types
SURROUNDINGS: Final[tuple[Kind[Any], ...]] = (
    kinds.NODE,
    kinds.NAMESPACE,
    kinds.PRIORITY_CLASS,
    kinds.CLUSTER_NETWORK_TOPOLOGY,
    kinds.LIMIT_RANGE,
    kinds.RUNTIME_CLASS,
)
#: What decides which priority a job may have, and what of a queue or a namespace
SHARING: Final[tuple[Kind[Any], ...]] = (kinds.QUEUE, kinds.RESOURCE_QUOTA)
_PROPOSED: Final = (*SURROUNDINGS, *SHARING, *JOBS, kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS)
_EMPTY: Final = Objects()
#: The most GPUs that common machines have.
_GPUS: Final = 8


def misfits(
    job: JobFile,
    nodes: Iterable[NodeChanged] = (),
    cluster: Objects = _EMPTY,
    schedulers: frozenset[str] | None = None,
) -> list[str]:
    """One sentence for each part of the job that could never start on the cluster's nodes and `nodes`.

    Cordoned nodes and nodes that are not ready count as usable, because either state may be temporary. Pods
    that start independently are tried once for each shape.
    """
    gangs, events = _gangs(job, cluster, schedulers)
    there = [*events, *nodes]
    return [*_invalid(gangs), *_too_large(gangs, there), *_without_gpus(gangs, there)]


def invalid(
    job: JobFile, cluster: Objects = _EMPTY, schedulers: frozenset[str] | None = None
) -> dict[str, str]:
    """Reasons by job name for jobs that are invalid on any nodes, such as an unknown PriorityClass."""
    gangs, _ = _gangs(job, cluster, schedulers)
    refused = (gang for gang in gangs if gang.gate is not None and gang.gate.code is Code.INVALID)
    return {gang.id.split("/")[1]: sentence for gang in refused for sentence in _invalid([gang])}


def barred(
    job: JobFile, cluster: Objects = _EMPTY, schedulers: frozenset[str] | None = None
) -> dict[str, str]:
    """Reasons by job name for jobs that their queue never admits, however little of it is in use.

    There is no such queue, or what the job needs exceeds a cap. The queues are those of the file and of
    `cluster`; they may change, so such a job can be submitted.
    """
    queues = {each.metadata.name: each for each in cluster.items.values() if isinstance(each, Queue)}
    queues |= {
        each["metadata"]["name"]: convert(each, Queue) for each in job.objects if each["kind"] == "Queue"
    }
    events = [queue_changed(queue) for _, queue in sorted(queues.items())]
    gangs, _ = _gangs(job, cluster, schedulers)
    found = {}
    for gang in gangs:
        if gang.pod_sets and not any(_invalid([gang])):
            # without nodes and layers, rules about these say nothing
            alone = _alone(gang)
            free = tuple(replace(each, gather=()) for each in alone.subgroups)
            asked = replace(alone, queue=gang.queue, gather=(), exclusive="", subgroups=free)
            why = misfit(asked, events)
            if why is not None and why.code in (Code.INVALID, Code.QUOTA_EXCEEDED):
                empty = " even if nothing else runs" if why.code is Code.QUOTA_EXCEEDED else ""
                sentence = f"{why.code.value}{empty}: {why.message}"
                found[gang.id.split("/")[1]] = f"{sentence}. The job waits until the queues are changed"
    return found


def warned(
    job: JobFile, cluster: Objects = _EMPTY, schedulers: frozenset[str] | None = None
) -> dict[str, str]:
    """What of a job the scheduler will not do as it is written, by job name, such as a priority it lowers."""
    snapshot, _, _ = _read(job, cluster, schedulers)
    groups = snapshot.mirror.groups.items()
    return {gang.split("/")[1]: "; ".join(group.warnings) for gang, group in groups if group.warnings}


def lowered(meta: ObjectMeta, of_pods: int, queue: str, cluster: Objects) -> str:
    """How the scheduler lowers the priority of a job that exists; "" if it does not.

    `of_pods`: the priority that it has without a mark in `meta`.
    """
    snapshot = SnapshotMirror(None)
    snapshot.put_all(cluster)
    return "; ".join(ranked([meta], of_pods, meta.namespace, queue, snapshot.mirror.world).warnings)


def advice(job: JobFile, cluster: Objects = _EMPTY) -> str | None:
    """A `--nodes` value on which all of the job would start; None if none is found.

    One node of each sort; a node for each pod, if one would have more GPUs than machines have.
    """
    rest = Objects({name: each for name, each in cluster.items.items() if name[0] is not kinds.NODE})
    gangs, events = _gangs(job, rest, None)
    return None if any(_invalid(gangs)) else _advice(gangs, events)


def other_nodes(gang: Gang, events: Iterable[Event]) -> str | None:
    """A `--nodes` value on which a gang would start that never can on the nodes of a cluster's `events`.

    None if the gang could start on these nodes, were they empty, or if no value is found.
    """
    found = [_usable(event) for event in events if isinstance(event, NodeChanged | LayersChanged)]
    if not any(_too_large([gang], found)):
        return None
    return _advice([gang], [event for event in found if not isinstance(event, NodeChanged)])


def _advice(gangs: Sequence[Gang], events: Sequence[Event]) -> str | None:
    """A `--nodes` value on which all of the gangs would start. `events`: those that are not about nodes."""
    large: str | None = None
    for apart in (False, True):
        text = _nodes_for(gangs, apart=apart)
        try:
            nodes = as_nodes(nodespec.parse(text))
        except nodespec.InvalidNodes:
            continue
        if any(_too_large(gangs, [*events, *nodes])):
            continue
        if apart or max(dict(node.capacity).get(GPU, 0) for node in nodes) <= _GPUS:
            return f'--nodes "{text}"'
        large = f'--nodes "{text}"'
    return large


def as_nodes(specs: Iterable[NodeSpec]) -> list[NodeChanged]:
    """Planned nodes as events for the core."""
    return [
        NodeChanged(
            NodeName(spec.name),
            tuple(sorted((name, quantity.capacity(name, value)) for name, value in spec.resources.items())),
            tuple(sorted({**spec.labels, "kubernetes.io/hostname": spec.name}.items())),
        )
        for spec in specs
    ]


def _gangs(
    job: JobFile, cluster: Objects, schedulers: frozenset[str] | None
) -> tuple[list[Gang], list[Event]]:
    """The job's gangs, and the events on nodes and layers that the scheduler has besides them.

    Of gangs that differ in name only, one is returned.
    """
    snapshot, refusals, events = _read(job, cluster, schedulers)
    found = [group.gang for _, group in sorted(snapshot.mirror.groups.items())]
    found += [Gang(gang, (), 0, 0.0, gate=gate) for gang, gate in sorted(refusals.items())]
    return list({replace(each, id=GangId("")): each for each in reversed(found)}.values())[::-1], events


def _read(
    job: JobFile, cluster: Objects, schedulers: frozenset[str] | None
) -> tuple[SnapshotMirror, Mapping[GangId, Gate], list[Event]]:
    """The job beside the objects of a cluster, why some of it is refused, and the events of `_gangs`."""
    snapshot = SnapshotMirror(schedulers)
    snapshot.put_all(cluster)
    proposed = typed(job.objects, _PROPOSED, proposed=True)
    _, refusals = propose(snapshot, proposed, 0.0, [], samples=True)
    events = [
        _usable(event) for event in snapshot.events(0.0) if isinstance(event, NodeChanged | LayersChanged)
    ]
    return snapshot, refusals, events


def _usable(event: Event) -> Event:
    """The event of a node as if the node were ready and not cordoned; any other event as it is."""
    return replace(event, cordoned=False, ready=True) if isinstance(event, NodeChanged) else event


def _invalid(gangs: Iterable[Gang]) -> Iterator[str]:
    for gang in gangs:
        if gang.gate is not None and gang.gate.code is Code.INVALID:
            yield _sentence(gang, gang.gate)


def _too_large(gangs: Iterable[Gang], events: Sequence[Event]) -> Iterator[str]:
    for gang in gangs:
        if gang.gate is not None and gang.gate.code is Code.INVALID:
            continue
        why = misfit(_alone(gang), events) if gang.pod_sets else None
        if why is not None:
            yield _sentence(gang, why)


def _without_gpus(gangs: Iterable[Gang], events: Iterable[Event]) -> Iterator[str]:
    resources = {name for gang in gangs for one in gang.pod_sets for name, _ in one.shape.requests}
    nodes = (dict(event.capacity) for event in events if isinstance(event, NodeChanged))
    if resources & {GPU, GPU_SHARE} and not any(capacity.get(GPU) for capacity in nodes):
        yield "there are no GPUs here"


def _sentence(gang: Gang, why: Gate | Explanation) -> str:
    return f"{gang.id.partition('/')[2]} can never start here: {why.code.value}. {why.message}"


def _alone(gang: Gang) -> Gang:
    """The gang without a queue, with only the pods that it has, and without pod affinity.

    Further pods of its group may be created later, and so may the pods that its affinity refers to.
    """
    sets = tuple(
        replace(one, shape=replace(one.shape, pod_affinity=()), min_count=min(one.min_count, one.count))
        for one in gang.pod_sets
    )
    subgroups = tuple(
        replace(each, min_count=min(each.min_count, sum(p.count for p in sets if p.subgroup == each.name)))
        for each in gang.subgroups
    )
    least = min(gang.min_count, sum(one.count for one in sets))
    return replace(gang, pod_sets=sets, subgroups=subgroups, min_count=least, queue="default")


#: Node labels that pods of one sort require.
_Sort = tuple[tuple[str, str], ...]


def _nodes_for(gangs: Iterable[Gang], *, apart: bool) -> str:
    """A `--nodes` value with a node for each sort of pods.

    The node is as large as the largest gang's pods of that sort together. If `apart`, there are as many nodes
    as pods, each as large as the largest of these pods.
    """
    most: dict[_Sort, Counter[str]] = defaultdict(Counter)
    counts: Counter[_Sort] = Counter()
    for gang in gangs:
        asked: dict[_Sort, Counter[str]] = defaultdict(Counter)
        pods: Counter[_Sort] = Counter()
        for one in gang.pod_sets:
            amounts = Counter(dict(one.shape.requests))
            if share := amounts.pop(GPU_SHARE, 0):
                amounts[GPU] = -(-share // WHOLE)
            sort = _labels(one.shape)
            pods[sort] += one.count
            if apart:
                asked[sort] |= amounts
            else:
                asked[sort] += Counter({name: amount * one.count for name, amount in amounts.items()})
        counts |= pods
        for sort, amounts in asked.items():
            most[sort] |= amounts
    if apart:
        groups = ((f"{counts[sort]} x", _keys(dict(sort), most[sort], 1)) for sort in sorted(counts))
    else:
        groups = (("1 x", _keys(dict(sort), most[sort], counts[sort])) for sort in sorted(counts))
    return "; ".join(f"{count} {','.join(keys)}" for count, keys in groups)


def _labels(shape: Shape) -> _Sort:
    """The labels of a node that the pod may use: its selector's, and the first value of each requirement."""
    terms = (shape.affinity or ())[:1]
    required = (
        each for term in terms for each in term.labels if each.operator is Operator.IN and each.values
    )
    return tuple(sorted({**{each.key: each.values[0] for each in required}, **dict(shape.selector)}.items()))


def _keys(labels: dict[str, str], amounts: Counter[str], pods: int) -> Iterator[str]:
    amounts.pop("pods", None)
    if pods > int(nodespec.DEFAULTS["pods"]):
        amounts["pods"] = pods
    yield from (
        f"{resource}={quantity.show(resource, amount)}" for resource, amount in sorted(amounts.items())
    )
    if not amounts:
        yield f"cpu={nodespec.DEFAULTS['cpu']}"
    for key, value in labels.items():
        yield f"product={value}" if key == GPU_PRODUCT and GPU in amounts else f"label:{key}={value}"
