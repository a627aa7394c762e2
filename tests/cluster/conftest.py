"""The cluster of these tests: `$KUBECONFIG`, which may be written to, or a control plane of their own.

They run with MUSTER_TEST_CLUSTER=1 only (`make test-cluster`). The daemons run as muster's chart installs
them: with the arguments of its Deployments and the tokens of its ServiceAccounts. One request of theirs that
the API server refuses as forbidden fails the test.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import pytest

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import (
    BATCH_JOB,
    CEDAR_POLICY,
    GANG,
    GANG_PLAN,
    JOB,
    NODE,
    POD,
    POD_GROUP_X,
    QUEUE,
    TRUST_POLICY,
)
from muster.kube import config
from muster.kube.errors import AlreadyExists, ApiError, NotFound, Unanswered, Unreachable
from muster.kube.http import HttpClient
from muster.names import RUNTIME
from tests.cluster.chart import ASLEEP, Chart, install
from tests.cluster.control_plane import ControlPlane, running
from tests.patience import CLUSTER, LONGEST

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[2]
#: The ends of what a daemon says that has lost its Lease.
LOST: Final = (b"; another replica may lead\n", b"; another leader may act\n")
CRD: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, Resource
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            if os.environ.get("MUSTER_TEST_CLUSTER") != "1":
                item.add_marker(pytest.mark.skip(reason="MUSTER_TEST_CLUSTER=1 (make test-cluster) runs it"))
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if given := os.environ.get("KUBECONFIG"):
        yield ControlPlane(Path(), "", Path(given), Path(os.devnull))
        return
    with running(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def chart(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Chart:
    """muster's chart, installed; its Deployments have no replicas, since no kubelet would run them."""
    made = install(plane.kubeconfig, tmp_path_factory.mktemp("chart"), *ASLEEP)
    made.await_roles()
    return made


@pytest.fixture(scope="session", autouse=True)
def _chart_first(chart: Chart) -> None:
    """Helm takes over no definitions that a test has made: in no order of the tests is one made before."""


