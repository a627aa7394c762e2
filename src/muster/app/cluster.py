"""The cluster that a verb works on: the embedded one by default, else a kubeconfig's."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from muster.app import host
from muster.app.home import Endpoint, Home
from muster.kube.client import Client
from muster.kube.errors import Unreachable
from muster.local import credentials
from muster.names import SCHEDULER

if TYPE_CHECKING:  # aiohttp takes a quarter of a second to import
    from muster.kube.http import Connection
    from muster.local.node.logs import Logs


@dataclass(frozen=True)
class Target:
    """What the options of a command say. Raises OtherNodes if they contradict each other."""

    kubeconfig: str | None = None
    context: str | None = None
    #: --namespace; "" for all there are
    namespace: str | None = None
    #: --nodes, which the embedded cluster is to have
    nodes: str = ""

    def __post_init__(self) -> None:
        if self.nodes and not self.embedded:
            raise host.OtherNodes("--nodes is for the embedded cluster; a real one has the nodes it has")

    @property
    def embedded(self) -> bool:
        return self.kubeconfig is None and self.context is None

    @property
    def schedulers(self) -> frozenset[str] | None:
        """Values of `spec.schedulerName` that make a pod ours; None = all, as nobody else schedules there."""
        return None if self.embedded else frozenset({SCHEDULER})

    @property
    def home(self) -> str:
        """The namespace of objects that name none."""
        return self.namespace or ("default" if self.embedded else self.connection.namespace)

    @property
    def scope(self) -> str:
        """The namespace in which jobs are looked for, "" for all: the embedded cluster is one person's."""
        if self.namespace is not None:
            return self.namespace
        return "" if self.embedded else self.connection.namespace

    @cached_property
    def connection(self) -> "Connection":
        """To a real cluster. Its kubeconfig is read once, for that may run a program. Raises ConfigError."""
        from muster.kube import config

        return config.load(self.kubeconfig, self.context)


def _import_client() -> None:
    import muster.kube.http  # noqa: F401


@contextmanager
def attached(target: Target, meanwhile: Callable[[], None] = _import_client) -> Iterator[Endpoint | None]:
    """Makes sure that the embedded cluster is hosted while this lasts; nothing for a real one.

    Call it before there is an event loop; `meanwhile` is done while a host starts. Raises HostError,
    OtherNodes, InvalidNodes.
    """
    if not target.embedded:
        yield None
        return
    import muster.app.fit  # noqa: F401  # needed on both sides of the fork, so once before it

    with host.attached(Home.of_user(), nodes_asked(target.nodes), meanwhile) as endpoint:
        yield endpoint


@contextmanager
def attached_if_hosted(target: Target) -> Iterator[Endpoint | None]:
    """The embedded cluster's host, kept from leaving while this lasts; None if there is none."""
    home = Home.of_user()
    if not target.embedded or not home.root.is_dir():
        yield None
        return
    with home.attached():
        yield home.endpoint()


def nodes_asked(nodes: str) -> str:
    """`--nodes`, once it is known to be right, as a host in any directory understands it."""
    if nodes:
        from muster.local import nodespec

        nodespec.read(nodes)
        if Path(nodes).is_file():
            return str(Path(nodes).absolute())
    return nodes


def archive(target: Target) -> "Logs | None":
    """The output of all pods there have been, where the cluster keeps it on this machine."""
    from muster.local.node.logs import Logs

    return Logs(Home.of_user().logs) if target.embedded else None


def hosted(target: Target) -> bool:
    """Whether somebody does the cluster's work; taken for granted of a real one."""
    return not target.embedded or Home.of_user().endpoint() is not None


def full_disk(target: Target) -> Path | None:
    """The embedded cluster's directory, if its disk has no room left for what pods print."""
    if not target.embedded:
        return None
    from muster.local.node.logs import room

    home = Home.of_user().root
    return home if room(home) <= 0 else None


def alive(endpoint: Endpoint | None) -> bool:
    """Whether the host of that endpoint is still there; true of a real cluster."""
    if endpoint is None:
        return True
    now = Home.of_user().endpoint()
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


@asynccontextmanager
async def reading(target: Target) -> AsyncIterator[Client]:
    """A client to list and get with: of the embedded cluster's store itself, whether or not it is hosted."""
    if target.embedded:
        from muster.local.offline import offline_client

        home = Home.of_user()
        with offline_client(home.store, home.logs) as offline:
            yield offline
        return
    async with acting(target) as client:
        yield client


def _connection(target: Target, endpoint: Endpoint | None) -> "Connection":
    from muster.kube.http import Connection

    if not target.embedded:
        return target.connection
    home = Home.of_user()
    endpoint = endpoint or home.endpoint()
    if endpoint is None:
        raise Unreachable("the embedded cluster is not running; `muster up` starts it")
    token = credentials.token_file(home.root).read_text()
    return Connection(
        endpoint.server,
        credentials.client_context(home.root),
        lambda: {"Authorization": f"Bearer {token}"},
    )
