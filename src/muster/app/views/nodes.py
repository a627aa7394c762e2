"""Nodes as users see them: their capacity, the requests of bound pods, and whether pods avoid them.

Which nodes are avoided is computed from the pods that have failed, as the scheduler does. The live scheduler
also knows of failed pods that are deleted by now.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from muster.api import kinds
from muster.api.base import Object, condition
from muster.api.core_v1 import Node, Pod
from muster.api.quantity import show, thousandths
from muster.api.requests import as_it_runs
from muster.app.snapshot import Snapshot, scheduler_settings
from muster.controllers.gpu_health import TAINT, UNHEALTHY
from muster.core.words.events import AvoidanceChanged, StartFailed
from muster.core.words.gang import Effect, Taint
from muster.core.world.failed_starts import FailedStarts
from muster.kube.client import Client
from muster.kube.errors import Forbidden
from muster.kube.listing import list_all
from muster.names import GPU, GPU_PRODUCT, GPU_SHARE
from muster.translate.bad_nodes import BadNodes
from muster.translate.nodes import node_changed
from muster.translate.pods import asked
from muster.translate.start_failures import start_failed


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    state: str
    #: milli-CPU, bytes, pieces
    capacity: dict[str, int]
    used: dict[str, int]
    product: str
    #: why pods avoid it, or use it last; "" = they do not
    note: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    #: taints that keep pods away, `key=value:NoSchedule`, that of unhealthy GPUs with what is wrong
    taints: tuple[str, ...] = ()


async def fetch(
    client: Client, schedulers: frozenset[str] | None = None, now: float | None = None
) -> list[NodeView]:
    """All nodes by name. Without a time `now`, whether they are avoided is not looked up."""
    nodes = (await list_all(client, kinds.NODE)).items
    pods = (await list_all(client, kinds.POD, fields="spec.nodeName!=")).items
    memory = FailedStarts()
    if now is not None:
        avoids = BadNodes() if schedulers is None else (await scheduler_settings(client)).bad_nodes
        if any_failed(pods, avoids, now):
            with suppress(Forbidden):  # who may not read the cluster is not told
                snapshot = (await Snapshot.observe(client, schedulers, now=now)).require()
                memory = failed_starts(snapshot, now, len(nodes))
    return views(nodes, pods, memory)


def views(nodes: Iterable[Node], pods: Iterable[Pod], memory: FailedStarts) -> list[NodeView]:
    """As `fetch`, of these nodes and pods. `memory`: where pods have failed."""
    on: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        on[pod.spec.node_name].append(pod)
    found = (view(node, on[node.metadata.name], memory) for node in nodes)
    return sorted(found, key=lambda view: view.name)


def any_failed(pods: Iterable[Pod], avoids: BadNodes, now: float) -> bool:
    """Whether a pod has failed so that its node may be avoided; if not, `failed_starts` need not be asked."""
    counted = avoids.counted()
    return any(start_failed(pod, counted, "", now) for pod in pods)


def failed_starts(snapshot: Snapshot, now: float, nodes: int) -> FailedStarts:
    """Where pods have failed in the cluster of a snapshot, which has so many nodes."""
    memory = FailedStarts()
    for event in snapshot.events:
        if isinstance(event, StartFailed):
            memory.record(event)
        elif isinstance(event, AvoidanceChanged):
            memory.follow(event.rules)
    memory.settle(now, nodes)
    return memory


def view(node: Node, pods: Iterable[Pod], memory: FailedStarts) -> NodeView:
    """As `fetch`, of one node and the pods on it."""
    used = Counter[str]()
    for pod in pods:
        if not pod.terminal:
            used.update(dict(asked(as_it_runs(pod)).shape.requests))
            used["pods"] += 1
    told = node_changed(node)
    keeping = [taint for taint in told.taints if taint.effect is not Effect.PREFER_NO_SCHEDULE]
    if not told.ready:
        state = "not ready"
    elif told.cordoned:
        state = "cordoned"
    elif any(taint.key == TAINT for taint in keeping):
        state = "quarantined"
    else:
        state = "tainted" if keeping else "ready"
    note = ""
    if told.name in memory.suspects:
        state = state if state != "ready" else "avoided" if told.name in memory.avoided else "used last"
        note = memory.accused(told.name)
    return NodeView(
        told.name,
        state,
        dict(told.capacity),
        dict(used),
        node.metadata.labels.get(GPU_PRODUCT, ""),
        note,
        dict(node.metadata.labels),
        tuple(_taint(taint, node) for taint in keeping),
    )


def _taint(taint: Taint, node: Node) -> str:
    """A taint as kubectl writes it; that of a node in quarantine with the reason."""
    written = f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect.value}"
    ill = condition(node.status.conditions, UNHEALTHY) if taint.key == TAINT else None
    return f"{written} ({ill.message or ill.reason})" if ill is not None else written


def summary(node: NodeView) -> Object:
    """A view as JSON."""
    return {
        "name": node.name,
        "state": node.state,
        "capacity": quantities(node.capacity),
        "used": quantities(node.used),
        "product": node.product,
        "taints": list(node.taints),
        **({"note": node.note} if node.note else {}),
    }


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts as Kubernetes quantities. Shares of a GPU count as fractions of a GPU."""
    found = {
        resource: show(resource, amount) for resource, amount in amounts.items() if resource != GPU_SHARE
    }
    if shares := amounts.get(GPU_SHARE, 0):
        found[GPU] = thousandths(1000 * amounts.get(GPU, 0) + shares)
    return found
