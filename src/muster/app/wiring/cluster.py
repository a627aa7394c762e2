"""The cluster that a command works on: the embedded one by default, else that of a kubeconfig."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from muster.app.wiring import host
from muster.app.wiring.state_directory import Endpoint, StateDirectory
from muster.embedded import credentials
from muster.kube.client import Client
from muster.kube.errors import Unreachable
from muster.names import SCHEDULER

if TYPE_CHECKING:  # importing aiohttp takes a quarter of a second
    from muster.api.base import AnyKind
    from muster.app.views.job import JobView
    from muster.embedded.node.logs import Logs
    from muster.kube.http import Connection


@dataclass(frozen=True)
class Target:
    """The cluster that a command's options describe. Raises OtherNodes if they contradict each other."""

    kubeconfig: str | None = None
    context: str | None = None
    #: --namespace; "" for all namespaces
    namespace: str | None = None
    #: --nodes: the nodes of the embedded cluster
    nodes: str = ""

    def __post_init__(self) -> None:
        if self.nodes and not self.embedded:
            raise host.OtherNodes("--nodes is for the embedded cluster only")

    @property
    def embedded(self) -> bool:
        return self.kubeconfig is None and self.context is None

    @property
    def schedulers(self) -> frozenset[str] | None:
        """The values of `spec.schedulerName` whose pods muster schedules; None = all.

        It is None on the embedded cluster, which has no other scheduler.
        """
        return None if self.embedded else frozenset({SCHEDULER})

    @property
    def home(self) -> str:
        """The namespace of objects that do not name one."""
        return self.namespace or ("default" if self.embedded else self.connection.namespace)

    @property
    def scope(self) -> str:
        """The namespace in which jobs are looked up; "" for all.

        The default on the embedded cluster is all, because the cluster belongs to one user.
        """
        if self.namespace is not None:
            return self.namespace
        return "" if self.embedded else self.connection.namespace

    @cached_property
    def connection(self) -> "Connection":
        """A connection to a real cluster. Raises ConfigError.

        The kubeconfig is read once, because reading it may run a program.
        """
        from muster.kube import config

        return config.load(self.kubeconfig, self.context)


def _import_client() -> None:
    import muster.kube.http  # noqa: F401


@contextmanager
def attached(target: Target, meanwhile: Callable[[], None] = _import_client) -> Iterator[Endpoint | None]:
    """Keeps the embedded cluster hosted while the context lasts; does nothing for a real cluster.

    Call it before the process has an event loop. `meanwhile` runs while a host starts. Raises HostError,
    OtherNodes, InvalidNodes.
    """
    if not target.embedded:
        yield None
        return
    import muster.app.snapshot  # noqa: F401  # needed on both sides of the fork, so once before it

    with host.attached(StateDirectory.of_user(), nodes_asked(target.nodes), meanwhile) as endpoint:
        yield endpoint


@contextmanager
def attached_if_hosted(target: Target) -> Iterator[Endpoint | None]:
    """The embedded cluster's host, which does not stop while the context lasts; None if no host runs."""
    home = StateDirectory.of_user()
    if not target.embedded or not home.root.is_dir():
        yield None
        return
    with home.attached():
        yield home.endpoint()


def nodes_asked(nodes: str) -> str:
    """`--nodes`, validated, in a form that a host in any directory understands."""
    if nodes:
        from muster.embedded import nodespec

        nodespec.read(nodes)
        if Path(nodes).is_file():
            return str(Path(nodes).absolute())
    return nodes


def archive(target: Target) -> "Logs | None":
    """The output of all past and present pods, if the cluster keeps it on this machine."""
    from muster.embedded.node.logs import Logs

    return Logs(StateDirectory.of_user().logs) if target.embedded else None


def hosted(target: Target) -> bool:
    """Whether the cluster's control plane runs; assumed for a real cluster."""
    return not target.embedded or StateDirectory.of_user().endpoint() is not None


def full_disk(target: Target) -> Path | None:
    """The embedded cluster's directory if its disk has no space left for the pods' output, else None."""
    if not target.embedded:
        return None
    from muster.embedded.node.logs import room

    home = StateDirectory.of_user().root
    return home if room(home) <= 0 else None


def untold(target: Target, view: "JobView") -> list[str]:
    """What of the job's notifications could not be told, or not yet: a line for each event."""
    if not target.embedded:
        return []
    from muster.app.wiring import notifying

    return notifying.untold(StateDirectory.of_user().root, view.resource.metadata.uid)


def alive(endpoint: Endpoint | None) -> bool:
    """Whether the host of that endpoint still runs; true for a real cluster."""
    if endpoint is None:
        return True
    now = StateDirectory.of_user().endpoint()
    return now is not None and now.pid == endpoint.pid


@asynccontextmanager
async def acting(target: Target, endpoint: Endpoint | None = None) -> AsyncIterator[Client]:
    """A client of the running cluster: of `endpoint`, if given."""
    from muster.kube.http import HttpClient

    client = HttpClient(_connection(target, endpoint))
    try:
        yield client
    finally:
        await client.close()


def serves(target: Target, kind: "AnyKind") -> bool:
    """Whether a real cluster serves a kind. Call it without an event loop."""
    import asyncio

    from muster.kube.http import HttpClient

    async def look() -> bool:
        client = HttpClient(target.connection)
        try:
            return kind.plural in await client.served(kind.group, kind.version)
        finally:
            await client.close()

    return asyncio.run(look())


@asynccontextmanager
async def reading(target: Target) -> AsyncIterator[Client]:
    """A client that can list and get.

    For the embedded cluster it reads the store itself, so that no host has to run.
    """
    if target.embedded:
        from muster.embedded.offline import offline_client

        home = StateDirectory.of_user()
        with offline_client(home.store, home.logs) as offline:
            yield offline
        return
    async with acting(target) as client:
        yield client


def _connection(target: Target, endpoint: Endpoint | None) -> "Connection":
    from muster.kube.http import Connection

    if not target.embedded:
        return target.connection
    home = StateDirectory.of_user()
    endpoint = endpoint or home.endpoint()
    if endpoint is None:
        raise Unreachable("the embedded cluster is not running; `muster up` starts it")
    token = credentials.token_file(home.root).read_text()
    return Connection(
        endpoint.server,
        credentials.client_context(home.root),
        lambda: {"Authorization": f"Bearer {token}"},
    )
