"""`muster timeline JOB`: who waited and who ran when, as bars."""

import asyncio
import shutil
import time
from typing import TYPE_CHECKING

from muster.cli.errors import explained
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
    import msgspec

    from muster.app.cluster import Target
    from muster.app.runs import recorded
    from muster.app.timeline import timeline
    from muster.cli import show

    with explained():
        runs, submitted = asyncio.run(recorded(Target(kubeconfig, context), job, namespace or ""))
    if output is not Output.TABLE:
        show.machine(msgspec.to_builtins(runs), output)
        return
    for line in lines(timeline(runs, submitted, time.time())):
        print(line)


def lines(drawn: "Timeline") -> list[str]:
    """The bars, as wide as the terminal up to a hundred columns."""
    from muster.cli.bars import draw

    width = min(100, shutil.get_terminal_size((80, 24)).columns)
    return draw(drawn.rows, drawn.begin, drawn.end, width)
