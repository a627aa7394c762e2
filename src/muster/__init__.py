"""Batch and gang scheduling for Kubernetes: all of a job starts, or none of it."""

import os

from muster.version import VERSION

# Not typing's: it takes time to load, and before `muster.__main__.main` Ctrl-C prints a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from muster import core as core
    from muster.api.base import Object
    from muster.app.plan.decisions import Decision
    from muster.cli.errors import Failure as Failure
    from muster.cli.python import Ended as Ended
    from muster.cli.python import Job as Job
    from muster.cli.python import Note as Note
    from muster.cli.python import Printed as Printed
    from muster.cli.python import StatusChanged as StatusChanged
    from muster.cli.python import Submittable
    from muster.sim.report import Report
    from muster.workloads.jobfile import Mode

__version__ = VERSION
__all__ = ["Failure", "Job", "compile", "core", "job", "plan", "replay", "submit"]

# Everything is imported where it is used, so that `import muster` stays as cheap as its version number.


#: What is found in a module by its name.
_NAMED = {
    "Failure": "muster.cli.errors",
    **dict.fromkeys(("Job", "Printed", "StatusChanged", "Note", "Ended"), "muster.cli.python"),
}


def __getattr__(name: str) -> "Any":
    import importlib

    if name == "core":
        return importlib.import_module("muster.core")
    if name in _NAMED:
        return getattr(importlib.import_module(_NAMED[name]), name)
    raise AttributeError(f"module 'muster' has no attribute {name!r}")


def compile(
    path: str | os.PathLike[str],
    *,
    suffix: str | None = None,
    mode: "Mode | None" = None,
    volumes: "Mapping[str, str] | None" = None,
) -> "list[Object]":
    """Returns the Kubernetes objects of a job file, in the order in which to create them.

    Args:
        path: The file.
        suffix: The end of generated names; by default from the SHA-256 of the file.
        mode: `"gang"` or `"independent"`; by default what the file says.
        volumes: Directories to use in place of PersistentVolumeClaims, by the claim's name.

    Raises:
        ValueError: The file has errors (`muster.workloads.findings.JobFileError`; its message has one line
            per error, with file, line and field), or `mode` is neither of the two.
    """
    from typing import get_args

    from muster.workloads.jobfile import Mode, Options
    from muster.workloads.load import load

    if mode is not None and mode not in get_args(Mode):
        raise ValueError(f"mode {mode!r}: write one of {', '.join(get_args(Mode))}, or None")
    home = os.environ.get("MUSTER_HOME") or os.path.expanduser("~/.local/share/muster")
    return load(path, Options(suffix=suffix or "", mode=mode, volumes=volumes or {}, home=home)).objects


def plan(
    objects: "Iterable[Object] | Object",
    snapshot: "Iterable[Object] | Object | str | os.PathLike[str]",
    *,
    now: "float | datetime | None" = None,
) -> "list[Decision]":
    """Returns what the scheduler would do if these objects were submitted to this cluster.

    Args:
        objects: Kubernetes objects as dictionaries: those of `compile`, or any others, such as pods,
            PodGroups or an edited Queue. An object of kind `List` stands for its items.
        snapshot: The cluster's objects (nodes, pods, …) as dictionaries, or the path of a file with them.
        now: The time of the snapshot, a `datetime` or seconds since 1970; by default the newest time in it.

    Returns:
        A decision for each gang of `objects`, then one for each waiting gang of the snapshot, in the order in
            which the scheduler decides them.

    Raises:
        ValueError: An object cannot be read (`muster.workloads.findings.JobFileError`; its message has one
            line per error).
    """
    from datetime import datetime
    from pathlib import Path

    from muster.app.snapshot import Snapshot
    from muster.runtime.mirror import WATCHED
    from muster.workloads import snapshot as reading

    if isinstance(snapshot, str | os.PathLike):
        cluster = reading.read(Path(snapshot), WATCHED)
    else:
        cluster = reading.typed(_objects(snapshot), WATCHED, "snapshot")
    at = now.timestamp() if isinstance(now, datetime) else now
    proposed = reading.typed(_objects(objects), WATCHED, proposed=True)
    return Snapshot(cluster, now=at).plan(proposed).decisions


def _objects(given: "Iterable[Object] | Object") -> "Iterable[Object]":
    """One object, such as a list of them, is as good as several."""
    return [given] if isinstance(given, dict) else given


