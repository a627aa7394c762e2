"""One measurement: a fresh control plane, one row and one contender, judged by the audit log."""

import math
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.cluster.control_plane import ControlPlane, running

from bench.kubernetes import rows
from bench.kubernetes.contenders import Contender
from bench.kubernetes.rows import Row
from bench.kubernetes.sender import send

#: Seconds in which the API server must come to rest, between two looks, and the cores it uses at rest.
SETTLES: Final = 30.0
LOOK: Final = 1.0
AT_REST: Final = 0.15


@dataclass(frozen=True, slots=True)
class Result:
    """What one contender made of one row."""

    #: pods per second
    rate: float
    #: milliseconds per pod: processor time of the scheduler, and of the API server and etcd
    own: float
    server: float
    #: seconds from the answer to the creation of a gang's last pod to that to its last Binding, median; or 0
    wait: float
    #: requests that wrote something, per pod: the scheduler's
    writes: float
    #: the part of the pods that were bound in time
    bound: float


def measure(
    home: Path, row: Row, contender: Contender | None, *, before: bool, longest: float = 900.0
) -> Result:
    """`before`: all pods are there before the scheduler starts. No contender: the bare binds.

    After `longest` seconds, what is bound by then counts.
    """
    with ExitStack() as stack:
        plane = stack.enter_context(running(home, controllers=False))
        send(plane.kubeconfig, rows.nodes(row))
        if contender is None:
            return _bare(plane, row)
        contender.prepare(plane)
        gangs = list(rows.gangs(row, contender.scheduler, contender.groups if row.size > 1 else None))
        if before:
            with contender.running(plane):
                pass  # so that what follows is a restart, as after an upgrade
            send(plane.kubeconfig, gangs)
        settle(plane)
        spent = _Spent(plane)
        pid = stack.enter_context(contender.running(plane))
        own = 0.0 if before else processor_time(pid)
        if not before:
            settle(plane)
            spent = _Spent(plane)
            send(plane.kubeconfig, gangs)
        await_binds(plane, row.pods, longest)
        own = processor_time(pid) - own
        server = spent.since()
    return _result(plane, row, before=before, own=own, server=server)


def _bare(plane: ControlPlane, row: Row) -> Result:
    """How fast the API server takes Bindings, as kube-scheduler's user, from 32 connections."""
    send(plane.kubeconfig, rows.gangs(row, "nobody", None))
    settle(plane)
    spent = _Spent(plane)
    own = time.process_time()
    send(plane.home / "scheduler.kubeconfig", rows.bindings(row))
    own, server = time.process_time() - own, spent.since()
    return _result(plane, row, before=True, own=own, server=server)


class _Spent:
    """Processor time of the API server and etcd since now."""

    def __init__(self, plane: ControlPlane) -> None:
        self._pids = [plane.processes[name].pid for name in ("etcd", "kube-apiserver")]
        self._began = sum(map(processor_time, self._pids))

    def since(self) -> float:
        return sum(map(processor_time, self._pids)) - self._began


def processor_time(pid: int) -> float:
    """Seconds of a process, all of its threads and of both kinds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def settle(plane: ControlPlane) -> None:
    """Waits until the API server rests: it works for seconds on definitions that have been installed."""
    spent, looks = _Spent(plane), 0
    for _ in range(int(SETTLES / LOOK)):
        before = spent.since()
        time.sleep(LOOK)
        looks = looks + 1 if spent.since() - before < AT_REST * LOOK else 0
        if looks == 2:
            return


def await_binds(plane: ControlPlane, pods: int, longest: float) -> None:
    """Waits until so many pods are bound, at most so many seconds."""
    until, bound = time.monotonic() + longest, 0
    with plane.audit.open("rb") as log:
        rest = b""
        while bound < pods and time.monotonic() < until:
            *lines, rest = (rest + log.read()).split(b"\n")
            bound += sum(b'"subresource":"binding"' in line and b'"code":201' in line for line in lines)
            time.sleep(0.1)


def _result(plane: ControlPlane, row: Row, *, before: bool, own: float, server: float) -> Result:
    binds: dict[str, float] = {}
    made: dict[str, float] = {}
    first = math.inf
    writes = 0
    for entry in plane.entries():
        match entry:
            case {
                "objectRef": {"resource": "pods", "name": str(name), "subresource": "binding"},
                "responseStatus": {"code": 201},
            }:
                binds[name] = time_of(entry["stageTimestamp"])
            case {
                "verb": "create",
                "objectRef": {"resource": "pods" | "podgroups" as resource, "name": str(name)},
                "responseStatus": {"code": 201},
            }:
                if resource == "pods":
                    made[name] = time_of(entry["stageTimestamp"])
                if not before:
                    first = min(first, time_of(entry["requestReceivedTimestamp"]))
                continue
            case _:
                pass
        if _is_work(entry):
            writes += 1
            first = min(first, time_of(entry["requestReceivedTimestamp"]))
    if not binds:
        return Result(rate=0.0, own=math.inf, server=math.inf, wait=math.inf, writes=math.inf, bound=0.0)
    waits = [
        max(binds[name] for name in gang) - max(made[name] for name in gang)
        for gang in _gangs(row)
        if all(name in binds for name in gang)
    ]
    return Result(
        rate=len(binds) / (max(binds.values()) - first),
        own=own / len(binds) * 1000,
        server=server / len(binds) * 1000,
        wait=median(waits) if waits else math.inf,
        writes=writes / len(binds),
        bound=len(binds) / row.pods,
    )


def _is_work(entry: dict[str, Any]) -> bool:  # Any: JSON
    """Whether it is a write of a scheduler about the pods or gangs of the row."""
    about = entry.get("objectRef", {})
    mine = str(about.get("name", "")).startswith(("gang-", "podgroup-gang-"))
    return mine and entry["user"]["username"] != "admin"


def _gangs(row: Row) -> Iterator[list[str]]:
    for number in range(row.gangs):
        yield [f"gang-{number:05}-{index:05}" for index in range(row.size)]


def time_of(stamp: str) -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(stamp).timestamp()
