"""Finds the job that a user names: by its name, by namespace and name, or by a prefix."""

from collections.abc import Sequence
from typing import Final

from muster.api.kinds import BATCH_JOB
from muster.app.views.jobs import JobView, views
from muster.app.views.objects import fetch
from muster.kube.client import Client

#: Jobs that a message lists at most.
MOST_NAMED: Final = 10


class UnknownJob(LookupError):
    """A name matches no job, or more than one; the message lists the candidates."""


class SeveralJobs(UnknownJob):
    """A name matches more than one job."""

    def __init__(self, name: str, jobs: Sequence[tuple[str, str]]) -> None:
        """`jobs`: namespace and name of each, the latest last."""
        super().__init__(f"{len(jobs)} jobs begin with {name}; {_listed(jobs)}; name one of them in full")


class WithoutRun(UnknownJob):
    """The job is a BatchJob that has no pods; the message says why."""


async def named(client: Client, name: str, scope: str) -> JobView:
    """Applies `find` to the jobs of the namespace that `scoped` returns. Raises UnknownJob."""
    name, namespace = scoped(name, scope)
    return find(name, views(await fetch(client, namespace)))


async def with_run(client: Client, name: str, scope: str) -> JobView:
    """As `named`, for what is about pods: the run of a schedule may be named by the name of the schedule.

    Raises WithoutRun if the name is that of a BatchJob that has none.
    """
    name, namespace = scoped(name, scope)
    there = views(await fetch(client, namespace))
    try:
        return find(name, [view for view in there if view.kind is not BATCH_JOB])
    except SeveralJobs:
        raise
    except UnknownJob:
        raise WithoutRun(_without_run(find(name, there))) from None


def _without_run(view: JobView) -> str:
    """Returns why a BatchJob has no pods, and the command that tells all that is known of it."""
    why = f": {view.reason[1]}" if view.reason else ""
    return f"{view.name} is {view.state.value} and has no pods{why}; `muster why {view.name}` says more"


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
