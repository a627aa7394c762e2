"""The pages of a cluster that runs: what they say, that they follow it, and who may change a job on them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp

from muster.api import kinds
from muster.api.rates import Rates
from muster.app.records import accounting
from muster.app.views.job import JobView
from muster.app.views.logs import Line
from muster.app.views.nodes import NodeView
from muster.app.views.timeline import Now, Timeline, timeline
from muster.app.views.usage import Usage
from muster.dashboard import cluster as dashboard
from muster.dashboard.access import HEADERS, Access, Viewer
from muster.dashboard.changes import Change, Refused
from muster.dashboard.overview import ORDERS
from muster.dashboard.pages import FEWEST, HERE, Pages, Sources, _coming, gathered
from muster.dashboard.replays import Replays
from muster.dashboard.room import NAMES, sick
from muster.dashboard.server import MAIN, Once, application
from muster.dashboard.work import PLAN, REPLAY
from muster.kube.errors import Forbidden
from muster.names import HOLD, PROGRESS, SCHEDULER_LEASE, SCHEDULES
from muster.workloads.pod_run import run_of
from tests.dashboard.works import Here, work
from tests.runtime.test_loop import Cluster, scheduler

pytestmark = pytest.mark.looptime

PORT = 80
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m&\"'"


@dataclass
class Answered:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()


async def request(
    app: ASGIApp, path: str, method: str = "GET", body: bytes = b"", **headers: str
) -> Answered:
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "query_string": query.encode(),
        "headers": [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()],
        "server": ("127.0.0.1", PORT),
    }
    found = Answered()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            found.status = message["status"]
            found.headers = {key.decode().lower(): value.decode() for key, value in message["headers"]}
        else:
            found.body += message.get("body", b"")

    await app(scope, receive, send)
    return found


@dataclass
class Browser:
    """One that has access to the pages of a cluster."""

    app: ASGIApp
    cookie: str
    of: Cluster
    seen: dashboard.Cluster
    changes: dict[Change, Callable[[JobView], Awaitable[None]]]
    #: what answers the pages Plan and Replay
    plans: Here
    replays: Here
    #: whether output may not be read
    refuses: bool = False
    #: what has been done, with the uid of the job
    done: list[tuple[Change, str]] = field(default_factory=list)

    async def send(self, path: str, body: str | bytes, **headers: str) -> Answered:
        """Sends a form, as a page of this browser would; `headers` say what is different."""
        kind = "application/x-www-form-urlencoded"
        sent = {"origin": f"http://127.0.0.1:{PORT}", "content_type": kind, **headers}
        content = body if isinstance(body, bytes) else body.encode()
        return await self.get(path, "POST", cookie=True, body=content, **sent)

    async def get(
        self, path: str, method: str = "GET", *, cookie: bool = True, body: bytes = b"", **headers: str
    ) -> Answered:
        sent = {"host": f"127.0.0.1:{PORT}", **({"cookie": self.cookie} if cookie else {}), **headers}
        return await request(self.app, path, method, body, **sent)

    async def says(self, path: str, *words: str) -> bool:
        text = (await self.get(path)).text
        return all(word in text for word in words)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    made = Cluster()
    seen = dashboard.Cluster(made.client, None)

    async def output(view: JobView, most: int, viewer: Viewer) -> Sequence[Line]:
        if made_browser.refuses:
            raise Forbidden("no right")
        return [Line("p", HOSTILE)]

    def when(view: JobView, now: float) -> Timeline:
        return timeline([run_of(pod) for pod in view.pods], None, now, Now.RUNNING, view.name)

    async def used(view: JobView, now: float, viewer: Viewer) -> tuple[Usage, Rates]:
        rates = Rates({"gpu": Decimal(2), "cpu": Decimal("0.5")})
        return accounting.used(view, [run_of(pod) for pod in view.pods], rates, now), rates

    def does(change: Change) -> Callable[[JobView], Awaitable[None]]:
        async def act(view: JobView) -> None:
            if made_browser.refuses:
                raise Refused(HOSTILE)
            made_browser.done.append((change, view.resource.metadata.uid))

        return act

    access = Access(PORT)
    changes = {change: does(change) for change in Change}
    plans, replays = Here(), Here()
    sources = Sources(
        when,
        output,
        used,
        embedded=True,
        changes=changes,
        plan=work(PLAN, plans),
        replays=Replays(work(REPLAY, replays), "/nowhere/journal.jsonl"),
    )
    pages = Pages(seen, sources)
    app = application(seen, pages, Once(access, pages))
    running = asyncio.create_task(seen.run())
    made_browser = Browser(app, access.cookie.partition(";")[0], made, seen, changes, plans, replays)
    yield made_browser
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    made.store.close()


def job(name: str, pods: int) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "labels": {"muster.dev/gang": "true"}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


async def test_the_pages_say_what_runs_what_waits_and_what_would_start_it(browser: Browser) -> None:
    browser.of.node("a")
    browser.of.create(kinds.JOB, job("first", 3))

    async def bound() -> bool:
        return len(await browser.of.bound()) == 3

    async with scheduler(browser.of):
        await browser.of.until(bound)
        browser.of.create(kinds.JOB, job("second", 2))
        await browser.of.until(lambda: browser.says("/", "second", "InsufficientCapacity"))
        assert re.search(r"<dt>waiting</dt><dd><a [^>]*>1<", (await browser.get("/")).text)
        second = (await browser.get("/jobs/default/second")).text
        assert "InsufficientCapacity" in second
        assert "when default/first ends" in second  # a remedy that the scheduler has verified
        assert "In a terminal: <code>muster why second</code>" in second
        assert await browser.says("/queues", "default", "1 waiting", "second")
        assert await browser.says("/nodes", "first")


async def test_a_page_follows_the_cluster_and_is_sent_once(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("one", 1))
    await browser.of.until(lambda: browser.says("/jobs", "one"))
    first = await browser.get("/jobs", accept=MAIN)
    assert first.text.startswith("<main")
    assert first.text.endswith("</main>")
    again = await browser.get("/queues", accept=MAIN)
    same = await browser.get("/queues", accept=MAIN, if_none_match=again.headers["etag"])
    assert (same.status, same.body) == (304, b"")
    browser.of.create(kinds.JOB, job("two", 1))
    await browser.of.until(lambda: browser.says("/jobs", "two"))
    later = await browser.get("/jobs", accept=MAIN, if_none_match=first.headers["etag"])
    assert later.status == 200


async def test_viewers_are_told_of_changes_together(browser: Browser) -> None:
    changes = browser.seen.changes()
    first = await anext(changes)
    for number in range(50):
        browser.of.create(kinds.JOB, job(f"j{number}", 1))
    told = [await anext(changes)]
    waiting = asyncio.ensure_future(anext(changes))
    while (await asyncio.wait([waiting], timeout=5))[0]:
        told.append(waiting.result())
        waiting = asyncio.ensure_future(anext(changes))
    waiting.cancel()
    assert first < told[0]
    assert len(told) <= 4


async def test_a_real_cluster_says_which_scheduler_names_are_served(browser: Browser) -> None:
    namespace, name = SCHEDULER_LEASE.split("/")
    browser.of.registry.create(kinds.NAMESPACE, "", {"metadata": {"name": namespace}})
    lease = {"metadata": {"name": name, "annotations": {SCHEDULES: "a,b"}}, "spec": {}}
    browser.of.registry.create(kinds.LEASE, namespace, lease)
    real = dashboard.Cluster(browser.of.client, frozenset({"muster"}))
    running = asyncio.create_task(real.run())
    assert (await real.now()).live.schedulers == frozenset("ab")
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_a_pod_that_asks_for_more_than_there_is_takes_no_room_on_the_page(browser: Browser) -> None:
    browser.of.node("n")
    huge = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": str(2 * 10**9)}}}
    spec = {"nodeName": "n", "containers": [huge]}
    browser.of.create(kinds.POD, {"metadata": {"name": "on-n"}, "spec": spec})
    await browser.of.until(lambda: browser.says("/nodes", "<b>n</b>", "on-n"))


async def test_the_page_of_a_job_has_its_progress_as_curves_and_what_it_has_cost(browser: Browser) -> None:
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}  # type: ignore[index]
    browser.of.node("n")
    browser.of.create(kinds.POD, pod)
    page = "/jobs/default/x"
    await browser.of.until(lambda: browser.says(page, "<h1>x</h1>"))
    assert "Progress" not in (await browser.get(page)).text
    for step, loss in ((1, "3"), (2, "nan"), (3, "1.5")):
        told = {"metadata": {"annotations": {PROGRESS: f"step={step} loss={loss}"}}}
        browser.of.registry.patch(kinds.POD, "default", "x", told)
        await browser.of.until(lambda step=step: browser.says(page, f": step {step}, loss "))  # type: ignore[misc]
    text = (await browser.get(page)).text
    assert text.count("<polyline") == 3  # the step's, and the two parts of the loss
    for what in ("step", "loss"):
        assert f'aria-labelledby="curve-{what} curve-{what}-text"' in text
        assert f'<title id="curve-{what}">' in text
    assert '<td class="n">3</td><td class="n">1.5</td>' in text  # what the curves say, as a table
    assert "<dt>CPU-hours</dt>" in text
    assert "<dt>cost</dt>" in text
    assert "data-follows" in text


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=300), st.integers(5, 40))
async def test_each_pod_has_its_last_lines_and_all_are_few(printed: list[tuple[int, int]], most: int) -> None:
    lines = [Line(f"p{pod}", str(number)) for number, (pod, _) in enumerate(sorted(printed))]

    async def read() -> AsyncIterator[Line]:
        for line in lines:
            yield line

    found = await gathered(read(), most)
    assert len(found) <= most
    assert [line for line in lines if line in found] == found
    assert all(line in found for line in lines[-FEWEST:] if line.pod == lines[-1].pod)
    if len({line.pod for line in lines}) <= most // FEWEST:
        assert {line.pod for line in found} == {line.pod for line in lines}


LAYERS = {
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": "Spine", "labelKey": ["spine"]},
            {"topologyLayer": "Rack", "parentTopologyLayer": "Spine", "labelKey": ["rack"]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Rack"},
        ]
    },
}


async def test_nodes_are_boxes_in_the_domains_of_the_network(browser: Browser) -> None:
    amounts = {"nvidia.com/gpu": "4", "cpu": "4"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    places = (("s2", "r1"), ("s1", "r2"), ("s1", "r1"), ("s1", ""))
    for number, (spine, rack) in enumerate(places):
        labels = {"spine": spine, **({"rack": rack} if rack else {})}
        browser.of.registry.create(
            kinds.NODE, "", {"metadata": {"name": f"n{number}", "labels": labels}, "status": status}
        )
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "3"}}}
    for name in ("x", "y"):
        spec = {"nodeName": "n2", "containers": [container]}
        browser.of.create(kinds.POD, {"metadata": {"name": name}, "spec": spec})
    browser.of.registry.create(kinds.CLUSTER_NETWORK_TOPOLOGY, "", LAYERS)
    await browser.of.until(
        lambda: browser.says("/nodes", "Spine s1", "Spine s2", "4 of 4 GPUs in use", ">y<")
    )
    text = (await browser.get("/nodes")).text
    order = re.findall(r"<h[234]>((?:no )?\w+(?: \w+)?) <|<b>(n\d)</b>", text)
    assert ["".join(each) for each in order] == [
        *("Spine s1", "Rack r1", "n2", "Rack r2", "n1", "no Rack", "n3"),
        *("Spine s2", "Rack r1", "n0"),
    ]
    assert text.count('<div class="domain">') == text.count("</div>") == 6
    for colour, legend in (
        ("job", {"free", "x", "y"}),
        ("queue", {"free", "default"}),
        ("health", {"ready"}),
        ("free", {"free", "in use"}),
        ("none", {"free", "x", "y"}),
    ):
        text = (await browser.get(f"/nodes?colour={colour}")).text
        assert set(re.findall(r"</svg>([^<]+)</li>", text)) == legend
        assert set(re.findall(r"<title>([^<]+)</title></rect>", text)) == legend
    for job in ("x", "default/x"):
        text = (await browser.get(f"/nodes?job={quote(job, '')}")).text
        assert (text.count(" sought"), text.count(" other"), text.count("<b>n")) == (3, 1, 1)
    assert await browser.says("/nodes?job=other/x", "There is no such node")


async def test_output_that_cannot_be_read_is_said(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    browser.refuses = True
    await browser.of.until(lambda: browser.says("/jobs/default/x", "the output cannot be read: no right"))


async def test_text_of_the_cluster_is_text(browser: Browser) -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": HOSTILE, "message": HOSTILE}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    browser.of.create(kinds.POD, pod)
    status = {"phase": "Pending", "conditions": [said]}
    browser.of.registry.update(kinds.POD, "default", "p", {**pod, "status": status}, subresource="status")
    await browser.of.until(lambda: browser.says("/jobs/default/p", r"\u202e", "&lt;script&gt;alert"))
    for path in (
        "/",
        "/jobs",
        "/jobs/default/p",
        "/queues",
        "/nodes",
        "/calendar",
        "/jobs?q=%3Cscript%3Ealert",
    ):
        text = (await browser.get(path)).text
        assert "<script>alert" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text


@pytest.mark.parametrize(
    "query",
    [
        "state=none&queue=none&sort=none&page=99999999999999",
        "page=-1&sort=",
        "page=%D9%A3",
        "q=" + "x" * 5_000,
        "q=%00%ff&q=a&state[]=x",
        *(f"sort={order}" for order in ORDERS),
    ],
)
async def test_whatever_a_query_says_there_is_a_page(browser: Browser, query: str) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    assert (await browser.get(f"/jobs?{query}")).status == 200


@pytest.mark.parametrize("path", ["/x", "/jobs/a", "/jobs/default/gone", "/jobs/a/b/c", "//evil.example"])
async def test_what_is_not_there_is_said(browser: Browser, path: str) -> None:
    found = await browser.get(path)
    assert found.status == 404
    assert "<h1>" in found.text


async def test_a_job_that_has_gone_since_its_page_was_opened(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    await browser.of.until(lambda: browser.says("/jobs/default/x", "<h1>x</h1>"))
    browser.of.registry.delete(kinds.JOB, "default", "x")
    await browser.of.until(lambda: browser.says("/jobs/default/x", "x is gone"))


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_no_other_method_is_answered(browser: Browser, method: str) -> None:
    assert (await browser.get("/jobs", method)).status == 405


CHANGE = "/jobs/default/x/change"


async def asked(browser: Browser) -> dict[str, str]:
    """The hidden fields of the forms of job x."""
    await browser.of.until(lambda: browser.says("/jobs", "/jobs/default/x/change?job="))
    found = re.search(r'href="(/jobs/default/x/change[^"]*)"', (await browser.get("/jobs/default/x")).text)
    assert found is not None
    asks = await browser.get(found[1])
    assert "Cancel x" in asks.text
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', asks.text))


@pytest.mark.parametrize(
    ("change", "then"),
    [(Change.CANCEL, "/jobs"), (Change.HOLD, "/jobs/default/x"), (Change.RELEASE, "/jobs/default/x")],
)
async def test_a_job_is_changed_once_it_has_been_asked(browser: Browser, change: Change, then: str) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    fields = await asked(browser)
    assert not browser.done
    answer = await browser.send(CHANGE, urlencode({**fields, "change": change.value}))
    assert (answer.status, answer.headers["location"]) == (303, then)
    assert browser.done == [(change, fields["job"])]


async def test_a_page_offers_what_can_be_done(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    fields = await asked(browser)
    address = f"{CHANGE}?job={fields['job']}"
    assert await browser.says(address, 'value="hold"', 'value="cancel"')
    body = {"metadata": {"labels": {HOLD: "true"}}}
    browser.of.registry.patch(kinds.JOB, "default", "x", body)
    await browser.of.until(lambda: browser.says(address, 'value="release"'))
    assert 'value="hold"' not in (await browser.get(address)).text


async def test_the_successor_of_a_job_is_left_alone(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    fields = await asked(browser)
    browser.of.registry.delete(kinds.JOB, "default", "x")
    address, form = f"{CHANGE}?job={fields['job']}", urlencode({**fields, "change": "cancel"})
    await browser.of.until(lambda: browser.says(address, "No job called x"))
    assert (await browser.send(CHANGE, form)).status == 404
    browser.of.create(kinds.JOB, job("x", 1))
    await browser.of.until(lambda: browser.says(address, "submitted since"))
    assert (await browser.send(CHANGE, form)).status == 409
    assert not browser.done


@pytest.mark.parametrize(
    "altered",
    [
        {"form": ""},
        {"form": "\u00e9"},
        {"form": "0" * 64},
        {"origin": ""},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": f"http://localhost:{PORT}"},  # another origin, if this machine's
        {"content_type": "text/plain"},
        {"content_type": "multipart/form-data; boundary=x"},
        {"host": "evil.example", "origin": "http://evil.example"},
    ],
)
async def test_a_forged_form_changes_nothing(browser: Browser, altered: dict[str, str]) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    fields = {**await asked(browser), "change": "cancel"}
    body = urlencode({key: altered.pop(key, value) for key, value in fields.items()})
    assert (await browser.send(CHANGE, body, **altered)).status in (400, 403, 421)
    assert (await browser.get(CHANGE, "POST", cookie=False, body=body.encode())).status == 403
    assert not browser.done


@pytest.mark.parametrize(
    "body", [b"", b"=" * 2_000_000, b"&".join([b"a=b"] * 1_000), b"form=%ff&form=\xff", b"change=cancel"]
)
async def test_whatever_is_sent_there_is_an_answer(browser: Browser, body: bytes) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    await asked(browser)
    assert (await browser.send(CHANGE, body)).status in (400, 403)
    assert not browser.done


async def test_what_cannot_be_done_is_said(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    fields = await asked(browser)
    browser.refuses = True
    answer = await browser.send(CHANGE, urlencode({**fields, "change": "hold"}))
    assert answer.status == 409
    assert "&lt;script&gt;" in answer.text
    assert (await browser.send(CHANGE, urlencode({**fields, "change": "delete"}))).status == 403
    assert (await browser.send("/jobs", urlencode(fields))).status == 405


async def test_a_dashboard_that_only_shows_has_nothing_to_change_jobs_with(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("x", 1))
    fields = await asked(browser)
    browser.changes.clear()
    assert (await browser.send(CHANGE, urlencode({**fields, "change": "cancel"}))).status == 403
    for path in (CHANGE, f"{CHANGE}?job={fields['job']}"):
        assert (await browser.get(path)).status == 404
    for path in ("/jobs", "/jobs/default/x"):
        assert "/change" not in (await browser.get(path)).text


async def test_without_access_nothing_is_shown_not_even_a_style_sheet(browser: Browser) -> None:
    browser.of.create(kinds.JOB, job("secret", 1))
    for path in ("/", "/jobs", "/events", "/static/style.css", "/jobs/default/secret", "/x"):
        found = await browser.get(path, cookie=False)
        assert found.status == 403
        assert "secret" not in found.text
        assert found.headers.items() >= {(key.lower(), value) for key, value in HEADERS.items()}


async def test_what_cannot_be_shown_leaves_the_other_pages(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(moment: object) -> Any:
        raise KeyError("x")

    monkeypatch.setattr("muster.dashboard.room.queues", broken)
    assert (await browser.get("/queues")).status == 500
    assert "/queues cannot be shown" in caplog.text
    assert (await browser.get("/jobs")).status == 200


async def test_static_files_are_those_of_the_package(browser: Browser) -> None:
    for file in sorted((HERE / "static").iterdir()):
        assert (await browser.get(f"/static/{file.name}")).status == 200
    for path in ("/static/../pages.py", "/static/../../muster/names.py", "/static/x", "/static/"):
        assert (await browser.get(path)).status == 404


def test_pages_load_nothing_from_elsewhere_and_have_no_script_or_style_of_their_own() -> None:
    for file in (HERE / "templates").iterdir():
        text = file.read_text()
        assert "http://" not in text
        assert "https://" not in text
        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|\|\s*safe", text), file
        assert all("src=" in script for script in re.findall(r"<script[^>]*>", text))


async def test_the_calendar_says_when_jobs_end_and_start(browser: Browser) -> None:
    browser.of.node("a")
    first = job("first", 3)
    first["spec"]["activeDeadlineSeconds"] = 3600
    browser.of.create(kinds.JOB, first)
    async with scheduler(browser.of):
        await browser.of.until(lambda: browser.says("/", "first"))
        browser.of.create(kinds.JOB, job("second", 2))
        await browser.of.until(lambda: browser.says("/calendar", "reserved", "1 node is kept for it"))
    assert await browser.says("/calendar", "runs for", "waits for", "second")
    assert await browser.says("/evictions", "No job that exists has been evicted.")


PROPOSED = "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {containers: []}}"


async def proposed(browser: Browser, text: str, **headers: str) -> Answered:
    [form] = re.findall(r'name="form" value="([^"]*)"', (await browser.get("/plan")).text)
    return await browser.send("/plan", urlencode({"form": form, "objects": text}), **headers)


async def test_a_plan_says_what_would_happen_and_changes_nothing(browser: Browser) -> None:
    browser.of.node("a")
    await browser.of.until(lambda: browser.says("/nodes", "<b>a</b>"))
    before = browser.of.store.revision
    fits = json.dumps({"apiVersion": "batch/v1", "kind": "Job", **job("fits", 3)})
    found = await proposed(browser, fits)
    assert found.status == 200
    assert "default/fits" in found.text
    assert "<td>place</td>" in found.text
    assert "a ×3" in found.text
    assert "\\r" not in (await proposed(browser, fits.replace(", ", ",\r\n"))).text
    large = await proposed(browser, fits.replace(": 3", ": 5"))
    assert "<td>wait</td>" in large.text
    assert browser.of.store.revision == before
    assert "default/fits" not in (await browser.get("/jobs")).text


async def test_a_plan_that_takes_too_long_is_said_and_holds_no_other_page(browser: Browser) -> None:
    browser.plans.late = True
    first = asyncio.create_task(proposed(browser, PROPOSED))
    await asyncio.sleep(10)
    assert "Another plan is being computed" in (await proposed(browser, PROPOSED)).text
    assert (await browser.get("/jobs")).status == 200
    assert "takes more than 60 s, and was ended" in (await first).text
    assert browser.plans.ended == 1
    browser.plans.late = False

    async def planned() -> bool:
        return "<td>place</td>" in (await proposed(browser, fits)).text

    browser.of.node("a")
    fits = json.dumps({"apiVersion": "batch/v1", "kind": "Job", **job("fits", 3)})
    await browser.of.until(planned)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the text: is empty"),
        ("a: [", "is not YAML"),
        ("{kind: ConfigMap, apiVersion: v1, metadata: {name: x}}", "nothing to plan"),
        ("a: &a [x]\nb: [*a, *a]\nkind: 7", "the text"),
        (HOSTILE, "the text"),
        ("[" * 5_000, "the text"),
    ],
)
async def test_what_cannot_be_planned_is_said(browser: Browser, text: str, said: str) -> None:
    found = await proposed(browser, text)
    assert found.status == 200
    assert said in found.text
    assert "<script>alert" not in found.text
    assert "\x1b" not in found.text


async def test_a_plan_is_asked_for_by_a_page_of_this_browser(browser: Browser) -> None:
    assert (await proposed(browser, PROPOSED, origin="http://evil.example")).status in (403, 421)
    assert (await browser.send("/plan", urlencode({"objects": PROPOSED}))).status == 403
    assert (await browser.send("/plan", b"objects=" + b"x" * (1 << 20))).status == 400


async def test_a_queue_that_uses_more_than_its_share_says_by_how_much(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words: a colour alone says it to few."""
    bar = {"resource": "cpu", "used": 3000.0, "entitled": 1000.0, "cap": None, "whole": 4000}
    row = {"view": SimpleNamespace(name="q", depth=0, notes=[]), "front": [], "waiting": 0}
    monkeypatch.setattr("muster.dashboard.room.queues", lambda moment: {"rows": [row | {"bars": [bar]}]})
    assert "3 of 1, <b>borrows 2</b>" in (await browser.get("/queues")).text
    bar["used"] = 1000.0
    assert "borrows" not in (await browser.get("/queues")).text


