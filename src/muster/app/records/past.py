"""Deleted jobs, as views like those of existing jobs.

Only the embedded cluster remembers them (`muster.embedded.storage.past`), for as long as it keeps the logs of
their pods.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from muster.api import groups, kinds
from muster.api.times import seconds
from muster.app.views import find, jobs
from muster.app.views.failures import judged
from muster.app.views.find import Meant
from muster.app.views.job import JobView, State
from muster.app.views.objects import Objects, fetch, group_name, groups_of_templates
from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.storage.history import History
from muster.embedded.storage.past import Deleted, Past
from muster.embedded.storage.store import Store
from muster.kube.client import Client
from muster.kube.decode import decode
from muster.workloads.pod_run import PodRun, job_of


async def named(client: Client, name: str | None, target: Target) -> Meant:
    """The newest job of that name or prefix (None: of all), whether it exists or has been deleted.

    A deleted job is meant only if no job that matches is unfinished. Raises UnknownJob.
    """
    return among(await fetch(client, find.scoped(name, target.scope)[1]), name, target)


async def every(client: Client, name: str | None, target: Target) -> list[JobView]:
    """All jobs of that name or prefix, also deleted ones, the oldest first. Raises UnknownJob."""
    own, namespace = find.scoped(name, target.scope)
    existing = jobs.views(await fetch(client, namespace))
    candidates: list[JobView | Deleted] = [*existing, *_gone(target, namespace)]
    found = find.matched(own, candidates)
    if found is None:
        raise find.unknown(own, existing)
    gone = iter(_deleted([each for each in found.found if isinstance(each, Deleted)]))
    there = iter(recalled([each for each in found.found if isinstance(each, JobView)], target))
    return [next(gone if isinstance(each, Deleted) else there) for each in found.found]


async def with_run(client: Client, name: str | None, target: Target) -> Meant:
    """As `named`, for what is about pods (`find.all_matching`)."""
    there = await fetch(client, find.scoped(name, target.scope)[1])
    try:
        return among(replace(there, batch_jobs=()), name, target)
    except find.UnknownJob:
        await find.with_run(client, name, target.scope)  # raises WithoutRun for a BatchJob
        raise


def among(there: Objects, name: str | None, target: Target) -> Meant:
    """As `named`, of jobs that consist of these objects."""
    (own, namespace), existing = find.scoped(name, target.scope), jobs.views(there)
    found = find.matched(own, existing)
    if found is not None and (
        own == found.newest.name or not all(each.state.finished for each in found.found)
    ):
        [view] = recalled([found.newest], target)
        return replace(find.meant(found), view=view)
    candidates: list[JobView | Deleted] = [*existing, *_gone(target, namespace)]
    every = find.matched(own, candidates)
    if every is None:
        raise find.unknown(own, existing)
    meant, told = every.newest, str(every) if len(every.found) > 1 else ""
    if isinstance(meant, Deleted):
        [view] = _deleted([meant])
    else:
        [view] = recalled([meant], target)
    return Meant(view, told)


def recalled(views: Sequence[JobView], target: Target) -> list[JobView]:
    """The views, with the verdict on failed jobs also from pods that are gone.

    A real cluster remembers none.
    """
    path = StateDirectory.of_user().store
    if not any(view.state is State.FAILED for view in views) or not target.embedded or not path.exists():
        return list(views)
    store = Store.open_read_only(path)
    try:
        runs: dict[tuple[str, str], list[PodRun]] = defaultdict(list)
        for run in History(store).failed(target.scope):
            runs[run.namespace, job_of(run)].append(run)
    finally:
        store.close()
    return [
        judged(view, runs=_since(view, runs[view.namespace, view.name]))
        if view.state is State.FAILED
        else view
        for view in views
    ]


def _since(view: JobView, runs: Sequence[PodRun]) -> list[PodRun]:
    """The runs that are of this job, not of an earlier one of its name."""
    since = seconds(view.created)
    return [run for run in runs if since <= run.created]


def deleted(target: Target, namespace: str = "", prefix: str = "", *, judge: bool = True) -> list[JobView]:
    """Deleted jobs whose names have that prefix, in order of deletion. A real cluster remembers none.

    Unless they are to be judged by the runs of their pods, their counts of pods are those of their status.
    """
    found = _gone(target, namespace, prefix)
    return _deleted(found) if judge else [_view(job, ()) for job in found]


def _gone(target: Target, namespace: str, prefix: str = "") -> list[Deleted]:
    path = StateDirectory.of_user().store
    if not target.embedded or not path.exists():
        return []
    store = Store.open_read_only(path)
    try:
        found = Past(store).jobs(namespace, prefix)
    finally:
        store.close()
    return [*_but_parts(found)] if any(job.kind in groups.OF_NAMED for job in found) else found


def _but_parts(found: Sequence[Deleted]) -> Iterator[Deleted]:
    """These without the PodGroups that were one with a job (`parts_of_jobs`)."""
    makers = (decode(job.kind, job.body) for job in found if job.kind in (kinds.JOB, kinds.JOBSET))
    parts = {name for job in makers for name in groups_of_templates(job)}
    for job in found:
        if job.kind not in groups.OF_NAMED or group_name(job.kind, decode(job.kind, job.body)) not in parts:
            yield job


def _deleted(found: Sequence[Deleted]) -> list[JobView]:
    if not found:
        return []
    store = Store.open_read_only(StateDirectory.of_user().store)
    try:
        history = History(store)
        return [_view(job, history.runs(namespace=job.namespace, job=job.name)) for job in found]
    finally:
        store.close()


def _view(job: Deleted, runs: Sequence[PodRun]) -> JobView:
    resource = decode(job.kind, job.body)
    since = seconds(resource.metadata.creation_timestamp)
    mine = [run for run in runs if since <= run.created <= job.at]
    view = judged(jobs.alone(job.kind, resource), runs=mine)
    at = datetime.fromtimestamp(job.at, UTC)
    failed = max(view.failed, sum(run.failed_by_itself for run in mine))
    if not view.state.finished:
        was = "running" if any(run.started is not None for run in mine) else "waiting"
        view = replace(view, state=State.CANCELLED, reason=("Cancelled", f"deleted while it was {was}"))
    return replace(
        view,
        running=0,
        succeeded=max(view.succeeded, sum(run.phase == "Succeeded" for run in mine)),
        failed=view.failed if view.state is State.FAILED and view.verdict is not None else failed,
        finished=view.finished or at,
        deleted=at,
    )
