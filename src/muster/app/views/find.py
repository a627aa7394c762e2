"""Finds the job that a user names: by its name, by namespace and name, or by a prefix."""

from collections.abc import Sequence
from typing import Final

from muster.api.base import controller_of
from muster.api.kinds import BATCH_JOB, LATTICE_JOB
from muster.api.muster_v1alpha1 import BatchJob
from muster.app.views.jobs import JobView, fetch, views
from muster.kube.client import Client
from muster.kube.listing import list_all

#: Jobs that a message lists at most.
MOST_NAMED: Final = 10
#: Phases of a BatchJob that has not started.
_WAITS: Final = ("", "Pending")


class UnknownJob(LookupError):
    """A name matches no job, or more than one; the message lists the candidates."""


class SeveralJobs(UnknownJob):
    """A name matches more than one job."""

    def __init__(self, name: str, jobs: Sequence[tuple[str, str]]) -> None:
        """`jobs`: namespace and name of each, the latest last."""
        super().__init__(f"{len(jobs)} jobs begin with {name}; {_listed(jobs)}; name one of them in full")


class WithoutRun(UnknownJob):
    """A name is that of a BatchJob that has no run; the message says why."""


async def named(client: Client, name: str, scope: str) -> JobView:
    """Applies `find` to the jobs of the namespace that `scoped` returns. Raises UnknownJob."""
    name, namespace = scoped(name, scope)
    try:
        return find(name, views(await fetch(client, namespace)))
    except SeveralJobs:
        raise
    except UnknownJob:
        for each in (await list_all(client, BATCH_JOB, namespace, missing_ok=True)).items:
            if each.metadata.name == name and (each.spec.get("schedule") or each.status.phase in _WAITS):
                raise WithoutRun(_without_run(each)) from None
        raise


def _without_run(job: BatchJob) -> str:
    """Returns why there is nothing of a BatchJob to show, and the commands that show and delete it."""
    by = controller_of(job)
    kept = by is not None and by.kind == LATTICE_JOB.kind  # its BatchJob would be created again
    where = f"{'latticejob' if kept else 'batchjob'} {job.metadata.name} -n {job.metadata.namespace}"
    if job.spec.get("schedule"):
        why = f"has a schedule, and each of its runs is a BatchJob of its own; kubectl get {where} -o yaml"
    else:
        why = f"has no pods: {job.status.message or 'it has not been compiled yet'}"
        why += f"; all of its status: kubectl get {where} -o yaml"
    return f"BatchJob {job.key} {why}; to delete it: kubectl delete {where}"


def scoped(name: str, scope: str) -> tuple[str, str]:
    """A job's name and its namespace: that of `namespace/name` if written so, else `scope` ("": any)."""
    namespace, slash, own = name.partition("/")
    return (own, namespace) if slash else (name, scope)


def find(name: str, among: Sequence[JobView]) -> JobView:
    """The job of that name, or the only one whose name has that prefix. Raises UnknownJob."""
    exact = [view for view in among if name in (view.name, f"{view.namespace}/{view.name}")]
    found = exact or [view for view in among if name and view.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    listed = [(view.namespace, view.name) for view in found or among]
    raise SeveralJobs(name, listed) if found else UnknownJob(f"{_no_job(name)}; {_listed(listed)}")


def _no_job(name: str) -> str:
    return f"no job named {name}" if name else "the name of the job is empty"


def _listed(jobs: Sequence[tuple[str, str]]) -> str:
    """The existing jobs, by namespace and name, the latest last."""
    if not jobs:
        return "there is none"
    shown = jobs[-MOST_NAMED:]
    more = f"{len(jobs) - len(shown)} older and " if len(jobs) > len(shown) else ""
    several = len({namespace for namespace, _ in jobs}) > 1
    names = ", ".join(f"{namespace}/{name}" if several else name for namespace, name in shown)
    return f"there are: {more}{names}"