async def test_the_first_page_and_that_of_nodes_name_the_nodes_to_look_at(browser: Browser) -> None:
    """Of many nodes, they are not on the first page of boxes."""
    for name, ready, spec in (
        ("well", "True", {}),
        ("lost", "False", {}),
        ("shut", "True", {"unschedulable": True}),
    ):
        status = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": ready}]}
        browser.of.registry.create(
            kinds.NODE, "", {"metadata": {"name": name}, "spec": spec, "status": status}
        )
    lost, shut = (f'<a href="/nodes?q={name}&amp;colour=health">{name}</a> ' for name in ("lost", "shut"))
    said = f"Nodes to look at: {lost}not ready; {shut}cordoned."
    for path in ("/", "/nodes", "/nodes?q=well"):
        await browser.of.until(lambda path=path: browser.says(path, said))  # type: ignore[misc]


async def test_a_node_to_look_at_says_once_that_it_is_avoided(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [
        NodeView("n", state, {}, {}, "", "node n is avoided: pods failed")
        for state in ("avoided", "cordoned")
    ]
    monkeypatch.setattr("muster.dashboard.room.sick", lambda nodes: {"sick": told, "unnamed_sick": 7})
    said = "</a> avoided: pods failed; "
    text = (await browser.get("/")).text
    assert said in text
    assert "</a> cordoned: node n is avoided: pods failed; and 7 more." in text


def test_of_many_nodes_to_look_at_some_are_named() -> None:
    nodes = [NodeView(f"n{number:03}", "ready", {}, {}, "", "failed a pod") for number in range(NAMES + 2)]
    found = sick([*nodes[::-1], NodeView("other", "tainted", {}, {}, "")])
    assert found == {"sick": nodes[:NAMES], "unnamed_sick": 2}


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("1970-01-01T00:02:05.5Z", "00:02:05 UTC, in 2:05 min"),
        ("1970-01-02T00:00:00Z", "1970-01-02 00:00:00 UTC, in 24:00 h"),
        (None, "not known"),
        ("<b>", "<b>"),
        (["x"], "['x']"),
    ],
)
def test_an_expected_start_says_when_and_in_how_long(at: object, said: str) -> None:
    assert _coming(at, 0.0) == said