def replay(
    trace: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
    policy: str = "pack",
    *,
    format: str | None = None,
    seeds: "Iterable[int]" = (42,),
    nodes: str = "",
    load: float | None = None,
    order: str = "fcfs",
    estimates: str = "user",
    passes: str = "event",
    skip_bad: bool = False,
    jobs: int = 1,
) -> "Report":
    """Runs a trace through the scheduler in virtual time, once per seed, and returns its metrics.

    Args:
        trace: The path of the trace, or the paths of its files.
        policy: The scheduler: `"pack"`, `"easy"`, `"conservative"`, `"fcfs"`, `"fgd"`, … (see
            docs/guides/replay.md).
        format: `"swf"`, `"philly"`, `"openb"`, `"muster"` or `"journal"`; by default recognised by the files'
            beginning.
        seeds: Seeds of random numbers. A run that draws none is computed once for all seeds.
        nodes: The nodes, written as for `--nodes`, if the trace describes none.
        load: The offered load to which arrivals are scaled; by default they are not scaled.
        order: Which job may start before one that waits: `"fcfs"`, or the shortest first, `"sjbf"`.
        estimates: Run times as the users estimated them (`"user"`), or `"exact"`.
        passes: Decide after each `"event"`, or once per `"instant"`.
        skip_bad: Leave out lines that cannot be read, and count them.
        jobs: Processes, each with one seed at a time. With more than one, the program must guard its main
            part with `if __name__ == "__main__":`.

    Returns:
        The report. `report.metrics[name]` has `mean`, `std` and `per_seed`: seconds, or ratios from 0 to 1;
            None where there is nothing to average.

    Raises:
        ValueError: The trace has an error (`muster.sim.trace.TraceError`, with file, line and column).
    """
    from pathlib import Path

    from muster.app.plan.fit import as_nodes
    from muster.embedded import nodespec
    from muster.sim import engine, experiment, readers
    from muster.sim import trace as traces

    paths = [trace] if isinstance(trace, str | os.PathLike) else list(trace)
    asked = experiment.Experiment(
        readers.open_trace(
            None if format is None else readers.Format(format),
            [Path(path) for path in paths],
            nodes=as_nodes(nodespec.read(nodes)) if nodes else [],
            estimates=traces.Estimates(estimates),
            skip_bad=skip_bad,
        ),
        policy,
        tuple(seeds),
        shortest_first=experiment.Order(order) is experiment.Order.SJBF,
        load=load,
        pass_=engine.Pass(passes),
    )
    return experiment.run(asked, experiment.prepare(asked), jobs=jobs)


def submit(
    job: "Submittable" = None,
    *,
    command: "Sequence[str] | None" = None,
    gpus: int = 0,
    cpus: str = "",
    memory: str = "",
    count: int = 1,
    gang: bool | None = None,
    name: str = "",
    image: str = "",
    env: "Mapping[str, str] | None" = None,
    env_file: "Sequence[str]" = (),
    copy: bool = False,
    notify: str = "",
    queue: str | None = None,
    volumes: "Mapping[str, str] | None" = None,
    namespace: str | None = None,
    nodes: str = "",
    kubeconfig: str | None = None,
    context: str | None = None,
) -> "Job":
    """Submits one job, as `muster submit` does, and returns it. What the command warns of is on stderr.

    A program with an event loop, such as a notebook, can call it. It returns when the job is submitted.

    Args:
        job: The path of a job file; or a job as a dictionary, a list of dictionaries with what it needs, or a
            model of the official client, such as `V1Job`.
        command: A command in place of a job file: its words.
        gpus: Of a command: GPUs of each pod.
        cpus: Of a command: CPUs of each pod, a Kubernetes quantity; by default 1.
        memory: Of a command: memory of each pod, such as `"16Gi"`.
        count: Of a command: pods, each with an index.
        gang: Whether all pods start together or none does; by default what the file says.
        name: Of a command: the job's name.
        image: Of a command: the image of its pods.
        env: Variables of all pods.
        env_file: Files with a NAME=VALUE per line.
        copy: Run from a copy of the current directory: its tracked and unignored files.
        notify: A command or a URL that is told when the job starts, ends, stalls or is evicted.
        queue: The queue of the job; by default what the file says.
        volumes: Directories to use in place of PersistentVolumeClaims, by the claim's name.
        namespace: The namespace of the job.
        nodes: The nodes of the embedded cluster, written as for `--nodes`.
        kubeconfig: The kubeconfig of a real cluster; without it and `context`, the embedded cluster.
        context: The context of that kubeconfig.

    Raises:
        Failure: What ends the command: its message is that of the command, `exit_code` the command's.
    """
    options = dict(locals())
    from muster.cli import python

    return python.submit(**options)


def job(
    name: str | None = None,
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
) -> "Job":
    """Returns a job that was submitted before, by whatever program; also one that was deleted since.

    Args:
        name: The name of the job, or its beginning: the newest such job is meant. None is the newest of all.
        namespace: The namespace of the job; by default, on the embedded cluster, any.
        kubeconfig: The kubeconfig of a real cluster; without it and `context`, the embedded cluster.
        context: The context of that kubeconfig.

    Raises:
        Failure: There is no such job, or the cluster cannot be reached.
    """
    from muster.cli import python

    return python.job(name, namespace=namespace, kubeconfig=kubeconfig, context=context)
