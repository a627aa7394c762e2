"""What `muster run` does from the submission of a job to its exit code, also if it is interrupted."""

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal, Never

from muster.api.base import controller_of
from muster.api.core_v1 import Pod
from muster.app.commands.cancel import PATIENCE, cancel_all, cancel_unfinished, of_file
from muster.app.commands.follow import LOOK, Ended, Followed, StatusChanged, follow
from muster.app.commands.submit import submit
from muster.app.records import runs
from muster.app.views.failures import failure_code, judged
from muster.app.views.job import JobView, State
from muster.app.views.jobs import views
from muster.app.views.logs import last_lines
from muster.app.views.objects import fetch
from muster.app.wiring.cluster import Target, acting, alive, archive, full_disk
from muster.app.wiring.sending import Address
from muster.app.wiring.state_directory import Endpoint
from muster.cli import jobfile, show, submission
from muster.cli.errors import INTERRUPTED, UNREACHABLE, Failure
from muster.cli.say import say
from muster.cli.screen import Screen
from muster.embedded.node.logs import LEAST_BYTES
from muster.kube.client import Client
from muster.kube.clock import first
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.workloads.jobfile import JobFile, Source

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Runner:
    """Runs one job file; the exit code is the job's."""

    def __init__(
        self,
        job: JobFile,
        target: Target,
        endpoint: Endpoint | None,
        source: Source,
        queue: str | None = None,
        replaced: Sequence[Followed] = (),
        *,
        load: Callable[..., JobFile],
        notify: Address | None = None,
    ) -> None:
        """`queue`: the queue of --queue, if given. `replaced`: the names that the file gives to its jobs.

        `source`: see `app.commands.cancel.of_file`. `load`: see `jobfile.preflight`. `notify`: an address.
        """
        self._notify = notify
        self._source, self._replaced, self._load = source, replaced, load
        self._job, self._target, self._endpoint, self._queue = job, target, endpoint, queue
        self._jobs: list[Followed] = []
        self._pods: dict[Followed, dict[str, Pod]] = {}  # all pods seen of each job, by uid
        self._created: dict[Followed, datetime] = {}
        self._uids: dict[Followed, str] = {}  # "" of jobs that a controller makes
        self._interrupts = 0
        self._interrupted = asyncio.Event()

    async def run(self) -> int:
        """Runs the job and returns its exit code.

        Raises Failure if the job can never start, or if its cluster stops.
        """
        if self._target.embedded:  # the embedded cluster either answers or has stopped, which is reported
            logging.getLogger("muster.kube.reflector").setLevel(logging.ERROR)
        async with acting(self._target, self._endpoint) as client:
            self._job = await jobfile.preflight(client, self._job, self._queue, self._target, self._load)
            await self._replace(client)
            for number in _SIGNALS:  # before, an interruption ends the command: nothing is submitted
                asyncio.get_running_loop().add_signal_handler(number, self._interrupt)
            self._jobs = (await submit(client, self._job, new=True, source=self._source)).jobs
            await submission.have_told(client, self._jobs, self._notify)
            try:
                ended = await self._follow(client)
                ended, others = await self._after(client, ended)
                outputs = await self._last_lines(client, ended)
            except Unreachable as error:
                names = ", ".join(job.name for job in self._jobs)
                raise Failure(
                    f"the cluster cannot be reached: {error}. {names} is not lost: it continues when the "
                    "cluster does (muster up)",
                    UNREACHABLE,
                ) from error
        for number in _SIGNALS:  # what follows only prints
            asyncio.get_running_loop().remove_signal_handler(number)
        show.cut(ended.cut, [job.name for job in self._jobs])
        self._tell_the_end(ended, outputs)
        show.stays(others)
        return self._exit_code(ended)

    async def _after(self, client: Client, ended: Ended) -> tuple[Ended, list[str]]:
        """How the jobs ended, judged by all pods that were seen; and who needs the host still.

        The names are those of other jobs, for which a host stays that would end with this run.
        """
        try:
            namespace = "" if self._target.embedded else self._jobs[0].namespace
            there = {
                Followed(view.kind, view.namespace, view.name): view
                for view in views(await fetch(client, namespace))
            }
        except (ApiError, Unanswered, Unreachable):  # the jobs have ended all the same
            return replace(ended, views=tuple(judged(view, ended.pods) for view in ended.views)), []
        last = (there.get(Followed(view.kind, view.namespace, view.name), view) for view in ended.views)
        final = tuple(
            judged(new if new.state.finished else old, ended.pods)
            for old, new in zip(ended.views, last, strict=True)
        )
        if self._endpoint is None or self._endpoint.stays:
            return replace(ended, views=final), []
        others = (view.name for job, view in there.items() if job not in self._jobs and view.needs_cluster)
        return replace(ended, views=final), list(others)

    async def _last_lines(self, client: Client, ended: Ended) -> dict[str, list[str]]:
        """What the first container that failed printed last, of each job that failed, by its name.

        Nothing of a job of one pod: its output was shown without another's in between.
        """
        return {
            view.name: await last_lines(client, view.verdict.first, archive=archive(self._target))
            for view in ended.views
            if view.state is State.FAILED and view.verdict is not None and view.wanted > 1
        }

    async def _replace(self, client: Client) -> None:
        """Cancels the jobs that the file created before, and waits until their pods are gone."""
        if not self._replaced:
            return
        found = of_file(self._replaced, views(await fetch(client)), self._source)
        replaced = jobfile.agreed(found, "replaced")
        for view in replaced:
            say(f"replacing {view.name} ({view.state.value})", flush=True)
        async for _ in cancel_all(client, replaced):
            pass
        uids = {view.resource.metadata.uid for view in replaced}
        for _ in range(round(PATIENCE / LOOK)):  # what the deleted job owns is collected after it
            if uids.isdisjoint(view.resource.metadata.uid for view in views(await fetch(client))):
                return
            await asyncio.sleep(LOOK)

    async def _follow(self, client: Client) -> Ended:
        """Follows the jobs until they have ended, or until a requested cancellation fails."""
        async with Screen(several=len(self._jobs) > 1) as screen:
            names = ", ".join(job.name for job in self._jobs)
            screen.say(f"{names} · {jobfile.header(self._job)}")
            cancelling = self._cancel_when_interrupted(client, screen)
            try:
                return await first(self._show(client, screen), cancelling, self._watch_disk(screen))
            finally:
                if screen.missing:
                    screen.say(f"lines that were not shown: {self._logs()}{self._kept()}")

    async def _show(self, client: Client, screen: Screen) -> Ended:
        async for news in follow(
            client,
            self._jobs,
            archive=archive(self._target),
            alive=lambda: alive(self._endpoint),
            terminal=screen.terminal,
        ):
            if isinstance(news, Ended):
                return news
            if isinstance(news, StatusChanged):
                self._remember(news.views)
            await screen.show(news)
        raise AssertionError("following a job ends with Ended")

    def _remember(self, seen: Iterable[JobView]) -> None:
        for view in seen:
            job, own = Followed(view.kind, view.namespace, view.name), view.resource
            # a controller makes its job again under the same name
            uid = own.metadata.uid if controller_of(own) is None else ""
            if self._uids.setdefault(job, uid) != uid:
                continue  # submitted since, under the name of a job that is gone
            self._pods.setdefault(job, {}).update((pod.metadata.uid, pod) for pod in view.pods)
            if view.created is not None:
                self._created.setdefault(job, view.created)

    async def _watch_disk(self, screen: Screen) -> Never:
        """Reports that the disk has no room for output, which a host with a full disk cannot even record."""
        was = None
        while True:
            full = full_disk(self._target)
            if full is not None and was is None:
                screen.say(
                    f"note: the disk of {full} is nearly full: pods' output is lost until there is room. The "
                    "last 32 MiB (of a small disk, half) are kept for the state of the jobs"
                )
            elif full is None and was is not None:
                screen.say(f"note: the disk of {was} has free space again")
            was = full
            await asyncio.sleep(LOOK)

    def _interrupt(self) -> None:
        self._interrupts += 1
        self._interrupted.set()

    async def _cancel_when_interrupted(self, client: Client, screen: Screen) -> Ended:
        """Cancels the jobs when interrupted. Returns only if all jobs turn out to have finished."""
        while True:
            await self._interrupted.wait()
            self._interrupted.clear()
            names = ", ".join(job.name for job in self._jobs)
            if self._interrupts > 2:
                raise Failure(f"{names}: no longer waiting; its pods are being stopped", INTERRUPTED)
            if self._interrupts == 1:
                screen.say("cancelling: pods get their grace period; Ctrl-C again kills them at once")
            cancelling = self._cancel(client, at_once=self._interrupts > 1)
            finished: list[JobView] | Literal[True] = await first(cancelling, self._interrupted.wait())
            if finished is not True and len(finished) == len(self._jobs):
                screen.say(f"{names} has finished and is kept; its output is in the logs: {self._logs()}")
                self._remember(finished)
                return Ended(tuple(finished), tuple(pod for job in self._jobs for pod in self._seen(job)))

    async def _cancel(self, client: Client, *, at_once: bool) -> list[JobView]:
        """Cancels the unfinished jobs; returns the jobs that have finished."""
        finished = []
        for job in self._jobs:
            try:
                view = await cancel_unfinished(
                    client, job, self._seen(job), uid=self._uids.get(job, ""), at_once=at_once
                )
            except (ApiError, Unanswered) as error:
                raise Failure(
                    f"{job.name} could not be cancelled: {error}. It may still run; "
                    f"`muster cancel {job.name}` tries again"
                ) from error
            if view is not None:
                finished.append(view)
        return finished

    def _seen(self, job: Followed) -> Collection[Pod]:
        return self._pods.get(job, {}).values()

    def _logs(self) -> str:
        return ", ".join(f"muster logs {job.name}" for job in self._jobs)

    def _kept(self) -> str:
        return f" (the last {LEAST_BYTES // 2**20} MiB of each container)" if self._target.embedded else ""

    def _tell_the_end(self, ended: Ended, outputs: Mapping[str, Sequence[str]]) -> None:
        """Prints how each job ended, and its timeline."""
        views = {(view.kind, view.name): view for view in ended.views}
        for job in self._jobs:
            view = views.get((job.kind, job.name))
            created = view.created if view else self._created.get(job)
            record = runs.record(self._target, job.name, job.namespace, self._seen(job), created)
            name = job.name if len(self._jobs) > 1 else ""
            show.end(name, view, record, outputs.get(job.name, ()))

    def _exit_code(self, ended: Ended) -> int:
        if self._interrupts and len(ended.views) < len(self._jobs):
            return INTERRUPTED
        if len(ended.views) == len(self._jobs) and all(v.state is State.SUCCEEDED for v in ended.views):
            return 0
        failed = next((view for view in ended.views if view.state is State.FAILED), None)
        return failure_code(failed) if failed else 1
