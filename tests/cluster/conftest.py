"""The cluster of these tests: `$KUBECONFIG`, which may be written to, or a control plane of their own.

They run with MUSTER_TEST_CLUSTER=1 only (`make test-cluster`).
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from muster.api.base import Kind, Object, Resource
from muster.api.crd import definitions
from muster.api.kinds import GANG_PLAN, NAMESPACE, POD_GROUP_X
from muster.kube import config
from muster.kube.errors import AlreadyExists, ApiError
from muster.kube.http import HttpClient
from tests.cluster.control_plane import ControlPlane, running

T = TypeVar("T")

#: Seconds in which a cluster that is busy with other things has done what a test waits for.
PATIENCE: Final = 120.0
CRD: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, Resource
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("MUSTER_TEST_CLUSTER") != "1":
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="MUSTER_TEST_CLUSTER=1 (make test-cluster) runs it"))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if given := os.environ.get("KUBECONFIG"):
        yield ControlPlane(Path(), "", Path(given), Path(os.devnull))
        return
    with running(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@dataclass
class Cluster:
    """The API server, and processes of muster that work on it."""

    client: HttpClient
    kubeconfig: Path
    logs: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def muster(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts `muster …`; the fixture ends it."""
        with (self.logs / f"{len(self.processes)}-{arguments[0]}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "muster", *arguments, "--kubeconfig", str(self.kubeconfig)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    async def make(self, kind: Kind[Any], body: Object, namespace: str = "default") -> None:
        """Creates the object; one that is there already stays."""
        with suppress(AlreadyExists):
            whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
            await self.client.create(kind, namespace if kind.namespaced else "", whole)

    async def until(self, what: str, look: Callable[[], Awaitable[T | None]], pause: float = 0.1) -> T:
        """What `look` returns, once that is true."""
        until = asyncio.get_running_loop().time() + PATIENCE
        while asyncio.get_running_loop().time() < until:
            try:
                if found := await look():
                    return found
            except ApiError as error:
                what = f"{what} ({error})"
            await asyncio.sleep(pause)
        logs = "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.logs.iterdir()))
        raise AssertionError(f"not within {PATIENCE:.0f} s: {what}\n{logs}")


@pytest.fixture
async def cluster(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The cluster with muster's kinds and PodGroups defined, and nothing running."""
    client = HttpClient(config.load(str(plane.kubeconfig)))
    made = Cluster(client, plane.kubeconfig, tmp_path)
    for definition in (*definitions(), _open(POD_GROUP_X)):
        await made.make(CRD, definition)
    await made.make(NAMESPACE, {"metadata": {"name": "muster-system"}})
    await made.until("PodGroups are served", lambda: _served(client, POD_GROUP_X))
    await made.until("GangPlans are served", lambda: _served(client, GANG_PLAN))
    try:
        yield made
    finally:
        for process in made.processes:
            process.send_signal(signal.SIGTERM)
        for process in made.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        await client.close()


async def _served(client: HttpClient, kind: Kind[Any]) -> bool:
    await client.list(kind)
    return True


def _open(kind: Kind[Any]) -> Object:
    """The definition of a kind of others, without a schema."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    group = "api-approved.kubernetes.io"
    return {
        "metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": {group: "unapproved, for a test"}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural},
            "versions": [version],
        },
    }
