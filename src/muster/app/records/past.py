"""Deleted jobs, as views like those of existing jobs.

Only the embedded cluster remembers them (`muster.local.past`), for as long as it keeps their pods' logs.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from muster.app.views import find, jobs
from muster.app.views.job import JobView, State
from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.kube.client import Client
from muster.kube.decode import decode
from muster.local.history import History
from muster.local.past import Deleted, Past
from muster.local.store import Store
from muster.workloads.pod_run import PodRun


async def named(client: Client, name: str, target: Target) -> JobView:
    """The existing job of that name or prefix; if there is none, the one that was deleted last.

    Raises UnknownJob.
    """
    try:
        return await find.named(client, name, target.scope)
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
    created = resource.metadata.creation_timestamp
    since = created.timestamp() if created is not None else 0.0
    mine = [run for run in runs if since <= run.created <= job.at]
    view = jobs.alone(job.kind, resource)
    at = datetime.fromtimestamp(job.at, UTC)
    if not view.state.finished:
        was = "running" if any(run.started is not None for run in mine) else "waiting"
        view = replace(view, state=State.CANCELLED, reason=("Cancelled", f"deleted while it was {was}"))
    return replace(
        view,
        running=0,
        succeeded=max(view.succeeded, sum(run.phase == "Succeeded" for run in mine)),
        failed=max(view.failed, sum(run.failed_by_itself for run in mine)),
        finished=view.finished or at,
        deleted=at,
    )
