"""What there is room for: the values of the pages Queues and Nodes."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil
from typing import Any, Final

from muster.api import requests
from muster.api.base import Object
from muster.app.views import queues as by_queue
from muster.app.views.job import State
from muster.app.views.nodes import NodeView
from muster.core.words.gang import Layer
from muster.dashboard import drawing
from muster.dashboard.cluster import FAILURES, Moment
from muster.dashboard.drawing import Box, Fill
from muster.names import GPU, GPU_SHARE
from muster.translate.disclosure import other

#: Nodes on a page.
BOXES: Final = 200
#: What GPUs may be coloured by, the first without being asked; names in the legend.
COLOURS: Final = ("job", "queue", "health", "free")
NAMES: Final = 24


def page_number(query: Mapping[str, str], total: int, rows: int) -> tuple[int, int]:
    """The page that is asked for, and the last one."""
    last, asked = max((total - 1) // rows, 0), query.get("page", "0")
    return min(int(asked), last) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 0, last


def queues(moment: Moment) -> Object:
    found = moment.queues
    rows = []
    resources = by_queue.resources(found)[:4]
    whole = Counter[str]()
    for node in moment.nodes:
        for resource in resources:
            whole[resource] += node.capacity.get(resource, 0)
    waiting = Counter(each.queue for each in moment.jobs if each.state is State.WAITING)
    for view in found:
        account = view.account
        cap = dict(account.rules.capability)
        bars = []
        for resource in resources:
            key, unit = (GPU_SHARE, 1000) if resource == GPU else (resource, 1)
            bars.append(
                {
                    "resource": resource,
                    "used": account.used[key] / unit,
                    "entitled": float(account.entitled.get(key, 0)) / unit,
                    "cap": cap.get(resource),
                    "whole": whole[resource],
                }
            )
        rows.append({"view": view, "bars": bars, "front": view.front, "waiting": waiting[view.name]})
    return {"rows": rows, "resources": resources}


def nodes(moment: Moment, query: Mapping[str, str]) -> Object:
    """Nodes by their place in the network, each with its GPUs.

    `q` and `job` (`NAME` or `NAMESPACE/NAME`) filter, `colour` is one of `COLOURS`, `page` the page.
    """
    shown, words = query.get("job", "")[:507], query.get("q", "")[:253]
    colour = query.get("colour", "")
    colour = colour if colour in COLOURS else COLOURS[0]
    sought = [view for view in moment.jobs if shown in (view.name, f"{view.namespace}/{view.name}")]
    own = {pod.spec.node_name for view in sought for pod in view.pods}
    uids = {view.resource.metadata.uid for view in sought}
    found = [node for node in moment.nodes if words in node.name and (not shown or node.name in own)]
    found.sort(key=lambda node: [(not name, name) for name in _path(moment.layers, node)])
    number, last = page_number(query, len(found), BOXES)
    there = found[number * BOXES : (number + 1) * BOXES]
    fills: dict[str, list[Fill]] = {}
    on: defaultdict[str, set[str]] = defaultdict(set)
    for node in there:
        most = min(node.capacity.get(GPU, 0), drawing.CELLS)
        of = fills[node.name] = []
        for pod, view in moment.on(node.name):
            name = view.name if view is not None else pod.metadata.name
            fill = _fill(colour, node, name, view.queue if view is not None else "")
            if shown:
                mine = view is not None and view.resource.metadata.uid in uids
                fill = replace(fill, sought=mine, other=not mine)
            of += [fill] * min(_gpus(pod), most - len(of))
            on[node.name].add(name)
        if not moment.sight.whole:  # what others use is not free
            fill = replace(_fill(colour, node, other("job"), ""), other=bool(shown))
            of += [fill] * (min(node.used.get(GPU, 0), most) - len(of))
        free = replace(_fill(colour, node, "", ""), other=bool(shown))
        of += [free] * (most - len(of))
    legend = {fill.text: fill.kind for of in fills.values() for fill in of}
    return {
        "domains": _domains(moment.layers, drawing.boxes(there, fills)),
        "number": number,
        "last": last,
        "total": len(found),
        "query": {"job": shown, "q": words, "colour": colour},
        "colours": COLOURS,
        "legend": sorted(legend.items())[:NAMES],
        "unnamed": max(len(legend) - NAMES, 0),
        "on": {node: sorted(names) for node, names in on.items()},
        "shown": shown,
        **sick(moment.nodes),
    }


def sick(nodes: Sequence[NodeView]) -> Object:
    """Nodes that are not ready, cordoned or avoided, the first `NAMES` by name, and how many are left."""
    found = sorted((node for node in nodes if _ill(node) or node.note), key=lambda node: node.name)
    return {"sick": found[:NAMES], "unnamed_sick": max(len(found) - NAMES, 0)}


def _ill(node: NodeView) -> bool:
    return node.state not in ("ready", "tainted")


def _fill(colour: str, node: NodeView, job: str, queue: str) -> Fill:
    """What a GPU says. `job`: what holds it; "" = nothing does."""
    if colour == "health":
        state = f"{node.state}, avoided" if node.note and node.state == "ready" else node.state
        kind = "well" if state == "ready" else "ill" if _ill(node) else "wary"
        return Fill(state, kind, used=bool(job))
    if not job:
        return Fill()
    if colour == "free":
        return Fill("in use", "used", used=True)
    name = queue or "no queue" if colour == "queue" else job
    return Fill(name, f"h{drawing.hue(name)}", used=True)


@dataclass(frozen=True, slots=True)
class Domain:
    """A part of the network: its domains, or, of the narrowest layer, its nodes."""

    #: such as `SpineLayer s1`; "" = the cluster
    title: str
    nodes: int
    #: GPUs in use, and all
    used: int
    gpus: int
    domains: Sequence["Domain"]
    boxes: Sequence[Box]


def _domains(layers: Sequence[Layer], boxes: Sequence[Box], title: str = "", depth: int = 0) -> Domain:
    """The boxes, which are in the order of their paths, in the domains of the layers from `depth` on."""
    cells = [cell for box in boxes for cell in box.cells]
    inner = []
    if depth < len(layers):
        layer = layers[depth]
        for name, some in groupby(boxes, lambda box: _path(layers, box.node)[depth]):
            within = f"{layer.name} {name}" if name else f"no {layer.name}"
            inner.append(_domains(layers, [*some], within, depth + 1))
    used = sum(cell.fill.used for cell in cells)
    return Domain(title, len(boxes), used, len(cells), inner, () if inner else boxes)


def _path(layers: Sequence[Layer], node: NodeView) -> list[str]:
    """The name of the node's domain on each layer; "" = it has no label of it."""
    return [next((name for key in layer.keys if (name := node.labels.get(key))), "") for layer in layers]


def _gpus(pod: Any) -> int:  # Any: a Pod
    try:
        return ceil(requests.gpus(pod))
    except FAILURES:
        return 0
