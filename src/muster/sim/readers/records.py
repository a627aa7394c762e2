"""Muster's own trace format: what a line of it may say, whether it is written as JSON or as CSV.

Nodes, queues, layers of the network and outages of nodes; and jobs, which can say all that the core knows of
a gang. docs/guides/replay.md describes every field. Each record is checked by itself here, and against the
others as far as they are known; `where` names file and line in errors, and their fields.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import isfinite
from typing import Annotated, Final, Literal, get_args

import msgspec

from muster.api import quantity
from muster.core.words.events import LayersChanged, NodeChanged, QueueChanged
from muster.core.words.gang import (
    Amounts,
    GangId,
    Gather,
    Layer,
    NodeName,
    PodSet,
    Queue,
    QueueOrder,
    Shape,
    Strategy,
)
from muster.core.world.topology import CLUSTER, NODE
from muster.names import GPU, GPU_SHARE
from muster.sim.readers.lines import LARGEST, Line, shown
from muster.sim.trace import WHOLE, Job, Outage, TraceError, size

#: Pods of one job, nodes of one trace.
MOST: Final = 100_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Resources = dict[str, str | int | float]
Order = Literal["priority", "fifo", "fair"]
Happening = Literal["down", "up"]
Strategies = Literal["MustGather", "PreferGather"]


class Record(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True, frozen=True):
    pass


class NodeRecord(Record, frozen=True):
    """One node; with `count` several, whose names end in -0, -1, …"""

    node: Name
    count: Positive | None = None
    resources: Resources = {}
    labels: dict[str, str] = {}


class QueueRecord(Record, frozen=True):
    queue: Name
    parent: Name = "root"
    weight: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 1
    guarantee: Resources = {}
    deserved: Resources | None = None
    capability: Resources = {}
    order: Order = "priority"
    reclaimable: bool = True
    closed: bool = False
    max_gangs: Count | None = None


class LayerRecord(Record, frozen=True):
    name: Name
    keys: Annotated[list[Name], msgspec.Meta(min_length=1)]


class LayersRecord(Record, frozen=True):
    """From the widest to the narrowest; nodes are below the last."""

    layers: list[LayerRecord]


class OutageRecord(Record, frozen=True):
    at: Seconds
    node: Name
    event: Happening = msgspec.field(name="is")


class PodSetRecord(Record, frozen=True):
    name: Name = "main"
    count: Positive = 1
    #: absent: all of them
    min: Count | None = None
    resources: Resources = {}
    #: thousandths of one GPU
    gpu_share: Annotated[int, msgspec.Meta(ge=0, le=WHOLE)] = 0
    selector: dict[str, str] = {}


class GatherRecord(Record, frozen=True):
    layer: Name
    strategy: Strategies | None = None
    multiple: Positive = 1


class JobRecord(Record, frozen=True):
    job: Name
    submit: Seconds
    run: Seconds
    pods: Annotated[list[PodSetRecord], msgspec.Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: [PodSetRecord()]
    )
    #: over all pod sets; absent: the sum of theirs
    min: Count | None = None
    namespace: Name = "default"
    queue: Name = "default"
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] = 0
    estimate: Seconds | None = None
    limit: Seconds | None = None
    checkpoint: Seconds | None = None
    restart_cost: Seconds = 0.0
    min_run_time: Seconds = 0.0
    preemptible: bool = True
    gather: list[GatherRecord] = []
    exclusive: str = ""
    failures: list[Seconds] = []


#: Where a record stands, and the record or why there is none.
Told = tuple[Line, Record | TraceError]


_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_CHOICES: Final = {"order": get_args(Order), "is": get_args(Happening), "strategy": get_args(Strategies)}


def refusal(error: msgspec.ValidationError, where: Line) -> TraceError:
    """Return msgspec's error as a TraceError, in the terms of the trace format."""
    message, _, path = str(error).partition(" - at `$")
    field = path.rstrip("`").lstrip(".")
    if message.endswith("of length >= 1"):
        message = "is empty"
    elif match := re.fullmatch(r"Object missing required field `(\w+)`", message):
        field, message = f"{field}.{match[1]}".lstrip("."), "is missing"
    elif match := re.fullmatch(r"Invalid enum value (.*)", message):
        message = f"{match[1]}; expected {' or '.join(_CHOICES[field.rpartition('.')[2]])}"
    elif match := re.fullmatch(r"Expected `[\w| ]+`( of length)? ([<>]=) ([\d.]+)", message):
        number = f"{float(match[3]):.16g}{' characters' if match[1] else ''}"
        message = f"expected {number} at most" if match[2] == "<=" else f"expected {number} or more"
    elif match := re.fullmatch(r"Expected `(\w+)(?: \| .*)?`, got .*", message):
        message = f"expected {_WORDS.get(match[1], match[1])}"
    return TraceError(f"{where.field(field)}: {message}")


def nodes(record: NodeRecord, where: Line) -> Iterator[NodeChanged]:
    try:
        capacity = _amounts(record.resources, quantity.capacity, "resources")
    except ValueError as error:
        raise where.fault(error) from None
    labels = tuple(sorted(record.labels.items()))
    for name in (
        [record.node] if record.count is None else [f"{record.node}-{i}" for i in range(record.count)]
    ):
        yield NodeChanged(NodeName(name), capacity, labels)


