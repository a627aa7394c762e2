"""Submits the objects of a job file to a cluster: all of them, or none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from muster.api import groups
from muster.api.base import Kind, Resource, controller_of, owner
from muster.api.kinds import (
    BATCH_JOB,
    BY_NAME,
    LATTICE_JOB,
    POD,
    VOLCANO_JOB,
)
from muster.app.commands.follow import Followed
from muster.kube.apply import Applied, Outcome, apply, noted
from muster.kube.client import Client
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    Unanswered,
    Unreachable,
)
from muster.workloads import annotate
from muster.workloads.jobfile import Item, JobFile, Role, Source

#: With what only a cluster that has Volcano's controllers is handed in.
_BY_NAME: Final = BY_NAME | {(VOLCANO_JOB.api_version, VOLCANO_JOB.kind): VOLCANO_JOB}


class Taken(Exception):
    """The file's job exists, and cannot be changed to what the file says; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Submitted:
    #: the file's jobs
    jobs: list[Followed]
    #: the outcome for each object, in the file's order
    outcomes: list[tuple[Item, Outcome]]


async def submit(
    client: Client, job: JobFile, *, new: bool = False, source: Source | None = None
) -> Submitted:
    """Creates the objects in order; an existing object is updated to match the file (`kube.apply`).

    If one object is refused, all changes are undone: a file is submitted as a whole or not at all. What was
    created for the file's job alone belongs to it afterwards, and is deleted with it. `new`:
    the file's jobs must not exist. `source`: recorded on the jobs that are created.

    Raises Taken for the first job that exists, and must not or cannot be changed.
    """
    if source is not None:
        source = replace(source, suffix=job.suffix)
    if job.kind:
        await _refuse_batch_job(client, job)
    done: list[tuple[Item, Applied]] = []
    try:
        for item in job.items:
            done.append((item, await _hand_in(client, job, item, new=new, source=source)))
        await _own(client, done)
    except (ApiError, Taken, Unanswered, Unreachable):
        for item, applied in reversed(done):
            with suppress(ApiError, Unanswered, Unreachable):
                await _take_back(client, item, applied)
        raise
    return Submitted(jobs(job), [(item, applied.outcome) for item, applied in done])


def jobs(job: JobFile) -> list[Followed]:
    """The jobs of a job file: JobSets, Jobs, and pods by their group."""
    found = [_job(item) for item in job.items if item.role is Role.PRIMARY]
    return list(dict.fromkeys(found))


def made_from(job: JobFile) -> list[Followed]:
    """The file's jobs and PodGroups, and the BatchJobs that make jobs if kubectl has applied the file."""
    applied = [each["metadata"] for each in job.primary if job.kind]
    batch = [Followed(BATCH_JOB, each["namespace"], each["name"]) for each in applied]
    named = [_job(item) for item in job.items if _kind(item) in groups.OF_NAMED]
    return list(dict.fromkeys([*jobs(job), *batch, *named]))


def written(job: JobFile, item: Item) -> str:
    """Kind and name of an object of the file, as the author of the file wrote them."""
    return f"{job.kind or item.written or item.object['kind']} {item.object['metadata']['name']}"


async def _refuse_batch_job(client: Client, job: JobFile) -> None:
    """Raises Taken if the cluster has a BatchJob of the file's name: it makes the job's objects itself."""
    for made in job.primary:
        namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
        with suppress(NotFound, Forbidden):
            there = await client.get(BATCH_JOB, namespace, name)
            by = controller_of(there)
            found = by.kind if by is not None and LATTICE_JOB.matches(by) else BATCH_JOB.kind
            raise Taken(
                f"{found} {name} exists already; `kubectl apply` of the file changes it. "
                + _instead(name, there.metadata.deletion_timestamp is not None)
            )


def _instead(name: str, leaves: bool = False) -> str:
    if leaves:
        return "It is being deleted; try again when it is gone"
    return f"Choose another name, run the file with --replace, or remove it first: `muster cancel {name}`"


async def _hand_in(client: Client, job: JobFile, item: Item, *, new: bool, source: Source | None) -> Applied:
    """Creates or updates one object. Raises Taken for a job that must not or cannot be updated."""
    stated, primary = annotate.stated(item.object), item.role is Role.PRIMARY
    namespace, name = item.object["metadata"].get("namespace", ""), item.object["metadata"]["name"]
    job_or_group = primary or _kind(item) in groups.OF_NAMED
    obj = annotate.with_source(item.object, source) if job_or_group else item.object
    try:
        if not (new and primary):
            return await apply(client, _kind(item), obj, stated)
        await client.create(_kind(item), namespace, noted(obj, stated))
        return Applied(Outcome.CREATED)
    except (AlreadyExists, Invalid) as error:
        try:
            there: Resource | None = await client.get(_kind(item), namespace, name) if primary else None
        except NotFound:
            there = None
        if there is None:
            raise
        cannot = f", and cannot become what the file says: {error.message}" * isinstance(error, Invalid)
        leaves = there.metadata.deletion_timestamp is not None
        raise Taken(f"{written(job, item)} exists already{cannot}. {_instead(name, leaves)}") from error


async def _own(client: Client, done: Sequence[tuple[Item, Applied]]) -> None:
    """Makes the job own its objects: those that are new, and those of an earlier job of its name."""
    owned = [(item, applied.outcome) for item, applied in done if item.owned]
    jobs = [item for item, _ in done if item.role is Role.PRIMARY]
    if not owned or not jobs:
        return
    kind, metadata = _kind(jobs[0]), jobs[0].object["metadata"]
    try:
        job: Resource = await client.get(kind, metadata["namespace"], metadata["name"])
    except NotFound:  # it has been deleted already
        return
    reference = {**owner(job, kind, controller=False), "blockOwnerDeletion": False}
    for item, outcome in owned:
        namespace, name = item.object["metadata"]["namespace"], item.object["metadata"]["name"]
        if outcome is not Outcome.CREATED:
            live = await client.get_json(_kind(item), namespace, name)
            before = live["metadata"].get("ownerReferences") or []
            if not before or any({**each, "uid": ""} != {**reference, "uid": ""} for each in before):
                continue
        await client.patch(_kind(item), namespace, name, {"metadata": {"ownerReferences": [reference]}})


async def _take_back(client: Client, item: Item, applied: Applied) -> None:
    metadata = item.object["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    if applied.outcome is Outcome.CREATED:
        await client.delete(_kind(item), namespace, name)
    elif applied.back:
        await client.patch(_kind(item), namespace, name, applied.back)


def _kind(item: Item) -> Kind[Any]:  # Any: of any kind
    return _BY_NAME[item.object["apiVersion"], item.object["kind"]]


def _job(item: Item) -> Followed:
    kind = _kind(item)
    metadata = item.object["metadata"]
    if kind is POD and (group := groups.named_in(item.object)) is not None:
        return Followed(group.dialect.kind, metadata["namespace"], group.name)
    return Followed(kind, metadata["namespace"], metadata["name"])
