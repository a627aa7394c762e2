"""Cancels a job: deletes its objects and its pods."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from muster.api import groups, kinds
from muster.api.base import AnyKind, Kind, Resource, controller_of, mark
from muster.api.core_v1 import Pod
from muster.app.commands.follow import Followed
from muster.app.views.job import JobView
from muster.app.views.jobs import views
from muster.app.views.objects import fetch
from muster.kube.client import Client
from muster.kube.errors import Conflict, Forbidden, NotFound
from muster.names import SUBMITTED_FROM
from muster.workloads.jobfile import GENERATED, Source

#: seconds between two checks whether the pods are gone
LOOK: Final = 0.1
#: seconds beyond the pods' grace periods after which `gone` stops waiting
PATIENCE: Final = 30.0
#: jobs that are deleted at the same time
_AT_A_TIME: Final = 16
#: grace period in seconds of a pod that does not specify one
GRACE: Final = 30


#: Kinds that create a deleted job again.
_CREATORS: Final[dict[tuple[str, str], Kind[Any]]] = {  # Any: a kind of several
    (kind.api_version, kind.kind): kind for kind in (kinds.BATCH_JOB, kinds.LATTICE_JOB)
}
#: Stands for the random suffix of a name when `of_file` looks for the jobs that a file created.
SUFFIX: Final = "00000000"


class StillThere(Exception):
    """The job is deleted, but some of its pods do not terminate; the message names them."""


class Replaced(Exception):
    """A job is gone, and another has its name since, which is left alone; the message says so."""


async def cancel(
    client: Client,
    job: Followed,
    pods: Iterable[Pod],
    *,
    at_once: bool = False,
    uid: str = "",
    version: str = "",
    parts: Iterable[tuple[AnyKind, Resource]] = (),
) -> None:
    """Deletes the job and returns when the API server has accepted the deletion.

    The job's `pods` terminate within their grace periods, or without one if `at_once`. Raises Conflict if
    the job has another uid or resourceVersion than these. `parts`: the PodGroups that are one with the job.
    """
    with suppress(NotFound):  # another client was quicker
        await client.delete(
            job.kind, job.namespace, job.name, uid=uid, resource_version=version, propagation="Background"
        )
    for kind, part in parts:
        meta = part.metadata
        # its controller was quicker; another may have its name; a user may be permitted no more than jobs
        with suppress(NotFound, Conflict, Forbidden):
            await client.delete(kind, meta.namespace, meta.name, uid=meta.uid)
    if at_once or job.kind in groups.OF_NAMED:  # a PodGroup does not own its pods
        await asyncio.gather(*(_delete_pod(client, pod, 0 if at_once else None) for pod in pods))


async def creator(client: Client, job: JobView) -> tuple[Followed, str]:
    """What to delete, and its uid, so that the job is not created again: itself, its BatchJob or LatticeJob.

    A scheduled BatchJob stays: it repeats no run.
    """
    found, uid = Followed(job.kind, job.namespace, job.name), job.resource.metadata.uid
    reference = controller_of(job.resource)
    while reference is not None and (kind := _CREATORS.get((reference.api_version, reference.kind))):
        try:
            owner = await client.get(kind, job.namespace, reference.name)
        except NotFound:
            break
        if owner.metadata.uid != reference.uid or owner.spec.get("schedule"):
            break
        found, uid = Followed(kind, job.namespace, reference.name), reference.uid
        reference = controller_of(owner)
    return found, uid


@dataclass(frozen=True, slots=True)
class OfFile:
    """Jobs that have a name which a file gives to its jobs."""

    #: made from this file by this person
    made: list[JobView]
    #: not known to be made from it: another's job that has the very name, or one whose file is not recorded
    unsure: list[JobView]
    #: made from another file, or by another person; only their random suffix tells them from this file's
    others: list[JobView]

    @staticmethod
    def told(views: Iterable[JobView]) -> str:
        """Where these jobs come from, for people."""
        files = ((view, made_from(view) or "a file that is not recorded") for view in views)
        return "; ".join(f"{view.name} ({view.state.value}) was made from {file}" for view, file in files)


def of_file(wanted: Iterable[Followed], there: Sequence[JobView], source: Source) -> OfFile:
    """The jobs that a file created, of those that are `there`.

    `wanted`: the file's jobs, compiled with `SUFFIX`. A name with a random suffix matches all such jobs that
    have not finished. Any file may have such names, so where a job comes from counts, too.
    """
    found = OfFile([], [], [])
    for job in wanted:
        for view in there:
            if _is_named(job, view):
                was = made_from(view)
                others = found.unsure if was is None or view.name == job.name else found.others
                (found.made if source.same(was) else others).append(view)
    return found


def made_from(job: JobView) -> Source | None:
    """Where the job comes from; None if neither it nor all of its pods say so."""
    own = mark(job.resource.metadata, SUBMITTED_FROM)
    said = {own} if own else {mark(pod.metadata, SUBMITTED_FROM) for pod in job.pods}
    return Source.read(said.pop()) if len(said) == 1 else None


def is_run_of(name: str, job: JobView) -> bool:
    """Whether `name` is known to be the job's own, or that of its file, as far as `find` matched it.

    Hex digits at the end are no proof: an `exp-20261128` that its author has named so is no run of `exp`.
    """
    own, meta = name.rpartition("/")[2], job.resource.metadata
    source = made_from(job)
    return (
        own in (meta.name, *(part.metadata.name for _, part in job.marked))
        or meta.generate_name == f"{own}-"
        or (source is not None and source.generated(meta.name, own))
    )


def _is_named(job: Followed, view: JobView) -> bool:
    if (view.kind, view.namespace) != (job.kind, job.namespace):
        return False
    if view.name == job.name:
        return True
    # the name of a manifest's JobSet, or one from generateName
    ending = SUFFIX if job.name.endswith(f"-{SUFFIX}") else SUFFIX[:GENERATED]
    stem, digits = job.name.removesuffix(ending), view.name[-len(ending) :]
    generated = job.name.endswith(ending) and view.name == stem + digits
    return generated and not digits.strip("0123456789abcdef") and not view.state.finished


async def cancel_unfinished(
    client: Client, job: Followed, pods: Iterable[Pod], *, uid: str = "", at_once: bool = False
) -> JobView | None:
    """Cancels the job as `cancel` does, unless it has finished; returns a finished job's view, else None.

    `uid`: that of the job that was seen, if it was; another that has its name since is left alone.
    """
    while True:
        there = views(await fetch(client, job.namespace))
        view = next((view for view in there if (view.kind, view.name) == (job.kind, job.name)), None)
        if view is not None and uid and view.resource.metadata.uid != uid:
            return None
        if view is not None and view.state.finished:
            return view
        version = view.resource.metadata.resource_version if view is not None else ""
        parts = view.marked if view is not None else ()
        try:
            await cancel(client, job, pods, at_once=at_once, uid=uid, version=version, parts=parts)
            return None
        except Conflict:  # the job changed in the meantime and may have finished
            continue


async def cancel_all(client: Client, jobs: Iterable[JobView]) -> AsyncIterator[JobView]:
    """Cancels these jobs, with what would create them again; yields each once its pods are gone.

    Raises StillThere or Replaced when the others are gone.
    """
    turns, replaced = asyncio.Semaphore(_AT_A_TIME), list[str]()

    async def one(view: JobView) -> Followed | None:
        async with turns:
            try:
                return await begin(client, view)
            except Replaced:
                replaced.append(view.name)
                return None

    wanted = list(jobs)
    deleted: dict[Followed, list[JobView]] = {}
    for job, view in zip(await asyncio.gather(*map(one, wanted)), wanted, strict=True):
        if job is not None:
            deleted.setdefault(job, []).append(view)
    async for job in gone(
        client, {job: [p for view in of for p in view.pods] for job, of in deleted.items()}
    ):
        for view in deleted[job]:
            yield view
    if replaced:
        raise Replaced(_replaced(sorted(replaced)))


async def begin(client: Client, view: JobView) -> Followed:
    """Deletes the job, with what would create it again; does not wait for its pods. Returns what it deleted.

    Raises Replaced if another has its name.
    """
    job, uid = await creator(client, view)
    try:
        if uid:
            await cancel(client, job, view.pods, uid=uid, parts=view.marked)
        else:  # a PodGroup that only its pods name
            await asyncio.gather(*(_delete_pod(client, pod, None) for pod in view.pods))
    except Conflict:
        raise Replaced(_replaced([view.name])) from None
    return job


def _replaced(names: Sequence[str]) -> str:
    return f"{', '.join(names)}: gone already; what has the name now was submitted since, and is left alone"


async def gone(client: Client, jobs: Mapping[Followed, Iterable[Pod]]) -> AsyncIterator[Followed]:
    """Yields each job when all of its pods are gone. Their grace periods may be long.

    Raises StillThere, when the others are gone, for jobs of which no pod has terminated for `PATIENCE` plus
    the longest grace period of those left.
    """
    left = {job: {pod.metadata.uid: pod for pod in pods} for job, pods in jobs.items()}
    waited = dict.fromkeys(left, 0.0)
    stuck: list[str] = []
    while left:
        there: set[str] = set()
        for namespace in {job.namespace for job in left}:
            there.update(pod.metadata.uid for pod in (await client.list(kinds.POD, namespace)).items)
        for job, pods in [*left.items()]:
            staying = {uid: pod for uid, pod in pods.items() if uid in there}
            waited[job] = 0.0 if len(staying) < len(pods) else waited[job] + LOOK
            left[job] = staying
            if not staying:
                del left[job]
                yield job
            elif waited[job] > PATIENCE + max(map(_grace, staying.values())):
                del left[job]
                names = sorted(pod.metadata.name for pod in staying.values())
                stuck.append(
                    f"{job.name} has been deleted, but its pods do not end: {', '.join(names[:10])}"
                    + (f" and {len(names) - 10} more" if len(names) > 10 else "")
                )
        if left:
            await asyncio.sleep(LOOK)
    if stuck:
        raise StillThere("\n".join(stuck))


def _grace(pod: Pod) -> int:
    seconds = pod.spec.termination_grace_period_seconds
    return GRACE if seconds is None else seconds


async def _delete_pod(client: Client, pod: Pod, grace_period: int | None) -> None:
    meta = pod.metadata
    with suppress(NotFound, Conflict):  # it is gone; another pod may have its name
        await client.delete(kinds.POD, meta.namespace, meta.name, uid=meta.uid, grace_period=grace_period)
