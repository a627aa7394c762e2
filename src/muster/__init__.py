"""Batch and gang scheduling for Kubernetes: all of it starts, or none of it does."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.api.base import Object
    from muster.workloads.jobfile import Mode

__version__ = "0.1.0"
__all__ = ["compile"]


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
    # imported here, so that `import muster` stays as cheap as its version number
    from muster.workloads.load import load

    home = os.environ.get("MUSTER_HOME") or os.path.expanduser("~/.local/share/muster")
    return load(path, suffix=suffix, mode=mode, volumes=volumes, home=home).objects
