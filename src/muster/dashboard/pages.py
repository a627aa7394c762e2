"""What each address shows: `Pages` turns a request's path and query into HTML.

Whatever the query says, the answer is a page: an unknown state or order is left out, and a page number is
bounded. Text from the cluster is escaped by the template engine, and made visible as in a terminal: nothing
in a name turns the direction of a page.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from muster.api import times
from muster.api.base import Object
from muster.api.quantity import show
from muster.api.rates import Rates, money
from muster.api.visible import visible
from muster.app.views import pods, summary, usage
from muster.app.views.job import JobView, State
from muster.app.views.logs import Line
from muster.app.views.timeline import Timeline
from muster.app.views.usage import Usage
from muster.dashboard import calendar, changes, drawing, overview, progress, replays, room
from muster.dashboard.access import FORM, Viewer
from muster.dashboard.changes import Change, Refused
from muster.dashboard.cluster import Cluster, Loading, Moment
from muster.dashboard.replays import Replays
from muster.dashboard.sight import HiddenPage, seen
from muster.dashboard.work import PLAN, Occupied, Work
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.sim.policies import POLICIES

HERE: Final = Path(__file__).parent
#: The viewer of the page; templates ask for it.
_VIEWER: Final[ContextVar[Viewer | None]] = ContextVar("viewer", default=None)
#: What of the cluster it may see; texts of the scheduler pass through it (`told`).
_MOMENT: Final[ContextVar[Moment | None]] = ContextVar("moment", default=None)
#: Pods and lines of output that the page of a job shows; of each pod with output at least so many.
PODS: Final = 256
LINES: Final = 200
FEWEST: Final = 5


@dataclass(frozen=True, slots=True)
class Sources:
    """Where pages find what the cluster's objects do not say."""

    #: when the pods of a job waited and ran
    timeline: Callable[[JobView, float], Timeline]
    #: the last lines that the pods of a job have printed (`gathered`)
    output: Callable[[JobView, int, Viewer], Awaitable[Sequence[Line]]]
    #: what a job has used until now, and the prices that a viewer may read
    used: Callable[[JobView, float, Viewer], Awaitable[tuple[Usage, Rates]]]
    #: whether the cluster is the embedded one
    embedded: bool
    #: how jobs are changed; empty: not at all
    changes: Mapping[Change, Callable[[JobView], Awaitable[None]]] = field(default_factory=dict)
    #: answers the page Plan
    plan: Work = field(default_factory=lambda: Work(PLAN))
    #: what the page Replay computes; None: there is no such page
    replays: Replays | None = None


@dataclass(frozen=True, slots=True)
class Page:
    html: str
    status: int = 200
    #: where to go instead, after a form
    location: str = ""


