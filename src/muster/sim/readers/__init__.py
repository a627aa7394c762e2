"""Readers of traces, one file per format. Each line is read or refused as a whole."""

from collections.abc import Sequence
from enum import StrEnum
from math import inf
from pathlib import Path

from muster.core.words.events import NodeChanged
from muster.sim.trace import Estimates, Trace, TraceError


class Format(StrEnum):
    SWF = "swf"
    PHILLY = "philly"
    OPENB = "openb"
    MUSTER = "muster"
    #: a live scheduler's journal, as a trace of its jobs; never recognised by its beginning
    JOURNAL = "journal"


def open_trace(
    format: Format | None,
    paths: Sequence[Path],
    *,
    nodes: Sequence[NodeChanged] = (),
    estimates: Estimates = Estimates.USER,
    skip_bad: bool = False,
    last: float = inf,
) -> Trace:
    """`nodes` stand for the machine of a trace that has none; without a format, the files tell theirs.

    `last`: seconds at the end of a journal that count.

    Raises TraceError.
    """
    from muster.sim.readers.journal import JournalTrace
    from muster.sim.readers.native import Native
    from muster.sim.readers.openb import Openb
    from muster.sim.readers.philly import Philly
    from muster.sim.readers.swf import Swf

    format = format or told_by(paths)
    if format is Format.MUSTER:
        return Native(paths, nodes, skip_bad)
    if format is Format.OPENB:
        return Openb(paths, nodes, skip_bad)
    if len(paths) > 1:
        raise TraceError(f"--format {format} is one file; got {len(paths)}")
    if format is Format.JOURNAL:
        return JournalTrace(paths[0], last)
    if format is Format.SWF:
        return Swf(paths[0], nodes, estimates, skip_bad)
    return Philly(paths[0], nodes, skip_bad)


def told_by(paths: Sequence[Path]) -> Format:
    """The format that these files begin like: their first lines cannot be taken for another's.

    Raises TraceError.
    """
    from muster.sim.readers import native, openb, philly, swf
    from muster.sim.readers.lines import first, shown

    begins = {
        Format.SWF: swf.begins,
        Format.PHILLY: philly.begins,
        Format.OPENB: openb.begins,
        Format.MUSTER: native.begins,
    }
    found: dict[Format, Path] = {}
    for path in paths:
        text = first(path)
        if not text:
            raise TraceError(f"{path}: is empty; expected a trace")
        format = next((format for format, like in begins.items() if like(text)), None)
        if format is None:
            raise TraceError(
                f"{path}: no format begins with {shown(text)}; expected swf (18 numbers a line, comments "
                f"with ;), philly ({','.join(philly.HEADER)}), openb ({','.join(openb.PODS[:4])},…) or "
                "muster (JSON, or a table of jobs or nodes); else name it: --format"
            )
        found.setdefault(format, path)
    if len(found) > 1:
        each = ", ".join(f"{path} is {format}" for format, path in found.items())
        raise TraceError(f"{each}; the files of a trace are of one format")
    return next(iter(found))