def queue(record: QueueRecord, where: Line) -> QueueChanged:
    def amounts(field: str, value: Resources) -> Amounts:
        try:
            return _amounts(value, quantity.capacity, field, nodes=MOST)
        except ValueError as error:
            raise where.fault(error) from None

    return QueueChanged(
        Queue(
            record.queue,
            record.parent,
            record.weight,
            guarantee=amounts("guarantee", record.guarantee),
            deserved=None if record.deserved is None else amounts("deserved", record.deserved),
            capability=amounts("capability", record.capability),
            order=QueueOrder(record.order),
            reclaimable=record.reclaimable,
            closed=record.closed,
            max_gangs=record.max_gangs,
        )
    )


def layers(record: LayersRecord, where: Line) -> LayersChanged:
    names = [layer.name for layer in record.layers]
    for number, name in enumerate(names):
        if name in (CLUSTER, NODE, *names[:number]):
            raise TraceError(f"{where.field(f'layers[{number}].name')}: {shown(name)} is there already")
    return LayersChanged(tuple(Layer(layer.name, tuple(layer.keys)) for layer in record.layers))


def outage(record: OutageRecord) -> Outage:
    return Outage(record.at, NodeName(record.node), up=record.event == "up")


def job(record: JobRecord, resource: str, where: Line) -> Job:
    """Return the job of a record. Raises TraceError; does not check that its queue and layers exist."""
    try:
        pod_sets = _pod_sets(_ENCODE(record.pods))
    except OverflowError:
        raise TraceError(f"{where.field('pods')}: a number is out of range") from None
    except ValueError as error:
        raise where.fault(error) from None
    places = sum(pod_set.count for pod_set in pod_sets)
    if places > MOST:
        raise TraceError(f"{where.field('pods')}: {places} in all; expected {MOST} at most")
    least = sum(pod_set.min_count for pod_set in pod_sets) if record.min is None else record.min
    if least > places:
        raise TraceError(f"{where.field('min')}: {least}; there are {places} pods")
    run = record.run if record.limit is None else min(record.run, record.limit)
    return Job(
        GangId(f"{record.namespace}/{record.job}"),
        record.submit,
        run,
        run if record.estimate is None else record.estimate,
        pod_sets,
        sum(pod_set.count * size(pod_set.shape, resource) for pod_set in pod_sets),
        min_count=max(least, 1),
        namespace=record.namespace,
        queue=record.queue,
        priority=record.priority,
        limit=record.limit,
        checkpoint=record.checkpoint or None,
        restart_cost=record.restart_cost,
        min_run_time=record.min_run_time,
        preemptible=record.preemptible,
        gather=tuple(
            Gather(each.layer, None if each.strategy is None else Strategy(each.strategy), each.multiple)
            for each in record.gather
        ),
        exclusive=record.exclusive,
        failures=tuple(record.failures),
        where=str(where),
    )


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(list[PodSetRecord]).decode


@lru_cache(maxsize=4096)
def _pod_sets(packed: bytes) -> tuple[PodSet, ...]:
    """Equal ones are one object, as the core likes it. ValueError names the field."""
    sets: dict[str, PodSet] = {}
    for number, record in enumerate(_DECODE(packed)):
        at = f"pods[{number}]"
        if record.name in sets:
            raise ValueError(f"{at}.name: {shown(record.name)} occurs twice")
        least = record.count if record.min is None else record.min
        if least > record.count:
            raise ValueError(f"{at}.min: {least}; there are {record.count}")
        requests = dict(_amounts(record.resources, quantity.request, f"{at}.resources"))
        if record.gpu_share and requests.get(GPU):
            raise ValueError(f"{at}.gpuShare: {record.gpu_share} beside whole GPUs; ask for one of the two")
        if record.gpu_share:
            requests[GPU_SHARE] = record.gpu_share
        shape = Shape(tuple(sorted(requests.items())), tuple(sorted(record.selector.items())))
        sets[record.name] = PodSet(record.name, shape, record.count, least)
    return tuple(sets.values())


def _amounts(
    resources: Mapping[str, str | int | float],
    rounded: Callable[[str, str | int | float], int],
    path: str,
    nodes: int = 1,
) -> Amounts:
    """At most what so many nodes have. Raises ValueError, which begins with the path of the field."""
    amounts = {}
    for resource, text in resources.items():
        try:
            if isinstance(text, float) and not isfinite(text):
                raise ValueError(f"{text} is not an amount")
            amount = rounded(resource, text)
            divisible = resource == "cpu" or quantity.in_bytes(resource)
            if not divisible and quantity.parse(text) != amount:
                share = "; a part of one is gpuShare" if resource == GPU else ""
                raise ValueError(f"{shown(str(text))} is not a whole number{share}")
        except ValueError as error:
            raise ValueError(f"{path}.{resource}: {error}") from None
        most = nodes * quantity.most(resource)
        if not 0 <= amount <= most:
            largest = quantity.show(resource, most)
            raise ValueError(
                f"{path}.{resource}: {shown(str(text))} is out of range; expected 0 to {largest}"
            )
        if amount:
            amounts[resource] = amount
    return tuple(sorted(amounts.items()))
