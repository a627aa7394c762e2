"""Whatever is sent to the embedded cluster's HTTP API, the host goes on and starts again.

Sent are objects of every kind, each field of each in turn replaced by something strange, and their status
after them. What is accepted must harm nothing else: a pod that comes after them is bound, by the host that
took them in and by the next one on the same store.
"""

import asyncio
import copy
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from muster.api import kinds
from muster.api.base import Kind
from muster.app.views import jobs, objects, summary
from muster.app.wiring.embedded import Cluster, running, unfinished
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded import credentials, nodespec
from muster.embedded.api_errors import resource
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.clock import SystemClock
from tests.objects import CLUSTER, TIME
from tests.patience import PATIENCE
from tests.spoiled import TIMES, nested, spoiled, with_times
from tests.tiers import FULL

#: A node that plays pods, for the pod that has to be bound; and one that runs them.
NODES: Final = (
    "1 x cpu=8,pods=500,runtime=none,name=good,label:good=yes; 1 x cpu=64,memory=64Gi,name=n,label:zone=a"
)
#: Fields of metadata that a server gives.
_GIVEN: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "finalizers")
_SPEC: Final[Any] = {"restartPolicy": "Never", "containers": [{"name": "main", "command": ["true"]}]}


def gang(name: str, **spec: Any) -> Any:
    return {"metadata": {"name": name, "labels": {"muster.dev/gang": "true"}}, "spec": spec}


def deep_pod(depth: int) -> Any:
    return gang(f"deep-{depth}", **_SPEC, unknown=nested(depth))


def deep_job(depth: int) -> Any:
    return gang(f"deep-{depth}", template={"spec": {**_SPEC, "affinity": {"unknown": nested(depth)}}})


#: Objects that ended a host, and every restart after it; and whether they are refused now.
ENDED_HOSTS: Final[list[tuple[Kind[Any], Any, bool]]] = [
    (kinds.JOBSET, gang("none", replicatedJobs=[]), False),
    (kinds.JOBSET, gang("empty"), False),
    (kinds.POD, deep_pod(90), False),
    (kinds.POD, deep_pod(110), True),
    (kinds.POD, deep_pod(900), True),
    (kinds.POD, gang("large", **{**_SPEC, "volumes": [{"name": "v", "emptyDir": {"unknown": 2**70}}]}), True),
    (kinds.JOB, deep_job(80), False),
    (kinds.JOB, deep_job(110), True),
    (kinds.JOB, deep_job(900), True),
]


def strange_objects(source: random.Random, number: int) -> Iterator[tuple[Kind[Any], Any]]:
    """Objects of all kinds, as they are, and then in turn with one to three strange values each."""
    for position in range(len(CLUSTER) + number):
        kind, valid = CLUSTER[position % len(CLUSTER)]
        body = copy.deepcopy(valid)
        for field in _GIVEN:
            body["metadata"].pop(field, None)
        if position >= len(CLUSTER):
            body["metadata"]["name"] += f"-{source.getrandbits(48):x}"
            body = spoiled(body, source.choice, times=source.choice([1, 1, 2, 3]))
        yield kind, body


async def send(
    cluster: Cluster, home: StateDirectory, objects: Iterator[tuple[Kind[Any], Any]]
) -> tuple[int, int]:
    """How many were accepted and refused. No answer may be the server's own fault."""
    headers = {"Authorization": f"Bearer {credentials.token_file(home.root).read_text()}"}
    accepted = refused = 0
    connector = aiohttp.TCPConnector(ssl=credentials.client_context(home.root))
    async with aiohttp.ClientSession(cluster.server, connector=connector, headers=headers) as session:

        async def ask(method: str, path: str, body: Any, media: str = "application/json") -> int:
            data = json.dumps(body).encode()
            async with session.request(method, path, data=data, headers={"Content-Type": media}) as response:
                answer = await response.text()
                assert response.status < 500, f"{method} {path} {data[:2000]!r}: {answer}"
                return response.status

        assert await ask("POST", kinds.NAMESPACE.path(), {"metadata": {"name": "ns"}}) in (201, 409)
        for number, (kind, body) in enumerate(objects):
            if isinstance(body, dict):
                path = f"{kind.path('ns', f'applied-{number}')}?fieldManager=f&force=true&dryRun=All"
                whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
                if isinstance(meta := body.get("metadata"), dict):
                    whole["metadata"] = {**meta, "name": f"applied-{number}"}
                await ask("PATCH", path, whole, "application/apply-patch+yaml")
            if await ask("POST", kind.path("ns"), body) != 201:
                refused += 1
                continue
            accepted += 1
            name, status = body["metadata"]["name"], body.get("status")
            if kind.status and status is not None:
                path = kind.path("ns", name, "status")
                await ask("PATCH", path, {"status": status}, "application/merge-patch+json")
    return accepted, refused


