"""Hosting the embedded cluster: finding the host of this user, or becoming the parent of one.

A host is forked from the command that needs it, before that command has an event loop, so that no
second interpreter has to start; it then belongs to nobody and lives until no client is attached and
no job is unfinished (or, started by `up`, until `down`). Whether there is a host is what the locks in
`muster.app.home` say.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from muster.app.home import Endpoint, Home

#: seconds that a host may take to start, or to stop
PATIENCE: Final = 30.0
#: seconds in which a host that nobody needs any more has noticed that, and gone
LEAVING: Final = 1.5


class HostError(Exception):
    """The embedded cluster cannot be had; the message says why and what to do."""


class OtherNodes(HostError):
    """One is running, with other nodes than those asked for."""


@contextmanager
def attached(home: Home, nodes: str = "", meanwhile: Callable[[], None] = lambda: None) -> Iterator[Endpoint]:
    """A running host that stays while this context lasts. Call it before there is an event loop."""
    home.make()
    if nodes:
        let_go(home, unless=nodes)
    with home.attached():
        yield ensure(home, nodes, meanwhile=meanwhile)


def ensure(
    home: Home, nodes: str = "", *, stays: bool = False, meanwhile: Callable[[], None] = lambda: None
) -> Endpoint:
    """The host's endpoint; forks one if there is none, and does something useful while that starts.

    What is to be told once, which jobs go on and what the machine lacks, is told to who started it.
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
            time.sleep(0.02)  # another command's host is just starting
            continue
        started = _fork(home, nodes, stays, meanwhile)
        if started is not None:
            return started
    raise HostError(f"the embedded cluster did not start within {PATIENCE:.0f} s; see {home.host_log}")


def let_go(home: Home, *, unless: str | None = None) -> None:
    """Gives the host of a command that has just ended the moment it takes to leave.

    Unless it has these nodes, or stays. Not to be called by who is attached: then it would not leave.
    """
    deadline = time.monotonic() + LEAVING
    while time.monotonic() < deadline:
        endpoint = home.endpoint()
        if endpoint is None or endpoint.stays or endpoint.nodes == unless:
            return
        time.sleep(0.02)


def stop(home: Home) -> int | None:
    """Ends the host and waits until it has gone; its pid, or None if there was none."""
    deadline = time.monotonic() + PATIENCE
    while (endpoint := home.endpoint()) is None:
        if not home.hosted():
            return None
        if time.monotonic() > deadline:
            raise HostError(f"a host neither starts nor ends; see {home.host_log}")
        time.sleep(0.02)  # it is just starting, or just ending
    os.kill(endpoint.pid, signal.SIGTERM)
    while home.hosted():
        if time.monotonic() > deadline:
            raise HostError(f"the host (pid {endpoint.pid}) is still ending its pods; see {home.host_log}")
        time.sleep(0.02)
    return endpoint.pid


def _fork(home: Home, nodes: str, stays: bool, meanwhile: Callable[[], None]) -> Endpoint | None:
    """Starts a host and waits until it listens. None if somebody else was quicker."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _become_host(home, nodes, stays, writer)
    os.close(writer)
    os.waitpid(child, 0)  # the first child ends at once; the host is its child, and nobody's
    meanwhile()
    with os.fdopen(reader, "rb") as answer:
        said = answer.read()
    if not said:
        raise HostError(f"the embedded cluster could not start; see {home.host_log}")
    told = msgspec.json.decode(said)
    if "error" in told:
        raise HostError(told["error"])
    return None if told.get("busy") else msgspec.convert(told, Endpoint)


def _become_host(home: Home, nodes: str, stays: bool, writer: int) -> None:
    """Never returns. Leaves the terminal, the caller's files and its process group behind."""
    os.setsid()
    if os.fork():
        os._exit(0)
    status = 1
    try:
        log = os.open(home.host_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, log), (2, log)):
            os.dup2(source, target)
        # Whatever the caller had open, its lock as a client above all, is not the host's.
        os.closerange(3, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        os.chdir("/")
        status = run(home, nodes, stays, lambda said: _tell(writer, said))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run(home: Home, nodes: str, stays: bool, tell: Callable[[object], None]) -> int:
    """Hosts in this process until the end; `tell` is called once, with an Endpoint or a refusal."""
    from muster.app import laptop

    try:
        with home.hosting():
            laptop.main(home, nodes, stays, tell)
    except BlockingIOError:
        tell({"busy": True})
        return 0
    except laptop.StartError as error:
        tell({"error": str(error)})
        return 1
    return 0


def _tell(writer: int, said: object) -> None:
    os.write(writer, msgspec.json.encode(said))
    os.close(writer)
