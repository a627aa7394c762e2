"""Finds the jobs that a user names: by name, by the name that their file gives them, or by a prefix.

A file that is run again makes another job of the same beginning, so a name usually matches several. The
newest is meant then, by every verb, and the verb says so.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

from muster.api import groups
from muster.api.base import AnyKind, Kind
from muster.api.kinds import BATCH_JOB, VOLCANO_JOB
from muster.app.views.job import JobView
from muster.app.views.jobs import views
from muster.app.views.objects import fetch
from muster.kube.client import Client
from muster.workloads.findings import similar


def word_of(kind: AnyKind) -> str:
    """What stands for a kind before a name: for Volcano's Job the short name that kubectl knows."""
    return "vcjob" if kind is VOLCANO_JOB else kind.kind.lower()


#: Jobs that a message lists at most.
MOST_NAMED: Final = 10
#: What may be written before a name, if jobs of several kinds have it: `jobset/train`.
_KINDS: Final = frozenset(map(word_of, (*groups.BY_KIND, BATCH_JOB, VOLCANO_JOB)))
#: What tells the jobs of one file apart (`workloads.jobfile`), and their retries (`workloads.retry`).
_SUFFIX: Final = re.compile(r"-(?:[0-9a-f]{8}|[0-9a-f]{5})(?:-r[1-9]\d*)?", re.ASCII)


class Named(Protocol):
    """What a name can match."""

    @property
    def kind(self) -> Kind[Any]: ...  # Any: a job may be of several kinds

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def created(self) -> datetime | None: ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True, slots=True)
class Matches(Generic[N]):
    """The jobs that a name matches, at least one."""

    #: as the user wrote it; None for any job
    name: str | None
    #: the newest last
    found: Sequence[N]
    #: whether the name is theirs, in full or as their file gives it, and not merely a prefix
    named: bool = True

    @property
    def newest(self) -> N:
        return self.found[-1]

    def __str__(self) -> str:
        """The newest job, and of how many: `train-3f9a1c20, the newest of 3 jobs that match train`."""
        told = called(self.newest, self.found)
        if len(self.found) == 1:
            return told
        matching = f" that match {self.name}" if self.name else ""
        return f"{told}, the newest of {len(self.found):,} jobs{matching}"


@dataclass(frozen=True, slots=True)
class Meant:
    """The job that a name stands for."""

    view: JobView
    #: which of several jobs it is, in a sentence; "" if no other job matches
    told: str = ""


class UnknownJob(LookupError):
    """A name matches no job; the message lists the jobs that there are."""


class WithoutRun(UnknownJob):
    """The job is a BatchJob that has no pods; the message says why."""


def meant(matches: Matches[JobView]) -> Meant:
    return Meant(matches.newest, str(matches) if len(matches.found) > 1 else "")


async def all_matching(
    client: Client, names: Iterable[str | None], scope: str, *, runs: bool = False
) -> list[Matches[JobView]]:
    """The jobs that each name matches, in the namespaces of `scoped`, each read once. Raises UnknownJob.

    `runs`: only jobs that may have pods. The run of a schedule may be named by the name of the schedule.
    Raises WithoutRun if a name is that of a BatchJob that has none.
    """
    there: dict[str, list[JobView]] = {}
    found = []
    for name, namespace in (scoped(each, scope) for each in names):
        if namespace not in there:
            there[namespace] = views(await fetch(client, namespace))
        found.append(_with_runs(name, there[namespace]) if runs else matching(name, there[namespace]))
    return found


async def again(client: Client, seen: Sequence[JobView]) -> list[JobView]:
    """The views of these jobs as they are now; one that is gone has none."""
    wanted = {view.which for view in seen}
    namespaces = dict.fromkeys(view.namespace for view in seen)
    found = [view for each in namespaces for view in views(await fetch(client, each))]
    return [view for view in found if view.which in wanted]


async def with_run(client: Client, name: str | None, scope: str) -> Meant:
    """The newest job of that name that may have pods (`all_matching`)."""
    [found] = await all_matching(client, [name], scope, runs=True)
    return meant(found)


def _with_runs(name: str | None, there: Sequence[JobView]) -> Matches[JobView]:
    try:
        return matching(name, [view for view in there if view.kind is not BATCH_JOB])
    except UnknownJob:
        raise WithoutRun(_without_run(matching(name, there).newest)) from None