async def test_whether_changes_may_be_followed_is_answered_at_once(browser: Browser) -> None:
    async with asyncio.timeout(60):  # of virtual time
        assert (await browser.get("/events", "HEAD")).status == 200
        assert (await browser.get("/events", "HEAD", cookie=False)).status == 403


TRACE = """\
{"node": "n", "resources": {"cpu": 10}}
{"job": "a<b>", "submit": 0, "run": 20, "pods": [{"count": 6, "resources": {"cpu": 1}}]}
{"job": "b", "submit": 5, "run": 4, "pods": [{"count": 5, "resources": {"cpu": 1}}]}
{"job": "c", "submit": 6, "run": 9, "pods": [{"count": 4, "resources": {"cpu": 1}}]}
"""


async def replayed(browser: Browser, trace: str, **how: str) -> Answered:
    """Sends the form of the page Replay, and follows it to the page that it leads to."""
    [form] = re.findall(r'name="form" value="([^"]*)"', (await browser.get("/replay")).text)
    sent = await browser.send("/replay", urlencode({"form": form, "trace": trace, **how}))
    return await browser.get(sent.headers["location"]) if sent.status == 303 else sent


async def test_two_policies_are_replayed_side_by_side_at_an_address_of_their_own(
    browser: Browser, tmp_path: Path
) -> None:
    assert "/nowhere/journal.jsonl" in (await browser.get("/replay")).text
    file = tmp_path / "t r<i>.jsonl"
    file.write_text(TRACE)
    how = {"first": "easy", "second": "fcfs", "last": "all"}
    found = await replayed(browser, str(file), **how)
    address = "/replay?" + urlencode({"trace": str(file), **how})

    async def done() -> bool:
        return "wait_mean" in (await browser.get(address)).text

    assert "data-follows" in found.text or await done()
    await browser.of.until(done)
    text = (await browser.get(address)).text
    assert "3 jobs on 1 node, 10 CPUs" in text
    assert text.count("Allocation and demand (CPUs)") == 2
    assert re.search(r'wait_mean</th><td class="n">5</td><td class="n">9.6667', text)
    for policy in ("easy", "fcfs"):
        assert f"muster replay &#39;{file}&#39; --policy {policy}".replace("<i>", "&lt;i&gt;") in text
    assert " style=" not in text  # the policy of the page forbids it
    assert "data-still" in text
    assert (await browser.get(address)).status == 200


