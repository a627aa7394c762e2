"""Finds the job that a user names: by its name, by namespace and name, or by a prefix."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from muster.api import groups
from muster.api.kinds import BATCH_JOB
from muster.app.views.job import JobView
from muster.app.views.jobs import views
from muster.app.views.objects import fetch
from muster.kube.client import Client
from muster.workloads.findings import similar

#: Jobs that a message lists at most.
MOST_NAMED: Final = 10
#: What may be written before a name, if jobs of several kinds have it: `jobset/train`.
_KINDS: Final = frozenset(each.kind.lower() for each in (*groups.BY_KIND, BATCH_JOB))


class UnknownJob(LookupError):
    """A name matches no job, or more than one; the message lists the candidates."""


class SeveralJobs(UnknownJob):
    """A name matches more than one job."""

    def __init__(self, name: str, jobs: Sequence[tuple[str, str]]) -> None:
        """`jobs`: namespace and name of each, the latest last."""
        super().__init__(f"{len(jobs)} jobs begin with {name}; {_listed(jobs)}; name one of them in full")


class WithoutRun(UnknownJob):
    """The job is a BatchJob that has no pods; the message says why."""


async def all_named(client: Client, names: Iterable[str], scope: str) -> list[JobView]:
    """Applies `find` to the jobs of the namespaces of `scoped`, each read once. Raises UnknownJob."""
    there: dict[str, list[JobView]] = {}
    found = []
    for name, namespace in (scoped(each, scope) for each in names):
        if namespace not in there:
            there[namespace] = views(await fetch(client, namespace))
        found.append(find(name, there[namespace]))
    return found


async def with_run(client: Client, name: str, scope: str) -> JobView:
    """As `find`, for what is about pods: the run of a schedule may be named by the name of the schedule.

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
    """A job's name and its namespace: that of `namespace/name` if written so, else `scope` ("": any).

    The name in `kind/name` keeps its kind.
    """
    namespace, slash, own = name.partition("/")
    return (own, namespace) if slash and namespace.lower() not in _KINDS else (name, scope)


def find(name: str, among: Sequence[JobView]) -> JobView:
    """The job of that name, or the only one whose name has that prefix. Raises UnknownJob."""
    kind, slash, own = name.partition("/")
    if slash and kind.lower() in _KINDS:
        name, among = own, [view for view in among if view.kind.kind.lower() == kind.lower()]
    exact = [view for view in among if name in (view.name, f"{view.namespace}/{view.name}")]
    found = exact or [view for view in among if name and view.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    same = Counter((view.namespace, view.name) for view in found)
    if found:
        raise SeveralJobs(
            name,
            [
                (view.namespace, f"{view.kind.kind.lower()}/{view.name}" if same[at] > 1 else view.name)
                for view in found
                for at in [(view.namespace, view.name)]
            ],
        )
    there = [(view.namespace, view.name) for view in among]
    raise UnknownJob(f"{_no_job(name, [each for _, each in there])}; {_listed(there)}")


def _no_job(name: str, there: Sequence[str]) -> str:
    if not name:
        return "the name of the job is empty"
    meant = similar(name, there)
    return f"no job named {name}; did you mean {meant}?" if meant else f"no job named {name}"


def _listed(jobs: Sequence[tuple[str, str]]) -> str:
    """The existing jobs, by namespace and name, the latest last."""
    if not jobs:
        return "there is none"
    shown = jobs[-MOST_NAMED:]
    more = f"{len(jobs) - len(shown)} older and " if len(jobs) > len(shown) else ""
    several = len({namespace for namespace, _ in jobs}) > 1
    # a kind is written instead of the namespace, which -n names
    names = ", ".join(
        f"{namespace}/{name}" if several and "/" not in name else name for namespace, name in shown
    )
    return f"there are: {more}{names}"