def _without_run(view: JobView) -> str:
    """Returns why a BatchJob has no pods, and the command that tells all that is known of it."""
    why = f": {view.reason[1]}" if view.reason else ""
    return f"{view.name} is {view.state.value} and has no pods{why}; `muster why {view.name}` says more"


S = TypeVar("S", str, str | None)


def scoped(name: S, scope: str) -> tuple[S, str]:
    """A job's name and its namespace: that of `namespace/name` if written so, else `scope` ("": any).

    The name in `kind/name` keeps its kind.
    """
    if name is None:
        return name, scope
    namespace, slash, own = name.partition("/")
    return (own, namespace) if slash and namespace.lower() not in _KINDS else (name, scope)


def matching(name: str | None, among: Sequence[N]) -> Matches[N]:
    """The jobs of that name; without any, those whose PodGroup has it, or whose file gives it to them.

    Else those with that prefix. None matches every job. Raises UnknownJob if there is none.
    """
    found = matched(name, among)
    if found is None:
        raise unknown(name, among)
    return found


def matched(name: str | None, among: Sequence[N]) -> Matches[N] | None:
    """As `matching`; None if there is none."""
    kind, slash, own = (name or "").partition("/")
    if slash and kind.lower() in _KINDS:
        among = [
            each
            for each in among
            if kind.lower() in (word_of(each.kind), *(kind for kind, _ in _groups(each)))
        ]
    else:
        own = name or ""
    if name is None:
        found, named = [*among], False
    elif exact := [each for each in among if own in (each.name, f"{each.namespace}/{each.name}")]:
        found, named = exact, True
    elif grouped := [each for each in among if own and own in [name for _, name in _groups(each)]]:
        found, named = grouped, True
    elif runs := [each for each in among if own and _is_run_of(own, each.name)]:
        found, named = runs, True
    else:
        found, named = [each for each in among if own and each.name.startswith(own)], False
    return Matches(name, sorted(found, key=_by_age), named) if found else None


def _groups(job: Named) -> list[tuple[str, str]]:
    """Kind and name of each PodGroup that is one with the job."""
    marked = job.marked if isinstance(job, JobView) else ()
    return [(word_of(kind), group.metadata.name) for kind, group in marked]


def _is_run_of(given: str, name: str) -> bool:
    """Whether a job has the name that its file gives it, and what tells the runs of the file apart."""
    return name.startswith(given) and _SUFFIX.fullmatch(name, len(given)) is not None


def _by_age(job: Named) -> tuple[bool, float]:
    return job.created is not None, job.created.timestamp() if job.created else 0.0


def called(job: Named, among: Iterable[Named]) -> str:
    """The name by which the job is told from these: with its namespace or its kind where that is needed."""
    others = [each for each in among if each.name == job.name]
    if any(each.namespace != job.namespace for each in others):
        return f"{job.namespace}/{job.name}"
    kinds = {word_of(each.kind) for each in others}
    return f"{word_of(job.kind)}/{job.name}" if len(kinds) > 1 else job.name


def unknown(name: str | None, among: Sequence[Named]) -> UnknownJob:
    """The error for a name that none of these jobs has."""
    if name is None:
        return UnknownJob("there is no job yet; `muster run FILE` makes one")
    there = f"there are: {listed(among)}" if among else "there is none"
    return UnknownJob(f"{_no_job(name, [each.name for each in among])}; {there}")


def _no_job(name: str, there: Sequence[str]) -> str:
    if not name:
        return "the name of the job is empty"
    meant = similar(name, there)
    return f"no job named {name}; did you mean {meant}?" if meant else f"no job named {name}"


def listed(jobs: Sequence[N], remark: Callable[[N], str] | None = None) -> str:
    """Jobs by name, the latest last, each with a remark in brackets; of many the latest."""
    shown = jobs[-MOST_NAMED:]
    more = f"{len(jobs) - len(shown):,} older and " if len(jobs) > len(shown) else ""
    several = len({each.namespace for each in jobs}) > 1
    names = (f"{each.namespace}/{each.name}" if several else called(each, jobs) for each in shown)
    remarks = (f" ({remark(each)})" if remark is not None else "" for each in shown)
    return more + ", ".join(name + told for name, told in zip(names, remarks, strict=True))
