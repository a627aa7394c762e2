"""`muster demo`: shows in a minute why gangs are needed, how a job recovers, and how gates teach."""

import asyncio
import shutil
import tempfile
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.demo.deadlock import Outcome
    from muster.app.demo.gates import Outcome as Secured
    from muster.app.demo.recovery import Outcome as Recovery


def command() -> None:
    directory = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    try:
        passed = asyncio.run(_demo(directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if not passed:
        raise typer.Exit(1)


async def _demo(directory: Path) -> bool:
    from muster.app.demo import deadlock, gates, recovery
    from muster.app.wiring.embedded import running
    from muster.app.wiring.state_directory import StateDirectory
    from muster.embedded import nodespec
    from muster.kube.clock import SystemClock

    home = StateDirectory(directory)
    home.make()
    begin = time.monotonic()
    async with running(home, nodespec.read(deadlock.NODES), SystemClock()) as cluster:
        limit, work = f"{deadlock.LIMIT:.0f} s", f"{deadlock.WORK:.0f} s"
        _wrapped("1  Two jobs, 6 workers each, one GPU per worker; 8 GPUs on 2 simulated nodes.")
        _wrapped(
            f"Workers wait at a barrier for all 6, then work {work}; a stuck job gives up after {limit}.", 3
        )
        _wrapped("The pods of both jobs are created alternately, as two controllers would.", 3)
        say("\n   pod by pod", flush=True)
        alone = await deadlock.run(cluster.client, gangs=False, namespace="pod-by-pod")
        _show(alone)
        say("\n   as gangs", flush=True)
        together = await deadlock.run(cluster.client, gangs=True, namespace="as-gangs")
        _show(together)
        say("")
        _compare(alone, together)
        say("")
        _wrapped("2  A coordinator and 3 workers, one of them killed (SIGKILL) while it works;")
        say("   restartPolicy: {backoffLimit: 1}.\n", flush=True)
        recovered = await recovery.run(cluster.client)
        _tell(recovered)
        say("")
        _wrapped("3  A training job that does not declare its S3 endpoint;")
        say("   no policy permits anything yet.\n", flush=True)
        secured = await gates.run(cluster.client)
        _explain(secured)
    say(f"\n{time.monotonic() - begin:.0f} s in all.")
    return (
        len(together.succeeded) == 2
        and not alone.succeeded
        and recovery.recovered(recovered)
        and gates.passed(secured)
    )


def _show(outcome: "Outcome") -> None:
    from muster.app.views.timeline import timeline
    from muster.cli.bars import lines

    drawn = timeline(outcome.runs, outcome.submitted, time.time())
    for line in lines(replace(drawn, rows=tuple(sorted(drawn.rows, key=lambda row: row.label))), indent=3):
        say(f"   {line}")


def _compare(alone: "Outcome", together: "Outcome") -> None:
    rows = [
        ("", "pod by pod", "as gangs"),
        ("jobs done", f"{len(alone.succeeded)} of 2", f"{len(together.succeeded)} of 2"),
        ("seconds until both had ended", f"{alone.seconds:.1f}", f"{together.seconds:.1f}"),
        ("GPU-seconds held idle", f"{alone.idle:.1f}", f"{together.idle:.1f}"),
        ("GPU-seconds of work", f"{alone.worked:.1f}", f"{together.worked:.1f}"),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if 3 + sum(widths) + 4 > _columns():
        for name, left, right in rows[1:]:
            _wrapped(f"{name}: {left} {rows[0][1]}, {right} {rows[0][2]}", 3)
        return
    for name, left, right in rows:
        say(f"   {name:<{widths[0]}}  {left:>{widths[1]}}  {right:>{widths[2]}}")


def _tell(recovered: "Recovery") -> None:
    from muster.api.times import seconds
    from muster.app.views.timeline import timeline
    from muster.cli.bars import lines
    from muster.cli.show import headline

    created = recovered.view.created
    drawn = timeline(recovered.runs, seconds(created) if created else None, time.time())
    for line in lines(drawn, indent=3):
        say(f"   {line}")
    _wrapped(f"{headline(recovered.view)}; process {recovered.killed} was killed", 3)


def _explain(secured: "Secured") -> None:
    from muster.cli.show import headline, plural

    for number, each in enumerate(secured.rounds, 1):
        found = plural(len(each.findings), "finding") if each.findings else "nothing left to fix"
        say(f"   check {number}: {found}")
        for finding in each.findings:
            field = finding.field.rpartition(".")[2]
            _wrapped(f"{finding.severity.value}: {field}: {finding.message}", 5)
        for who, fixes, what in (
            ("developer", each.patches, "patch"),
            ("administrator", each.permits, "permit"),
        ):
            if fixes:
                more = f" and {len(fixes) - 1} more" if len(fixes) > 1 else ""
                _wrapped(f"the {who} adds what the findings print, this {what}{more}:", 3)
                say(*(f"     {line}" for line in fixes[0].splitlines()))
    made = ", ".join(f"{count} {kind}" for kind, count in sorted(secured.compiled.items()))
    told = "run with its command instead of its image, since there are no images here"
    _wrapped(f"compiled to {made}; {told}:", 3)
    for line in sorted({f"{line.pod} │ {line.text}" for line in secured.lines})[:3]:
        _wrapped(line, 5)
    _wrapped(headline(secured.view), 3)


def _wrapped(text: str, indent: int = 0) -> None:
    """Prints a paragraph in as many lines as the terminal needs. Below a number its text is indented, too."""
    before = " " * indent
    after = before or " " * 3
    say(
        *textwrap.wrap(
            text,
            _columns(),
            initial_indent=before,
            subsequent_indent=after,
            break_on_hyphens=False,
            break_long_words=False,
        )
    )


def _columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns
