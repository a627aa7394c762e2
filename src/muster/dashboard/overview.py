"""What the first page and the table of jobs show: what runs, what waits, what has ended, what is in use."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from muster.api.base import Object
from muster.app.views import summary
from muster.app.views.job import JobView, State
from muster.dashboard import room
from muster.dashboard.cluster import Moment
from muster.names import GPU, GPU_SHARE

#: Jobs in a list, and on a page of the table.
FEW: Final = 8
ROWS: Final = 100
#: What the table of jobs may be sorted by.
ORDERS: Final[Mapping[str, Callable[[JobView], Any]]] = {  # Any: comparable
    "name": lambda view: (view.namespace, view.name),
    "state": lambda view: view.state.value,
    "queue": lambda view: view.queue,
    "priority": lambda view: -view.priority,
    "gpus": lambda view: -summary.gpus(view),
    "age": lambda view: view.created or datetime.min.replace(tzinfo=UTC),
}


def values(moment: Moment, now: float) -> Object:
    """What runs, what waits, what has ended in the last hour, and how much of the cluster is in use."""
    by_state: defaultdict[State, list[JobView]] = defaultdict(list)
    for view in moment.jobs:
        by_state[view.state].append(view)
    ended = [
        view
        for view in (*by_state[State.SUCCEEDED], *by_state[State.FAILED])
        if view.finished is not None and now - view.finished.timestamp() < 3600
    ]
    capacity, used = Counter[str](), Counter[str]()
    shown = (GPU, "cpu", "memory")
    for node in moment.nodes:
        for resource in shown:
            capacity[resource] += node.capacity.get(resource, 0)
            used[resource] += node.used.get(resource, 0)
        used[GPU_SHARE] += node.used.get(GPU_SHARE, 0)
    resources = [r for r in shown if capacity[r]]
    return {
        "counts": [(state.value, len(found)) for state, found in by_state.items()],
        "waiting": by_state[State.WAITING][:FEW],
        "blocked": [*by_state[State.DENIED], *by_state[State.SUSPENDED]][-FEW:],
        "running": [*by_state[State.RUNNING], *by_state[State.STARTING]][-FEW:],
        "ended": sorted(ended, key=lambda view: view.finished or datetime.max.replace(tzinfo=UTC))[-FEW:][
            ::-1
        ],
        "numbers": {state.name: len(found) for state, found in by_state.items()},
        "use": [(r, _in_use(r, used), capacity[r]) for r in resources],
        "fragments": _fragments(moment),
        **room.sick(moment.nodes),
    }


def _in_use(resource: str, used: Mapping[str, int]) -> float:
    """What pods use of it; shares of GPUs count as fractions."""
    return used.get(resource, 0) + (used.get(GPU_SHARE, 0) / 1000 if resource == GPU else 0)


def _fragments(moment: Moment) -> list[tuple[int, int]]:
    """Free GPUs of a node, and how many ready nodes have so many."""
    free = Counter(
        max(node.capacity[GPU] - node.used.get(GPU, 0), 0)
        for node in moment.nodes
        if node.state == "ready" and node.capacity.get(GPU)
    )
    return sorted(free.items(), reverse=True)


def table(moment: Moment, query: Mapping[str, str]) -> Object:
    """The table: filtered by `q`, `state` and `queue`, sorted by `sort`, page `page`."""
    words, state, queue = query.get("q", "")[:200], query.get("state", ""), query.get("queue", "")
    order = query.get("sort", "")
    found = [
        view
        for view in moment.jobs
        if (not words or words in f"{view.namespace}/{view.name}")
        and (not state or view.state.value == state)
        and (not queue or view.queue == queue)
    ]
    found = sorted(found, key=ORDERS[order]) if order in ORDERS else found[::-1]
    number, last = room.page_number(query, len(found), ROWS)
    return {
        "rows": [(view, summary.gpus(view)) for view in found[number * ROWS : (number + 1) * ROWS]],
        "total": len(found),
        "first": number * ROWS,
        "number": number,
        "last": last,
        "query": {"q": words, "state": state, "queue": queue, "sort": order},
        "states": [each.value for each in State],
        "queue_names": sorted({view.queue for view in moment.jobs}),
        "several": len({view.namespace for view in moment.jobs}) > 1,
    }
