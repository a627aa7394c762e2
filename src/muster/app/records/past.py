"""Deleted jobs, as views like those of existing jobs.

Only the embedded cluster remembers them (`muster.embedded.storage.past`), for as long as it keeps the logs of
their pods.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from muster.api.times import seconds
from muster.app.views import find, jobs
from muster.app.views.failures import judged
from muster.app.views.job import JobView, State
from muster.app.views.objects import Objects, fetch
from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.storage.history import History
from muster.embedded.storage.past import Deleted, Past
from muster.embedded.storage.store import Store
from muster.kube.client import Client
from muster.kube.decode import decode
from muster.workloads.pod_run import PodRun, job_of


async def named(client: Client, name: str, target: Target) -> JobView:
    """The existing job of that name or prefix; if there is none, the one that was deleted last.

    Raises UnknownJob.
    """
    return among(await fetch(client, find.scoped(name, target.scope)[1]), name, target)


def among(there: Objects, name: str, target: Target) -> JobView:
    """As `named`, of jobs that consist of these objects."""
    try:
        return recalled([find.find(find.scoped(name, target.scope)[0], jobs.views(there))], target)[0]
    except find.SeveralJobs:
        raise
    except find.UnknownJob:
        own, namespace = find.scoped(name, target.scope)
        found = deleted(target, namespace, own) if own else []
        exact = [view for view in found if view.name == own]
        if not found:
            raise
        if not exact and len({(view.namespace, view.name) for view in found}) > 1:
            raise find.SeveralJobs(name, [(view.namespace, view.name) for view in found]) from None
        return (exact or found)[-1]


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


def deleted(target: Target, namespace: str = "", prefix: str = "") -> list[JobView]:
    """Deleted jobs whose names have that prefix, in order of deletion. A real cluster remembers none."""
    path = StateDirectory.of_user().store
    if not target.embedded or not path.exists():
        return []
    store = Store.open_read_only(path)
    try:
        history = History(store)
        found = Past(store).jobs(namespace, prefix)
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
