"""Batch and gang scheduling for Kubernetes: all of a job starts, or none of it."""

import os

from muster.version import VERSION

# Not typing's: it takes time to load, and before `muster.__main__.main` Ctrl-C prints a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from types import ModuleType

    from muster import core as core
    from muster.api.base import Object
    from muster.app.plan.decisions import Decision
    from muster.sim.report import Report
    from muster.workloads.jobfile import Mode

__version__ = VERSION
__all__ = ["compile", "core", "plan", "replay"]

# Everything is imported where it is used, so that `import muster` stays as cheap as its version number.


def __getattr__(name: str) -> "ModuleType":
    if name == "core":
        import importlib

        return importlib.import_module("muster.core")
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
        format: `"swf"`, `"philly"`, `"openb"` or `"muster"`; by default recognised by the files' beginning.
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
