"""The schedulers that are compared, each as its users run it: a process of its own with its own rights."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from tests.cluster.chart import Chart, install
from tests.cluster.conftest import CRD, open_definition
from tests.cluster.control_plane import HOST, ControlPlane, free_ports, start_scheduler

from bench.kubernetes.rows import NATIVE
from bench.kubernetes.sender import send
from muster.api.base import Kind
from muster.api.kinds import POD_GROUP_X
from muster.api.scheduling import PodGroup
from muster.names import SCHEDULER

#: Seconds until a scheduler must be ready.
PATIENCE: Final = 120.0


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    #: `spec.schedulerName` of its pods
    scheduler: str
    #: makes the control plane ready for it
    prepare: Callable[[ControlPlane], None]
    #: runs it, and yields its pid once it is ready
    running: Callable[[ControlPlane], AbstractContextManager[int]]
    #: the kind of its groups; None: it sees pods only
    groups: Kind[PodGroup] | None = None


def _muster(plane: ControlPlane) -> None:
    """Installs the chart and the definition of PodGroups."""
    install(plane.kubeconfig, plane.home, "controllers.replicas=0", "scheduler.replicas=0")
    group = {"apiVersion": CRD.api_version, "kind": CRD.kind, **open_definition(POD_GROUP_X)}
    send(plane.kubeconfig, [(CRD.path(), group)])


@contextmanager
def _running_muster(
    plane: ControlPlane, *, more: Sequence[str] = (), python: Sequence[str] = ()
) -> Iterator[int]:
    """`more`: more arguments of the scheduler; `python`: of the interpreter."""
    chart = Chart(plane.kubeconfig, plane.home)
    config = f"--kubeconfig={chart.kubeconfig('scheduler')}"
    with scheduling(plane.home, [*chart.arguments("scheduler"), config, *more], python) as pid:
        yield pid


@contextmanager
def scheduling(home: Path, arguments: Sequence[str], python: Sequence[str] = ()) -> Iterator[int]:
    """`muster` with these arguments, of a daemon, once it leads; `home`: where its log is."""
    (port,) = free_ports(1)
    log = home / "muster.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *python, "-m", "muster", *arguments, f"--listen={HOST}:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            # its modules are compiled once, as by an installation
            env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        )
    try:
        until = time.monotonic() + PATIENCE
        while not _leads(port):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(60)


def _leads(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/readyz", timeout=5) as answer:
            return b"leads" in answer.read()
    except OSError:
        return False


@contextmanager
def _running_kube_scheduler(plane: ControlPlane) -> Iterator[int]:
    start_scheduler(plane)
    try:
        yield plane.processes["kube-scheduler"].pid
    finally:
        plane.kill("kube-scheduler")


def _nothing(plane: ControlPlane) -> None:
    """kube-scheduler and what it reads are part of the control plane."""


def muster(*more: str, python: Sequence[str] = ()) -> Contender:
    """muster as its chart installs it; for the arguments see `_running_muster`."""
    running = partial(_running_muster, more=more, python=python)
    return Contender("muster", SCHEDULER, _muster, running, POD_GROUP_X)


#: By name. Each schedules the same pods, in groups if it knows them.
CONTENDERS: Final = {
    each.name: each
    for each in (
        muster(),
        Contender("kube-scheduler", "default-scheduler", _nothing, _running_kube_scheduler),
        Contender("native", "default-scheduler", _nothing, _running_kube_scheduler, NATIVE),
    )
}
