"""Images looked up in a registry on this machine: signed, not signed, signed by others, and lied about."""

import asyncio
import base64
import json
import os
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from muster.security.images import cosign, trust
from muster.security.images.connections import Connections
from muster.security.images.registry import Registry, RegistryError
from muster.security.images.verify import Verified, look_up
from tests.patience import PATIENCE
from tests.security.images import fakes
from tests.security.images.fakes import Authority, Store

LINUX = ("linux", "amd64")


@asynccontextmanager
async def serving(application: web.Application) -> AsyncIterator[str]:
    """The application on a port of this machine; yields `127.0.0.1:port`."""
    runner = web.AppRunner(application, shutdown_timeout=0.1)  # some handlers never answer
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def looked_up(store: Store, image: str, *authorities: dict[str, Any], **policy: Any) -> Verified:
    async with serving(store.application()) as host:
        spec = {"match": {"images": [f"{host}/**"]}, "authorities": list(authorities), **policy}
        policies = [trust.read("team", spec, {})] if authorities else []
        async with Connections(loopback=True) as connections:
            return await look_up(f"{host}/{image}", Registry(connections), policies, LINUX)


def by_key(private: Any, name: str = "release") -> dict[str, Any]:
    return {"name": name, "key": {"pem": fakes.pem(private)}}


async def test_an_image_without_a_policy_is_resolved_and_its_entry_point_read() -> None:
    store = Store()
    digest = store.image("v1", entrypoint=["/usr/bin/python3", "-m"])
    found = await looked_up(store, "app:v1")
    assert found.image.digest == digest
    assert (found.image.entrypoint, found.image.cmd) == (("/usr/bin/python3", "-m"), ("-v",))
    assert found.image.trusted


async def test_of_several_platforms_the_index_is_pinned_and_the_clusters_platform_read() -> None:
    store = Store()
    digest = store.image("v1", several=True)
    found = await looked_up(store, "app:v1")
    assert found.image.digest == digest
    assert found.image.entrypoint == ("/app",)


@pytest.mark.parametrize("api", [True, False])
async def test_a_bundle_is_found_by_the_referrers_api_and_by_the_fallback_tag(api: bool) -> None:
    store, private = Store(api=api), fakes.key()
    store.sign_bundle(digest := store.image("v1"), fakes.bundle(private, digest))
    assert (await looked_up(store, "app:v1", by_key(private))).image.trusted


async def test_a_legacy_signature_is_found_by_its_tag() -> None:
    store, private = Store(), fakes.key()
    store.sign_legacy(digest := store.image("v1"), [fakes.legacy(private, digest)])
    assert (await looked_up(store, "app:v1", by_key(private))).image.trusted


async def test_an_image_that_is_not_signed_is_denied_with_the_policys_name() -> None:
    store, private = Store(), fakes.key()
    store.image("v1")
    found = await looked_up(store, "app:v1", by_key(private))
    assert not found.image.trusted
    assert found.image.reason == "team: not signed by release (the image is not signed)"


async def test_a_policy_that_only_audits_reports_and_denies_nothing() -> None:
    store, private = Store(), fakes.key()
    store.image("v1")
    found = await looked_up(store, "app:v1", by_key(private), action="audit")
    assert found.image.trusted
    assert [each.enforced for each in found.unmet] == [False]


async def test_all_authorities_or_any_of_them() -> None:
    store, one, other = Store(), fakes.key(), fakes.key()
    store.sign_legacy(digest := store.image("v1"), [fakes.legacy(one, digest)])
    both = [by_key(one, "one"), by_key(other, "other")]
    assert (await looked_up(store, "app:v1", *both)).image.trusted
    found = await looked_up(store, "app:v1", *both, mode="all")
    assert not found.image.trusted
    assert "not signed by other" in found.image.reason


LEGACY_LIES: list[tuple[str, Callable[[Any, str], tuple[bytes, dict[str, str]]]]] = [
    ("not made with this key", lambda private, digest: fakes.legacy(fakes.key(), digest)),
    ("about another image", lambda private, digest: fakes.legacy(private, "sha256:" + "0" * 64)),
    (
        "not base64",
        lambda private, digest: (fakes.payload(digest), {"dev.cosignproject.cosign/signature": "%"}),
    ),
    ("not a signature of an image", lambda private, digest: (b'{"critical": {}}', {})),
    ("not JSON", lambda private, digest: (b"[" * 100_000, {})),
]


