"""What each address shows: `Pages` turns a request's path and query into HTML.

Whatever the query says, the answer is a page: an unknown state or order is left out, and a page number is
bounded. Text from the cluster is escaped by the template engine, and made visible as in a terminal: nothing
in a name turns the direction of a page.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from muster.api.base import Object
from muster.api.quantity import show
from muster.api.visible import visible
from muster.app.views import pods, queues, summary, why
from muster.app.views.job import JobView, State
from muster.app.views.logs import Line
from muster.app.views.timeline import Timeline
from muster.dashboard import drawing
from muster.dashboard.cluster import FAILURES, Cluster, Moment
from muster.names import GPU, GPU_SHARE

HERE: Final = Path(__file__).parent
#: Jobs on a page of the table, and in a list of the first page.
ROWS: Final = 200
FEW: Final = 8
#: Pods and lines of output that the page of a job shows.
PODS: Final = 256
LINES: Final = 200
#: What the table of jobs may be sorted by.
ORDERS: Final[Mapping[str, Callable[[JobView], Any]]] = {  # Any: comparable
    "name": lambda view: (view.namespace, view.name),
    "state": lambda view: view.state.value,
    "queue": lambda view: view.queue,
    "priority": lambda view: -view.priority,
    "gpus": lambda view: -summary.gpus(view),
    "age": lambda view: view.created or datetime.min.replace(tzinfo=UTC),
}


@dataclass(frozen=True, slots=True)
class Sources:
    """Where pages find what the cluster's objects do not say."""

    #: when the pods of a job waited and ran
    timeline: Callable[[JobView, float], Timeline]
    #: the last lines that the pods of a job have printed
    output: Callable[[JobView, int], Awaitable[Sequence[Line]]]
    #: whether the cluster is the embedded one
    embedded: bool


@dataclass(frozen=True, slots=True)
class Page:
    html: str
    status: int = 200


class Pages:
    def __init__(self, cluster: Cluster, sources: Sources) -> None:
        self._cluster, self._sources = cluster, sources
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"age": _age, "clock": _clock, "amount": show, "share": drawing.share}
        self._templates.globals |= {"hue": drawing.hue, "WIDTH": drawing.WIDTH}

    async def page(self, path: str, query: Mapping[str, str]) -> Page:
        """The page at an address; `query`: the first value of each parameter."""
        moment = await self._cluster.now()
        match path.strip("/").split("/"):
            case [""]:
                return self._page("now", moment, "muster list", **_now(moment))
            case ["jobs"]:
                return self._page("jobs", moment, "muster list", **_jobs(moment, query))
            case ["jobs", namespace, name]:
                return await self._job(moment, namespace, name)
            case ["queues"]:
                return self._page("queues", moment, "muster queues", **_queues(moment))
            case ["nodes"]:
                return self._page("nodes", moment, "muster nodes", **_nodes(moment, query))
        return self.problem(404, "There is no such page", f"Nothing is at /{path.strip('/')}.")

    def problem(self, status: int, title: str, message: str) -> Page:
        """A page that says what is wrong."""
        html = self._templates.get_template("problem.html").render(
            title=title, message=message, page="", command="", missing=()
        )
        return Page(html, status)

    async def _job(self, moment: Moment, namespace: str, name: str) -> Page:
        view = moment.job(namespace, name)
        if view is None:
            return self.problem(404, f"{name} is gone", f"No job called {name} is in namespace {namespace}.")
        alone: Object | None = None
        if view.state is State.WAITING and view.reason is not None:
            view, alone = why.answered(view, moment.snapshot, embedded=self._sources.embedded)
        told = [gang.status.explanation for gang in view.gangs if gang.status.explanation]
        timeline = self._sources.timeline(view, moment.now)
        return self._page(
            "job",
            moment,
            f"muster why {view.name}",
            view=view,
            gpus=summary.gpus(view),
            explanations=[*told, *([alone] if alone is not None else [])],
            notes=[note for gang in view.gangs for note in gang.status.warnings],
            pods=[_pod(pod) for pod in sorted(view.pods, key=pods.pod_order)[:PODS]],
            bars=drawing.bars(timeline)[:PODS],
            length=timeline.end - timeline.begin,
            lines=await self._sources.output(view, LINES),
        )

    def _page(self, name: str, moment: Moment, command: str, **values: Any) -> Page:  # Any: of a template
        template = self._templates.get_template(f"{name}.html")
        return Page(
            template.render(page=name, command=command, now=moment.now, missing=moment.missing, **values)
        )


