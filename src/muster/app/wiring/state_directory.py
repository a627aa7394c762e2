"""The state directory of this user's embedded cluster: its host, and its attached clients.

The directory is `$MUSTER_HOME`. Two file locks record which processes live, because the kernel releases them
however a process ends. The host holds `host.lock` for as long as it lives. Each attached client holds
`clients.lock` shared, so that a host finds out whether any client is left by trying to lock it exclusively.
`endpoint.json` says where the host listens; it is valid only while the host's lock is held.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from muster.local.credentials import write_private


class Endpoint(msgspec.Struct, frozen=True):
    """A running host."""

    server: str
    pid: int
    #: `--nodes` as given, "" for this machine's own resources
    nodes: str = ""
    #: started by `up`: runs until `down`
    stays: bool = False
    #: jobs that were unfinished when the host started, and continue
    continues: tuple[str, ...] = ()
    #: what pods lack on this machine, and how to provide it
    degraded: str = ""


class StateDirectory:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = root / "store.sqlite"
        self.logs = root / "logs"
        self.kubeconfig = root / "kubeconfig"
        self.host_log = root / "host.log"
        self.journal = root / "journal.jsonl"
        self._endpoint = root / "endpoint.json"
        self._host_lock = root / "host.lock"
        self._clients_lock = root / "clients.lock"

    @classmethod
    def of_user(cls) -> "StateDirectory":
        """The state directory `$MUSTER_HOME`, by default `~/.local/share/muster`."""
        given = os.environ.get("MUSTER_HOME")
        return cls(Path(given).absolute() if given else Path.home() / ".local/share/muster")

    def make(self) -> None:
        """Creates the directory. Raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def endpoint(self) -> Endpoint | None:
        """The endpoint of the running host; None if no host runs or it is not ready."""
        if not self.hosted():
            return None
        try:
            endpoint = msgspec.json.decode(self._endpoint.read_bytes(), type=Endpoint)
            os.kill(
                endpoint.pid, 0
            )  # the lock of a killed host stays for a moment with a child that it was starting
        except (OSError, OverflowError, msgspec.DecodeError):
            return None
        return endpoint

    def hosted(self) -> bool:
        """Whether a process holds the host's lock."""
        try:
            with _locked(self._host_lock, fcntl.LOCK_SH | fcntl.LOCK_NB, create=False):
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    @contextmanager
    def hosting(self) -> Iterator[None]:
        """Holds the host's lock while the context lasts; BlockingIOError if another process holds it."""
        with _locked(self._host_lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
            self._endpoint.unlink(missing_ok=True)  # left by a host that was killed
            try:
                yield
            finally:
                self._endpoint.unlink(missing_ok=True)

    def announce(self, endpoint: Endpoint) -> None:
        write_private(self._endpoint, msgspec.json.encode(endpoint).decode())

    def withdraw(self) -> None:
        """Removes the endpoint of a host that is about to stop: new clients wait for the next host."""
        self._endpoint.unlink(missing_ok=True)

    def last_port(self) -> int:
        """The port of the last host, so that kubeconfigs in use stay valid; 0 if there was none."""
        try:
            return int((self.root / "port").read_text())
        except (OSError, ValueError):
            return 0

    def remember_port(self, port: int) -> None:
        write_private(self.root / "port", str(port))

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Keeps the host running while the context lasts.

        Waits first if a host without clients is just stopping.
        """
        with _locked(self._clients_lock, fcntl.LOCK_SH):
            yield

    @contextmanager
    def nobody_attached(self) -> Iterator[bool]:
        """Yields whether no client is attached; none can attach while the context lasts."""
        try:
            with _locked(self._clients_lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield True
        except BlockingIOError:
            yield False


@contextmanager
def _locked(path: Path, operation: int, *, create: bool = True) -> Iterator[None]:
    # Close-on-exec, so that no pod inherits a lock.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
