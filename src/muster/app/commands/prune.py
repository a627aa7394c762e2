"""Frees the disk of the embedded cluster: finished jobs, the output of pods that are gone, jobs' directories.

The records of jobs and of their pods' runs stay: `list --all` shows them, and `usage` adds them up. They have
bounds of their own (`muster.embedded.storage`).
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from muster.api.times import seconds
from muster.app.commands.cancel import cancel_all
from muster.app.views.job import JobView
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.node.logs import Logs
from muster.embedded.storage.history import History
from muster.embedded.storage.store import Store
from muster.kube.client import Client
from muster.workloads.pod_run import job_of


@dataclass(frozen=True, slots=True)
class Pruned:
    """What `prune` removes, or has removed."""

    #: finished jobs that exist
    jobs: Sequence[JobView]
    #: directories of pods' output
    output: Sequence[Path]
    #: directories that belong to jobs
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
    since = {(view.namespace, view.name): seconds(view.created) for view in staying if view.created}
    if home.store.exists():
        store = Store.open_read_only(home.store)
        try:
            for run in History(store).runs():
                begun = since.get((run.namespace, job_of(run)))
                if begun is not None and run.created >= begun:
                    kept.add(run.uid)
        finally:
            store.close()
    output = [each for each in Logs(home.logs).of_others(kept) if each.changed <= before]
    return Pruned(ended, [each.path for each in output], [], sum(each.bytes for each in output))


def _end(view: JobView) -> float:
    return seconds(view.finished or view.created or datetime.now(UTC))


async def remove(client: Client, what: Pruned) -> None:
    """Removes the jobs, and when their pods are gone the directories."""
    async for _ in cancel_all(client, what.jobs):
        pass
    for path in (*what.output, *what.directories):
        shutil.rmtree(path, ignore_errors=True)
