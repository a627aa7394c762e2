"""What the first page shows: what runs, what waits, what has ended, and what is in use."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from muster.api.base import Object
from muster.app.views.job import JobView, State
from muster.dashboard.cluster import Moment
from muster.names import GPU, GPU_SHARE

#: Jobs in a list.
FEW: Final = 8


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
