"""Frees the disk of the embedded cluster: finished jobs, the output of pods that are gone, jobs' directories.

The records of jobs and of their pods' runs stay: `list --all` shows them, and `usage` adds them up. They have
bounds of their own (`muster.embedded.storage`).
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from muster.api.base import ObjectMeta
from muster.api.times import seconds
from muster.app.commands.cancel import Replaced, cancel_all
from muster.app.views.job import JobView
from muster.app.views.jobs import views
from muster.app.views.objects import Objects, fetch
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.directories import Used, of_job
from muster.embedded.directories import job_of as owner_of
from muster.embedded.node.logs import Logs
from muster.embedded.storage.history import History
from muster.embedded.storage.past import Past
from muster.embedded.storage.store import Store
from muster.kube.client import Client
from muster.kube.decode import decode
from muster.names import SUBMITTED_FROM
from muster.workloads.jobfile import Source
from muster.workloads.pod_run import job_of


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `prune` removes, or has removed."""

    #: finished jobs that exist
    jobs: Sequence[JobView]
    #: directories of pods' output
    output: Sequence[Path]
    #: checkpoints of jobs, and copies of the code that they ran from
    directories: Sequence[Path]
    #: what the directories take on the disk
    bytes: int

    def __bool__(self) -> bool:
        return bool(self.jobs or self.output or self.directories)

    def after(self, freed: "Pruned") -> "Pruned":
        """What was removed in all, if the directories of `freed` were removed before."""
        output, directories = [*freed.output, *self.output], [*freed.directories, *self.directories]
        return Pruned(self.jobs, output, directories, freed.bytes + self.bytes)


def found(
    home: StateDirectory, there: Objects, older_than: float, now: float, among: Pruned | None = None
) -> Pruned:
    """What can be removed of jobs that ended more than `older_than` seconds before `now`.

    `there`: all that exists. Nothing of jobs that stay is removed: neither the output of their pods, also of
    earlier attempts, nor the directories of a job that they retry; nor what a pod that runs uses. `among`:
    no more than this, found before.
    """
    before = now - older_than
    seen = None if among is None else {view.which for view in among.jobs}
    ended, staying = list[JobView](), list[JobView]()
    for view in views(there):
        goes = view.state.finished and _end(view) <= before and (seen is None or view.which in seen)
        (ended if goes else staying).append(view)
    living = [*(pod for view in staying for pod in view.pods), *(p for p in there.pods if not p.terminal)]
    kept = {pod.metadata.uid for pod in living}
    using = [(owner_of(pod).uid, pod.metadata.annotations) for pod in living]
    running = {uid for uid, _ in using}
    of_ended = [view for view in ended if view.resource.metadata.uid in running]
    metas = [view.resource.metadata for view in (*staying, *of_ended)]
    using += [(meta.uid, meta.annotations) for meta in metas]
    directories = [path for view in ended for path in _directories(home, view.resource.metadata)]
    since = {(view.namespace, view.name): seconds(view.created) for view in staying if view.created}
    if home.store.exists():
        store = Store.open_read_only(home.store)
        try:
            for job in Past(store).jobs():
                if job.at <= before and job.meta.uid not in running:
                    directories += _directories(home, decode(job.kind, job.body).metadata)
                else:
                    using.append((job.meta.uid, job.meta.annotations))
            for run in History(store).runs():
                begun = since.get((run.namespace, job_of(run)))
                if begun is not None and run.created >= begun:
                    kept.add(run.uid)
        finally:
            store.close()
    output = [each for each in Logs(home.logs).of_others(kept) if each.changed <= before]
    used = Used.by(using)
    directories = [path for path in dict.fromkeys(directories) if not used.holds(path)]
    if among is not None:
        output = [each for each in output if each.path in among.output]
        directories = [path for path in directories if path in among.directories]
    size = sum(each.bytes for each in output) + sum(map(_size, directories))
    return Pruned(ended, [each.path for each in output], directories, size)


def _directories(home: StateDirectory, meta: ObjectMeta) -> list[Path]:
    """A job's checkpoints, and the copy of the code that it ran from."""
    source = Source.read(meta.annotations.get(SUBMITTED_FROM))
    return of_job(home.root, meta, source.copy if source is not None else "")


def _size(directory: Path) -> int:
    files = (path.lstat() for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(each.st_size for each in files)


def _end(view: JobView) -> float:
    return seconds(view.finished or view.created or datetime.now(UTC))


async def remove(
    client: Client,
    home: StateDirectory,
    what: Pruned,
    older_than: float,
    now: float,
    *,
    directories_only: bool = False,
) -> Pruned:
    """Removes what is still to be removed of `what`: the jobs, and when their pods are gone the directories.

    Returns what that was: jobs may have been submitted or retried since, say while the user was asked.
    `directories_only`: for a full disk, on which the removal of a job's record needs space first.
    """
    what = found(home, await fetch(client), older_than, now, what)
    if directories_only:
        home.give_up_reserve()
    else:
        with suppress(Replaced):  # what has its name now is none of these
            async for _ in cancel_all(client, what.jobs):
                pass
    for path in (*what.output, *what.directories):
        shutil.rmtree(path, ignore_errors=True)
    return what
