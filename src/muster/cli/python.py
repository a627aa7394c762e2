"""Jobs for Python programs: `muster.submit` and what it returns are the verbs of the command line.

Each call does what its verb does, in a thread that has no event loop, so that a notebook, whose own loop
runs, can call it as well. What the command prints on stderr, the call prints there; what ends the command,
the call raises.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from muster.api.base import Resource
from muster.app.commands.follow import Ended, Followed, Note, StatusChanged, Update, follow
from muster.app.views.failures import failure_code, judged
from muster.app.views.job import JobView, State
from muster.app.views.lines import Printed
from muster.app.views.logs import Line
from muster.app.views.trials import Trial, trials
from muster.app.wiring.cluster import Target, acting, alive, archive, attached, reading
from muster.cli import given
from muster.cli.errors import BAD_INPUT, Failure, failure

if TYPE_CHECKING:
    from typing import ClassVar, Protocol

    class KubernetesModel(Protocol):
        """A model of the official client, such as `V1Job`."""

        openapi_types: ClassVar[Any]  # Any: no types of it are published

    #: What `submit` takes: a path, an object, several, or a model of one.
    Submittable = (
        str | os.PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]] | KubernetesModel | None
    )


__all__ = ["Ended", "Job", "Line", "Note", "Printed", "Result", "StatusChanged", "Trial", "job", "submit"]

T = TypeVar("T")
#: What stands in messages for the file of an object.
OBJECT: Final = "the object"


@dataclass(frozen=True, slots=True)
class Result:
    """How a job stands, or how it has ended."""

    #: `"succeeded"`, `"failed"`, `"cancelled"`; of a job that has not ended `"waiting"`, `"running"`, …
    state: str
    #: what `muster run` exits with; None if the job has not ended
    exit_code: int | None
    #: why it failed or waits; "" if there is nothing to say
    reason: str
    #: the pods or trials, each with its parameters, its exit code, its last report and its result
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Job:
    """A job that was submitted, by `muster.submit` or before.

    Its methods raise `muster.Failure` with what the command would print.
    """

    name: str
    namespace: str
    _uid: str
    _followed: Followed
    _target: Target

    def events(self) -> Generator[Update, None, None]:
        """What happens to the job from now on, until it has ended; the last one is `Ended`.

        `Printed` has lines of the pods, `StatusChanged` the job's state, `Note` a failure after which the
        job goes on. The embedded cluster runs as long as the iterator is used, and as the job does.
        """
        with (
            _attached(self._target) as endpoint,
            closing(_stepped(lambda: self._news(endpoint))) as updates,
        ):
            yield from updates

    def wait(self, timeout: float | None = None) -> Result:
        """Waits until the job has ended, and returns how.

        Args:
            timeout: Seconds. A job that has not ended by then goes on, and TimeoutError is raised.
        """
        ended = None
        with (
            _attached(self._target) as endpoint,
            closing(_stepped(lambda: self._news(endpoint, silent=True), timeout)) as updates,
        ):
            try:
                for ended in updates:  # noqa: B007  # the last one counts
                    pass
            except TimeoutError:
                raise TimeoutError(f"{self.name} has not ended within {timeout} s; it goes on") from None
        return self._result(ended if isinstance(ended, Ended) else None)

    def result(self) -> Result:
        """How the job stands now, or how it has ended."""
        return self._result(None)

    def logs(self) -> list[Line]:
        """The lines that the pods have printed so far, each with its pod, as `muster logs` prints them."""
        from muster.app.records.runs import recorded
        from muster.app.views import find
        from muster.app.views.logs import read, read_archive

        async def lines() -> list[Line]:
            if (kept := archive(self._target)) is not None:
                return [
                    each
                    async for each in read_archive(kept, (await recorded(self._target, self._whole)).runs)
                ]
            async with reading(self._target) as client:
                pods = (await find.with_run(client, self._whole, self._target.scope)).view.pods
                return [each async for each in read(client, pods)]

        return _aside(lambda: asyncio.run(lines()))

    def cancel(self) -> None:
        """Removes the job and stops its pods; returns when they are gone."""
        from muster.app.commands.cancel import cancel_all

        async def end(endpoint: Any) -> None:  # Any: an Endpoint or None
            async with acting(self._target, endpoint) as client:
                async for _ in cancel_all(client, [view]):
                    pass

        view = _aside(lambda: asyncio.run(self._view()))
        if view.deleted is None:
            with _attached(self._target) as endpoint:
                _aside(lambda: asyncio.run(end(endpoint)))

    @property
    def _whole(self) -> str:
        return f"{self.namespace}/{self.name}"

    async def _view(self) -> JobView:
        """The job as it is. Raises Failure if another one has its name."""
        from muster.app.records import past

        async with reading(self._target) as client:
            view = (await past.named(client, self._whole, self._target)).view
        if view.resource.metadata.uid != self._uid:
            raise Failure(f"{self.name} is gone; what has the name now was submitted since", BAD_INPUT)
        return view

    def _result(self, ended: Ended | None) -> Result:
        from muster.app.records.runs import recorded

        async def look() -> Result:
            view = await self._view()
            if ended is not None:
                view = judged(view, ended.pods)
            runs = (await recorded(self._target, self._whole)).runs
            code = 0 if view.state is State.SUCCEEDED else failure_code(view) if view.state.finished else None
            why = ": ".join(filter(None, view.reason)) if view.reason is not None else ""
            return Result(view.state.value, code, why, tuple(trials(view, runs)))

        return _aside(lambda: asyncio.run(look()))

    async def _news(self, endpoint: Any, *, silent: bool = False) -> AsyncGenerator[Update, None]:
        """The news of the job. `endpoint`: an Endpoint, or None (Any: as `attached` yields it)."""
        async with acting(self._target, endpoint) as client:
            updates = follow(
                client,
                [self._followed],
                only=lambda pod: not silent,
                archive=archive(self._target),
                alive=lambda: alive(endpoint),
            )
            try:
                async for each in updates:
                    yield each
            finally:
                await updates.aclose()


def submit(
    job: "Submittable" = None,
    *,
    command: Sequence[str] | None = None,
    gpus: int = 0,
    cpus: str = "",
    memory: str = "",
    count: int = 1,
    gang: bool | None = None,
    name: str = "",
    image: str = "",
    env: Mapping[str, str] | None = None,
    env_file: Sequence[str] = (),
    copy: bool = False,
    notify: str = "",
    queue: str | None = None,
    volumes: Mapping[str, str] | None = None,
    namespace: str | None = None,
    nodes: str = "",
    kubeconfig: str | None = None,
    context: str | None = None,
) -> Job:
    """See `muster.submit`."""
    asked = given.Asked(
        gpus=gpus,
        cpus=cpus,
        memory=memory,
        count=count,
        gang=gang,
        name=name,
        image=image,
        env=[f"{variable}={value}" for variable, value in (env or {}).items()],
        env_file=list(env_file),
        copy_files=copy,
        notify=notify,
        queue=queue,
        volume=[f"{volume}={directory}" for volume, directory in (volumes or {}).items()],
        namespace=namespace,
        nodes=nodes,
        kubeconfig=kubeconfig,
        context=context,
    )

    def act() -> Job:
        from muster.app.commands.submit import jobs
        from muster.cli.submit import hand_in

        what = _given(job, command, asked)
        found = given.work_of(what, asked, jobs=False, command="muster.submit")
        file = found.load()
        if (number := len(jobs(file))) != 1:
            told = f"{what.file} has {number} jobs; muster.submit takes one. `muster submit` takes several"
            raise Failure(told, BAD_INPUT)
        [made] = hand_in(file, found, queue).jobs

        async def uid() -> str:
            async with reading(found.target) as client:
                there: Resource = await client.get(made.kind, made.namespace, made.name)
                return there.metadata.uid

        return Job(made.name, made.namespace, asyncio.run(uid()), made, found.target)

    return _aside(act)


def job(
    name: str | None,
    *,
    namespace: str | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
) -> Job:
    """See `muster.job`."""

    def find() -> Job:
        from muster.app.records import past

        target = Target(kubeconfig, context, namespace)

        async def look() -> JobView:
            async with reading(target) as client:
                return (await past.named(client, name, target)).view

        view = asyncio.run(look())
        followed = Followed(view.kind, view.namespace, view.name)
        return Job(view.name, view.namespace, view.resource.metadata.uid, followed, target)

    return _aside(find)


def _given(job: "Submittable", command: Sequence[str] | None, asked: given.Asked) -> given.Given:
    """What stands for a job file. Raises Failure."""
    from muster.workloads import variables

    env = variables.given(asked.env or (), asked.env_file or (), os.environ)
    if command is not None:
        if job is not None:
            raise Failure("a job and a command are both given; keep one", BAD_INPUT)
        words = tuple(command)
        if isinstance(command, str) or not words or not words[0]:
            raise Failure('command takes a list of words, such as ["python3", "train.py"]', BAD_INPUT)
        return given.of_command(words, asked, env)
    of_commands = {each: getattr(asked, each) for each in ("gpus", "cpus", "memory", "name", "image")}
    of_commands["count"] = asked.count != 1
    if option := next((each for each, value in of_commands.items() if value), ""):
        raise Failure(f"{option} is for a command; the job says it itself", BAD_INPUT)
    if isinstance(job, str | os.PathLike):
        return given.Given(str(os.fspath(job)), None, env, asked.gang)
    objects: Any = job  # Any: of the types of `submit`
    if hasattr(job, "openapi_types"):
        from kubernetes.client import ApiClient  # takes a second to load; its user has loaded it

        plain: Any = ApiClient()  # Any: it has no types
        objects = plain.sanitize_for_serialization(job)
    objects = [objects] if isinstance(objects, Mapping) else objects
    if not isinstance(objects, Sequence) or not objects:
        raise Failure(
            "name a job file, or give an object, a list of objects, or command=[…]: "
            'muster.submit(command=["python3", "train.py"])',
            BAD_INPUT,
        )
    try:
        documents = [msgspec.json.encode(each) for each in objects]
    except (TypeError, ValueError, RecursionError) as error:
        raise Failure(f"{OBJECT} cannot be written as JSON: {error}", BAD_INPUT) from None
    return given.Given(OBJECT, b"\n---\n".join(documents), env, asked.gang, ("",))


def _checked(do: Callable[[], T]) -> T:
    """Calls it. Raises Failure for what ends a command with a message."""
    try:
        return do()
    except Exception as error:
        told = failure(error)
        if told is None or told is error:
            raise
        raise told from error


def _aside(do: Callable[[], T]) -> T:
    """Calls it in a thread without an event loop. Raises Failure, as above."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(_checked(do))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=work, name="muster", daemon=True).start()
    return answer.result()


