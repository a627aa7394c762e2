"""Handing a job file's objects to a cluster: all of them, or none."""

from contextlib import suppress

from muster.api.kinds import BY_NAME, POD, POD_GROUP_SIGS, POD_GROUP_X
from muster.api.scheduling import POD_GROUP_LABEL
from muster.app.follow import Followed
from muster.kube.client import Client
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.workloads.jobfile import Item, JobFile, Role


async def submit(client: Client, job: JobFile) -> list[Followed]:
    """Creates the objects in order and returns the jobs among them.

    If one is refused, those before it are deleted again: a file is submitted whole or not at all.
    """
    created: list[Item] = []
    try:
        for item in job.items:
            kind = BY_NAME[item.object["apiVersion"], item.object["kind"]]
            await client.create(kind, item.object["metadata"].get("namespace", ""), item.object)
            created.append(item)
    except (ApiError, Unanswered, Unreachable):
        for item in reversed(created):
            with suppress(ApiError, Unanswered, Unreachable):
                kind = BY_NAME[item.object["apiVersion"], item.object["kind"]]
                metadata = item.object["metadata"]
                await client.delete(kind, metadata.get("namespace", ""), metadata["name"])
        raise
    return jobs(job)


def jobs(job: JobFile) -> list[Followed]:
    """What of a job file counts as a job: JobSets, Jobs, and pods by their group."""
    found = [_job(item) for item in job.items if item.role is Role.PRIMARY]
    return list(dict.fromkeys(found))


def _job(item: Item) -> Followed:
    kind = BY_NAME[item.object["apiVersion"], item.object["kind"]]
    metadata = item.object["metadata"]
    if kind is POD:
        for group in (POD_GROUP_X, POD_GROUP_SIGS):
            if name := metadata.get("labels", {}).get(POD_GROUP_LABEL[group.group]):
                return Followed(group, metadata["namespace"], name)
    return Followed(kind, metadata["namespace"], metadata["name"])
