"""`muster timeline JOB`: who waited and who ran when, as bars."""

import shutil
import time
from typing import TYPE_CHECKING

from muster.cli.options import Context, JobName, Kubeconfig, Namespace, Output, OutputFormat

if TYPE_CHECKING:
    from muster.app.timeline import Timeline


def command(
    job: JobName,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    import msgspec

    from muster.app.cluster import Target
    from muster.app.runs import recorded
    from muster.app.timeline import timeline
    from muster.cli import show

    record = asyncio.run(recorded(Target(kubeconfig, context), job, namespace or ""))
    if output is not Output.TABLE:
        show.machine(msgspec.to_builtins(record.runs), output)
        return
    for line in lines(timeline(record.runs, record.submitted, time.time())):
        print(line)
    for line in show.preemptions(record.preemptions):
        print(line)


def lines(drawn: "Timeline", most: int | None = None) -> list[str]:
    """The bars, as wide as the terminal up to a hundred columns; `most` of them, those with notes first."""
    from muster.cli.bars import draw

    rows = list(drawn.rows)
    left_out = max(0, len(rows) - most) if most is not None else 0
    if left_out:
        kept = sorted(range(len(rows)), key=lambda index: (not rows[index].note, index))[:most]
        rows = [rows[index] for index in sorted(kept)]
    width = min(100, shutil.get_terminal_size((80, 24)).columns)
    text = draw(rows, drawn.begin, drawn.end, width)
    return [*text, f"and {left_out} more: muster timeline"] if left_out else text
