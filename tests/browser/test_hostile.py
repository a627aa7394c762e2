"""Names and texts as hostile as any API server could send them, on each page, on a narrow screen.

No API server has such objects: it checks names. The pages do not rely on that.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from playwright.sync_api import expect

from muster.api import kinds
from muster.api.base import AnyKind, Object
from muster.api.rates import Rates
from muster.app.views.job import JobView
from muster.app.views.logs import Line
from muster.app.views.timeline import Now, Timeline, timeline
from muster.app.views.usage import Usage
from muster.dashboard.access import Access, Viewer
from muster.dashboard.cluster import KINDS, Cluster
from muster.dashboard.pages import Pages, Sources
from muster.dashboard.replays import Replays
from muster.dashboard.server import HOST, Once, application, serving
from muster.dashboard.work import REPLAY, Work
from muster.kube.decode import decode
from muster.workloads.pod_run import run_of
from tests.browser.conftest import Site

AT = "2026-01-01T00:00:00Z"
TEXT = "<script>alert(1)</script>\u202e\x1b[31m&\"'"
#: Without a slash, which a name in an address has no room for; 253 characters that no browser breaks.
NAME = (TEXT.replace("/", "") + "W" * 253)[:253]
GPU = "nvidia.com/gpu"
#: What is wider than the screen, and does not scroll by itself.
WIDER = """[...document.querySelectorAll("body *")].filter(
  (each) => each.getBoundingClientRect().right > 361 && !each.parentElement.closest(".wide, .tail, svg")
).map((each) => each.outerHTML.slice(0, 60))"""


def objects() -> Iterator[tuple[AnyKind, Object]]:
    """A node, a queue, a job that runs, one that waits and was evicted, and one that has failed."""
    amounts = {"cpu": "8", GPU: "8"}
    taint = {"key": NAME, "value": TEXT, "effect": "NoSchedule"}
    labels = {"rack": NAME, "nvidia.com/gpu.product": NAME}
    ready = [{"type": "Ready", "status": "False", "reason": NAME, "message": TEXT}]
    yield (
        kinds.NODE,
        {
            "metadata": meta(NAME, "") | {"labels": labels},
            "spec": {"taints": [taint]},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": ready},
        },
    )
    yield kinds.QUEUE, {"metadata": meta(NAME, ""), "spec": {"weight": 1, "deserved": {GPU: 1, NAME: 3}}}
    for number, phase in enumerate(("Running", "Pending", "Failed")):
        name = f"{number}{NAME}"[:253]
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", GPU: "2"}}}
        spec: Object = {"containers": [container], "schedulerName": "muster"}
        counts = {"parallelism": 1, "completions": 1, "activeDeadlineSeconds": 3600}
        marks = {"muster.dev/gang": "true", "muster.dev/queue": NAME}
        yield (
            kinds.JOB,
            {"metadata": meta(name, NAME) | {"labels": marks}, "spec": counts | {"template": {"spec": spec}}},
        )
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
        state = {"terminated": {"exitCode": 1, "reason": NAME, "message": TEXT, "finishedAt": AT}}
        status = {
            "phase": phase,
            "startTime": AT,
            "reason": NAME,
            "message": TEXT + NAME,
            "containerStatuses": [{"name": "c", "state": state}] if phase == "Failed" else [],
        }
        placed = {} if phase == "Pending" else {"nodeName": NAME}
        yield (
            kinds.POD,
            {
                "metadata": meta(f"{name}p"[:253], NAME) | {"ownerReferences": [owner]},
                "spec": spec | placed,
                "status": status,
            },
        )
        told = {
            "phase": "Running" if phase == "Running" else "Waiting",
            "reason": {"code": NAME, "message": TEXT + NAME},
            "warnings": [TEXT, NAME],
            "explanation": {
                "podSets": [{"name": NAME, "fits": 0, "wanted": 1, "limitedBy": {NAME: 2}}],
                "blockers": [NAME],
                "remedies": [{"effect": NAME, "change": TEXT + NAME}],
                "expectedStart": {"at": AT, "basis": TEXT + NAME},
            },
            "preemptions": [{"by": NAME, "at": AT, "kind": NAME, "gpuHoursLost": "1"}],
        }
        source = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name}
        yield (
            kinds.GANG,
            {"metadata": meta(name, NAME), "spec": {"queue": NAME, "source": source}, "status": told},
        )


def meta(name: str, namespace: str) -> Object:
    stamp = {"uid": name, "resourceVersion": "1", "creationTimestamp": AT}
    return {"name": name, "namespace": namespace, **stamp}


@contextmanager
def served() -> Iterator[tuple[str, list[str]]]:
    """The address of pages that show these objects, with its token, and the paths of its jobs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    begun: asyncio.Future[Any] = loop.create_future()
    over = asyncio.Event()

    async def output(view: JobView, most: int, viewer: Viewer) -> list[Line]:
        return [Line(NAME, TEXT + NAME)]

    async def used(view: JobView, now: float, viewer: Viewer) -> tuple[Usage, Rates]:
        return Usage(), Rates()

    def drawn(view: JobView, now: float) -> Timeline:
        return timeline([run_of(pod) for pod in view.pods], None, now, Now.RUNNING, view.name)

    async def serve() -> None:
        nothing: Any = None  # Any: nothing is asked
        cluster = Cluster(nothing, None)
        for kind in KINDS:
            cluster._informers[kind].synced.set()
        for kind, one in objects():
            read: Any = decode(kind, msgspec.json.encode(one))  # Any: of its kind
            cluster._informers[kind]._change(read.key, read)
        await cluster._load()
        sources = Sources(drawn, output, used, embedded=False, replays=Replays(Work(REPLAY), NAME))
        pages, token = Pages(cluster, sources), ""

        def made(port: int) -> Any:  # Any: an application
            nonlocal token
            access = Access(port)
            token = access.token
            return application(cluster, pages, Once(access, pages))

        async with serving(made, 0) as port:
            begun.set_result(f"http://{HOST}:{port}/?token={token}")
            await over.wait()

    serving_it = asyncio.run_coroutine_threadsafe(serve(), loop)
    try:
        while not begun.done() and not serving_it.done():
            threading.Event().wait(0.01)
        if serving_it.done():
            serving_it.result()
        yield begun.result(), []
    finally:
        loop.call_soon_threadsafe(over.set)
        serving_it.result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_each_page_holds_them_on_a_narrow_screen(site: Site) -> None:
    with served() as (address, _):
        here = address.partition("/?")[0]
        page = site.page(address, access=False, viewport={"width": 360, "height": 740})
        paths = page.locator("nav a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
        page.goto(f"{here}/jobs")
        jobs = page.locator("tbody a.job").evaluate_all("all => all.map(each => each.getAttribute('href'))")
        assert len(jobs) == 3
        wide = {}
        for path in dict.fromkeys((*paths, *jobs, "/nodes?colour=health", "/nodes?job=x", "/no/such")):
            page.goto(here + path)
            expect(page.locator("h1")).to_be_visible()
            assert page.locator("main script").count() == 0
            text = page.locator("main").inner_text()
            assert not {"\u202e", "\x1b"} & {*text}, path
            if (width := page.evaluate("document.documentElement.scrollWidth")) > 360:
                wide[path[:9], width] = page.evaluate(WIDER)
        assert wide == {}
        page.close()
    site.faults[:] = [each for each in site.faults if here not in each or "dialog" in each]
