"""Readers of traces, one file per format. Each line is read or refused as a whole."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from muster.core.events import NodeChanged
from muster.sim.trace import Estimates, Trace, TraceError


class Format(StrEnum):
    SWF = "swf"
    PHILLY = "philly"
    OPENB = "openb"
    MUSTER = "muster"


def open_trace(
    format: Format,
    paths: Sequence[Path],
    *,
    nodes: Sequence[NodeChanged] = (),
    estimates: Estimates = Estimates.USER,
    skip_bad: bool = False,
) -> Trace:
    """`nodes` stand for the machine of a trace that has none. Raises TraceError."""
    from muster.sim.readers.native import Native
    from muster.sim.readers.openb import Openb
    from muster.sim.readers.philly import Philly
    from muster.sim.readers.swf import Swf

    if format is Format.MUSTER:
        return Native(paths, nodes, skip_bad)
    if format is Format.OPENB:
        return Openb(paths, nodes, skip_bad)
    if len(paths) > 1:
        raise TraceError(f"--format {format} is one file; got {len(paths)}")
    if format is Format.SWF:
        return Swf(paths[0], nodes, estimates, skip_bad)
    return Philly(paths[0], nodes, skip_bad)
