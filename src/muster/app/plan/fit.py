"""Whether gangs could ever start on given nodes, and which nodes would do, answered by the scheduler itself.

Each gang is tried alone. Cordoned nodes and nodes that are not ready count as usable, because either state
may be temporary. Advice is verified the same way.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from muster.api import quantity
from muster.core.offline import misfit
from muster.core.words.decisions import Explanation
from muster.core.words.devices import DEVICE_CLASS, DeviceKindChanged, DeviceKindRemoved, DevicesChanged
from muster.core.words.events import Event, LayersChanged, NodeChanged, OutOfReach
from muster.core.words.gang import Code, Gang, Gate, NodeName, Operator, Shape
from muster.core.world.devices import WHOLE
from muster.embedded import nodespec
from muster.embedded.nodespec import NodeSpec
from muster.names import GPU, GPU_PRODUCT, GPU_SHARE

#: The most GPUs that common machines have.
_GPUS: Final = 8


def misfits(gangs: Sequence[Gang], events: Sequence[Event]) -> list[str]:
    """One sentence for each gang that could never start after these events on nodes and layers."""
    return [*invalid(gangs), *_too_large(gangs, events), *_without_gpus(gangs, events)]


def invalid(gangs: Iterable[Gang]) -> Iterator[str]:
    """One sentence for each gang that is invalid on any nodes, such as one of an unknown PriorityClass."""
    for gang in gangs:
        if gang.gate is not None and gang.gate.code is Code.INVALID:
            yield _sentence(gang, gang.gate)


def barred(gang: Gang, queues: Sequence[Event]) -> str:
    """Why the gang's queue never admits it, however little of it is in use; "" if it does.

    There is no such queue, or what the gang needs exceeds a cap. The queues may change, so such a job can be
    submitted.
    """
    if not gang.pod_sets or any(invalid([gang])):
        return ""
    # without nodes and layers, rules about these say nothing
    lone = _alone(gang)
    free = tuple(replace(each, gather=()) for each in lone.subgroups)
    why = misfit(replace(lone, queue=gang.queue, gather=(), exclusive="", subgroups=free), queues)
    if why is None or why.code not in (Code.INVALID, Code.QUOTA_EXCEEDED):
        return ""
    empty = " even if nothing else runs" if why.code is Code.QUOTA_EXCEEDED else ""
    return f"{why.code.value}{empty}: {why.message}. The job waits until the queues are changed"


def out_of_reach(gang: Gang, events: Sequence[Event]) -> str:
    """What the gang asks for that the cluster has, but not as a resource of its nodes; "" if nothing."""
    told = [event.hints for event in events if isinstance(event, OutOfReach)]
    hints = {name: hint for name, hint in (told[-1] if told else ()) if not name.startswith(DEVICE_CLASS)}
    asked = {GPU if name == GPU_SHARE else name for one in gang.pod_sets for name, _ in one.shape.requests}
    there = {
        name for event in events if isinstance(event, NodeChanged) for name, has in event.capacity if has
    }
    lacking = sorted((asked & hints.keys()) - there)
    return "; ".join(f"no node has {name}: {hints[name]}" for name in lacking)


def other_nodes(gang: Gang, events: Iterable[Event]) -> str | None:
    """A `--nodes` value on which a gang would start that never can on the nodes of a cluster's `events`.

    None if the gang could start on these nodes, were they empty, or if no value is found.
    """
    found = usable(events)
    if not any(_too_large([gang], found)):
        return None
    return advice([gang], found)


def advice(gangs: Sequence[Gang], events: Iterable[Event]) -> str | None:
    """A `--nodes` value on which all of the gangs would start; None if none is found.

    One node of each sort; a node for each pod, if one would have more GPUs than machines have. Of the events,
    those on nodes do not count.
    """
    if any(invalid(gangs)):
        return None
    layers = [event for event in events if not isinstance(event, NodeChanged | DevicesChanged)]
    large: str | None = None
    for apart in (False, True):
        text = _nodes_for(gangs, apart=apart)
        try:
            nodes = as_nodes(nodespec.parse(text))
        except nodespec.InvalidNodes:
            continue
        if any(_too_large(gangs, [*layers, *nodes])):
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


def usable(events: Iterable[Event]) -> list[Event]:
    """The events on nodes, devices and layers, as if each node were ready and not cordoned, and all free."""
    return [found for event in events if (found := _usable(event)) is not None]


def _usable(event: Event) -> Event | None:
    match event:
        case NodeChanged():
            return replace(event, cordoned=False, ready=True)
        case DevicesChanged():
            return replace(event, taken=())
        case LayersChanged() | OutOfReach() | DeviceKindChanged() | DeviceKindRemoved():
            return event
        case _:
            return None


def _too_large(gangs: Iterable[Gang], events: Sequence[Event]) -> Iterator[str]:
    for gang in gangs:
        if gang.gate is not None and gang.gate.code is Code.INVALID:
            continue
        why = misfit(_alone(gang), events) if gang.pod_sets else None
        if why is not None:
            yield _sentence(gang, why)


def _without_gpus(gangs: Iterable[Gang], events: Sequence[Event]) -> Iterator[str]:
    gangs = [gang for gang in gangs if not out_of_reach(gang, events)]
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
