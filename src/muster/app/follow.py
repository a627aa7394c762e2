"""Following the jobs of one file until they end: what their pods print, and how they stand.

A follower watches the objects that make up jobs, works out the jobs' views from them (the same views
that `list` shows), and reads the output of each pod from the moment its container starts. It tells
three things: what is `Printed`, `Stand`s whenever a view changes, and at last `Ended`, after every
line that the pods wrote. Only output whose end does not come is not waited for: `Ended` names its pods.

News are made when they are asked for, so a reader that is slow misses intermediate states, and of a
terminal's output lines (`muster.app.lines`), and is never behind.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind, Resource
from muster.api.core_v1 import Pod
from muster.app.jobs import JobView, Objects, views
from muster.app.lines import Output, Printed
from muster.app.logs import chunks, source_of
from muster.app.pods import label, pod_order
from muster.app.restarts import Restarts
from muster.kube.client import EVERYTHING, Client, LogOptions
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.kube.reflector import Reflector
from muster.local.node.logs import Logs

#: containers whose output is read at one time; the others' stays in their logs until one of these ends
READERS: Final = 256
#: seconds between two looks at a job that changes all the time: at first, doubling, and at most
PACE: Final = (0.005, 0.05)
#: seconds of silence after which no more lines of a job that has ended are waited for
SILENCE: Final = 10.0
#: seconds between two looks at whether the cluster is still there
LOOK: Final = 0.5


@dataclass(frozen=True, slots=True)
class Followed:
    """One job to follow."""

    kind: Kind[Any]  # Any: a job may be of several kinds
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Stand:
    """How the jobs stand now."""

    views: tuple[JobView, ...]
    #: containers whose output is not read yet, for too many others are
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """All jobs have ended: their last views, and every pod that was seen. A deleted job has no view."""

    views: tuple[JobView, ...]
    pods: tuple[Pod, ...]
    #: labels of pods of whose output the end has not come
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is said once: a failure after which a job goes on."""

    text: str


News = Printed | Stand | Note | Ended


