"""Follows the jobs of one file until they end: the output of their pods, and the jobs' states.

A follower watches the objects that make up jobs and derives the jobs' views from them, the same views that
`list` shows. It reads the output of each pod from the moment its container starts. It yields `Printed` for
output, `StatusChanged` whenever a view changes, `Note` for a failure after which a job continues, and finally
`Ended`, after every line that the pods wrote. The only exception is output that does not end: `Ended` names
its pods.

Updates are made on demand. A slow reader therefore misses intermediate states and, on a terminal, output
lines (`muster.app.views.lines`), but never lags behind.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from muster.api import groups, kinds
from muster.api.base import Kind, Resource
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JobSet
from muster.app.views.job import JobView
from muster.app.views.jobs import views
from muster.app.views.lines import Output, Printed
from muster.app.views.logs import chunks, last_lines, source_of
from muster.app.views.objects import Objects
from muster.app.views.pods import group_of, label, pod_order, statuses
from muster.app.views.restarts import Restarts
from muster.embedded.node.logs import Logs
from muster.kube.client import EVERYTHING, Client, LogOptions
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.kube.informers import Informers

#: containers whose output is read at the same time; the others' stays in their logs until one of these ends
READERS: Final = 256
#: seconds between two evaluations of a job that changes all the time: at first, doubling, and at most
PACE: Final = (0.005, 0.05)
#: seconds of silence after which a job that has ended is not read any further
SILENCE: Final = 10.0
#: seconds between two checks whether the cluster still runs
LOOK: Final = 0.5


@dataclass(frozen=True, slots=True)
class Followed:
    """A job to follow."""

    kind: Kind[Any]  # Any: a job may be of several kinds
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The current state of the jobs."""

    views: tuple[JobView, ...]
    #: containers whose output is not read yet because too many others are read
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """All jobs have ended: their last views, and every pod that was seen. A deleted job has no view."""

    views: tuple[JobView, ...]
    pods: tuple[Pod, ...]
    #: labels of pods whose output has not ended
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """A message that is shown once: a failure after which a job continues."""

    text: str


Update = Printed | StatusChanged | Note | Ended


async def follow(
    client: Client,
    jobs: Sequence[Followed],
    *,
    only: Callable[[Pod], bool] = lambda pod: True,
    how: LogOptions = EVERYTHING,
    archive: Logs | None = None,
    alive: Callable[[], bool] = lambda: True,
    terminal: bool = False,
) -> AsyncGenerator[Update, None]:
    """Yields the news of the jobs until they have ended. Raises Unreachable if the cluster stops.

    `only` selects the pods whose output is read, and `how` the part of it. A `terminal` gets as many lines as
    it can take, and also unfinished lines. `archive` has the output of pods that were gone before it could be
    requested. Requests to a cluster that does not answer are retried for as long as it is `alive`.
    """
    output = Output(terminal=terminal, stamped=how.timestamps)
    reading = _Reading(only, replace(how, follow=True, every_start=True), archive)
    follower = _Follower(client, jobs, reading, alive, output)
    work = asyncio.create_task(follower.run())
    try:
        while True:
            news = await follower.next(work)
            yield news
            if isinstance(news, Ended):
                return
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


@dataclass(frozen=True, slots=True)
class _Reading:
    """The pods whose output is read, and how."""

    only: Callable[[Pod], bool]
    how: LogOptions
    archive: Logs | None


#: The kinds that a follower reads.
WATCHED: Final[tuple[Kind[Any], ...]] = (  # Any: of many kinds
    kinds.JOBSET,
    kinds.JOB,
    *groups.OF_NAMED,
    kinds.POD,
    kinds.GANG,
)