async def test_a_second_replay_is_refused_and_the_first_has_an_end(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(TRACE)
    browser.replays.late = True
    assert "The process that computes it starts" in (await replayed(browser, str(file))).text
    other = await replayed(browser, str(file), first="pack")
    assert "Another replay is being computed" in other.text
    assert "The replay that is being computed" in other.text
    assert "starts" in (await replayed(browser, str(file))).text  # the same is waited for
    await asyncio.sleep(REPLAY + 1)
    assert browser.replays.ended == 1
    text = (await browser.get("/replay?" + urlencode({"trace": str(file)}))).text
    assert "It takes more than 300 s, and was ended." in text
    browser.replays.late = False
    await browser.of.until(lambda: _again(browser, str(file)))


async def _again(browser: Browser, trace: str) -> bool:
    return "wait_mean" in (await replayed(browser, trace)).text


@pytest.mark.parametrize("trace", ["", "/", "/dev/zero", "no such", HOSTILE, "x" * 5_000, "\0"])
async def test_what_cannot_be_replayed_is_said(browser: Browser, trace: str) -> None:
    await replayed(browser, trace, first="evil", last="-1")

    async def said() -> bool:
        found = await browser.get("/replay?" + urlencode({"trace": trace, "first": "<b>"}))
        assert "<script>alert" not in found.text
        assert "\x1b" not in found.text
        return found.status == 200 and "there is no such file" in found.text

    await browser.of.until(said)


async def test_a_replay_is_asked_for_by_a_page_of_this_browser(browser: Browser) -> None:
    assert (await browser.send("/replay", urlencode({"trace": "/etc/passwd"}))).status == 403


async def test_the_first_load_of_a_large_cluster_says_how_far_it_is(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await browser.get("/")).status == 200
    loaded = browser.seen._ready
    browser.seen._ready = asyncio.Event()
    browser.seen._live.taken = 10_000
    monkeypatch.setattr(dashboard.Cluster, "_read_now", 115_000)
    for path in ("/", "/jobs", "/nodes"):
        found = await browser.get(path)
        assert found.status == 503
        assert "10,000 of 115,000 objects of the cluster are taken in." in found.text
        assert 'http-equiv="refresh"' in found.text
        assert "data-follows" in found.text
    browser.seen._ready = loaded
    assert (await browser.get("/")).status == 200
