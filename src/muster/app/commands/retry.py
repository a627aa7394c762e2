"""Runs again what has failed of a job that has ended, as a new job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from muster.api.base import Kind, Object
from muster.api.batch_v1 import Job
from muster.api.indexes import Indexes
from muster.api.jobset_v1alpha2 import JOB_INDEX, JOBSET_UID, REPLICATED_JOB_NAME
from muster.api.kinds import JOB, JOBSET
from muster.api.natural import natural
from muster.api.templates import pod_templates
from muster.app.commands.change import Refused
from muster.app.commands.follow import Followed
from muster.app.commands.submit import Taken
from muster.app.views.job import JobView
from muster.embedded import directories
from muster.kube.apply import noted
from muster.kube.client import Client
from muster.kube.errors import AlreadyExists
from muster.names import CALLER, RETRY_OF
from muster.workloads import annotate
from muster.workloads.jobfile import Source
from muster.workloads.retry import Again, NothingLeft, Retry, again


async def retry(
    client: Client, view: JobView, source: Source, *, home: Path | None = None, directory: str = ""
) -> tuple[Followed, Again]:
    """Creates the retry of the job; returns it, and what it runs.

    `home`: the state directory, of the embedded cluster. `directory`: where its pods run instead of where
    they ran. Raises Refused if the job cannot be retried, Taken if it has been already.
    """
    name, namespace = view.name, view.namespace
    if view.kind not in (JOB, JOBSET):
        raise Refused(f"{name} is a {view.kind.kind}, of which no part can run again; submit its file again")
    if not view.state.finished:
        raise Refused(f"{name} is {view.state.value}; it is retried when it has ended, or requeue it")
    if view.resource.metadata.deletion_timestamp is not None:
        raise Refused(f"{name} is being deleted; submit its file again")
    kind: Kind[Any] = view.kind  # Any: one of two
    live = await client.get_json(kind, namespace, name)
    try:
        made = again(live, await _done(client, view), _environment(live, home))
    except NothingLeft:
        raise Refused(f"everything of {name} has succeeded: there is nothing to retry") from None
    except ValueError as error:
        raise Refused(f"{name} cannot be retried: {error}") from None
    if directory:
        for _, template in pod_templates(made.object):
            _move(template, directory)
    obj = annotate.with_source(made.object, source)
    found = Followed(kind, namespace, obj["metadata"]["name"])
    try:
        await client.create(kind, namespace, noted(obj, annotate.stated(made.object)))
    except AlreadyExists:
        there = await client.get_json(kind, namespace, found.name)
        of = Retry.read((there["metadata"].get("annotations") or {}).get(RETRY_OF))
        if of is not None and of.name == name:
            why = f"{name} has been retried already, as {found.name}; `muster why {found.name}` says more"
        else:
            why = (
                f"{found.name}, as a retry of {name} is called, is another job; cancel it, or submit the file"
            )
        raise Taken(why) from None
    return found, made


async def _done(client: Client, view: JobView) -> Mapping[tuple[str, int], Indexes]:
    """The indexes that have succeeded, by group and index of the Job."""
    if isinstance(view.resource, Job):
        return {("", 0): _succeeded(view.resource)}
    uid = view.resource.metadata.uid
    jobs = (await client.list(JOB, view.namespace)).items
    return {
        (labels.get(REPLICATED_JOB_NAME, ""), natural(labels.get(JOB_INDEX)) or 0): _succeeded(job)
        for job in jobs
        if (labels := job.metadata.labels).get(JOBSET_UID) == uid
        or any(owner.uid == uid for owner in job.metadata.owner_references)
    }


def _succeeded(job: Job) -> Indexes:
    if job.spec.completion_mode == "Indexed":
        return Indexes.salvage(job.status.completed_indexes)
    return Indexes.of(range(job.status.succeeded))


def _environment(live: Object, home: Path | None) -> dict[str, str]:
    """The directory that survives restarts is that of the first job."""
    meta = live["metadata"]
    if home is None or Retry.read((meta.get("annotations") or {}).get(RETRY_OF)) is not None:
        return {}  # a retry has the variable already
    found = directories.checkpoints(home, directories.Named(meta["namespace"], meta["name"], meta["uid"]))
    return {directories.CHECKPOINT_DIR: str(found)} if found is not None else {}


def _move(template: Object, directory: str) -> None:
    """Makes the pods of a template run in another directory."""
    marks = (template.get("metadata") or {}).get("annotations") or {}
    if CALLER not in marks:
        return
    try:
        caller = msgspec.json.decode(marks[CALLER])
    except msgspec.DecodeError:
        return  # the node says what is wrong with it
    if isinstance(caller, dict):
        marks[CALLER] = msgspec.json.encode({**caller, "cwd": directory}).decode()
