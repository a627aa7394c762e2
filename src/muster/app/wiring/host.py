"""Hosts the embedded cluster: finds this user's host, or starts one.

A host is forked from the command that needs it, before that command has an event loop, so that no second
interpreter has to start. The host has no parent that waits for it. It runs until no client is attached and
no job is unfinished; a host started by `up` runs until `down`. The locks in
`muster.app.wiring.state_directory` say whether a host runs.
"""

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, TextIO

import msgspec

from muster.app.wiring.state_directory import Endpoint, StateDirectory

#: seconds within which a host must start or stop
PATIENCE: Final = 30.0
#: bytes of free space below which a host that cannot start is told to have found the disk full
_LEAST: Final = 2**20
#: seconds within which a host that is no longer needed notices that and stops
LEAVING: Final = 1.5


class HostError(Exception):
    """The embedded cluster is not available; the message says why and what to do."""


class OtherNodes(HostError):
    """The running cluster has other nodes than those requested."""


@contextmanager
def attached(
    home: StateDirectory, nodes: str = "", meanwhile: Callable[[], None] = lambda: None
) -> Iterator[Endpoint]:
    """Yields a running host that stays while the context lasts. Call it before there is an event loop."""
    home.make()
    if nodes:
        let_go(home, unless=nodes)
    with home.attached():
        yield ensure(home, nodes, meanwhile=meanwhile)