@dataclass
class Cluster:
    """The API server, and processes of muster that work on it."""

    client: HttpClient
    kubeconfig: Path
    chart: Chart
    logs: Path
    #: all that have been started
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    #: parts of the paths that a test forbids muster's accounts
    withheld: set[str] = field(default_factory=set)
    #: by log, the latest process of each command
    _latest: dict[Path, subprocess.Popen[bytes]] = field(default_factory=dict)

    def daemon(
        self, name: str, port: int = 0, *more: str, ahead: float = 0.0, holds: str = ""
    ) -> subprocess.Popen[bytes]:
        """Starts a replica of the chart's Deployment, with more arguments; the fixture ends it.

        `ahead`: seconds by which its wall clock is ahead. `holds`, `GANG=PODS`: so many pods of the gang are
        all that it binds.
        """
        altered = ("tests.cluster.altered", str(ahead), holds) if ahead or holds else ("muster",)
        arguments = self.chart.arguments(name, port)
        return self._muster(name, self.chart.kubeconfig(name), *altered, *arguments, *more)

    def replica_of(self, release: Chart, name: str) -> subprocess.Popen[bytes]:
        """Starts a replica of a Deployment of another release of the chart; the fixture ends it."""
        arguments = release.arguments(name)
        return self._muster(f"{release.release}-{name}", release.kubeconfig(name), "muster", *arguments)

    def refused(self, release: Chart) -> tuple[Path, subprocess.Popen[bytes]]:
        """Starts a scheduler of another release, which is to end with an error. Returns its log, too."""
        process = self.replica_of(release, "scheduler")
        log = next(log for log, each in self._latest.items() if each is process)
        del self._latest[log]
        return log, process

    def muster(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts `muster …` as the cluster's administrator; the fixture ends it."""
        return self._muster(arguments[0], self.kubeconfig, "muster", *arguments)

    def _muster(self, name: str, kubeconfig: Path, *program: str) -> subprocess.Popen[bytes]:
        return self.start(name, [sys.executable, "-m", *program, "--kubeconfig", str(kubeconfig)])

    def start(self, name: str, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        """Starts a program of any kind; the fixture ends it."""
        log = self.logs / f"{len(self.processes)}-{name}.log"
        self._latest[log] = self._launch(command, log, environment)
        return self._latest[log]

    def _launch(
        self,
        command: Any,  # Any: as `Popen.args` has it
        log: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def end(self) -> None:
        """Ends all that has been started."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()

    def crashed(self) -> list[str]:
        """Commands that have failed. One that has lost its Lease is started again, as a kubelet does.

        It loses it on a machine that is busy with other things for as long as the Lease lasts.
        """
        failed = []
        for log, process in self._latest.items():
            if (code := process.poll()) is not None and log.read_bytes().endswith(LOST):
                self._latest[log] = self._launch(process.args, log)
            elif code not in (None, 0, -signal.SIGTERM, -signal.SIGKILL):
                failed.append(f"{process.args!r} ended with {code}\n{log.read_text()[-3000:]}")
        return failed

    async def may(self, daemon: str, verb: str, resource: str) -> None:
        """Waits until the API server, which reads roles in the background, permits this to a daemon."""

        async def allowed() -> bool:
            return self.chart.may(daemon, verb, resource)

        await self.until(f"{daemon} may {verb} {resource}", allowed)

    async def make(self, kind: Kind[Any], body: Object, namespace: str = "default") -> None:
        """Creates the object; one that is there already stays. One that is being deleted is waited for."""
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        place, name = namespace if kind.namespaced else "", body["metadata"]["name"]

        async def there() -> bool:
            try:
                await self.client.create(kind, place, whole)
            except AlreadyExists:
                with suppress(NotFound):
                    found = await self.client.get(kind, place, name)
                    return found.metadata.deletion_timestamp is None
                return False
            return True

        if not await there():
            await self.until(f"{kind.kind} {name} is there anew", there)

    async def make_all(self, kind: Kind[Any], bodies: Iterable[Object]) -> None:
        """Creates these objects, not more of them at a time than there are connections."""
        waiting = iter(bodies)

        async def work() -> None:
            for body in waiting:
                await self.make(kind, body)

        await asyncio.gather(*(work() for _ in range(50)))

    async def clear(self) -> None:
        """Deletes what a test has made, whatever still holds on to it."""
        kinds: tuple[Kind[Any], ...] = (
            CEDAR_POLICY,
            TRUST_POLICY,
            BATCH_JOB,
            JOB,  # before its pods, which it would make anew
            POD_GROUP_X,
            POD,
            GANG_PLAN,
            GANG,
            QUEUE,
        )
        for kind in kinds:
            items = iter((await self.client.list(kind)).items)

            async def remove_some(kind: Kind[Any] = kind, items: Iterator[Any] = items) -> None:
                for each in items:
                    await self.remove(kind, each)

            await asyncio.gather(*(remove_some() for _ in range(50)))  # a request waits for no connection
        nodes = (await self.client.list(NODE, labels=f"{RUNTIME}=none")).items
        await asyncio.gather(*(self.remove(NODE, each) for each in nodes))

    async def remove(self, kind: Kind[Any], item: Resource) -> None:
        meta = item.metadata
        with suppress(NotFound):
            if meta.finalizers:
                await self.client.patch(kind, meta.namespace, meta.name, {"metadata": {"finalizers": None}})
            await self.client.delete(kind, meta.namespace, meta.name, grace_period=0)

    async def until(
        self,
        what: str,
        look: Callable[[], Awaitable[T | None]],
        pause: float = 0.1,
    ) -> T:
        """What `look` returns, once that is true."""
        until, last = asyncio.get_running_loop().time() + CLUSTER, ""
        while asyncio.get_running_loop().time() < until:
            assert self.crashed() == []
            try:
                if found := await look():
                    return found
            except (ApiError, Unanswered, Unreachable) as error:
                last = f" ({error})"
            await asyncio.sleep(pause)
        logs = "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.logs.iterdir()))
        raise AssertionError(f"not within {CLUSTER:.0f} s: {what}{last}\n{logs}")


@pytest.fixture
async def cluster(plane: ControlPlane, chart: Chart, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The cluster with muster installed and PodGroups defined, and nothing running."""
    client = HttpClient(config.load(str(plane.kubeconfig)))
    made = Cluster(client, plane.kubeconfig, chart, tmp_path)
    await made.make(CRD, open_definition(POD_GROUP_X))
    await made.until("PodGroups are served", lambda: served(client, POD_GROUP_X))
    await made.until("GangPlans are served", lambda: served(client, GANG_PLAN))
    before = len(plane.forbidden(chart.accounts))
    try:
        yield made
        assert made.crashed() == []
    finally:
        made.end()
        await made.clear()
        await client.close()
    asked = [
        each for each in plane.forbidden(chart.accounts)[before:] if not any(w in each for w in made.withheld)
    ]
    assert asked == [], "charts/muster/templates/roles.yaml and confine.yaml say who may what"


async def served(client: HttpClient, kind: Kind[Any]) -> bool:
    await client.list(kind)
    return True


def open_definition(kind: Kind[Any]) -> Object:
    """The definition of a kind of others, without a schema."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}} if kind.status else {},
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
