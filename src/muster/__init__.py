"""Batch and gang scheduling for Kubernetes: all of it starts, or none of it does."""

import importlib
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster import core as core
    from muster.api.base import Object
    from muster.app.plan import Decision
    from muster.workloads.jobfile import Mode

__version__ = "0.1.0"
__all__ = ["compile", "core", "plan"]

# Everything is imported where it is used, so that `import muster` stays as cheap as its version number.


def __getattr__(name: str) -> ModuleType:
    if name == "core":
        return importlib.import_module("muster.core")
    raise AttributeError(f"module 'muster' has no attribute {name!r}")


def compile(
    path: str | os.PathLike[str],
    *,
    suffix: str | None = None,
    mode: "Mode | None" = None,
    volumes: Mapping[str, str] | None = None,
) -> "list[Object]":
    """The Kubernetes objects of a job file, in the order in which they are to be created.

    suffix     ends the names that are generated; by default from the SHA-256 of the file
    mode       "gang" or "independent"; by default what the file says
    volumes    directories that stand for persistent volume claims, by name

    Raises `muster.workloads.findings.JobFileError`, a ValueError, with file, line and field of each error.
    """
    from muster.workloads.load import load

    home = os.environ.get("MUSTER_HOME") or os.path.expanduser("~/.local/share/muster")
    return load(path, suffix=suffix, mode=mode, volumes=volumes, home=home).objects


def plan(
    objects: "Iterable[Object]",
    snapshot: "Iterable[Object] | str | os.PathLike[str]",
    *,
    now: float | datetime | None = None,
) -> "list[Decision]":
    """What the scheduler would do if these objects were submitted to this cluster now.

    objects    Kubernetes objects as `compile` gives them, or any other: pods, PodGroups, an edited Queue
    snapshot   the cluster's objects (nodes, pods, …; lists are taken apart), or a file with them
    now        when that is, in seconds since the epoch; by default the newest time in the snapshot

    One decision for each gang of `objects`, then one for each gang of the snapshot that waits, in the order
    in which they are decided. Raises `muster.workloads.findings.JobFileError`, a ValueError, for what is no
    object.
    """
    from pathlib import Path

    from muster.app.plan import plan as decide
    from muster.runtime.mirror import WATCHED
    from muster.workloads import snapshot as reading

    if isinstance(snapshot, str | os.PathLike):
        cluster = reading.read(Path(snapshot), WATCHED)
    else:
        cluster = reading.typed(snapshot, WATCHED, "snapshot")
    at = now.timestamp() if isinstance(now, datetime) else now
    return decide(reading.typed(objects, WATCHED), cluster, at).decisions