def ensure(
    home: StateDirectory,
    nodes: str = "",
    *,
    stays: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> Endpoint:
    """The host's endpoint. Forks a host if there is none, and calls `meanwhile` while it starts.

    Only the caller that starts the host learns which jobs continue and what the machine lacks.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        endpoint = home.endpoint()
        if endpoint is not None:
            if nodes and endpoint.nodes != nodes:
                raise OtherNodes(
                    "--nodes describes a new cluster, but one is running already "
                    f"({endpoint.nodes or 'this machine'}, pid {endpoint.pid}); stop it first: muster down"
                )
            return msgspec.structs.replace(endpoint, continues=(), degraded="")
        if home.hosted():
            time.sleep(0.02)  # another command's host is starting
            continue
        started = _fork(home, nodes, stays, meanwhile)
        if started is not None:
            return started
    raise HostError(f"the embedded cluster did not start within {PATIENCE:.0f} s; see {home.host_log}")


def let_go(home: StateDirectory, *, unless: str | None = None) -> None:
    """Waits for the host of a command that has just ended to stop; for `LEAVING` seconds until it begins to.

    Returns at once if the host has the nodes `unless`, or stays. An attached client must not call it: its
    host would not stop.
    """
    begin = time.monotonic()
    while home.hosted() and (waited := time.monotonic() - begin) < PATIENCE:
        endpoint = home.endpoint()  # none while it starts or stops
        if endpoint is not None and (endpoint.stays or endpoint.nodes == unless or waited > LEAVING):
            return
        time.sleep(0.02)


def stop(home: StateDirectory) -> int | None:
    """Stops the host and waits until its process is gone; returns its pid, or None if no host runs."""
    deadline = time.monotonic() + PATIENCE
    while (endpoint := home.endpoint()) is None:
        if not home.hosted():
            return None
        if time.monotonic() > deadline:
            raise HostError(f"another host process neither starts nor stops; see {home.host_log}")
        time.sleep(0.02)  # the host is starting or stopping
    with suppress(ProcessLookupError), _opened(endpoint.pid) as process:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise HostError(f"the host (pid {endpoint.pid}) is still stopping its pods; see {home.host_log}")
    return endpoint.pid


#: What a second interpreter runs for a program that has threads, such as a notebook.
_SPAWNED: Final = "import sys; from muster.app.wiring import host; host.spawned(*sys.argv[1:])"


def _spawn(home: StateDirectory, nodes: str, stays: bool) -> Endpoint:
    """As `ensure`, by a process of its own."""
    words = [sys.executable, "-P", "-c", _SPAWNED, str(home.root), nodes, "stays" if stays else ""]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        told = msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise HostError(f"the embedded cluster could not start: {said}") from None
    if "error" in told:
        raise HostError(told["error"])
    return msgspec.convert(told, Endpoint)


def spawned(root: str, nodes: str, stays: str) -> None:
    """Ensures a host and prints its endpoint, or why there is none."""
    try:
        told: object = ensure(StateDirectory(Path(root)), nodes, stays=bool(stays))
    except HostError as error:
        told = {"error": str(error)}
    sys.stdout.buffer.write(msgspec.json.encode(told))


@contextmanager
def _opened(pid: int) -> Iterator[int]:
    """The pidfd of a process. Raises ProcessLookupError if it is gone."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _fork(home: StateDirectory, nodes: str, stays: bool, meanwhile: Callable[[], None]) -> Endpoint | None:
    """Starts a host and waits until it listens. None if another process was quicker."""
    if threading.active_count() > 1:  # a child has one thread; what the others have locked stays locked
        return _spawn(home, nodes, stays)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _become_host(home, nodes, stays, writer)
    os.close(writer)
    os.waitpid(child, 0)  # the first child exits at once; the host is its child, and an orphan from then on
    meanwhile()
    with os.fdopen(reader, "rb") as answer:
        said = answer.read()
    if not said:
        raise HostError(f"the embedded cluster could not start; see {home.host_log}")
    told = msgspec.json.decode(said)
    if "error" in told:
        raise HostError(told["error"])
    return None if told.get("busy") else msgspec.convert(told, Endpoint)


def _become_host(home: StateDirectory, nodes: str, stays: bool, writer: int) -> None:
    """Becomes the host; never returns. Detaches from the caller's terminal, files and process group."""
    os.setsid()
    if os.fork():
        os._exit(0)
    status = 1
    told: list[object] = []

    def tell(said: object) -> None:
        told.append(said)
        _tell(writer, said)

    try:
        log = os.open(home.host_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        # `sys.stdout` may have a descriptor of its own; it stays open, so that no other file gets its number.
        logged = {1, 2, *_descriptor(sys.stdout), *_descriptor(sys.stderr)}
        os.dup2(null, 0)
        for target in logged:
            os.dup2(log, target)
        # The host must not inherit the caller's open files, above all the caller's client lock.
        _close_all_but({0, writer, *logged})
        os.chdir("/")
        status = run(home, nodes, stays, tell)
    except BaseException as error:
        import traceback

        with suppress(OSError):  # on a full disk the log takes nothing, so the command is told all
            traceback.print_exc()
        if not told:
            tell({"error": _why(error, home)})
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _why(error: BaseException, home: StateDirectory) -> str:
    """Why a host could not start, for the command that started it."""
    disk = os.statvfs(home.root)
    said_so = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if said_so or disk.f_bavail * disk.f_frsize < _LEAST:  # SQLite has errors of its own for it
        full = f"the disk of {home.root} is full. Free some space there, or let muster: muster prune"
        return f"the embedded cluster could not start: {full}"
    said = f"{type(error).__name__}: {error}".removesuffix(": ")
    return f"the embedded cluster could not start: {said}; see {home.host_log}"


def _descriptor(stream: TextIO) -> Iterator[int]:
    with suppress(OSError):  # no file
        yield stream.fileno()


def _close_all_but(kept: set[int]) -> None:
    ends = [*sorted(kept), os.sysconf("SC_OPEN_MAX")]
    for before, after in pairwise(ends):
        os.closerange(before + 1, after)


def run(home: StateDirectory, nodes: str, stays: bool, tell: Callable[[object], None]) -> int:
    """Hosts the cluster in this process until it stops; calls `tell` once, with an Endpoint or a refusal."""
    from muster.app.wiring import embedded

    try:
        with home.hosting():
            embedded.main(home, nodes, stays, tell)
    except BlockingIOError:
        tell({"busy": True})
        return 0
    except embedded.StartError as error:
        tell({"error": str(error)})
        return 1
    return 0


def _tell(writer: int, said: object) -> None:
    # If the command that started the host was interrupted, the host leaves like any that has no clients.
    with suppress(BrokenPipeError):
        os.write(writer, msgspec.json.encode(said))
    os.close(writer)
