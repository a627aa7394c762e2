"""The recorded runs of a job: from the embedded cluster's history, else from the existing pods."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.times import seconds
from muster.app.records import past
from muster.app.records.past import deleted
from muster.app.views import find
from muster.app.views.job import JobView, State
from muster.app.views.timeline import Now, Timeline, timeline
from muster.app.wiring.cluster import Target, reading
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.storage.history import History
from muster.embedded.storage.store import Store
from muster.workloads.pod_run import PodRun, job_of, run_of


@dataclass(frozen=True, slots=True)
class Record:
    """A job and its runs, in order of creation."""

    name: str
    runs: tuple[PodRun, ...]
    #: when the job was created; None if that is not known
    submitted: float | None = None
    present: Now = Now.ENDED
    #: what preempted its gangs, and when: `status.preemptions` of its Gang objects
    preemptions: tuple[Object, ...] = ()
    #: which of several jobs it is (`Meant`)
    told: str = ""
    #: "" if only the pods of the job are remembered
    queue: str = ""

    def timeline(self, now: float) -> Timeline:
        return timeline(self.runs, self.submitted, now, self.present, self.name)


async def recorded(target: Target, name: str | None) -> Record:
    """The record of the newest job of that name or prefix, even if it has been deleted. Raises UnknownJob."""
    async with reading(target) as client:
        try:
            meant = await past.with_run(client, name, target)
        except find.WithoutRun:
            raise
        except find.UnknownJob:
            gone = _gone(target, name) if target.embedded and name else None
            if gone is None:
                raise
            return gone
    view = meant.view
    if view.deleted is not None:
        found = record(target, view.name, view.namespace, (), view.created)
        return replace(found, told=meant.told, queue=view.queue)
    return replace(of_view(target, view), told=meant.told)


def of_view(target: Target, view: JobView) -> Record:
    """The record of a job that exists."""
    found = record(target, view.name, view.namespace, view.pods, view.created)
    ended = (entry for gang in view.gangs for entry in gang.status.preemptions)
    preemptions = tuple(sorted(ended, key=lambda entry: str(entry["at"])))
    return replace(found, preemptions=preemptions, present=_present(view), queue=view.queue)


def _present(view: JobView) -> Now:
    if view.state.finished:
        return Now.ENDED
    return Now.RUNNING if view.state is State.RUNNING else Now.WAITING


def record(
    target: Target, name: str, namespace: str, pods: Iterable[Pod], created: datetime | None
) -> Record:
    """The recorded runs of a job that was created at that time; its last known pods are `pods`.

    `created`: None if that is not known. Its runs are then those of the last job of that name.
    """
    if created is None:
        named = (view for view in deleted(target, namespace, name) if view.name == name)
        created = max(filter(None, (view.created for view in named)), default=None)
    submitted = seconds(created) if created else None
    if not target.embedded:
        return Record(name, tuple(run_of(pod) for pod in pods if pod.metadata.creation_timestamp), submitted)
    runs = (run for run in _history(namespace, name) if submitted is None or run.created >= submitted)
    return Record(name, tuple(runs), submitted)


def _gone(target: Target, name: str) -> Record | None:
    """The last job of that name or prefix of which only the pods are remembered."""
    own, namespace = find.scoped(name, target.scope)
    runs = _history(namespace, own) or [run for run in _history(namespace) if job_of(run).startswith(own)]
    return record(target, job_of(runs[-1]), runs[-1].namespace, (), None) if runs else None


def _history(namespace: str, job: str = "") -> list[PodRun]:
    """Recorded runs. They can be read while a host runs: the store allows one writer and many readers."""
    path = StateDirectory.of_user().store
    if not path.exists():
        return []
    store = Store.open_read_only(path)
    try:
        return History(store).runs(namespace=namespace, job=job)
    finally:
        store.close()
