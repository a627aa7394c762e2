"""Who compiles BatchJobs for the controllers: a queue in front of one process, or this process itself.

A controller asks, and gets what is known at once: `None` until the answer has been computed, which a signal
tells. Namespaces take turns, so the jobs of one delay those of another by one question at most. A question
that takes longer than its time is answered with that, and the process is replaced, as it is if it crashes.
Such an answer holds for `AGAIN`: a busy machine may have been the reason.

Answers are kept in the order of their use, up to `KEPT` bytes, and otherwise computed again.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from muster.app.wiring import compile_worker
from muster.app.wiring.compiling import Answer, Answerer, Context, Job, Policy
from muster.app.worker import Ended, Worker
from muster.compiler.facts import END
from muster.controllers.driver import Signal
from muster.kube.clock import Clock, back_off

log = logging.getLogger(__name__)

#: Seconds for one job.
DEADLINE: Final = 10.0
#: Seconds for reading policies: those of one object, or all. Only administrators write them.
READING: Final = 30.0
#: How long an answer holds that says that there was no time, or a crash.
AGAIN: Final = timedelta(minutes=10)
#: Bytes of answers that are kept.
KEPT: Final = 2**26
#: Questions of one object that wait: a job and the job that its run was compiled from, each before and after
#: its images are known.
WAITING: Final = 4
#: Seconds between two tries to start the process, first and longest.
_START: Final = (1.0, 60.0)


class Compiler(Protocol):
    """Answers what controllers ask about jobs and policies."""

    #: sent with the keys of BatchJobs, and of CedarPolicies, whose answers are known
    compiled: Signal
    judged: Signal

    def compile(self, key: str, context: Context, job: Job) -> Answer | None:
        """The answer about the BatchJob `key`; None = `compiled` tells when it is known."""
        ...

    def judge(self, policy: Policy) -> Answer | None:
        """The answer about a CedarPolicy; None = `judged` tells when it is known."""
        ...

    async def run(self) -> None:
        """Computes answers, until cancelled."""
        ...


class AtOnce:
    """Computes answers when it is asked: for tests, and for programs that wait for one job anyway."""

    def __init__(self) -> None:
        self.compiled, self.judged = Signal(), Signal()
        self._answerer = Answerer()
        self._context: Context | None = None

    def compile(self, key: str, context: Context, job: Job) -> Answer:
        if context is not self._context:
            self._answerer.answer(context)
            self._context = context
        return self._answerer.answer(job)

    def judge(self, policy: Policy) -> Answer:
        return self._answerer.answer(policy)

    async def run(self) -> None:
        await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class _Asked:
    digest: str
    question: Job | Policy
    #: sent first, unless the process has it
    context: "_Encoded | None"
    tell: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Encoded:
    context: Context
    digest: str
    question: bytes


class Queue:
    """Asks one process after the other, each question within `DEADLINE`."""

    def __init__(
        self, clock: Clock, start: Callable[[], Coroutine[Any, Any, Worker]] = compile_worker.started
    ) -> None:
        self.compiled, self.judged = Signal(), Signal()
        self._clock, self._start = clock, start
        #: namespace → key → digest → question; the namespaces that wait are in `_turns`
        self._waiting: dict[str, OrderedDict[str, OrderedDict[str, _Asked]]] = {}
        self._turns: deque[str] = deque()
        self._more = asyncio.Event()
        #: digest → an encoded answer, and until when it holds
        self._answers: OrderedDict[str, tuple[bytes, datetime | None]] = OrderedDict()
        self._size = 0
        self._encoded: _Encoded | None = None
        self._worker: Worker | None = None
        #: digest of the context that the process has, and what is wrong with it
        self._has: tuple[str, Answer] = ("", Answer())

    def compile(self, key: str, context: Context, job: Job) -> Answer | None:
        encoded = self._encode(context)
        timeless = msgspec.msgpack.encode(msgspec.structs.replace(job, now=END), order="sorted")
        digest = hashlib.sha256(encoded.digest.encode() + timeless).hexdigest()
        namespace = key.partition("/")[0]
        return self._answer(namespace, key, digest, job, encoded, lambda: self.compiled.send([key]))

    def judge(self, policy: Policy) -> Answer | None:
        digest = hashlib.sha256(b"policy" + msgspec.msgpack.encode(policy)).hexdigest()
        return self._answer("", policy.name, digest, policy, None, lambda: self.judged.send([policy.name]))

    async def run(self) -> None:
        try:
            while True:
                if not self._turns:
                    self._more.clear()
                    await self._more.wait()
                asked = self._next()
                answer, holds = await self._asked(asked)
                self._keep(asked.digest, msgspec.msgpack.encode(answer), holds)
                asked.tell()
        finally:
            await self._replace()

    def _encode(self, context: Context) -> _Encoded:
        if self._encoded is None or self._encoded.context is not context:
            question = msgspec.msgpack.encode(context)
            self._encoded = _Encoded(context, hashlib.sha256(question).hexdigest(), question)
        return self._encoded

    def _answer(
        self,
        namespace: str,
        key: str,
        digest: str,
        question: Job | Policy,
        context: _Encoded | None,
        tell: Callable[[], None],
    ) -> Answer | None:
        """The answer that is known; otherwise the question waits for its turn."""
        if (known := self._answers.get(digest)) is not None:
            whole, holds = known
            if holds is None or holds > self._clock.now():
                self._answers.move_to_end(digest)
                return msgspec.msgpack.decode(whole, type=Answer)
            self._drop(digest)
        if namespace not in self._waiting:
            self._turns.append(namespace)
        mine = self._waiting.setdefault(namespace, OrderedDict()).setdefault(key, OrderedDict())
        if digest not in mine:
            mine[digest] = _Asked(digest, question, context, tell)
            if len(mine) > WAITING:
                mine.popitem(last=False)
        self._more.set()
        return None

    def _next(self) -> _Asked:
        """Takes the first question of the namespace whose turn it is."""
        namespace = self._turns.popleft()
        keys = self._waiting[namespace]
        key, questions = keys.popitem(last=False)
        _, asked = questions.popitem(last=False)
        if questions:
            keys[key] = questions
        if keys:
            self._turns.append(namespace)
        else:
            del self._waiting[namespace]
        return asked

    async def _asked(self, asked: _Asked) -> tuple[Answer, datetime | None]:
        """The answer of the process, or what kept it from answering, and until when that holds."""
        if asked.context is not None and self._has[0] != asked.context.digest:
            reading = "reading the CedarPolicies"
            said, holds = await self._within(READING, asked.context.question, reading)
            if holds is not None:
                return said, holds
            self._has = asked.context.digest, said
        if asked.context is not None and self._has[1].undecided:
            return self._has[1], None
        question = msgspec.msgpack.encode(asked.question)
        if asked.context is None:
            answer, holds = await self._within(READING, question, "reading it")
            return (answer if holds is None else Answer(errors=[answer.undecided])), holds
        answer, holds = await self._within(DEADLINE, question, "compiling it")
        return answer, holds or answer.until

    async def _within(self, seconds: float, question: bytes, doing: str) -> tuple[Answer, datetime | None]:
        """The answer, and None; or that there is none, and until when this holds.

        A process that has ended is replaced and asked once more: it may have been ended from outside.
        """
        tries = 2
        while tries:
            worker = await self._running()
            try:
                async with asyncio.timeout(seconds):
                    return msgspec.msgpack.decode(await worker.ask(question), type=Answer), None
            except TimeoutError:
                tries, told = 0, f"{doing} took longer than {seconds:.0f} s; make it smaller"
            except (Ended, msgspec.MsgspecError) as error:
                tries, told = tries - 1, f"{doing} failed: {error}"
            await self._replace()
        log.warning("%s", told)
        holds = self._clock.now() + AGAIN
        return Answer(undecided=told, until=holds), holds

    async def _running(self) -> Worker:
        """The process, started if there is none."""
        failures = 0
        while self._worker is None:
            try:
                self._worker = await self._start()
            except (Ended, OSError) as error:
                pause, failures = back_off(_START, failures), failures + 1
                log.error("the compiler cannot be started, again in %.0f s: %s", pause, error)
                await self._clock.sleep(pause)
        return self._worker

    async def _replace(self) -> None:
        """Ends the process. The next question starts another one."""
        worker, self._worker, self._has = self._worker, None, ("", Answer())
        if worker is not None:
            await worker.end()

    def _keep(self, digest: str, answer: bytes, holds: datetime | None) -> None:
        self._drop(digest)
        self._answers[digest] = answer, holds
        self._size += len(answer)
        while self._size > KEPT and len(self._answers) > 1:
            self._drop(next(iter(self._answers)))

    def _drop(self, digest: str) -> None:
        if (known := self._answers.pop(digest, None)) is not None:
            self._size -= len(known[0])
