"""Trust in images on a cluster: policies and Secrets of the API server, and registries on this machine."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import web

from muster.api.base import Object
from muster.api.kinds import BATCH_JOB, SECRET, TRUST_POLICY
from muster.app.wiring import image_trust
from muster.app.wiring.batch_jobs import Found
from muster.app.wiring.image_trust import ImageTrust, Secrets
from muster.app.wiring.settings import BatchJobs
from muster.controllers.driver import Signal
from muster.kube.client import Client
from muster.kube.clock import SystemClock
from muster.kube.errors import ServerError, Unanswered, Unreachable
from tests.controllers.memory import Memory, MemoryClient
from tests.embedded.node.virtual import VirtualClock
from tests.patience import PATIENCE
from tests.security.images import fakes
from tests.security.images.fakes import Store
from tests.security.images.test_verify import serving

OURS = "muster-system"


class World:
    """An API server in memory with one BatchJob, and the trust in its images."""

    def __init__(self, settings: BatchJobs) -> None:
        self.memory = Memory()
        self.memory.create(BATCH_JOB, "ml", {"metadata": {"name": "job", "generation": 1}})
        self.client = MemoryClient(self.memory)
        signal = Signal()
        self.trust = ImageTrust(settings, OURS, SystemClock(), signal)
        self.news = asyncio.Event()
        self.told: set[str] = set()
        signal.subscribe(self._hear)

    def _hear(self, keys: Any) -> None:
        self.told |= set(keys or ())
        self.news.set()

    def secret(self, name: str, namespace: str = OURS, **data: str) -> None:
        encoded = {
            key.replace("_", "."): base64.b64encode(value.encode()).decode() for key, value in data.items()
        }
        if (SECRET, f"{namespace}/{name}") in self.memory.objects:
            self.memory.patch(SECRET, namespace, name, {"data": encoded})
        else:
            self.memory.create(SECRET, namespace, {"metadata": {"name": name}, "data": encoded})

    def policy(self, name: str, images: Sequence[str], *authorities: Object, **spec: Any) -> None:
        body = {"match": {"images": list(images)}, "authorities": list(authorities), **spec}
        self.memory.create(TRUST_POLICY, "", {"metadata": {"name": name, "generation": 1}, "spec": body})

    def find(self, *images: str) -> Found:
        job = self.memory.read(BATCH_JOB, "ml/job")
        return self.trust.find(job, self.memory.all(TRUST_POLICY), images)

    async def found(self, *images: str) -> Found:
        """What is known once everything is."""
        async with asyncio.timeout(PATIENCE):
            while (found := self.find(*images)).undecided:
                self.news.clear()
                await self.news.wait()
        return found

    async def undecided(self, *images: str, why: str) -> None:
        """Waits until nothing can be decided for this reason."""
        async with asyncio.timeout(PATIENCE):
            while why not in self.find(*images).undecided:
                self.news.clear()
                await self.news.wait()


async def test_a_job_does_not_make_the_controller_connect_to_its_own_machine() -> None:
    store = Store()
    store.image("v1")
    async with serving(store.application()) as host, world(images="all", loopback_registries=False) as made:
        await made.undecided(f"{host}/app:v1", why="batchJobs.loopbackRegistries allows that")
        await made.undecided("169.254.169.254/app:v1", why="muster never connects to it")


@asynccontextmanager
async def world(**settings: Any) -> AsyncIterator[World]:
    made = World(BatchJobs(**{"loopback_registries": True, **settings}))
    running = asyncio.create_task(made.trust.run(cast("Client", made.client)))
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def by_secret(name: str, namespace: str = OURS) -> Object:
    return {"name": name, "key": {"secretRef": {"namespace": namespace, "name": name, "key": "pem"}}}


def by_pem(private: Any, name: str = "release") -> Object:
    return {"name": name, "key": {"pem": fakes.pem(private)}}


async def test_an_image_signed_by_a_key_in_a_secret_is_pinned_and_its_entry_point_known() -> None:
    store, private = Store(), fakes.key()
    digest = store.image("v1", entrypoint=["/usr/bin/python3"])
    store.sign_bundle(digest, fakes.bundle(private, digest))
    async with serving(store.application()) as host, world() as at:
        at.secret("release", pem=fakes.pem(private))
        at.policy("team", [f"{host}/**"], by_secret("release"))
        found = await at.found(f"{host}/app:v1")
        assert found.pinned == ((f"{host}/app:v1", digest),)
        image = found.images[f"{host}/app:v1"]
        assert (image.trusted, image.entrypoint) == (True, ("/usr/bin/python3",))
        assert at.told == {"ml/job"}


async def test_a_policy_of_mode_all_needs_the_key_and_the_keyless_identity() -> None:
    store, private, authority = Store(), fakes.key(), fakes.Authority()
    digest = store.image("v1")
    store.sign_legacy(digest, [authority.keyless(digest)])
    async with serving(store.application()) as host, world() as at:
        keyless = {"name": "build", "keyless": authority.policy()}
        at.policy("both", [f"{host}/**"], by_pem(private), keyless, mode="all")
        image = (await at.found(f"{host}/app:v1")).images[f"{host}/app:v1"]
        assert image.reason.startswith("both: not signed by release")
        assert "build" not in image.reason
    store.sign_bundle(digest, fakes.bundle(private, digest))
    async with serving(store.application()) as host, world() as at:
        at.policy("both", [f"{host}/**"], by_pem(private), keyless, mode="all")
        assert (await at.found(f"{host}/app:v1")).images[f"{host}/app:v1"].trusted


async def test_an_image_that_is_not_signed_is_refused_by_one_policy_and_reported_by_the_other() -> None:
    store, private = Store(), fakes.key()
    store.image("v1")
    async with serving(store.application()) as host, world() as at:
        at.policy("strict", [f"{host}/**"], by_pem(private))
        at.policy("lenient", [f"{host}/app"], by_pem(private), action="audit")
        found = await at.found(f"{host}/app:v1")
        image = found.images[f"{host}/app:v1"]
        assert not image.trusted
        assert image.reason.startswith("strict: not signed by release")
        [warning] = found.warnings
        assert f"image {host}/app:v1 does not meet TrustPolicy lenient (audit)" in warning.message


async def test_images_that_no_policy_is_about_are_looked_up_if_the_settings_say_so() -> None:
    store = Store()
    digest = store.image("v1")
    async with serving(store.application()) as host:
        async with world() as at:
            assert await at.found(f"{host}/app:v1") == Found()
        assert store.asked == []
        async with world(images="all") as at:
            assert (await at.found(f"{host}/app:v1")).pinned == ((f"{host}/app:v1", digest),)


async def test_a_tag_stays_at_the_digest_of_the_status_until_the_job_changes() -> None:
    store = Store()
    first = store.image("v1")
    async with serving(store.application()) as host, world(images="all") as at:
        image = f"{host}/app:v1"
        pins = {"observedGeneration": 1, "images": [{"image": image, "digest": first}]}
        at.memory.patch(BATCH_JOB, "ml", "job", {"status": pins}, "status")
        second = store.image("v1", entrypoint=["/other"])
        assert (await at.found(image)).pinned == ((image, first),)
        at.memory.patch(BATCH_JOB, "ml", "job", {"metadata": {"generation": 2}})
        assert (await at.found(image)).pinned == ((image, second),)


@pytest.mark.parametrize(
    ("authority", "why"),
    [
        (by_secret("absent"), "there is no secret muster-system/absent/pem"),
        (by_secret("release", "ml"), "only Secrets of the namespace muster-system are read"),
        ({"name": "x", "key": {"pem": "-"}}, "is not a public key in PEM"),
        ({"name": "x"}, "takes exactly one of key and keyless"),
    ],
)
async def test_while_a_policy_cannot_be_read_nothing_is_decided_about_its_images(
    authority: Object, why: str
) -> None:
    async with world() as at:
        at.secret("release", "ml", pem=fakes.pem(fakes.key()))
        at.policy("bad", ["reg.example.com/team/**"], authority)
        await at.undecided("reg.example.com/team/app:v1", why=why)
        judged = at.trust.judge(at.memory.read(TRUST_POLICY, "bad"))
        assert judged is not None
        assert why in judged.errors[0]
        assert at.find("reg.example.com/other/app:v1") == Found()


@pytest.mark.parametrize("glob", ["ghcr.io/acme/**", "ghcr.io/acme/app", "**"])
@pytest.mark.parametrize("registry", ["ghcr.io", "GHCR.io", "ghcr.io:443", "ghcr.io:0443"])
@pytest.mark.parametrize("rest", ["acme/app", "acme/app:v1"])
@pytest.mark.parametrize("digest", ["sha512:" + "a" * 128, "sha256:abc", "md5:" + "a" * 32, "x"])
async def test_an_image_that_no_policy_can_decide_about_is_denied_however_it_is_written(
    glob: str, registry: str, rest: str, digest: str
) -> None:
    made = World(BatchJobs(images="matched"))
    made.policy("team", [glob], by_pem(fakes.key()))
    [found] = made.find(image := f"{registry}/{rest}@{digest}").images.values()
    assert not found.trusted, image
    assert "is not a digest" in found.reason


async def test_a_key_that_is_replaced_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_trust, "LOOK", 0.02)
    store, old, new = Store(), fakes.key(), fakes.key()
    digest = store.image("v1")
    store.sign_bundle(digest, fakes.bundle(new, digest))
    async with serving(store.application()) as host, world() as at:
        at.secret("release", pem=fakes.pem(old))
        at.policy("team", [f"{host}/**"], by_secret("release"))
        assert not (await at.found(f"{host}/app:v1")).images[f"{host}/app:v1"].trusted
        at.secret("release", pem=fakes.pem(new))
        at.news.clear()
        async with asyncio.timeout(PATIENCE):
            await at.news.wait()
        assert (await at.found(f"{host}/app:v1")).images[f"{host}/app:v1"].trusted


async def test_a_registry_that_is_away_decides_nothing_and_is_named() -> None:
    async with world(images="all") as at:
        async with serving(Store().application()) as host:
            pass
        await at.undecided(f"{host}/app:v1", why=f"image {host}/app:v1: manifests/v1 of {host}/app")


async def test_credentials_are_sent_to_their_registry_only() -> None:
    """Both registries ask for credentials; those of the first are known."""

    @web.middleware
    async def login(request: web.Request, handler: Any) -> web.StreamResponse:
        seen.setdefault(request.host, set()).add(request.headers.get("Authorization", ""))
        if "Authorization" not in request.headers:
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="x"'})
        answer: web.StreamResponse = await handler(request)
        return answer

    seen: dict[str, set[str]] = {}
    stores = [Store(), Store()]
    async with AsyncExitStack() as stack:
        hosts = []
        for store in stores:
            store.image("v1")
            application = store.application()
            application.middlewares.append(login)
            hosts.append(await stack.enter_async_context(serving(application)))
        at = await stack.enter_async_context(world(images="all", registry_secrets=("login", "absent")))
        written = {"auths": {hosts[0]: {"auth": base64.b64encode(b"robot:secret").decode()}}}
        at.secret("login", _dockerconfigjson=json.dumps(written))
        assert (await at.found(f"{hosts[0]}/app:v1")).pinned
        await at.undecided(f"{hosts[1]}/app:v1", why="asks for credentials")
        assert len(seen[hosts[0]]) == 2
        assert seen[hosts[1]] == {""}


async def test_no_registry_is_asked_before_the_credentials_have_been_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server fails at first; a Secret that does not exist is known not to."""
    failures: list[Exception] = [Unreachable("no server"), ServerError("not now"), Unanswered("lost")]
    clock = VirtualClock()
    at = World(BatchJobs(registry_secrets=("login", "absent")))
    at.secret("login", _dockerconfigjson=json.dumps({"auths": {"r.io": {"auth": "cm9ib3Q6c2VjcmV0"}}}))
    get = at.client.get

    async def fails(kind: Any, namespace: str, name: str) -> Any:
        if name == "login" and failures:
            raise failures.pop()
        return await get(kind, namespace, name)

    monkeypatch.setattr(at.client, "get", fails)
    secrets = Secrets(OURS, ("login", "absent"), clock, Signal())
    reading = asyncio.create_task(secrets.run(cast(Client, at.client)))
    pauses: list[float] = []
    async with asyncio.timeout(PATIENCE):
        while not secrets.looked.is_set():  # it moves the clock
            await asyncio.sleep(0)
            if len(clock.slept) > len(pauses):
                pauses = [*clock.slept]
                clock.advance(pauses[-1])
    assert secrets.logins() == {"r.io": ("robot", "secret")}
    assert pauses[:3] == [1, 2, 4]
    reading.cancel()
    await asyncio.wait([reading])
