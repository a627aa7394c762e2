"""On a cluster each viewer sees what its bearer token may see, and nothing else."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.rates import Rates
from muster.api.reviews import TOKEN_REVIEW, UserInfo
from muster.app.views.job import JobView
from muster.app.views.logs import Line
from muster.app.views.timeline import Now, timeline
from muster.app.views.usage import Usage
from muster.dashboard import cluster as dashboard
from muster.dashboard.access import Viewer
from muster.dashboard.pages import Pages, Sources
from muster.dashboard.reviews import BURST, KEPT, REFUSED, WAITING, Busy, Reviews, _Kept
from muster.dashboard.server import application
from muster.dashboard.sign_in import SignIn
from muster.dashboard.work import PLAN
from muster.kube.decode import decode
from muster.kube.errors import Unreachable
from tests.dashboard.test_server import Answered, job, request
from tests.dashboard.works import Here, work
from tests.runtime.test_loop import Cluster, scheduler

pytestmark = pytest.mark.looptime

HOST = "muster.example.org"
#: What users may list: `RESOURCE` everywhere, or `RESOURCE/NAMESPACE`.
RIGHTS_OF = {
    "root": {"pods", "gangs", "nodes", "queues"},
    "red": {"pods/red", "gangs/red", "nodes", "queues"},
    "blue": {"pods/blue", "gangs/blue"},
    "pods only": {"pods/red"},
    "nobody": set[str](),
}


@dataclass
class Server:
    """Answers reviews: a token is the name of its user."""

    tokens: set[str] = field(default_factory=lambda: {name.replace(" ", "-") for name in RIGHTS_OF})
    asked: list[Object] = field(default_factory=list)
    reached: bool = True

    async def create(self, kind: Kind[Any], namespace: str, obj: Object) -> Any:
        if not self.reached:
            raise Unreachable("no route")
        self.asked.append(obj)
        spec = obj["spec"]
        if kind is TOKEN_REVIEW:
            valid = spec["token"] in self.tokens
            status: Object = {"authenticated": valid}
            if valid:
                status["user"] = {
                    "username": spec["token"].replace("-", " "),
                    "groups": ["system:authenticated"],
                }
        else:
            of = spec["resourceAttributes"]
            rights = RIGHTS_OF[spec["user"]]
            where = f"{of['resource']}/{of['namespace']}"
            status = {"allowed": of["verb"] == "list" and (of["resource"] in rights or where in rights)}
        return decode(kind, msgspec.json.encode({**obj, "status": status}))


@dataclass
class Site:
    app: Any  # Any: an ASGI application
    of: Cluster
    server: Server
    #: whose rights output was asked for with
    asked: list[str] = field(default_factory=list)
    #: kinds that have not been read
    unread: list[str] = field(default_factory=list)

    async def get(self, path: str, token: str = "", **headers: str) -> Answered:
        bearer = {"authorization": f"Bearer {token}"} if token else {}
        return await request(self.app, path, "GET", b"", **{"host": HOST, **bearer, **headers})

    async def send(self, path: str, body: str, **headers: str) -> Answered:
        kind = "application/x-www-form-urlencoded"
        sent = {"host": HOST, "origin": f"https://{HOST}", "content_type": kind, **headers}
        return await request(self.app, path, "POST", body.encode(), **sent)

    async def says(self, path: str, token: str, *words: str) -> bool:
        text = (await self.get(path, token)).text
        return all(word in text for word in words)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made, server, unread = Cluster(), Server(), list[str]()
    seen = dashboard.Cluster(made.client, None)

    async def output(view: JobView, most: int, viewer: Viewer) -> list[Line]:
        found.asked.append(viewer.token)
        return [Line("p", "a line")]

    async def used(view: JobView, now: float, viewer: Viewer) -> tuple[Usage, Rates]:
        return Usage(), Rates()

    sources = Sources(
        lambda view, now: timeline([], None, now, Now.RUNNING, view.name),
        output,
        used,
        embedded=False,
        plan=work(PLAN, Here()),
    )
    pages = Pages(seen, sources)
    gate = SignIn(Reviews(server, asyncio.get_running_loop().time), pages, [HOST], lambda: unread)  # type: ignore[arg-type]
    found = Site(application(seen, pages, gate), made, server, unread=unread)
    running = asyncio.create_task(seen.run())
    yield found
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    made.store.close()


async def two(site: Site) -> None:
    """A job in each of two namespaces: red's runs, blue's waits."""
    site.of.node("n")
    for name, pods in (("red", 3), ("blue", 2)):
        site.of.registry.create(kinds.NAMESPACE, "", {"metadata": {"name": name}})
        site.of.registry.create(kinds.JOB, name, job(f"job-of-{name}", pods))
        await site.of.until(lambda name=name: site.says("/jobs", "root", f"job-of-{name}"))  # type: ignore[misc]


async def test_each_viewer_sees_the_jobs_of_its_namespaces(site: Site) -> None:
    async with scheduler(site.of):
        await two(site)
        await site.of.until(lambda: site.says("/", "root", "job-of-red", "InsufficientCapacity"))
    for viewer, sees, hides in (("red", "red", "blue"), ("blue", "blue", "red")):
        for path in ("/", "/jobs", "/nodes", "/queues", "/calendar", "/evictions", f"/jobs?q={hides}"):
            text = (await site.get(path, viewer)).text
            assert f"job-of-{hides}" not in text, path
            assert f"/jobs/{hides}" not in text, path
            assert f"{hides}/" not in text, path
        assert await site.says("/jobs", viewer, f"job-of-{sees}")
        assert (await site.get(f"/jobs/{sees}/job-of-{sees}", viewer)).status == 200
        missing = await site.get(f"/jobs/{hides}/job-of-{hides}", viewer)
        assert missing.status == 404
        same = (await site.get(f"/jobs/{hides}/never-there", viewer)).text
        assert same.replace("never-there", f"job-of-{hides}") == missing.text
    assert site.asked == ["red", "blue"]  # output is read with the viewer's rights
    for viewer in ("nobody", "pods-only"):
        for path in ("/", "/jobs", "/nodes", "/queues"):
            assert "job-of" not in (await site.get(path, viewer)).text


async def test_what_is_recorded_of_a_job_does_not_name_gangs_of_others(site: Site) -> None:
    async with scheduler(site.of):
        await two(site)
        await site.of.until(lambda: site.says("/jobs/red/job-of-red", "red", "running"))
    found = [json.loads(each)["metadata"] for each in site.of.registry.list(kinds.GANG).items]
    [gang] = [each["name"] for each in found if each["namespace"] == "red"]
    name = "blue/job-of-blue"
    told = {
        "blockers": [name, "red/other"],
        "remedies": [{"effect": f"when {name} ends", "change": f"cancel {name}"}],
        "expectedStart": {"at": "2026-01-31T12:00:00Z", "basis": f"when {name} ends"},
        "podSets": [{"name": "p", "fits": 0, "wanted": 1, "limitedBy": {f"held by {name}": 2}}],
    }
    status = {"explanation": told, "warnings": [f"it waits for {name}"]}
    site.of.registry.patch(kinds.GANG, "red", gang, {"status": status})
    address = "/jobs/red/job-of-red"
    await site.of.until(lambda: site.says(address, "root", name, "it waits for"))
    text = (await site.get(address, "red")).text
    assert "job-of-blue" not in text
    assert "red/other" in text
    assert text.count("another namespace&#39;s gang") == 6


async def test_only_who_sees_everything_may_plan(site: Site) -> None:
    assert (await site.get("/plan", "root")).status == 200
    for viewer in ("red", "blue", "pods-only"):
        assert (await site.get("/plan", viewer)).status == 403


async def test_pages_for_the_users_of_a_cluster_replay_nothing(site: Site) -> None:
    assert 'href="/replay"' not in (await site.get("/", "root")).text
    found = await site.get("/replay?trace=/etc/passwd", "root")
    assert found.status == 403
    assert "muster replay TRACE" in found.text


@pytest.mark.parametrize("template", ["{}", "{spec: {template: {spec: [3], metadata: {labels: 3}}}}"])
async def test_a_text_that_cannot_be_read_is_no_fault_of_the_page(site: Site, template: str) -> None:
    [form] = re.findall(r'name="form" value="([^"]*)"', (await site.get("/plan", "root")).text)[:1]
    head = "kind: JobSet\napiVersion: jobset.x-k8s.io/v1alpha2\nmetadata: {name: a}\n"
    text = f"{head}spec: {{replicatedJobs: [{{name: r, replicas: 1, template: {template}}}]}}"
    found = await site.send("/plan", urlencode({"form": form, "objects": text}), authorization="Bearer root")
    assert found.status == 200
    assert "lacks one" in found.text


async def test_what_others_use_is_not_free(site: Site) -> None:
    site.of.registry.create(kinds.NAMESPACE, "", {"metadata": {"name": "blue"}})
    status = {
        "capacity": {"nvidia.com/gpu": "4", "cpu": "4"},
        "allocatable": {"nvidia.com/gpu": "4", "cpu": "4"},
    }
    site.of.registry.create(kinds.NODE, "", {"metadata": {"name": "n"}, "status": status})
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "3"}}}
    spec = {"nodeName": "n", "containers": [container]}
    site.of.registry.create(kinds.POD, "blue", {"metadata": {"name": "secret"}, "spec": spec})
    await site.of.until(lambda: site.says("/nodes", "root", "3 of 4 GPUs in use", "secret"))
    text = (await site.get("/nodes", "red")).text
    assert "3 of 4 GPUs in use" in text
    assert "another namespace&#39;s job" in text
    assert "secret" not in text


async def test_without_a_valid_token_there_is_a_form_and_nothing_else(site: Site) -> None:
    await two(site)
    for token in ("", "forged", "\u00e9", "x" * 20_000, "a b", 'a"b'):
        for path in ("/", "/jobs", "/events", "/jobs/red/job-of-red"):
            found = await site.get(path, token)
            assert found.status == 401
            assert "job-of" not in found.text
            assert 'name="token"' in found.text
    assert (await site.get("/static/style.css")).status == 200


async def test_a_browser_signs_in_and_out(site: Site) -> None:
    await two(site)
    answer = await site.send("/sign-in", "token=red")
    assert answer.status == 303
    cookie = answer.headers["set-cookie"]
    assert cookie == "__Host-muster-dashboard=red; Path=/; HttpOnly; SameSite=Strict; Secure"
    signed_in = cookie.partition(";")[0]
    page = await site.get("/jobs", cookie=signed_in)
    assert "job-of-red" in page.text
    assert "job-of-blue" not in page.text
    form = re.search(r'action="/sign-out"><input type="hidden" name="form" value="(\w+)"', page.text)
    assert form is not None
    for body in ("", f"form={'0' * 64}"):
        assert (await site.send("/sign-out", body, cookie=signed_in)).status == 403
    out = await site.send("/sign-out", f"form={form[1]}", cookie=signed_in)
    assert (out.status, out.headers["set-cookie"].endswith("; Max-Age=0")) == (303, True)


async def test_on_loopback_the_cookie_is_worth_nothing_to_other_servers_of_the_machine(site: Site) -> None:
    here = {"host": "localhost:8081", "origin": "http://localhost:8081"}
    await two(site)
    cookie = (await site.send("/sign-in", "token=red", **here)).headers["set-cookie"].partition(";")[0]
    assert "red" not in cookie
    assert "job-of-red" in (await site.get("/jobs", cookie=cookie, **here)).text
    assert (await site.get("/jobs", cookie=cookie, host="localhost:8082")).status == 401
    assert (await site.get("/jobs", cookie="muster-dashboard-8081=red", **here)).status == 401


@pytest.mark.parametrize(
    "altered",
    [
        {"host": "evil.example"},
        {"host": f"{HOST}.evil.example"},
        {"host": "10.0.0.1"},
        {"origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": f"https://{HOST}:8443"},
        {"content_type": "text/plain"},
    ],
)
async def test_another_site_signs_nobody_in_and_reads_nothing(site: Site, altered: dict[str, str]) -> None:
    assert (await site.send("/sign-in", "token=red", **altered)).status in (400, 421)
    if "content_type" not in altered:
        assert (await site.get("/jobs", "red", **altered)).status == 421
    assert site.server.asked == []


async def test_the_kubelet_asks_without_a_token_by_any_host(site: Site) -> None:
    assert (await site.get("/healthz", host="10.0.0.1:8081")).status == 200
    await site.get("/jobs", "root")  # waits for the first lists
    assert (await site.get("/readyz", host="10.0.0.1:8081")).status == 200
    site.unread.append("pods")
    assert (await site.get("/readyz", host="10.0.0.1:8081")).status == 503


async def test_a_cluster_that_does_not_answer_shows_nothing(site: Site) -> None:
    await two(site)
    site.server.reached = False
    await asyncio.sleep(KEPT)
    found = await site.get("/jobs", "root")
    assert (found.status, "job-of" in found.text) == (503, False)


async def test_a_token_ends_within_the_time_for_which_answers_are_kept(site: Site) -> None:
    assert (await site.get("/", "red")).status == 200
    site.server.tokens.remove("red")
    await asyncio.sleep(KEPT)
    assert (await site.get("/", "red")).status == 401
    site.server.tokens.add("red")
    await asyncio.sleep(REFUSED)
    assert (await site.get("/", "red")).status == 200


async def test_answers_are_kept_and_asked_for_once(site: Site) -> None:
    await two(site)
    await asyncio.sleep(KEPT)
    site.server.asked.clear()
    await asyncio.gather(*(site.get("/jobs", "red") for _ in range(20)))
    once = len(site.server.asked)
    await asyncio.gather(*(site.get("/jobs", "red") for _ in range(20)))
    assert len(site.server.asked) == once
    asked = [str(each["spec"]) for each in site.server.asked]
    assert len(asked) == len({*asked})


async def test_whoever_guesses_tokens_is_slowed_down_and_no_other_viewer() -> None:
    server = Server()
    reviews = Reviews(server, asyncio.get_running_loop().time)  # type: ignore[arg-type]
    assert await reviews.user("red") is not None
    begun = asyncio.get_running_loop().time()
    tried = await asyncio.gather(*(reviews.user(f"t{n}") for n in range(1_000)), return_exceptions=True)
    assert sum(isinstance(each, Busy) for each in tried) >= 1_000 - WAITING - BURST
    assert not any(isinstance(each, UserInfo) for each in tried)
    assert asyncio.get_running_loop().time() - begun < 60
    assert await reviews.user("red") is not None


def test_answers_are_bounded() -> None:
    async def fill() -> int:
        kept = _Kept[bool](10, lambda: 0.0)
        for n in range(100):
            assert await kept.get(n, answer)
        return len(kept._answers)

    async def answer() -> bool:
        return True

    assert asyncio.run(fill()) == 10


@pytest.mark.parametrize("path", ["/st\tatic/x", "/\nstatic/style.css", "/\thealthz", "/sta\rtic/../jobs"])
async def test_only_paths_that_are_served_without_a_token_need_none(site: Site, path: str) -> None:
    """A path is judged as it is served: parsers of URLs leave control characters out."""
    assert (await site.get(path)).status == 401