class Pages:
    def __init__(self, cluster: Cluster, sources: Sources, now: Callable[[], float] = time.time) -> None:
        """`now`: seconds since the epoch. It passes while the cluster stays as it is."""
        self._cluster, self._sources, self._now = cluster, sources, now
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"age": _age, "clock": _clock, "amount": show, "share": drawing.share}
        self._templates.filters |= {"ahead": _ahead, "told": _told, "ago": _ago, "drawn": _drawn}
        self._templates.filters |= {"coming": _coming}
        self._templates.globals |= {
            "hue": drawing.hue,
            "WIDTH": drawing.WIDTH,
            "HEIGHT": progress.HEIGHT,
            "identity": changes.identity,
            "changes": sources.changes,
            "replays": sources.replays is not None,
            "viewer": _VIEWER.get,
            "FORM": FORM,
        }

    async def page(self, path: str, query: Mapping[str, str], viewer: Viewer) -> Page:
        """The page at an address; `query`: the first value of each parameter."""
        if (loading := await self._cluster.loading()) is not None:
            return self._load_page(loading)
        moment = await self._seen_by(viewer)
        begun = time.perf_counter()
        try:
            return await self._at(moment, path, query, viewer)
        except HiddenPage:
            text = "It needs the right to list nodes, queues, and the pods and gangs of all namespaces."
            return self.problem(403, "You may not see this page", text)
        finally:
            self._cluster.took = time.perf_counter() - begun

    def sign_in(self, problem: str) -> Page:
        """A page that asks for a token. `problem`: with the one that was given; "": none was."""
        html = self._templates.get_template("sign_in.html").render(
            problem=problem, page="", command="", missing=()
        )
        return Page(html, 401)

    async def _seen_by(self, viewer: Viewer) -> Moment:
        _VIEWER.set(viewer)
        moment = await self._cluster.now()
        found = seen(moment, await viewer.sight(moment.namespaces))
        _MOMENT.set(found)
        return found

    async def sent(
        self, path: str, query: Mapping[str, str], form: Mapping[str, str], viewer: Viewer
    ) -> Page:
        """The answer to a form. It is one of this viewer's pages: `Viewer.sent` has said so."""
        if (loading := await self._cluster.loading()) is not None:
            return self._load_page(loading)
        moment = await self._seen_by(viewer)
        match path.strip("/").split("/"):
            case ["jobs", namespace, name, "change"]:
                return await self._changed(moment, namespace, name, form)
            case ["plan"]:
                return await self._planned(moment, form.get("objects", "").replace("\r\n", "\n"))
            case ["replay"]:
                return await self._replayed(moment, form)
        return self.problem(405, "There is no such form", f"Nothing is sent to /{path.strip('/')}.")

    async def _at(self, moment: Moment, path: str, query: Mapping[str, str], viewer: Viewer) -> Page:
        match path.strip("/").split("/"):
            case [""]:
                return await self._made(
                    "now", moment, "muster list", lambda: overview.values(moment, self._now())
                )
            case ["jobs"]:
                return await self._made("jobs", moment, "muster list", lambda: overview.table(moment, query))
            case ["jobs", namespace, name]:
                return await self._job(moment, namespace, name, viewer)
            case ["jobs", namespace, name, "change"] if self._sources.changes:
                return await self._change(moment, namespace, name, query)
            case ["calendar"]:
                return await self._calendar(moment)
            case ["evictions"]:
                command = "muster usage --by job"
                return await self._made("evictions", moment, command, lambda: calendar.evictions(moment))
            case ["plan"]:
                return self._plan_page(moment)
            case ["replay"]:
                return await self._replay(moment, query)
            case ["queues"]:
                return await self._made("queues", moment, "muster queues", lambda: room.queues(moment))
            case ["nodes"]:
                return await self._made("nodes", moment, "muster nodes", lambda: room.nodes(moment, query))
        return self.problem(404, "There is no such page", f"Nothing is at /{path.strip('/')}.")

    async def _calendar(self, moment: Moment) -> Page:
        whole = moment.sight.whole and not moment.missing
        decided = await self._cluster.decided(moment) if whole else None
        reserved = await asyncio.to_thread(decided.reserved) if decided is not None else {}
        values = partial(calendar.calendar, moment, self._now(), reserved)
        return await self._made("calendar", moment, "muster why JOB", values)

    def _plan_page(
        self, moment: Moment, text: str = "", problem: str = "", result: Object | None = None
    ) -> Page:
        if not moment.sight.whole:
            raise HiddenPage("plan")
        shown = {"text": text, "problem": problem, "result": result, "embedded": self._sources.embedded}
        return self._page("plan", moment, "muster plan FILE", **shown)

    async def _planned(self, moment: Moment, text: str) -> Page:
        if not moment.sight.whole:
            raise HiddenPage("plan")
        make = partial(self._cluster.planning, moment, text, embedded=self._sources.embedded)
        try:
            answer = await self._sources.plan.ask(make)
        except Occupied:
            return self._plan_page(moment, text, "Another plan is being computed. Send it again in a moment.")
        return self._plan_page(moment, text, answer.problem, None if answer.problem else answer.values)

    async def _replay(self, moment: Moment, query: Mapping[str, str], problem: str = "") -> Page:
        """Two policies side by side: the form, how far the replay is, and its result."""
        made = self._sources.replays
        if made is None:
            text = "It reads files of the machine that it runs on. In a terminal: muster replay TRACE"
            return self.problem(403, "This dashboard does not replay", text)
        asked = replays.asked(query, made.trace)
        commands = await asyncio.to_thread(replays.commands, asked)
        run, now = made.of(asked), made.now
        return self._page(
            "replay",
            moment,
            "" if asked.trace else "muster replay TRACE --policy NAME",
            asked=asked,
            run=run,
            problem=problem or (run.answer.problem if run is not None and run.answer is not None else ""),
            other=replays.address(now) if now is not None and now != asked else "",
            commands=commands if asked.trace else (),
            policies=[*POLICIES],
            spans=replays.SPANS,
            span=replays.span(asked),
            deadline=made.deadline,
        )

    async def _replayed(self, moment: Moment, form: Mapping[str, str]) -> Page:
        """Begins a replay, and leads to its address."""
        made = self._sources.replays
        if made is None:
            return await self._replay(moment, form)
        asked = replays.asked(form, made.trace)
        try:
            made.begin(asked, self._now())
        except Occupied:
            return await self._replay(moment, form, "Another replay is being computed. Send it again later.")
        return Page("", 303, replays.address(asked))

    def _load_page(self, how: Loading) -> Page:
        html = self._templates.get_template("loading.html").render(how=how, page="", command="", missing=())
        return Page(html, 503)

    def problem(self, status: int, title: str, message: str) -> Page:
        """A page that says what is wrong."""
        html = self._templates.get_template("problem.html").render(
            title=title, message=message, page="", command="", missing=()
        )
        return Page(html, status)

    async def _change(self, moment: Moment, namespace: str, name: str, query: Mapping[str, str]) -> Page:
        """What can be done with a job. The page names the job that was seen, not its successor."""
        view = await asyncio.to_thread(self._seen, moment, namespace, name, query.get("job", ""))
        if isinstance(view, Page):
            return view
        possible = [each for each in changes.possible(view) if each in self._sources.changes]
        return self._page("change", moment, f"muster cancel {name}", view=view, possible=possible)

    async def _changed(self, moment: Moment, namespace: str, name: str, form: Mapping[str, str]) -> Page:
        """Changes the job that the form names, if it is still there."""
        chosen = form.get("change", "")
        act = next((act for change, act in self._sources.changes.items() if change.value == chosen), None)
        if act is None:
            return self.problem(403, "Read only", "This dashboard does not change jobs in such a way.")
        view = await asyncio.to_thread(self._seen, moment, namespace, name, form.get("job", ""))
        if isinstance(view, Page):
            return view
        try:
            await act(view)
        except Refused as error:
            return self.problem(409, f"{name} is as it was", str(error))
        except (ApiError, Unanswered, Unreachable) as error:
            return self.problem(502, f"{name} has not been changed", f"The API server says: {error}")
        job = "" if chosen == Change.CANCEL.value else f"/{quote(namespace, '')}/{quote(name, '')}"
        return Page("", 303, f"/jobs{job}")

    def _seen(self, moment: Moment, namespace: str, name: str, identity: str) -> JobView | Page:
        """The job that has been seen; or a page that says that it is gone."""
        named = [view for view in moment.jobs if (view.namespace, view.name) == (namespace, name)]
        found = next((view for view in named if changes.identity(view) == identity), None)
        if found is None and named:
            text = "The job of this name that is there was submitted since, and is left alone."
            return self.problem(409, f"{name} is gone", text)
        return found or self._gone(namespace, name)

    def _gone(self, namespace: str, name: str) -> Page:
        return self.problem(404, f"{name} is gone", f"No job called {name} is in namespace {namespace}.")

    async def _job(self, moment: Moment, namespace: str, name: str, viewer: Viewer) -> Page:
        found = await asyncio.to_thread(moment.job, namespace, name)
        if found is None:
            return self._gone(namespace, name)
        view: JobView = found
        alone: Object | None = None
        if (
            view.state is State.WAITING
            and view.reason is not None
            and moment.sight.whole
            and not moment.missing
        ):
            decided = await self._cluster.decided(moment)
            if decided is not None:
                with_it = partial(decided.answered, view, embedded=self._sources.embedded)
                view, alone = await asyncio.to_thread(with_it)
        told = [gang.status.explanation for gang in view.gangs if gang.status.explanation]
        timeline = await asyncio.to_thread(self._sources.timeline, view, self._now())
        reporter, points = self._cluster.reports.of(view.pods)
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
            lines=await self._output(view, viewer),
            used=await self._used(moment, view, viewer),
            reporter=reporter,
            points=points,
            curves=progress.curves(points),
            reports=progress.rows(points),
        )

    async def _used(self, moment: Moment, view: JobView, viewer: Viewer) -> Object | None:
        """What the job has used and lost, as `muster usage --by job` says it; None if that cannot be read."""
        try:
            used, rates = await self._sources.used(view, self._now(), viewer)
        except (ApiError, Unanswered, Unreachable):
            return None
        cost, lost = usage.priced(used, rates), calendar.evicted(moment, [view])
        return {
            "gpus": usage.hours(used.used_gpu_hours),
            "cpus": usage.hours(used.used_cpu_hours),
            "waited": used.waited,
            "cost": money(cost) if cost is not None else "",
            "evictions": len(lost.rows),
            "lost": str(lost.hours),
            "lost_cost": money(lost.cost) if lost.cost else "",
        }

    async def _output(self, view: JobView, viewer: Viewer) -> Sequence[Line]:
        """The last lines, or why they cannot be read."""
        try:
            return await self._sources.output(view, LINES, viewer)
        except (ApiError, Unanswered, Unreachable) as error:
            return [Line("dashboard:", f"the output cannot be read: {error}")]

    async def _made(self, name: str, moment: Moment, command: str, values: Callable[[], Object]) -> Page:
        """Computes a page in a thread: watches and other viewers go on."""

        def made() -> Page:
            with moment.lock:
                return self._page(name, moment, command, **values())

        return await asyncio.to_thread(made)

    def _page(self, name: str, moment: Moment, command: str, **values: Any) -> Page:  # Any: of a template
        template = self._templates.get_template(f"{name}.html")
        return Page(
            template.render(page=name, command=command, now=self._now(), missing=moment.missing, **values)
        )