async def bound(cluster: Cluster, name: str) -> None:
    """Creates a pod and waits until it is bound."""
    pod = {
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"good": "yes"},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "10m"}}}],
        },
    }
    await cluster.client.create(kinds.POD, "default", pod)
    async with asyncio.timeout(PATIENCE):
        while not (await cluster.client.get(kinds.POD, "default", name)).spec.node_name:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def survives(root: Path, *batches: Iterator[tuple[Kind[Any], Any]]) -> list[tuple[int, int]]:
    """A host per batch, on one store, and one more. Returns how many were accepted and refused."""
    home = StateDirectory(root)
    home.make()
    told = []
    for number, batch in enumerate((*batches, iter(()))):
        async with running(home, nodespec.read(NODES), SystemClock()) as cluster:
            told.append(await send(cluster, home, batch))
            await bound(cluster, f"good-{number}")
            await unfinished(cluster.client)
            for view in jobs.views(await objects.fetch(cluster.client)):
                summary.summary(view)
    return told[:-1]


@pytest.mark.parametrize(("kind", "body", "is_refused"), ENDED_HOSTS)
async def test_objects_that_ended_hosts(tmp_path: Path, kind: Kind[Any], body: Any, is_refused: bool) -> None:
    [(accepted, refused)] = await survives(tmp_path, iter([(kind, body)]))
    assert (accepted, refused) == (int(not is_refused), int(is_refused))


async def test_strange_values_in_every_field_of_every_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    source = random.Random(1)
    told = await survives(
        tmp_path,
        *(strange_objects(source, (3 if FULL else 1) * len(CLUSTER)) for _ in range(2 if FULL else 1)),
    )
    assert all(accepted > 15 and refused > 15 for accepted, refused in told), told


async def test_absurd_times_in_every_field_of_every_kind(tmp_path: Path) -> None:
    source = random.Random(1)
    usable = TIMES[:5]  # the others are refused
    absurd = (
        (kind, with_times(body, TIME, lambda _: source.choice(usable)))
        for kind, body in strange_objects(source, 0)
    )
    [(accepted, _)] = await survives(tmp_path, absurd)
    assert accepted > len(CLUSTER) // 2


async def test_a_start_sets_aside_what_it_cannot_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As an earlier version, or a damaged disk, may have left it."""
    home = StateDirectory(tmp_path)
    home.make()
    store = Store(home.store)
    Registry(store)
    rest = b'"namespace":"default","uid":"u"'
    bodies = {
        "cut": b'{"metadata":{"name":"cut"',
        "list": b"[]",
        "nothing": b"",
        "nameless": b'{"metadata":{"name":5}}',
        "types": b'{"metadata":{"name":"types",%b,"labels":{"x":5}}}' % rest,
        "deep": b'{"metadata":{"name":"deep",%b},"unknown":%b}' % (rest, json.dumps(nested(900)).encode()),
    }
    with store.transaction():
        for kind in kinds.ALL:
            for name, body in bodies.items():
                namespace = "default" if kind.namespaced else ""
                row = (resource(kind), namespace, name, store.revision, body)
                store.execute("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", row)
    store.close()
    assert await survives(tmp_path, iter(())) == [(0, 0)]
    for kind in kinds.ALL:
        for name in bodies:
            called = f"{resource(kind)} {'default' if kind.namespaced else ''}/{name} "
            [told] = [text for text in caplog.messages if text.startswith(called)]
            assert "it is set aside as kind set-aside/" in told
