"""Submits the objects of a job file to a cluster: all of them, or none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from muster.api.base import Kind, Resource, owner
from muster.api.kinds import BY_NAME, POD, POD_GROUP_SIGS, POD_GROUP_X
from muster.api.membership import pod_groups
from muster.app.commands.follow import Followed
from muster.app.views.observe import observe
from muster.kube.apply import Applied, Outcome, apply, noted
from muster.kube.client import Client
from muster.kube.errors import ApiError, Forbidden, NotFound, Unanswered, Unreachable
from muster.workloads import annotate
from muster.workloads.jobfile import Item, JobFile, Role


@dataclass(frozen=True, slots=True)
class Submitted:
    #: the file's jobs
    jobs: list[Followed]
    #: the outcome for each object, in the file's order
    outcomes: list[tuple[Item, Outcome]]


async def submit(client: Client, job: JobFile, *, new: bool = False) -> Submitted:
    """Creates the objects in order; an existing object is updated to match the file (`kube.apply`).

    If one object is refused, all changes are undone: a file is submitted as a whole or not at all. What was
    created for the file's job alone belongs to it afterwards, and is deleted with it. `new`:
    the file's jobs must not exist; raises AlreadyExists for the first one that does.
    """
    done: list[tuple[Item, Applied]] = []
    try:
        for item in job.items:
            done.append((item, await _hand_in(client, item, new=new)))
        await _own(client, done)
    except (ApiError, Unanswered, Unreachable):
        for item, applied in reversed(done):
            with suppress(ApiError, Unanswered, Unreachable):
                await _take_back(client, item, applied)
        raise
    return Submitted(jobs(job), [(item, applied.outcome) for item, applied in done])


async def never(client: Client, job: JobFile, schedulers: frozenset[str] | None = None) -> list[str]:
    """Why parts of the job could never start on this cluster, and what would help; empty if all could.

    `schedulers`: the schedulers whose pods muster schedules on a real cluster. Nodes can be added to a real
    cluster, so only what cannot be honoured on any nodes is reported there, as far as muster may read the
    cluster.
    """
    from muster.app.plan import fit  # importing it loads the scheduler

    if schedulers is not None:
        try:
            there = await observe(client, fit.SURROUNDINGS[1:])
            return list(fit.invalid(job, there, schedulers).values())
        except Forbidden:
            return []
    cluster = await observe(client, fit.SURROUNDINGS)
    found = fit.misfits(job, cluster=cluster)
    advice = fit.advice(job, cluster) if found else None
    return [*found, f"simulated nodes would do: {advice}"] if advice else found


def jobs(job: JobFile) -> list[Followed]:
    """The jobs of a job file: JobSets, Jobs, and pods by their group."""
    found = [_job(item) for item in job.items if item.role is Role.PRIMARY]
    return list(dict.fromkeys(found))


async def _hand_in(client: Client, item: Item, *, new: bool) -> Applied:
    stated = annotate.stated(item.object)
    if not (new and item.role is Role.PRIMARY):
        return await apply(client, _kind(item), item.object, stated)
    await client.create(_kind(item), item.object["metadata"]["namespace"], noted(item.object, stated))
    return Applied(Outcome.CREATED)


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
    return BY_NAME[item.object["apiVersion"], item.object["kind"]]


def _job(item: Item) -> Followed:
    kind = _kind(item)
    metadata = item.object["metadata"]
    if kind is POD:
        for group, name in pod_groups(metadata.get("labels", {}), metadata.get("annotations", {})):
            of = next(found for found in (POD_GROUP_X, POD_GROUP_SIGS) if found.group == group)
            return Followed(of, metadata["namespace"], name)
    return Followed(kind, metadata["namespace"], metadata["name"])