def _pod(pod: Any) -> Object:  # Any: a Pod
    return {
        "label": pods.label(pod),
        "node": pod.spec.node_name,
        "phase": "Terminating" if pod.metadata.deletion_timestamp else pod.status.phase or "Pending",
        "restarts": pods.restarts_of(pod),
        "why": pods.pod_reason(pod),
    }


def _shown(value: Any) -> Any:  # Any: whatever a template writes
    if isinstance(value, str) and not isinstance(value, Markup):
        return value if value.isprintable() else "\n".join(map(visible, value.split("\n")))
    return "" if value is None else value


def _age(since: datetime | None, now: float) -> str:
    return "" if since is None else drawing.duration(now - since.timestamp())


def _ago(at: float, now: float) -> str:
    return drawing.duration(now - at)


def _coming(at: object, now: float) -> str:
    """When an expected start is, and in how long: `14:05:09 UTC, in 27:10 min`."""
    try:
        time = times.read(str(at)) if at else None
    except ValueError:
        return str(at)
    if time is None:
        return "not known"
    day = "" if time.date() == datetime.fromtimestamp(now, UTC).date() else f"{time:%Y-%m-%d} "
    return f"{day}{time:%H:%M:%S} UTC, {_ahead(max(time.timestamp() - now, 0.0))}"


def _drawn(picture: str) -> Markup:
    """A chart of `muster.sim.charts`, which escapes what is in it."""
    return Markup(picture)


def _ahead(seconds: float) -> str:
    return "at a time that is not known" if seconds == inf else f"in {drawing.duration(seconds)}"


def _clock(seconds: float) -> str:
    return drawing.duration(seconds)


def _told(value: Any) -> Any:  # Any: of an object
    """A text of the scheduler, or of a controller, as the viewer may read it."""
    moment = _MOMENT.get()
    return moment.text(value) if moment is not None and isinstance(value, str) else value


async def gathered(lines: AsyncIterator[Line], most: int) -> list[Line]:
    """The last lines of each pod, so many in all: each has as many, and the last pods have `FEWEST`."""
    found: dict[str, deque[Line]] = {}
    async for line in lines:
        found.setdefault(line.pod, deque(maxlen=most)).append(line)
    some = [*found.values()][-max(most // FEWEST, 1) :]
    share = most // max(len(some), 1)
    return [line for each in some for line in [*each][-share:]]