def _now(moment: Moment) -> Object:
    """What runs, what waits, what has ended in the last hour, and how much of the cluster is in use."""
    by_state: defaultdict[State, list[JobView]] = defaultdict(list)
    for view in moment.jobs:
        by_state[view.state].append(view)
    ended = [
        view
        for view in (*by_state[State.SUCCEEDED], *by_state[State.FAILED])
        if view.finished is not None and moment.now - view.finished.timestamp() < 3600
    ]
    capacity, used = Counter[str](), Counter[str]()
    for node in moment.nodes:
        capacity.update(node.capacity)
        used.update(node.used)
    resources = [r for r in (GPU, "cpu", "memory") if capacity[r]]
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


def _jobs(moment: Moment, query: Mapping[str, str]) -> Object:
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
    last = max((len(found) - 1) // ROWS, 0)
    asked = query.get("page", "0")
    number = min(int(asked), last) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 0
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


def _pod(pod: Any) -> Object:  # Any: a Pod
    return {
        "label": pods.label(pod),
        "node": pod.spec.node_name,
        "phase": "Terminating" if pod.metadata.deletion_timestamp else pod.status.phase or "Pending",
        "restarts": pods.restarts_of(pod),
        "why": pods.pod_reason(pod),
    }


def _queues(moment: Moment) -> Object:
    found = moment.queues
    rows = []
    resources = queues.resources(found)[:4]
    whole = Counter[str]()
    for node in moment.nodes:
        whole.update(node.capacity)
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
        waiting = [each for each in moment.jobs if each.queue == view.name and each.state is State.WAITING]
        rows.append({"view": view, "bars": bars, "front": waiting[:3], "waiting": len(waiting)})
    return {"rows": rows, "resources": resources}


def _nodes(moment: Moment, query: Mapping[str, str]) -> Object:
    held: defaultdict[str, list[str]] = defaultdict(list)
    cpu: defaultdict[str, list[str]] = defaultdict(list)
    for view in moment.jobs:
        for pod in view.pods:
            if pod.spec.node_name and not pod.terminal:
                held[pod.spec.node_name] += [view.name] * _gpus(pod)
                cpu[pod.spec.node_name].append(view.name)
    return {
        "boxes": drawing.boxes(moment.nodes, held),
        "jobs": sorted({name for found in cpu.values() for name in found}),
        "on": {node: sorted(set(found)) for node, found in cpu.items()},
        "shown": query.get("job", "")[:253],
    }


def _gpus(pod: Any) -> int:  # Any: a Pod
    from math import ceil

    from muster.api import requests

    try:
        return ceil(requests.gpus(pod))
    except FAILURES:
        return 0


def _shown(value: Any) -> Any:  # Any: whatever a template writes
    if isinstance(value, str) and not isinstance(value, Markup):
        return value if value.isprintable() else "\n".join(map(visible, value.split("\n")))
    return "" if value is None else value


def _age(since: datetime | None, now: float) -> str:
    return "" if since is None else drawing.duration(now - since.timestamp())


def _clock(seconds: float) -> str:
    return drawing.duration(seconds)


async def gathered(lines: AsyncIterator[Line], most: int) -> list[Line]:
    """The last so many lines."""
    found: list[Line] = []
    async for line in lines:
        found.append(line)
        if len(found) > 2 * most:
            del found[:-most]
    return found[-most:]


def first_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first value of each parameter of a query."""
    found: dict[str, str] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found