@pytest.mark.parametrize(("why", "made"), LEGACY_LIES)
async def test_a_signature_that_proves_nothing(why: str, made: Callable[..., Any]) -> None:
    store, private = Store(), fakes.key()
    store.sign_legacy(digest := store.image("v1"), [made(private, digest)])
    found = await looked_up(store, "app:v1", by_key(private))
    assert not found.image.trusted
    assert why in found.image.reason


async def test_a_bundle_about_another_image_proves_nothing() -> None:
    store, private = Store(), fakes.key()
    store.sign_bundle(store.image("v1"), fakes.bundle(private, "sha256:" + "0" * 64))
    found = await looked_up(store, "app:v1", by_key(private))
    assert "about another image" in found.image.reason


async def test_a_bad_signature_beside_a_good_one_does_no_harm() -> None:
    store, private = Store(), fakes.key()
    digest = store.image("v1")
    store.sign_legacy(digest, [fakes.legacy(fakes.key(), digest), fakes.legacy(private, digest)])
    store.sign_bundle(digest, b"no bundle")
    assert (await looked_up(store, "app:v1", by_key(private))).image.trusted


def _with_the_constraints_twice(text: str) -> str:
    """A certificate whose alternative names have become a second extension of another's identifier."""
    der = base64.b64decode("".join(text.splitlines()[1:-1]))
    names, constraints = bytes.fromhex("0603551d11"), bytes.fromhex("0603551d13")
    assert der.count(names) == der.count(constraints) == 1
    body = base64.encodebytes(der.replace(names, constraints)).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda said: {**said, cosign.CHAIN: _with_the_constraints_twice(said[cosign.CERTIFICATE])},
        lambda said: {**said, cosign.CERTIFICATE: "\ud800"},
        lambda said: {**said, cosign.CHAIN: "\ud800"},
        lambda said: {**said, cosign.LOG_BUNDLE: "\ud800"},
    ],
    ids=["extensions", "certificate", "chain", "log"],
)
async def test_a_hostile_signature_beside_a_good_one_does_no_harm(
    spoilt: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    store, authority = Store(), Authority()
    digest = store.image("v1")
    good = authority.keyless(digest)
    store.sign_legacy(digest, [(good[0], spoilt(good[1])), good])
    assert (await looked_up(store, "app:v1", {"keyless": authority.policy()})).image.trusted


async def test_signatures_are_bounded_in_number_and_size() -> None:
    store, private = Store(), fakes.key()
    digest = store.image("v1")
    blob, said = fakes.legacy(private, digest)
    store.sign_legacy(digest, [(blob, said)] * 30)
    layers = [{"mediaType": cosign.BUNDLE, **store.blob(b"no bundle")}] * 32
    listed = store.manifest({"schemaVersion": 2, "layers": layers})
    entry = {"digest": listed, "artifactType": cosign.BUNDLE}
    store.manifest({"schemaVersion": 2, "manifests": [entry] * 32}, digest.replace(":", "-"))
    found = await looked_up(store, "app:v1", by_key(fakes.key()))
    assert "more than 32 signatures" in found.image.reason
    assert sum("/blobs/" in path for path, _ in store.asked) < 40

    store = Store()
    store.sign_bundle(store.image("v1"), b" " * (2**18 + 1))
    found = await looked_up(store, "app:v1", by_key(private))
    assert "is larger than 256 KiB" in found.image.reason


async def test_keyless_signatures_in_both_formats() -> None:
    store, authority = Store(), Authority()
    digest = store.image("v1")
    store.sign_legacy(digest, [authority.keyless(digest)])
    assert (await looked_up(store, "app:v1", {"keyless": authority.policy()})).image.trusted
    store, digest = Store(), ""
    store.sign_bundle(digest := store.image("v1"), authority.bundle(digest))
    pattern = authority.policy(subjectRegExp="https://example.com/team/.*", subject="")
    assert (await looked_up(store, "app:v1", {"keyless": pattern})).image.trusted


async def test_a_policy_is_about_the_images_that_it_names() -> None:
    store = Store()
    store.image("v1")
    async with serving(store.application()) as host, Connections(loopback=True) as connections:
        for glob, trusted in ((f"{host}/other/*", True), (f"{host}/*", False)):
            spec = {"match": {"images": [glob]}, "authorities": [by_key(fakes.key())]}
            policies = [trust.read("team", spec, {})]
            found = await look_up(f"{host}/app:v1", Registry(connections), policies, LINUX)
            assert found.image.trusted is trusted


async def test_a_pattern_is_for_the_whole_subject() -> None:
    store, authority = Store(), Authority()
    store.sign_legacy(digest := store.image("v1"), [authority.keyless(digest)])
    for pattern in ("https://example.com/team", "example.com/team/app/build"):
        policy = authority.policy(subjectRegExp=pattern, subject="")
        assert not (await looked_up(store, "app:v1", {"keyless": policy})).image.trusted


async def test_whether_all_signatures_could_be_read_is_told() -> None:
    """Otherwise a registry that fails for a moment would make an image untrusted for longer."""
    store, private = Store(), fakes.key()
    digest = store.image("v1")
    assert (await looked_up(store, "app:v1", by_key(private))).complete
    store.manifests[f"{digest.replace(':', '-')}.sig"] = b"<html>"
    found = await looked_up(store, "app:v1", by_key(private))
    assert "is not JSON" in found.image.reason
    assert not found.complete


KEYLESS_LIES: list[tuple[str, dict[str, Any]]] = [
    ("was signed by https://evil.example.com", {"subject": "https://evil.example.com"}),
    ("was issued by 'https://evil.example.com'", {"issuer": "https://evil.example.com"}),
    ("does not chain", {"by": fakes.key()}),
    ("not valid when the image was signed", {"logged": fakes.SIGNED_AT + timedelta(hours=1)}),
    ("about another signature", {"about": b"another message"}),
]


@pytest.mark.parametrize(("why", "changes"), KEYLESS_LIES)
async def test_a_keyless_signature_that_proves_nothing(why: str, changes: dict[str, Any]) -> None:
    store, authority = Store(), Authority()
    store.sign_legacy(digest := store.image("v1"), [authority.keyless(digest, **changes)])
    found = await looked_up(store, "app:v1", {"keyless": authority.policy()})
    assert not found.image.trusted
    assert why in found.image.reason


async def test_a_log_of_another_key_or_about_another_signature_proves_nothing() -> None:
    authority, other = Authority(), Authority()
    store = Store()
    store.sign_legacy(digest := store.image("v1"), [authority.keyless(digest)])
    found = await looked_up(store, "app:v1", {"keyless": authority.policy(rekorKey=fakes.pem(other.log_key))})
    assert "has not signed this entry" in found.image.reason
    store = Store()
    blob, annotations = authority.keyless(digest := store.image("v1"))
    _, foreign = authority.keyless(digest)
    annotations["dev.sigstore.cosign/bundle"] = foreign["dev.sigstore.cosign/bundle"]
    store.sign_legacy(digest, [(blob, annotations)])
    found = await looked_up(store, "app:v1", {"keyless": authority.policy()})
    assert "about another signature" in found.image.reason


def broken(pem: str) -> str:
    """The certificate as one of a version that does not exist."""
    der = base64.b64decode("".join(line for line in pem.splitlines() if "---" not in line))
    version = b"\xa0\x03\x02\x01"
    other = base64.encodebytes(der.replace(version + b"\x02", version + b"\x07", 1)).decode()
    return f"-----BEGIN CERTIFICATE-----\n{other}-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("field", [cosign.CERTIFICATE, cosign.CHAIN])
async def test_a_certificate_that_cannot_be_read_beside_a_good_one_does_no_harm(field: str) -> None:
    store, authority = Store(), Authority()
    blob, annotations = authority.keyless(digest := store.image("v1"))
    bad = {**annotations, field: broken(annotations[cosign.CERTIFICATE])}
    store.sign_legacy(digest, [(blob, bad)])
    found = await looked_up(store, "app:v1", {"keyless": authority.policy()})
    assert "cannot be read" in found.image.reason
    store.sign_legacy(digest, [(blob, bad), authority.keyless(digest)])
    assert (await looked_up(store, "app:v1", {"keyless": authority.policy()})).image.trusted


async def test_a_tag_that_moves_between_check_and_use_moves_nothing() -> None:
    store, private = Store(), fakes.key()
    store.sign_legacy(digest := store.image("v1"), [fakes.legacy(private, digest)])
    found = await looked_up(store, "app:v1", by_key(private))
    store.image("v1", entrypoint=["/evil"])
    assert found.image.digest == digest


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def problem(
    handler: Handler, login: tuple[str, str] | None = None, *, timeout: float = PATIENCE
) -> str:
    """What looking up an image says if every request is answered by the handler."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    async with serving(application) as host, Connections(loopback=True) as connections:
        known = {host: login} if login else {}
        with pytest.raises(RegistryError) as caught:
            await look_up(f"{host}/app:v1", Registry(connections, known, timeout=timeout), [], LINUX)
        return str(caught.value)


async def test_a_registry_that_does_not_answer_times_out() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    assert "no answer within 0.5 s" in await problem(silent, timeout=0.5)


async def test_a_registry_that_answers_hugely() -> None:
    async def huge(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**20)

    assert "is larger than 4096 KiB" in await problem(huge)


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"<html>", "is not JSON"), (b"[]", "is not a JSON object"), (b"{}", "names no configuration")],
)
async def test_a_registry_that_answers_wrongly(body: bytes, said: str) -> None:
    async def wrong(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    assert said in await problem(wrong)


async def test_a_registry_that_answers_a_digest_with_something_else() -> None:
    store = Store()
    digest = store.image("v1")
    store.manifests[digest] = b'{"schemaVersion": 2}'
    with pytest.raises(RegistryError, match="with another manifest"):
        await looked_up(store, f"app@{digest}")


async def test_a_registry_that_answers_a_blobs_digest_with_another_blob() -> None:
    store = Store()
    store.image("v1")
    store.blobs = dict.fromkeys(store.blobs, b'{"config": {"Entrypoint": ["/evil"]}}')
    with pytest.raises(RegistryError, match="with another blob"):
        await looked_up(store, "app:v1")


@pytest.mark.parametrize(
    ("location", "said"), [("http://r.example/x", "from https to http"), ("", "nowhere")]
)
def test_a_redirect_that_is_not_followed(location: str, said: str) -> None:
    asked = URL("https://r.example/v2/app/blobs/x")
    with pytest.raises(RegistryError, match=said):
        Registry(Connections(loopback=True))._onward(asked, location, asked, "a blob")


async def test_redirects_without_end() -> None:
    async def around(request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(request.path)

    assert "more than 4 redirects" in await problem(around)


async def test_a_redirect_to_somewhere_else_carries_no_credentials() -> None:
    seen: list[str] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return web.Response(body=b"{}")

    other = web.Application()
    other.router.add_route("*", "/{path:.*}", elsewhere)
    async with serving(other) as target:

        async def login(request: web.Request) -> web.StreamResponse:
            if "Authorization" not in request.headers:
                raise web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="x"'})
            raise web.HTTPTemporaryRedirect(f"http://{target}/blob")

        await problem(login, ("user", "password"))
    assert seen == [""]


async def test_credentials_do_not_go_to_a_token_service_of_another_domain() -> None:
    seen: list[str] = []

    async def token(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization", ""))
        return web.json_response({"token": "t"})

    service = web.Application()
    service.router.add_get("/token", token)
    async with serving(service) as realm:
        port = realm.rpartition(":")[2]

        async def challenge(request: web.Request) -> web.StreamResponse:
            if "Authorization" in request.headers:
                return web.Response(body=b"{}")
            where = f'Bearer realm="http://localhost:{port}/token",service="s"'
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": where})

        await problem(challenge, ("user", "password"))
    assert seen == [""]


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"match": {}}, "match.images"),
    ({"authorities": []}, "authorities: is missing"),
    ({"authorities": [{"name": "x"}]}, "exactly one of key and keyless"),
    ({"authorities": [{"key": {"pem": "no key"}}]}, "is not a public key in PEM"),
    ({"authorities": [{"key": {"secretRef": {"name": "x"}}}]}, "there is no secret /x/"),
    ({"authorities": [{"keyless": {"issuer": "i"}}]}, "exactly one of subject and subjectRegExp"),
    ({"match": {"images": ["**", "ghcr.io/acme/app:v1"]}}, r"match.images\[1\]: .*without tag"),
    ({"authorities": [{"name": "x"}] * 101}, "the most is 100"),
    ({"mode": "some"}, "mode: is any or all"),
    ({"action": "warn"}, "action: is enforce or audit"),
    ({"acton": "audit"}, "acton: is not a field; the fields are action, authorities, match, mode"),
    ({"match": {"images": ["**"], "image": "x"}}, "match.image: is not a field; the field is images"),
    (
        {"authorities": [{"key": {"pem": "x"}, "attestations": []}]},
        r"authorities\[0\].attestations: is not a field; the fields are key, keyless, name",
    ),
    ({"authorities": [{"key": {"pem": "x", "kms": "y"}}]}, r"authorities\[0\].key.kms: is not a field"),
    ({"authorities": [{"keyless": {"url": "y"}}]}, r"authorities\[0\].keyless.url: is not a field"),
    ({"authorities": [{"key": {"secretRef": {"nmae": "y"}}}]}, r"secretRef.nmae: is not a field"),
]


@pytest.mark.parametrize(("change", "message"), INVALID)
def test_a_trust_policy_with_a_mistake_names_its_field(change: dict[str, Any], message: str) -> None:
    spec = {"match": {"images": ["**"]}, "authorities": [by_key(fakes.key())], **change}
    with pytest.raises(trust.InvalidPolicy, match=message):
        trust.read("p", spec, {})


def test_a_key_may_be_in_a_secret() -> None:
    private = fakes.key()
    spec = {
        "match": {"images": ["**"]},
        "authorities": [{"key": {"secretRef": {"namespace": "a", "name": "b", "key": "c"}}}],
    }
    assert trust.read("p", spec, {"a/b/c": fakes.pem(private)}).authorities


async def test_a_real_registry(tmp_path: Path) -> None:
    """Debian's docker-registry, which has no referrers API."""
    binary = os.environ.get("MUSTER_DOCKER_REGISTRY") or shutil.which("docker-registry")
    if binary is None:
        pytest.skip("docker-registry is not installed; $MUSTER_DOCKER_REGISTRY may name it")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "data")}},
        "http": {"addr": host},
        "log": {"level": "error"},
    }
    (tmp_path / "config.yml").write_text(json.dumps(settings))
    process = await asyncio.create_subprocess_exec(binary, "serve", str(tmp_path / "config.yml"))
    try:
        async with (
            aiohttp.ClientSession(f"http://{host}") as session,
            Connections(loopback=True) as connections,
        ):
            await _up(session)
            store, private = Store(), fakes.key()
            digest = store.image("v1")
            store.sign_legacy(digest, [fakes.legacy(private, digest)])
            store.sign_bundle(digest, fakes.bundle(private, digest))
            await _push(session, store)
            policy = trust.read("p", {"match": {"images": ["**"]}, "authorities": [by_key(private)]}, {})
            found = await look_up(f"{host}/team/app:v1", Registry(connections), [policy], LINUX)
            assert found.image.digest == digest
            assert found.image.trusted
            other = trust.read("p", {"match": {"images": ["**"]}, "authorities": [by_key(fakes.key())]}, {})
            denied = await look_up(f"{host}/team/app:v1", Registry(connections), [other], LINUX)
            assert denied.image.reason.count("not made with this key") == 1
    finally:
        process.terminate()
        await process.wait()


async def _up(session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with session.get("/v2/"):
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


async def _push(session: aiohttp.ClientSession, store: Store) -> None:
    for digest, content in store.blobs.items():
        async with session.post("/v2/team/app/blobs/uploads/") as begun:
            where = begun.headers["Location"]
        async with session.put(f"{where}&digest={digest}", data=content) as put:
            assert put.status == 201
    for version, content in sorted(store.manifests.items(), key=lambda each: b'"manifests"' in each[1]):
        type_ = fakes.INDEX if b'"manifests"' in content else fakes.MANIFEST
        async with session.put(
            f"/v2/team/app/manifests/{version}", data=content, headers={"Content-Type": type_}
        ) as put:
            assert put.status == 201, await put.text()