class _attached:  # a context manager, as `contextmanager` would make
    """The endpoint of the cluster, which stays while the context lasts. Its host may have to start."""

    def __init__(self, target: Target) -> None:
        self._context = attached(target)

    def __enter__(self) -> Any:  # Any: an Endpoint or None
        return _aside(self._context.__enter__)

    def __exit__(self, *_: object) -> None:
        self._context.__exit__(None, None, None)


def _stepped(
    make: Callable[[], AsyncGenerator[T, None]], timeout: float | None = None
) -> Generator[T, None, None]:
    """What an asynchronous generator yields, from a loop in a thread of its own.

    Raises TimeoutError after `timeout` seconds in all.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="muster", daemon=True)
    thread.start()
    updates = make()
    until = None if timeout is None else time.monotonic() + timeout

    async def step() -> tuple[T] | Exception | None:
        try:
            return (await anext(updates),)
        except StopAsyncIteration:
            return None
        except Exception as error:
            return error

    async def end() -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        await updates.aclose()

    try:
        while True:
            left = None if until is None else max(until - time.monotonic(), 0)
            found = asyncio.run_coroutine_threadsafe(step(), loop).result(left)
            if found is None:
                return
            if isinstance(found, Exception):
                raise failure(found) or found
            yield found[0]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
