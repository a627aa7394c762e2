"""`muster logs JOB…`: prints the output of jobs' pods, also deleted ones, each line with its pod's name."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.completion import job_names
from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Kubeconfig, Namespace
from muster.cli.say import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from muster.api.core_v1 import Pod
    from muster.app.views.job import JobView
    from muster.app.views.logs import Line, Selection
    from muster.app.wiring.cluster import Target
    from muster.app.wiring.state_directory import Endpoint
    from muster.kube.client import LogOptions

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Print new output until the job ends.")]
Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="G", help="Only this type (replicated job).")
]
Index = Annotated[
    int | None,
    typer.Option("--index", "-i", metavar="I", help="Only this index: of the job, then of the pod."),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only pods that failed by themselves.")]
Tail = Annotated[int | None, typer.Option("--tail", metavar="N", help="Only the last N lines of each pod.")]


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="JOB [POD]",
        help="A job as for other verbs, by default the newest. Only the pods whose names, or labels in front "
        "of their lines, follow it. Several jobs may be named.",
        autocompletion=job_names,
    ),
]
Previous = Annotated[
    bool, typer.Option("--previous", "-p", help="The output before the last restart of each pod.")
]


Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="10m|TIME",
        help="Only what was printed in the last 10 minutes, or since a time such as 2026-01-31T08:00:00Z.",
    ),
]
Timestamps = Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")]


def command(
    words: Words = None,
    follow: Follow = False,
    group: Group = None,
    index: Index = None,
    failed: Failed = False,
    tail: Tail = None,
    previous: Previous = False,
    since: Since = None,
    timestamps: Timestamps = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio
    from datetime import UTC, datetime

    from muster.app.views.logs import Selection
    from muster.app.wiring.cluster import Target, attached_if_hosted
    from muster.kube.client import LogOptions

    target, selection = Target(kubeconfig, context, namespace), Selection(group, index, failed=failed)
    how = LogOptions(
        tail=tail,
        previous=previous,
        since=_since(since),
        timestamps=timestamps,
        every_start=not previous,
    )
    if target.embedded:  # the embedded cluster has this machine's clock
        how = how.at(datetime.now(UTC))
    if follow and previous:
        raise Failure("--previous cannot be followed; omit --follow", BAD_INPUT)
    asked = asyncio.run(_asked(target, words or [], selection, follow=follow))
    if follow:
        with attached_if_hosted(target) as endpoint:
            if endpoint is not None or not target.embedded:  # otherwise no more output can follow
                asyncio.run(_follow(target, endpoint, asked, how))
                return
    show_one = _recorded if target.embedded else _now
    for job, chosen in asked:
        if len(asked) > 1:
            say(f"{job}:")
        asyncio.run(show_one(target, job, chosen, how))


async def _asked(
    target: "Target", words: "Sequence[str]", selection: "Selection", *, follow: bool
) -> "list[tuple[str | None, Selection]]":
    """The jobs that the words name, each with what is shown of it.

    A word after a job's is a pod of that job if it has one of that name; otherwise it is another job. If the
    output is followed, one that is neither may be the name of a pod that is yet to be created.
    """
    from dataclasses import replace

    from muster.app.records import past
    from muster.app.records.runs import Record, recorded
    from muster.app.views.find import UnknownJob
    from muster.app.views.logs import labelled
    from muster.app.wiring.cluster import reading
    from muster.workloads.pod_run import label_of

    asked: list[tuple[str | None, Selection]] = [(next(iter(words), None), selection)]
    records: dict[int, Record] = {}  # by job
    for word in words[1:]:
        if (last := len(asked) - 1) not in records:
            records[last] = await recorded(target, asked[-1][0])
        record = records[last]
        if not any(word in (run.name, label_of(run)) for run in record.runs):
            try:
                async with reading(target) as client:
                    await past.named(client, word, target)
                asked.append((word, selection))
                continue
            except UnknownJob as error:
                if not follow:
                    which = f"{word}, nor is there a job of that name"
                    known = [name for name, _ in labelled(record.runs)]
                    raise Failure(_no_pod(record.name, which, known), BAD_INPUT) from error
        job, chosen = asked[-1]
        asked[-1] = job, replace(chosen, pods=(*chosen.pods, word))
    return asked


async def _follow(
    target: "Target",
    endpoint: "Endpoint | None",
    asked: "Sequence[tuple[str | None, Selection]]",
    how: "LogOptions",
) -> None:
    from muster.app.commands.follow import Ended, Followed, follow
    from muster.app.views import find
    from muster.app.views.lines import Printed
    from muster.app.views.pods import label
    from muster.app.wiring.cluster import acting, alive, archive
    from muster.cli import show
    from muster.cli.screen import Screen
    from muster.workloads.pod_run import job_of, run_of

    async with acting(target, endpoint) as client:
        meant = [await find.with_run(client, job, target.scope) for job, _ in asked]
        show.meant(meant)
        views = [each.view for each in meant]
        if len({view.namespace for view in views}) > 1:
            raise Failure("--follow follows jobs of one namespace", BAD_INPUT)
        chosen = {view.name: selection for view, (_, selection) in zip(views, asked, strict=True)}

        def only(pod: "Pod") -> bool:
            of = job_of(run_of(pod)) if len(chosen) > 1 else views[0].name
            return of in chosen and chosen[of].holds(pod)

        width = max((len(label(pod)) for view in views for pod in view.pods if only(pod)), default=0)
        cut: tuple[str, ...] = ()
        ended: tuple[JobView, ...] = ()
        found = False
        async with Screen(width=width, stands=False) as screen:
            async for news in follow(
                client,
                [Followed(view.kind, view.namespace, view.name) for view in views],
                only=only,
                how=how,
                archive=archive(target),
                alive=lambda: alive(endpoint),
                terminal=screen.terminal,
            ):
                if isinstance(news, Ended):
                    cut, ended = news.cut, news.views
                else:
                    found = found or isinstance(news, Printed)
                    await screen.show(news)
        show.cut(cut, [view.name for view in views])
        for each in () if found or how.partial else ended:
            _say_why_silent(each)


async def _recorded(target: "Target", job: str | None, selection: "Selection", how: "LogOptions") -> None:
    from muster.app.records import past
    from muster.app.records.runs import recorded
    from muster.app.views.logs import labelled, read_archive
    from muster.app.wiring.cluster import archive, reading
    from muster.cli import show

    record = await recorded(target, job)
    show.meant([record])
    meant = [run for run in record.runs if selection.holds_run(run)]
    if record.runs and not meant:
        groups = {run.replicated_job for run in record.runs}
        raise _none_chosen(record.name, selection, [name for name, _ in labelled(record.runs)], groups)
    logs = archive(target)
    assert logs is not None, "the embedded cluster keeps its logs here"
    width = max((len(name) for name, _ in labelled(meant)), default=0)
    found = False
    async for line in read_archive(logs, meant, how):
        _print(line, width)
        found = True
    if how.previous and not found:
        say(f"{record.name} has no output from before a restart", err=True)
    elif not record.runs:
        _say_never_started(record.name)
    elif not found and not how.partial:
        async with reading(target) as client:
            _say_why_silent((await past.named(client, job, target)).view)


async def _now(target: "Target", job: str | None, selection: "Selection", how: "LogOptions") -> None:
    from muster.app.views import find
    from muster.app.views.logs import read
    from muster.app.views.pods import group_of, label
    from muster.app.wiring.cluster import reading
    from muster.cli import show

    async with reading(target) as client:
        meant = await find.with_run(client, job, target.scope)
        show.meant([meant])
        view = meant.view
        pods = [pod for pod in view.pods if selection.holds(pod)]
        if view.pods and not pods:
            groups = {group_of(pod) for pod in view.pods}
            raise _none_chosen(view.name, selection, [label(pod) for pod in view.pods], groups)
        width = max((len(label(pod)) for pod in pods), default=0)
        found = False
        async for line in read(client, pods, how):
            _print(line, width)
            found = True
        if not view.pods:
            _say_never_started(view.name)
        elif not found and not how.partial:
            _say_why_silent(view)


def _say_never_started(job: str) -> None:
    say(f"{job} has had no pods, so there is no output; `muster why {job}` says more", err=True)


def _say_why_silent(view: "JobView") -> None:
    """Says why a job has printed nothing, as `muster why` does, unless it runs or has succeeded."""
    from muster.app.views.job import State
    from muster.cli import show

    if view.state not in (State.RUNNING, State.SUCCEEDED):
        why = str(view.verdict) if view.verdict is not None else show.reason(view)
        say(f"{view.name} has printed nothing: {why}", err=True)


def _since(text: str | None) -> "datetime | timedelta | None":
    from datetime import UTC, datetime, timedelta

    from muster.api import duration

    if text is None:
        return None
    try:
        if seconds := duration.parse(text):
            return timedelta(seconds=seconds)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise Failure(f"--since {text}: write for example 90s, 10m, 2h or 2026-01-31T08:00:00Z", BAD_INPUT)


def _none_chosen(job: str, selection: "Selection", labels: list[str], groups: set[str]) -> Failure:
    from muster.workloads.findings import nearest

    if selection.failed:
        return Failure(f"no pod of {job} has failed, of those that are chosen", BAD_INPUT)
    if selection.group is not None and selection.group not in groups:
        known = nearest(selection.group, groups - {""}) or "; it has no types"
        return Failure(f"{job} has no type {selection.group}{known}", BAD_INPUT)
    return Failure(_no_pod(job, "of that index", labels), BAD_INPUT)


def _no_pod(job: str, which: str, labels: "Sequence[str]") -> str:
    names = ", ".join(sorted(set(labels))[:20])
    return f"{job} has no pod {which}; its pods: {names or 'none'}"


def _print(line: "Line", width: int) -> None:
    sys.stdout.write(f"{line.pod:<{width}} │ {line.text}\n")
