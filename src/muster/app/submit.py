"""Handing a job file's objects to a cluster: all of them, or none."""

from contextlib import suppress
from dataclasses import replace

from muster.api.base import Object
from muster.api.kinds import BY_NAME, NODE, POD, POD_GROUP_SIGS, POD_GROUP_X
from muster.api.membership import pod_groups
from muster.app.follow import Followed
from muster.kube.client import Client
from muster.kube.errors import AlreadyExists, ApiError, Unanswered, Unreachable
from muster.workloads.jobfile import Item, JobFile, Role


async def submit(client: Client, job: JobFile) -> list[Followed]:
    """Creates the objects in order and returns the jobs among them.

    If one is refused, those made before it are deleted again: a file is submitted whole or not at all.
    What a job needs besides (config maps and the like) may be there already and is brought up to date.
    """
    created: list[Item] = []
    try:
        for item in job.items:
            if await _create(client, item):
                created.append(item)
    except (ApiError, Unanswered, Unreachable):
        for item in reversed(created):
            with suppress(ApiError, Unanswered, Unreachable):
                kind = BY_NAME[item.object["apiVersion"], item.object["kind"]]
                metadata = item.object["metadata"]
                await client.delete(kind, metadata.get("namespace", ""), metadata["name"])
        raise
    return jobs(job)


async def never(client: Client, job: JobFile) -> list[str]:
    """Why parts of the job could never start on the cluster's nodes; empty if all could.

    What is cordoned or not ready now need not be so for ever.
    """
    from muster.app import fit  # the scheduler is loaded with it
    from muster.translate.nodes import node_changed

    nodes = (await client.list(NODE)).items
    return list(fit.misfits(job, [replace(node_changed(node), cordoned=False, ready=True) for node in nodes]))


def jobs(job: JobFile) -> list[Followed]:
    """What of a job file counts as a job: JobSets, Jobs, and pods by their group."""
    found = [_job(item) for item in job.items if item.role is Role.PRIMARY]
    return list(dict.fromkeys(found))


async def _create(client: Client, item: Item) -> bool:
    """Whether the object is new."""
    kind = BY_NAME[item.object["apiVersion"], item.object["kind"]]
    metadata = item.object["metadata"]
    namespace = metadata.get("namespace", "")
    try:
        await client.create(kind, namespace, item.object)
    except AlreadyExists:
        if item.role is Role.PRIMARY:
            raise
        content: Object = {key: value for key, value in item.object.items() if key != "status"}
        await client.patch(kind, namespace, metadata["name"], content)
        return False
    return True


def _job(item: Item) -> Followed:
    kind = BY_NAME[item.object["apiVersion"], item.object["kind"]]
    metadata = item.object["metadata"]
    if kind is POD:
        for group, name in pod_groups(metadata.get("labels", {}), metadata.get("annotations", {})):
            of = next(found for found in (POD_GROUP_X, POD_GROUP_SIGS) if found.group == group)
            return Followed(of, metadata["namespace"], name)
    return Followed(kind, metadata["namespace"], metadata["name"])
