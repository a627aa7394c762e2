"""Changes a submitted job: holds it back, requeues it, or changes its priority and queue.

All changes are written to the job's own object, where the scheduler reads them; nothing is stored elsewhere.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from muster import names
from muster.api import kinds
from muster.api.base import Kind, Object, Resource, controller_of
from muster.api.core_v1 import Pod
from muster.api.marks import HOLD, PRIORITY
from muster.api.rules.metadata import labels
from muster.app.views.job import JobView
from muster.effects import Evict
from muster.effects.execute import execute
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import Conflict, NotFound
from muster.translate.priority import SYSTEM

if TYPE_CHECKING:
    from muster.app.snapshot import Snapshot

_OWNERS: Final = (kinds.JOBSET, kinds.JOB)


class Refused(ValueError):
    """The job cannot be changed as requested; the message says why, and what is possible."""


async def hold(client: Client, job: JobView) -> None:
    """Keeps the job from starting. Running pods continue."""
    if job.state.finished:
        raise Refused(f"{job.name} has {job.state.value}; there is nothing to hold back")
    await _mark(client, job, {names.HOLD: "true"})


async def release(client: Client, job: JobView) -> bool:
    """Lets a held job start again. Returns whether it was held."""
    held = any(HOLD.text(bearer.metadata) is not None for bearer in job.bearers)
    if held:
        await _mark(client, job, {names.HOLD: None})
    return held


async def move(client: Client, job: JobView, priority: str | None, queue: str | None) -> str:
    """Sets the job's priority (a number, or a PriorityClass's name) and queue; None keeps the current one.

    Returns how the scheduler lowers the priority that the job has then, as far as muster may read the
    cluster; "" if it does not.
    """
    if job.state.finished:
        raise Refused(f"{job.name} has {job.state.value}; it waits for nothing")
    from muster.app.snapshot import Snapshot  # imported here, so that the other commands do without numpy

    decides = (kinds.PRIORITY_CLASS, *kinds.QUEUES, kinds.RESOURCE_QUOTA)
    snapshot = await Snapshot.observe(client, observed=decides)
    marks: dict[str, str | None] = {}
    if priority is not None:
        _known_priority(priority, snapshot)
        marks[names.PRIORITY] = priority
    if queue is not None:
        known_queue(queue, job.namespace, snapshot)
        marks[names.QUEUE] = queue
    marked = await _mark(client, job, marks)
    if snapshot.unread:
        return ""
    return snapshot.lowered(marked.metadata, job.priority, queue or job.queue)


async def requeue(client: Client, job: JobView, clock: Clock) -> bool:
    """Stops the job's running pods without counting a failure, and requeues it with its old age.

    Returns whether any pod ran. A gang's owner is suspended, as when the gang is preempted, and resumed by
    the scheduler. Other pods are evicted one by one and re-created by their controllers.
    """
    if job.state.finished:
        raise Refused(f"{job.name} has {job.state.value}; submit it again")
    running = [pod for pod in job.pods if pod.spec.node_name and not pod.terminal]
    if not running:
        return False
    if job.kind in _OWNERS and job.gangs and not job.marked:
        if job.managed_by:
            raise Refused(f"{job.name} is left to another controller (spec.managedBy: {job.managed_by})")
        body: Object = {"metadata": {"labels": {names.ADMISSION: "gang"}}, "spec": {"suspend": True}}
        await _patch(client, job.kind, job, job.name, job.resource.metadata.uid, body)
        return True
    lost = sorted(pod.metadata.name for pod in running if controller_of(pod) is None)
    if lost:
        raise Refused(
            f"{job.name}: pod {lost[0]} has no controller, so nothing would re-create it"
            + (f" (nor {len(lost) - 1} others)" if len(lost) > 1 else "")
            + f"; `muster cancel {job.name}` ends it for good"
        )
    leaving = [pod for pod in running if pod.metadata.deletion_timestamp is None]
    await _spare(client, job, leaving)
    await asyncio.gather(*(_evict(client, pod, clock) for pod in leaving))
    return True


async def _spare(client: Client, job: JobView, pods: Iterable[Pod]) -> None:
    """Labels the pods' Jobs as muster's, so that they do not count an end by muster as a failure.

    The label says that each pod is on its own, which already holds for these Jobs.
    """
    owners = {
        (controller.name, controller.uid)
        for pod in pods
        if (controller := controller_of(pod)) and kinds.JOB.matches(controller)
    }
    body: Object = {"metadata": {"labels": {names.GANG: "false"}}}
    await asyncio.gather(*(_patch(client, kinds.JOB, job, *owner, body) for owner in sorted(owners)))


async def _evict(client: Client, pod: Pod, clock: Clock) -> None:
    with suppress(NotFound):  # the pod has just ended
        await execute(client, Evict(pod, "sent back to wait by muster requeue"), clock.now())


def known_queue(queue: str, namespace: str, snapshot: "Snapshot") -> None:
    """Refuses a queue in which nothing of the namespace can ever start."""
    why = snapshot.require(kinds.QUEUE).barred(queue, namespace)
    if why is not None:
        raise Refused(f"--queue {queue}: {why}")


def _known_priority(priority: str, snapshot: "Snapshot") -> None:
    try:
        if isinstance(PRIORITY.parse(priority), int) or priority in SYSTEM:
            return
    except ValueError:
        pass  # no class has such a name
    known = snapshot.require(kinds.PRIORITY_CLASS).objects.items
    classes = {name for kind, _, name in known if kind is kinds.PRIORITY_CLASS}
    if priority not in classes:
        there = f"; known: {', '.join(sorted(classes))}" if classes else ""
        raise Refused(
            f"--priority {priority}: neither a number of up to nine digits nor a PriorityClass{there}"
        )


async def _mark(client: Client, job: JobView, marks: dict[str, str | None]) -> Resource:
    """Sets labels, which take precedence over annotations; returns what has them now.

    A value that no label can hold is set as an annotation. None removes both.
    """
    if job.kind is kinds.VOLCANO_JOB and not job.marked:
        raise Refused(f"{job.name} has no PodGroup yet, which bears this; Volcano's controller makes it")
    held = {key: value for key, value in marks.items() if value is None or not labels({key: value}, ())}
    metadata: Object = {
        "labels": {key: held.get(key) for key in marks},
        "annotations": {key: None if key in held else value for key, value in marks.items()},
    }
    try:
        for kind, bearer in job.marked or ((job.kind, job.resource),):
            name, uid = bearer.metadata.name, bearer.metadata.uid
            written = await _patch(client, kind, job, name, uid, {"metadata": metadata})
    except NotFound:
        if job.kind in _OWNERS or job.kind is kinds.POD:
            raise
        raise Refused(
            f"there is no {job.kind.kind} {job.name} to write it on, its pods only name it"
        ) from None
    return written


async def _patch(
    client: Client, kind: Kind[Any], job: JobView, name: str, uid: str, body: Object
) -> Resource:  # Any: of any kind
    """Patches the object that was seen, and no other that has its name by now. `uid`: "" if it has none."""
    seen = {"uid": uid} if uid else {}
    try:
        patched: Resource = await client.patch(
            kind, job.namespace, name, {**body, "metadata": {**body["metadata"], **seen}}
        )
    except Conflict:
        raise Refused(
            f"{job.name} is gone; the {kind.kind} {name} that is there was submitted since, and is left alone"
        ) from None
    return patched
