"""What there is room for: the values of the pages Queues and Nodes."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from muster.api import requests
from muster.api.base import Object
from muster.app.views import queues as by_queue
from muster.app.views.job import State
from muster.dashboard import drawing
from muster.dashboard.cluster import FAILURES, Moment
from muster.names import GPU, GPU_SHARE
from muster.translate.disclosure import other

#: Nodes on a page.
BOXES: Final = 200


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
    shown, words = query.get("job", "")[:253], query.get("q", "")[:253]
    own = {pod.spec.node_name for view in moment.jobs if view.name == shown for pod in view.pods}
    found = [node for node in moment.nodes if words in node.name and (not shown or node.name in own)]
    number, last = page_number(query, len(found), BOXES)
    there = found[number * BOXES : (number + 1) * BOXES]
    held: defaultdict[str, list[str]] = defaultdict(list)
    on: defaultdict[str, set[str]] = defaultdict(set)
    for node in there:
        most = min(node.capacity.get(GPU, 0), drawing.CELLS)
        for pod, view in moment.on(node.name):
            name = view.name if view is not None else pod.metadata.name
            held[node.name] += [name] * min(_gpus(pod), most - len(held[node.name]))
            on[node.name].add(name)
        if not moment.sight.whole:  # what others use is not free
            held[node.name] += [other("job")] * (min(node.used.get(GPU, 0), most) - len(held[node.name]))
    return {
        "boxes": drawing.boxes(there, held),
        "number": number,
        "last": last,
        "total": len(found),
        "query": {"job": shown, "q": words},
        "on": {node: sorted(names) for node, names in on.items()},
        "shown": shown,
    }


def _gpus(pod: Any) -> int:  # Any: a Pod
    try:
        return ceil(requests.gpus(pod))
    except FAILURES:
        return 0
