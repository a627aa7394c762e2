"""The state directory of this user's embedded cluster: its host, and its attached clients.

The directory is `$MUSTER_HOME`. Two file locks record which processes live, because the kernel releases them
however a process ends. The host holds `host.lock` for as long as it lives. Each attached client holds
`clients.lock` shared, so that a host finds out whether any client is left by trying to lock it exclusively.
`endpoint.json` says where the host listens; it is valid only while the host's lock is held.

Other users of the machine neither read nor change anything in it. The directory is the user's own, has mode
0700, and no other user can put another one in its place. A directory is refused if that is not so: what it
contains (an endpoint, a token, a database) may be another user's.
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from muster.embedded.credentials import write_private

#: Symbolic links that a path may contain, as for the kernel.
LINKS: Final = 40
#: Bytes of a file that is given up when the disk is full: more than a host needs to start and to delete jobs.
RESERVE: Final = 2**20
#: Bytes of free space above which the reserve is made.
_AMPLE: Final = 64 * 2**20
#: One of these shows that a directory is a state directory: `secrets` may be made before the first start.
_OURS: Final = frozenset({"store.sqlite", "host.lock", "clients.lock", "host.log", "secrets"})


class NotPrivate(Exception):
    """Other users could read or change the state directory; the message says how, and what to do."""


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
        self._reserve = root / "reserve"
        self._endpoint = root / "endpoint.json"
        self._host_lock = root / "host.lock"
        self._clients_lock = root / "clients.lock"

    @classmethod
    def of_user(cls) -> "StateDirectory":
        """The state directory `$MUSTER_HOME`, by default `~/.local/share/muster`. Raises NotPrivate.

        A directory that others may read is accepted: `make` closes it before anything is written.
        """
        given = os.environ.get("MUSTER_HOME")
        home = cls(Path(given).absolute() if given else Path.home() / ".local/share/muster")
        home._trusted()
        return home

    def make(self) -> None:
        """Creates the directory, or makes an existing one private. Raises OSError, NotPrivate."""
        made = self._trusted()
        if made is None:
            _make_private(self.root)
        elif made.st_mode & 0o077:
            found = set(os.listdir(self.root))
            if found and (made.st_mode & stat.S_ISVTX or not found & _OURS):
                raise NotPrivate(
                    f"{self.root} has other files, and other users may enter it: set MUSTER_HOME to a "
                    f"directory of its own, or close this one: chmod 700 {self.root}"
                )
            self.root.chmod(0o700)

    def _trusted(self) -> os.stat_result | None:
        """The directory's own status, None if it does not exist. Raises NotPrivate, OSError."""
        try:
            found = _without_strangers(self.root)
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(20, "is no directory; set MUSTER_HOME to one", str(self.root))
        if found.st_uid != os.geteuid():
            raise NotPrivate(
                f"{self.root} belongs to another user (uid {found.st_uid}): set MUSTER_HOME to a directory "
                "of your own"
            )
        if found.st_mode & 0o022 and os.listdir(self.root):
            raise NotPrivate(
                f"other users may write to {self.root}, so its files may be theirs: set MUSTER_HOME to "
                f"another directory, or look through it, then: chmod 700 {self.root}"
            )
        return found

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

    def keep_reserve(self) -> None:
        """Takes some space of a disk that has enough, for the day on which it is full."""
        with suppress(OSError):
            disk = os.statvfs(self.root)
            if not self._reserve.exists() and disk.f_bavail * disk.f_frsize > _AMPLE:
                file = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                try:
                    os.posix_fallocate(file, 0, RESERVE)
                finally:
                    os.close(file)

    def give_up_reserve(self) -> None:
        self._reserve.unlink(missing_ok=True)

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


def _without_strangers(path: Path) -> os.stat_result:
    """The status of what is at this path, if no other user can put something else there.

    Any user could rename what is in a directory that all may write to, unless it is sticky, and could have
    made a link in one that is. Who owns a directory above is not asked: the user chose to work there.
    """
    links = 0
    reached, rest = Path("/"), list(path.parts[1:])
    while True:
        found = reached.lstat()
        if stat.S_ISLNK(found.st_mode):
            if found.st_uid not in (0, os.geteuid()) or (links := links + 1) > LINKS:
                raise NotPrivate(
                    f"{reached} is another user's symbolic link: set MUSTER_HOME to a directory of your own"
                )
            target = Path(os.path.normpath(reached.parent / reached.readlink()))
            reached, rest = Path("/"), [*target.parts[1:], *rest]
            continue
        if not rest:
            return found
        writers = found.st_mode & (0o002 if found.st_gid in (0, os.getegid()) else 0o022)
        if writers and not found.st_mode & stat.S_ISVTX:
            raise NotPrivate(
                f"other users may replace what is in {reached}: set MUSTER_HOME to a directory elsewhere, or "
                f"take their right away: chmod go-w {reached}"
            )
        reached /= rest.pop(0)


def _make_private(path: Path) -> None:
    """Makes the directory and those above it that do not exist, whatever the umask is."""
    if not path.parent.exists():
        _make_private(path.parent)
    try:
        path.mkdir(0o700)
        path.chmod(0o700)
    except FileExistsError:  # another command was quicker
        if not path.is_dir():
            raise


@contextmanager
def _locked(path: Path, operation: int, *, create: bool = True) -> Iterator[None]:
    # Close-on-exec, so that no pod inherits a lock.
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)
