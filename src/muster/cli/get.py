"""`muster get JOB…`: shows a job's pods in a table, or its objects as JSON or YAML."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import AnyJobNames, Context, Failed, Kubeconfig, Namespace, Output, any_job
from muster.cli.say import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


Shown = Annotated[
    Format, typer.Option("--output", "-o", help="A table for people, JSON or YAML; of --table also CSV.")
]
Table = Annotated[
    bool, typer.Option("--table", "-t", help="A line per index: parameters, exit codes, what was reported.")
]


def command(
    jobs: AnyJobNames = None,
    by_index: Table = False,
    failed: Failed = False,
    namespace: Namespace = None,
    shown: Shown = Format.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    import msgspec

    from muster.api.base import Object
    from muster.app.records import past
    from muster.app.views.find import Meant
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show

    target = Target(kubeconfig, context, namespace)
    if by_index or shown is Format.CSV:
        _show_trials(target, any_job(jobs), shown, failed=failed)
        return
    output = Output(shown.value)
    if failed and output is not Output.TABLE:
        raise Failure("--failed shows pods, and --output the whole job; write --table with it", BAD_INPUT)

    async def fetch() -> tuple[list[Meant], list[Object]]:
        async with reading(target) as client:
            found = [await past.named(client, job, target) for job in any_job(jobs)]
            return found, [
                msgspec.to_builtins(view.resource)
                if view.deleted is not None
                else await client.get_json(view.kind, view.namespace, view.name)
                for view in (each.view for each in found if output is not Output.TABLE)
            ]

    found, whole = asyncio.run(fetch())
    show.meant(found)
    if output is not Output.TABLE:
        several: Object = {"apiVersion": "v1", "kind": "List", "items": whole}
        show.machine(whole[0] if len(whole) == 1 else several, output)
        return
    for number, each in enumerate(found):
        if number:
            say("")
        _show(each.view, target, failed=failed)


def _show(view: "JobView", target: "Target", *, failed: bool) -> None:
    from muster.app.views import pods
    from muster.app.wiring.cluster import untold
    from muster.cli import show
    from muster.workloads.pod_run import run_of

    say(show.headline(view), prose=True)
    for line in (*show.origin(view), *show.moved(view), *_directories(view, target)):
        say(line, prose=True)
    for line in untold(target, view):
        say(line, prose=True)
    for gang in view.gangs:
        for line in show.preemptions(gang.status.preemptions):
            say(line, prose=True)
    chosen = [pod for pod in view.pods if not failed or run_of(pod).failed_by_itself]
    if failed and not chosen:
        say(f"no pod of {view.name} has failed")
    if chosen:
        show.table(
            ["POD", "NODE", "PHASE", "EXIT", "RESTARTS", "AGE", "REASON"],
            [
                [
                    pods.label(pod),
                    pod.spec.node_name or "-",
                    "Terminating" if pod.metadata.deletion_timestamp else pod.status.phase or "Pending",
                    str(code) if (code := run_of(pod).exit_code) is not None else "-",
                    str(pods.restarts_of(pod)),
                    show.age(pod.metadata.creation_timestamp),
                    pods.pod_reason(pod),
                ]
                for pod in sorted(chosen, key=pods.pod_order)
            ],
            right=["EXIT", "RESTARTS"],
        )


def _directories(view: "JobView", target: "Target") -> list[str]:
    """The directory of a job that survives its restarts, and the copy that it runs from."""
    from muster.api.visible import visible
    from muster.app.wiring.state_directory import StateDirectory
    from muster.cli import show
    from muster.embedded import directories
    from muster.names import SUBMITTED_FROM
    from muster.workloads.jobfile import Source

    if not target.embedded:
        return []
    meta = view.resource.metadata
    source = Source.read(meta.annotations.get(SUBMITTED_FROM))
    found = directories.of_job(StateDirectory.of_user().root, meta, source.copy if source is not None else "")
    return [visible(f"directory: {show.path(path)}") for path in found]


def _show_trials(target: "Target", jobs: "Sequence[str | None]", shown: Format, *, failed: bool) -> None:
    """Shows the indexes of each job."""
    import asyncio

    from muster.app.records import past
    from muster.app.records.runs import recorded
    from muster.app.views.find import Meant
    from muster.app.views.trials import Trial, trials
    from muster.app.wiring.cluster import reading
    from muster.cli import show, trial_table

    async def fetch(job: str | None) -> tuple[Meant, list[Trial]]:
        async with reading(target) as client:
            found = await past.named(client, job, target)
        view = found.view
        record = await recorded(target, f"{view.namespace}/{view.name}")
        return found, [each for each in trials(view, record.runs) if each.failed or not failed]

    found = [asyncio.run(fetch(job)) for job in jobs]
    show.meant([meant for meant, _ in found])
    if shown is Format.CSV:
        for _, rows in found:
            show.for_programs(trial_table.as_csv(rows))
        return
    if shown is not Format.TABLE:
        told = [trial_table.as_json(rows) for _, rows in found]
        show.machine(told[0] if len(told) == 1 else told, Output(shown.value))
        return
    for number, (meant, rows) in enumerate(found):
        if number:
            say("")
        say(show.headline(meant.view), prose=True)
        if rows:
            show.table(
                trial_table.columns(rows),
                trial_table.rows(rows),
                right=("INDEX", "EXIT", "STARTS", "STEP", "LOSS"),
            )
