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
    """The Kubernetes objects of a job file, in the order in which they are to be created.

    suffix     ends the names that are generated; by default from the SHA-256 of the file
    mode       "gang" or "independent"; by default what the file says
    volumes    directories that stand for persistent volume claims, by name

    Raises `muster.workloads.findings.JobFileError`, a ValueError, with file, line and field of each error;
    ValueError for another mode.
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
    """What the scheduler would do if these objects were submitted to this cluster now.

    objects    Kubernetes objects as `compile` gives them, or any other: pods, PodGroups, an edited Queue
    snapshot   the cluster's objects (nodes, pods, …; lists are taken apart), one list, or a file with them
    now        when that is, in seconds since the epoch; by default the newest time in the snapshot

    One decision for each gang of `objects`, then one for each gang of the snapshot that waits, in the order
    in which they are decided. `cost.gpu_seconds` is of the victims' work, delays are in seconds. Raises
    `muster.workloads.findings.JobFileError`, a ValueError, for what is no object.
    """
    from datetime import datetime
    from pathlib import Path

    from muster.app.plan import plan as decide
    from muster.runtime.mirror import WATCHED
    from muster.workloads import snapshot as reading

    if isinstance(snapshot, str | os.PathLike):
        cluster = reading.read(Path(snapshot), WATCHED)
    else:
        cluster = reading.typed(_objects(snapshot), WATCHED, "snapshot")
    at = now.timestamp() if isinstance(now, datetime) else now
    return decide(reading.typed(_objects(objects), WATCHED, proposed=True), cluster, at).decisions


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
    """Runs a trace of one or several files through the scheduler in virtual time, once per seed.

    policy     the scheduler: "pack", "easy", "conservative", "fcfs", "fgd", … (docs/guides/replay.md)
    format     "swf", "philly", "openb" or "muster"; by default detected from the files' beginning
    seeds      of random numbers; a run that draws none is computed once for all seeds
    nodes      the machine, written as for `--nodes`, if the trace describes none
    load       the offered load to which arrivals are scaled; by default they are not scaled
    order      which job may pass a waiting one: "fcfs", or the shortest first, "sjbf"
    estimates  run times as "user"s thought, or "exact"
    passes     decide after each "event", or once per "instant"
    skip_bad   leave out lines that cannot be read, and count them
    jobs       processes, with one seed each; if more than one, guard the program by `__name__ == "__main__"`

    `report.metrics[name]` has `mean`, `std` and `per_seed`: seconds, ratios from 0 to 1, None where there is
    nothing to average. Raises `muster.sim.trace.TraceError`, a ValueError, with file, line and column.
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