class _Follower:
    def __init__(
        self,
        client: Client,
        jobs: Sequence[Followed],
        reading: _Reading,
        alive: Callable[[], bool],
        output: Output,
    ) -> None:
        self._client, self._jobs, self._reading, self._alive = client, frozenset(jobs), reading, alive
        (namespace,) = {job.namespace for job in jobs}
        self._output = output
        self._notes: deque[Note] = deque()
        self._restarts = Restarts()
        self._stand: StatusChanged | None = None  # not yielded yet
        self._end: Ended | None = None
        self._news = asyncio.Event()  # news may be available
        self._taken = asyncio.Event()  # there may be room for output
        self._changed = asyncio.Event()  # an object changed
        self._seen: dict[str, Pod] = {}  # the last known state of every pod of the job, by uid
        #: by pod, container and start: a real cluster has the output of one start at a time
        self._readers: dict[tuple[str, str, int], asyncio.Task[None]] = {}
        self._fed = 0  # chunks
        self._slots = asyncio.Semaphore(READERS)
        self._unread = 0
        self._informers = Informers(client, namespace=namespace)
        #: a user need not be permitted to list the Jobs of Volcano, and a cluster need not have them
        volcanos = any(job.kind is kinds.VOLCANO_JOB for job in jobs)
        self._watched = (*WATCHED, kinds.VOLCANO_JOB) if volcanos else WATCHED
        for kind in self._watched:
            self._informers[kind].subscribe(self._note)

    async def next(self, work: "asyncio.Task[None]") -> Update:
        """The next news. Raises the error with which the work ended."""
        while True:
            if self._notes:
                return self._notes.popleft()
            if (stand := self._stand) is not None:
                self._stand = None
                return stand
            if (printed := self._output.take()) is not None:
                self._taken.set()
                return printed
            if self._end is not None:
                return self._end
            if work.done():
                work.result()  # raises the error of the work
                raise RuntimeError("a follower ends with Ended")
            self._news.clear()
            waiting = asyncio.create_task(self._news.wait())
            await asyncio.wait({waiting, work}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self._informers.run()), group.create_task(self._while_alive())]
                await self._informers.synced(self._watched)
                await self._until_ended(group)
                for task in beside:
                    task.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from group  # the first one is the cause

    async def _while_alive(self) -> None:
        while self._alive():  # noqa: ASYNC110  # another process offers no event
            await asyncio.sleep(LOOK)
        raise Unreachable("it has stopped")

    async def _until_ended(self, group: asyncio.TaskGroup) -> None:
        told = None
        pace, longest = PACE
        while True:
            self._changed.clear()
            views = self._views()
            shared = _shared_groups(views)
            for pod in (pod for view in views for pod in view.pods):
                self._seen[pod.metadata.uid] = pod
                for container, start in _started(pod) if self._reading.only(pod) else ():
                    key = (pod.metadata.uid, container, 0 if self._reading.archive is not None else start)
                    if key not in self._readers:
                        first = not any(each[:2] == key[:2] for each in self._readers) if start else True
                        how = replace(self._reading.how, every_start=first)
                        source = source_of(pod, container)
                        if group_of(pod) in shared:
                            source = f"{pod.metadata.labels.get(JOBSET_NAME)}/{source}"
                        self._readers[key] = group.create_task(self._read(pod, container, source, how))
            for view in views:
                await self._tell_restarts(view, apart=bool(shared.intersection(map(group_of, view.pods))))
            if (stand := StatusChanged(views, self._unread)) != told:
                self._stand = told = stand
                self._news.set()
            if all(view.state.finished for view in views) and not self._leaving(len(views)):
                cut = await self._last_lines()
                self._end = Ended(views, tuple(self._seen.values()), cut)
                return
            await self._changed.wait()
            await asyncio.sleep(pace)
            pace = min(pace * 2, longest)

    async def _tell_restarts(self, view: JobView, *, apart: bool) -> None:
        """Notes on new failures, with the last lines of the one that made a gang of several pods restart.

        `apart`: whether another job has pods of the same labels.
        """
        jobs = self._informers[kinds.JOB].items
        notes, first = self._restarts.look(view, self._seen.values(), jobs)
        if first is not None and view.wanted > 1:
            lines = await last_lines(self._client, first, archive=self._reading.archive)
            notes += [f"{first.source} printed last:", *(f"  {line}" for line in lines)] if lines else []
        self._notes += [Note(f"{view.name} · {note}" if apart else note) for note in notes]
        if notes:
            self._news.set()

    async def _last_lines(self) -> tuple[str, ...]:
        """Waits for the readers while lines arrive and are taken; returns the labels of unfinished pods."""
        left, fed = set(self._readers.values()), -1
        while left and (fed != self._fed or self._output.waiting):
            fed = self._fed
            _, left = await asyncio.wait(left, timeout=SILENCE)
        for reader in left:
            reader.cancel()
        cut = [self._seen[uid] for (uid, _, _), reader in self._readers.items() if reader in left]
        return tuple(dict.fromkeys(label(pod) for pod in sorted(cut, key=pod_order)))

    def _views(self) -> tuple[JobView, ...]:
        """The views of the jobs that exist; a deleted job has none."""

        def items(kind: Kind[Any]) -> list[Any]:
            return list(self._informers[kind].items.values())

        named = [(kind, group) for kind in groups.OF_NAMED for group in items(kind)]
        volcanos = items(kinds.VOLCANO_JOB) if kinds.VOLCANO_JOB in self._watched else []
        objects = Objects(
            *(items(kinds.JOBSET), items(kinds.JOB), named, items(kinds.POD), items(kinds.GANG)),
            volcano_jobs=volcanos,
        )
        return tuple(
            view for view in views(objects) if Followed(view.kind, view.namespace, view.name) in self._jobs
        )

    def _leaving(self, left: int) -> bool:
        """Whether pods of deleted jobs still exist: they may use their grace period."""
        there = {pod.metadata.uid for pod in self._informers[kinds.POD].items.values()}
        return left < len(self._jobs) and not there.isdisjoint(self._seen)

    def _note(self, old: Resource | None, new: Resource | None) -> None:
        newest = new or old
        if isinstance(newest, Pod) and newest.metadata.uid in self._seen:
            self._seen[newest.metadata.uid] = newest  # its last state, even if it lasts only briefly
        self._changed.set()

    async def _read(self, pod: Pod, container: str, called: str, how: LogOptions) -> None:
        """Passes on everything that the container prints, until it ends."""
        if self._slots.locked():
            self._unread += 1
            self._changed.set()
            try:
                await self._slots.acquire()
            finally:
                self._unread -= 1
                self._changed.set()
        else:
            await self._slots.acquire()
        source = self._output.source(called)
        written = chunks(self._client, pod, container, how, archive=self._reading.archive)
        try:
            with suppress(ApiError, Unanswered, Unreachable):  # the log was deleted with the pod
                async for chunk in written:
                    self._output.feed(source, chunk)
                    self._fed += 1
                    self._news.set()
                    while self._output.full(source):
                        self._taken.clear()
                        await self._taken.wait()
        finally:
            source.end()
            self._news.set()
            self._slots.release()


def _shared_groups(views: Iterable[JobView]) -> set[str]:
    """The groups that several of the JobSets have, so that the labels of their pods are the same."""
    groups = Counter(
        each.name
        for view in views
        if isinstance(view.resource, JobSet)
        for each in view.resource.spec.replicated_jobs
    )
    return {name for name, count in groups.items() if count > 1}


def _started(pod: Pod) -> list[tuple[str, int]]:
    """The containers that run or have run, each with the number of its newest start."""
    return [
        (status.name, status.restart_count)
        for status in statuses(pod)
        if status.state.running or status.state.terminated or status.restart_count
    ]
