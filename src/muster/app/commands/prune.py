"""Frees the disk of the embedded cluster: finished jobs, the output of pods that are gone, jobs' directories.

The records of jobs and of their pods' runs stay: `list --all` shows them, and `usage` adds them up. They have
bounds of their own (`muster.embedded.storage`).
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from muster.api.base import ObjectMeta
from muster.api.times import seconds
from muster.app.commands.cancel import cancel_all
from muster.app.views.job import JobView
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.directories import of_job
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


def found(home: StateDirectory, there: Sequence[JobView], older_than: float, now: float) -> Pruned:
    """What can be removed of jobs that ended more than `older_than` seconds before `now`.

    `there`: all jobs that exist. The output of pods of jobs that stay is kept, also of earlier attempts.
    """
    before = now - older_than
    ended = [view for view in there if view.state.finished and _end(view) <= before]
    gone = {view.resource.metadata.uid for view in ended}
    staying = [view for view in there if view.resource.metadata.uid not in gone]
    kept = {pod.metadata.uid for view in staying for pod in view.pods}
    directories = [path for view in ended for path in _directories(home, view.resource.metadata)]
    since = {(view.namespace, view.name): seconds(view.created) for view in staying if view.created}
    if home.store.exists():
        store = Store.open_read_only(home.store)
        try:
            for job in Past(store).jobs():
                if job.at <= before:
                    directories += _directories(home, decode(job.kind, job.body).metadata)
            for run in History(store).runs():
                begun = since.get((run.namespace, job_of(run)))
                if begun is not None and run.created >= begun:
                    kept.add(run.uid)
        finally:
            store.close()
    output = [each for each in Logs(home.logs).of_others(kept) if each.changed <= before]
    directories = list(dict.fromkeys(directories))
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


async def remove(client: Client, what: Pruned) -> None:
    """Removes the jobs, and when their pods are gone the directories."""
    async for _ in cancel_all(client, what.jobs):
        pass
    for path in (*what.output, *what.directories):
        shutil.rmtree(path, ignore_errors=True)
