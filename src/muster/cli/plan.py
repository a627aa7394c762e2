"""`muster plan FILE…`: predicts what would happen if objects were submitted, or a queue edited, now."""

import sys
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Gang, Into, Kubeconfig, Output, OutputFormat, Queue
from muster.cli.say import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.app.plan import Plan
    from muster.app.plan.decisions import Decision
    from muster.app.snapshot import Snapshot
    from muster.app.wiring.cluster import Target
    from muster.workloads.snapshot import Objects

Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE", help="Job files, or any Kubernetes objects; - for standard input."),
]
SnapshotFile = Annotated[
    list[str] | None,
    typer.Option(
        "--snapshot", metavar="CLUSTER", help="Plan on the cluster that this file describes: YAML or JSON."
    ),
]
Now = Annotated[
    str | None,
    typer.Option(
        "--now", metavar="TIME", help="The time of the snapshot: 2026-01-31T08:00:00Z, or seconds since 1970."
    ),
]


def command(
    files: Files,
    snapshots: SnapshotFile = None,
    now: Now = None,
    gang: Gang = None,
    queue: Queue = None,
    namespace: Into = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import time

    from muster.api.kinds import JOBSET
    from muster.app.wiring.cluster import Target
    from muster.cli import show
    from muster.names import SCHEDULER

    target = Target(kubeconfig, context, namespace)
    if snapshots and len(snapshots) > 1:
        raise Failure("--snapshot takes one file; put all objects of the cluster into it", BAD_INPUT)
    snapshot = snapshots[0] if snapshots else None
    if snapshot is not None and not target.embedded:
        raise Failure("--snapshot replaces the cluster; omit --kubeconfig and --context", BAD_INPUT)
    at = _time(now) if now is not None else None
    contents = [(file, _content(file)) for file in files]
    proposed = _proposed(contents, gang, queue, target)
    if snapshot is not None:
        found = _snapshot(snapshot, at).plan(proposed)
    else:
        live = _live(target, time.time() if at is None else at)
        if live.schedulers and SCHEDULER not in live.schedulers:
            proposed = _proposed(contents, gang, queue, target, min(live.schedulers))
        if _left_to_volcano(contents, target):  # what is planned as a JobSet is no JobSet there
            live.objects.absent = [kind for kind in live.objects.absent if kind is not JOBSET]
        found = live.plan(proposed)
    for note in found.notes:
        say(f"note: {note}", err=True)
    if output is not Output.TABLE:
        show.machine({"decisions": found.decisions}, output)
    else:
        _print(found)


def _content(file: str) -> bytes:
    from pathlib import Path

    from muster.cli import jobfile
    from muster.workloads import source

    return jobfile.stdin() if file == "-" else source.read(Path(file)).encode()


def _left_to_volcano(contents: "Sequence[tuple[str, bytes]]", target: "Target") -> bool:
    from muster.cli import jobfile

    return not target.embedded and any(
        jobfile.left_to_volcano(file, content, target) for file, content in contents
    )


def _proposed(
    files: "Sequence[tuple[str, bytes]]",
    gang: bool | None,
    queue: str | None,
    target: "Target",
    scheduler: str = "",
) -> "Objects":
    """The proposed objects: job files as they would be submitted, other files as they are.

    `files`: names and contents. `scheduler`: as in `jobfile.load`; "" = its default.
    """
    from muster.cli import jobfile
    from muster.names import SCHEDULER
    from muster.runtime.mirror import WATCHED
    from muster.workloads import snapshot
    from muster.workloads.load import holds_no_more

    found = snapshot.Objects()
    for file, content in files:
        called = jobfile.called(file)
        if holds_no_more(content, called):
            job = jobfile.load(
                file,
                gang=gang,
                queue=queue,
                volumes=None,
                target=target,
                suffix="",
                content=content,
                runs=False,
                jobs=False,
                scheduler=scheduler or SCHEDULER,
            )
            if not scheduler:  # not again for another name
                jobfile.print_notes(job)
            objects = snapshot.typed(job.objects, WATCHED, called, proposed=True)
            if objects.items:
                objects.ignored.clear()  # config maps and the like do not affect decisions
        else:
            objects = snapshot.parse(
                content, called, WATCHED, target.home, confined=bool(target.namespace), proposed=True
            )
        for name, resource in objects.items.items():
            if name in found.items:
                raise Failure(f"{called}: {name[0].kind} {resource.key} is in another file too", BAD_INPUT)
            found.add(name[0], resource)
        found.ignored += objects.ignored
        found.repeated += objects.repeated
    if not found.items:
        kinds = ", ".join(f"{count} × {what}" for what, count in sorted(found.ignored.items()))
        told = f"{', '.join(jobfile.called(file) for file, _ in files)}: nothing to plan; found only {kinds}"
        raise Failure("\n".join((told, *found.advice())), BAD_INPUT)
    return found


def _snapshot(file: str, now: float | None) -> "Snapshot":
    """The cluster that a file describes."""
    from pathlib import Path

    from muster.api import kinds, rates
    from muster.api.core_v1 import ConfigMap
    from muster.app.snapshot import Snapshot
    from muster.runtime.mirror import WATCHED
    from muster.workloads import snapshot

    read = (*WATCHED, kinds.CONFIG_MAP)
    if file == "-":
        found = snapshot.parse(sys.stdin.buffer.read(), "standard input", read)
    else:
        found = snapshot.read(Path(file), read)
    maps = {name: found.items.pop(name) for name in [*found.items] if name[0] is kinds.CONFIG_MAP}
    namespace, _, name = rates.KEY.partition("/")
    priced = maps.pop((kinds.CONFIG_MAP, namespace, name), None)
    if maps:
        found.ignored["v1 ConfigMap"] += len(maps)
    prices = rates.read(priced if isinstance(priced, ConfigMap) else None)
    return Snapshot(found, prices=prices, now=now)


def _live(target: "Target", now: float) -> "Snapshot":
    import asyncio

    from muster.app.snapshot import Snapshot
    from muster.app.wiring.cluster import reading

    async def look() -> Snapshot:
        async with reading(target) as client:
            return (await Snapshot.observe(client, target.schedulers, now=now, priced=True)).require()

    return asyncio.run(look())


def _time(text: str) -> float:
    """The time in seconds since the epoch."""
    from datetime import UTC, datetime
    from math import isfinite

    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise Failure(
                f"--now {text}: write a time such as 2026-01-31T08:00:00Z, or seconds since 1970", BAD_INPUT
            ) from None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not (isfinite(seconds) and 0 <= seconds < 1e11):
        raise Failure(f"--now {text}: is out of range", BAD_INPUT)
    return seconds


def _print(found: "Plan") -> None:
    from datetime import UTC, datetime

    from muster.cli import show

    if not found.proposed:
        _print_edit(found)
        return
    alike = [*_alike(found.decisions[: found.proposed]), *_alike(found.decisions[found.proposed :])]
    show.table(
        ["GANG", "OUTCOME", "PODS", "WHERE, OR WHY NOT"],
        [
            [
                each[0].gang if len(each) == 1 else f"{each[0].gang} … {each[-1].gang.rpartition('-')[2]}",
                each[0].outcome.value,
                str(sum(len(decision.assignments) for decision in each) or "-"),
                _where(each)
                if (reason := each[0].reason) is None
                else f"{reason['code']}: {reason['message']}",
            ]
            for each in alike
        ],
        right=["PODS"],
    )
    for first, *_ in _alike(found.decisions[: found.proposed]):
        lines = _consequences(first)
        if first.reason is not None:
            lines += show.explained(first.reason, datetime.fromtimestamp(found.now, UTC))
        if lines:
            say(f"\n{first.gang}", *(f"  {line}" for line in lines))


def _print_edit(found: "Plan") -> None:
    """Prints the differences from the cluster as it is, if nothing that needs a decision was proposed."""
    from muster.app.plan.decisions import Outcome
    from muster.cli import show

    rows = []
    for each in found.decisions:
        before = found.before.get(each.gang, Outcome.WAIT)
        if before is not each.outcome or each.victims:
            why = (
                _where([each]) if each.reason is None else f"{each.reason['code']}: {each.reason['message']}"
            )
            rows.append([each.gang, before.value, each.outcome.value, "; ".join([why, *_consequences(each)])])
    if rows:
        show.table(["GANG", "AS IT IS", "THEN", "WHERE, OR WHY NOT"], rows)
    same = len(found.decisions) - len(rows)
    if same or not rows:
        say(f"{show.plural(same, 'gang')} would start or wait as before" if same else "nothing would change")


def _alike(decisions: "Sequence[Decision]") -> "list[list[Decision]]":
    """Groups the decisions for one line each: equal ones about pods of one job that start independently."""

    def key(decision: "Decision") -> "tuple[object, ...]":
        stem, _, number = decision.gang.rpartition("-")
        single = number.isdecimal() and decision.gang.count("/") == 2 and not decision.victims
        reason = decision.reason and (decision.reason["code"], decision.reason["message"])
        return (stem if single else decision.gang, decision.outcome, reason)

    return [list(same) for _, same in groupby(decisions, key)]


#: nodes or pods that a line names at most
NODES: Final = 6


def _where(decisions: "Sequence[Decision]") -> str:
    counts = Counter(node for decision in decisions for node in decision.assignments.values())
    if not counts:
        return "has all that it needs"
    named = [f"{node} ×{count}" if count > 1 else node for node, count in sorted(counts.items())]
    return ", ".join(named[:NODES]) + (f" and {len(named) - NODES} more nodes" if len(named) > NODES else "")


def _consequences(decision: "Decision") -> list[str]:
    from muster.cli.bars import clock
    from muster.cli.show import plural

    lines = []
    if decision.victims:
        some = ", ".join(decision.victims[:NODES])
        more = f" and {len(decision.victims) - NODES} more" if len(decision.victims) > NODES else ""
        lines.append(f"evicts {plural(len(decision.victims), 'pod')}: {some}{more}")
        lines.append(f"loses {_work(decision)}")
    for each in decision.delays:
        by = "by an unknown time" if each.by is None else f"by {clock(each.by)}"
        lines.append(f"delays {each.gang} {by}")
    return lines


def _work(decision: "Decision") -> str:
    from decimal import Decimal

    from muster.api.rates import money

    cost = decision.cost
    work = (
        f"{cost.gpu_hours_lost} GPU-hours"
        if cost.gpu_hours_lost
        else f"{cost.gpu_seconds:,.0f} resource-seconds"
    )
    return f"{work} of work" + (f" ({money(Decimal(cost.cost_lost))})" if cost.cost_lost else "")