async def follow(
    client: Client,
    jobs: Sequence[Followed],
    *,
    only: Callable[[Pod], bool] = lambda pod: True,
    how: LogOptions = EVERYTHING,
    archive: Logs | None = None,
    alive: Callable[[], bool] = lambda: True,
    terminal: bool = False,
) -> AsyncIterator[News]:
    """`only` chooses the pods whose output is read, and `how` what of it.

    A `terminal` is given as many lines as it can take, and those that have not ended. `archive` has the
    output of pods that were gone before it could be asked for. A cluster that does not answer is asked again,
    for as long as it is `alive`; Unreachable is raised once it is not.
    """
    output = Output(terminal=terminal, stamped=how.timestamps)
    reading = _Reading(only, replace(how, follow=True), archive)
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
    """Whose output is read, and how."""

    only: Callable[[Pod], bool]
    how: LogOptions
    archive: Logs | None


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
        self._stand: Stand | None = None  # that has not been told
        self._end: Ended | None = None
        self._news = asyncio.Event()  # there may be some
        self._taken = asyncio.Event()  # there may be room for output
        self._changed = asyncio.Event()  # of an object
        self._seen: dict[str, Pod] = {}  # every pod of the job, by uid, as it was last
        self._readers: dict[tuple[str, str], asyncio.Task[None]] = {}  # by pod and container
        self._fed = 0  # chunks
        self._slots = asyncio.Semaphore(READERS)
        self._unread = 0
        watched = (kinds.JOBSET, kinds.JOB, kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS, kinds.POD, kinds.GANG)
        self._caches: dict[Kind[Any], Reflector[Any]] = {
            watched_kind: Reflector(client, watched_kind, self._note, namespace=namespace)
            for watched_kind in watched
        }

    async def next(self, work: "asyncio.Task[None]") -> News:
        """The next news; or the error that ended the work."""
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
                work.result()  # raises why it ended
                raise RuntimeError("a follower ends with Ended")
            self._news.clear()
            waiting = asyncio.create_task(self._news.wait())
            await asyncio.wait({waiting, work}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(cache.run()) for cache in self._caches.values()]
                beside.append(group.create_task(self._while_alive()))
                await asyncio.gather(*(cache.synced.wait() for cache in self._caches.values()))
                await self._until_ended(group)
                for task in beside:
                    task.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from group  # the first is what went wrong

    async def _while_alive(self) -> None:
        while self._alive():  # noqa: ASYNC110  # of another process there is no event
            await asyncio.sleep(LOOK)
        raise Unreachable("it has stopped")

    async def _until_ended(self, group: asyncio.TaskGroup) -> None:
        told = None
        pace, longest = PACE
        while True:
            self._changed.clear()
            views = self._views()
            for pod in (pod for view in views for pod in view.pods):
                self._seen[pod.metadata.uid] = pod
                for container in _started(pod) if self._reading.only(pod) else ():
                    if (key := (pod.metadata.uid, container)) not in self._readers:
                        self._readers[key] = group.create_task(self._read(pod, container))
            for view in views:
                self._tell_restarts(view)
            if (stand := Stand(views, self._unread)) != told:
                self._stand = told = stand
                self._news.set()
            if all(view.state.finished for view in views) and not self._leaving(len(views)):
                cut = await self._last_lines()
                self._end = Ended(views, tuple(self._seen.values()), cut)
                return
            await self._changed.wait()
            await asyncio.sleep(pace)
            pace = min(pace * 2, longest)

    def _tell_restarts(self, view: JobView) -> None:
        notes = self._restarts.look(view, self._seen.values(), self._caches[kinds.JOB].items)
        self._notes += map(Note, notes)
        if notes:
            self._news.set()

    async def _last_lines(self) -> tuple[str, ...]:
        """Lets the readers come to their ends for as long as lines come, and are taken; who did not?"""
        left, fed = set(self._readers.values()), -1
        while left and (fed != self._fed or self._output.waiting):
            fed = self._fed
            _, left = await asyncio.wait(left, timeout=SILENCE)
        for reader in left:
            reader.cancel()
        cut = [self._seen[uid] for (uid, _), reader in self._readers.items() if reader in left]
        return tuple(dict.fromkeys(label(pod) for pod in sorted(cut, key=pod_order)))

    def _views(self) -> tuple[JobView, ...]:
        """The views of the jobs that are there; one that has been deleted is not."""

        def items(kind: Kind[Any]) -> list[Any]:
            return list(self._caches[kind].items.values())

        groups = [
            (kind, group) for kind in (kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS) for group in items(kind)
        ]
        objects = Objects(items(kinds.JOBSET), items(kinds.JOB), groups, items(kinds.POD), items(kinds.GANG))
        return tuple(
            view for view in views(objects) if Followed(view.kind, view.namespace, view.name) in self._jobs
        )

    def _leaving(self, left: int) -> bool:
        """Whether pods of jobs that have been deleted are still there: they get their grace."""
        there = {pod.metadata.uid for pod in self._caches[kinds.POD].items.values()}
        return left < len(self._jobs) and not there.isdisjoint(self._seen)

    def _note(self, old: Resource | None, new: Resource | None) -> None:
        newest = new or old
        if isinstance(newest, Pod) and newest.metadata.uid in self._seen:
            self._seen[newest.metadata.uid] = newest  # its last state, however short it lasts
        self._changed.set()

    async def _read(self, pod: Pod, container: str) -> None:
        """Passes on all that the container prints, until it ends."""
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
        source = self._output.source(source_of(pod, container))
        written = chunks(self._client, pod, container, self._reading.how, archive=self._reading.archive)
        try:
            with suppress(ApiError, Unanswered, Unreachable):  # the log went with the pod
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


def _started(pod: Pod) -> list[str]:
    """The containers that have run, or do."""
    return [
        status.name
        for status in pod.status.container_statuses
        if status.state.running or status.state.terminated or status.restart_count
    ]
