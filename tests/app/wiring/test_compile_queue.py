"""Compiling beside the controllers: one job's turn is never another's, and no process outlives its use."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import uvloop
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.app import worker
from muster.app.wiring import compile_queue, compile_worker
from muster.app.wiring.compile_queue import AGAIN, DEADLINE, WAITING, AtOnce, Queue
from muster.app.wiring.compiling import Answer, Context, Job, Policy, Question
from muster.app.worker import Ended, Worker
from muster.compiler.facts import EMBEDDED_FACTS
from muster.kube.clock import SystemClock
from tests.controllers.memory import START
from tests.loop_clock import LoopClock
from tests.patience import PATIENCE
from tests.tiers import sample
from tests.workloads.batch.jobs import small

CONTEXT = Context(EMBEDDED_FACTS)


def job(**spec: Any) -> Job:
    value: Object = yaml.safe_load(small())
    return Job({**value, "spec": {**value["spec"], **spec}}, START)


class Fake:
    """A worker that answers a job with its queue; the queue says how."""

    def __init__(self, started: list["Fake"], asked: list[Question]) -> None:
        started.append(self)
        self.asked, self.ended = asked, False

    async def ask(self, question: bytes) -> bytes:
        assert not self.ended
        read = msgspec.msgpack.decode(question, type=Question)
        self.asked.append(read)
        text = read.text if isinstance(read, Policy) else ""
        if isinstance(read, Job):
            text = str(read.job["spec"].get("queue", ""))
        if isinstance(read, Context) and read.policies:
            [text] = read.policies.values()
        if text == "slow":
            await asyncio.Event().wait()
        if text == "crash":
            raise Ended("it ended by SIGSEGV")
        return msgspec.msgpack.encode(Answer(hash=text, undecided="bad" if text == "bad" else ""))

    async def end(self) -> None:
        self.ended = True


class Asking:
    """A queue in front of fakes, and what its signals tell."""

    def __init__(self) -> None:
        self.started: list[Fake] = []
        self.asked: list[Question] = []
        self.told: list[str] = []
        self.queue = Queue(LoopClock(), self._start)
        for each in (self.queue.compiled, self.queue.judged):
            each.subscribe(lambda keys: self.told.extend(keys or ()))

    async def _start(self) -> Any:  # Any: as a worker
        return Fake(self.started, self.asked)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.queue.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert all(each.ended for each in self.started)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process may take its time: what is too long for a controller is not for a test."""
    monkeypatch.setattr(worker, "START", PATIENCE)
    for bound in ("DEADLINE", "READING"):
        monkeypatch.setattr(compile_queue, bound, PATIENCE)


async def answered(queue: Queue, ask: Callable[[], Answer | None]) -> Answer:
    told = asyncio.Event()
    for each in (queue.compiled, queue.judged):
        each.subscribe(lambda _: told.set())
    async with asyncio.timeout(PATIENCE):
        while (answer := ask()) is None:
            await told.wait()
            told.clear()
        return answer


@pytest.mark.looptime
async def test_an_answer_is_told_and_kept() -> None:
    asking = Asking()
    async with asking.running():
        answer = await answered(asking.queue, lambda: asking.queue.compile("ml/a", CONTEXT, job(queue="x")))
        assert answer.hash == "x"
        assert asking.told == ["ml/a"]
        assert asking.queue.compile("ml/a", CONTEXT, job(queue="x")) == answer
        later = msgspec.structs.replace(job(queue="x"), now=START + AGAIN)
        assert asking.queue.compile("ml/a", CONTEXT, later) == answer, "the time decides nothing by itself"
        assert asking.queue.compile("ml/a", CONTEXT, job(queue="y")) is None
        assert asking.queue.compile("ml/a", Context(EMBEDDED_FACTS, {}), job(queue="x")) is None


@pytest.mark.looptime
@pytest.mark.parametrize(("what", "told"), [("slow", "took longer than 10 s"), ("crash", "SIGSEGV")])
async def test_a_job_without_an_answer_says_so_and_others_go_on(what: str, told: str) -> None:
    asking = Asking()
    async with asking.running():
        bad = partial(asking.queue.compile, "ml/a", CONTEXT, job(queue=what))
        good = job(queue="x")
        assert bad() is None
        assert asking.queue.compile("ml/b", CONTEXT, good) is None
        answer = await answered(asking.queue, bad)
        assert told in answer.undecided
        assert not answer.findings, "a running job is not deleted for lack of time"
        assert (await answered(asking.queue, lambda: asking.queue.compile("ml/b", CONTEXT, good))).hash == "x"
        ended = [each.ended for each in asking.started]
        assert ended == ([True, False] if what == "slow" else [True, True, False])
        assert bad() == answer
        await asyncio.sleep(AGAIN.total_seconds() + DEADLINE)
        assert bad() is None, "it is tried again: a busy machine may have been the reason"


@pytest.mark.looptime
async def test_policies_without_an_answer_are_not_a_jobs_fault() -> None:
    asking = Asking()
    for text, told in (("slow", "reading the CedarPolicies took longer"), ("bad", "bad")):
        context = Context(EMBEDDED_FACTS, {"p": text})
        async with asking.running():
            answer = await answered(asking.queue, partial(asking.queue.compile, "ml/a", context, job()))
            assert told in answer.undecided
    assert not [each for each in asking.asked if isinstance(each, Job)]


@pytest.mark.looptime
async def test_a_policy_that_takes_too_long_is_invalid() -> None:
    asking = Asking()
    async with asking.running():
        answer = await answered(asking.queue, lambda: asking.queue.judge(Policy("p", "slow")))
        assert answer.errors == ["reading it took longer than 30 s; make it smaller"]
        assert asking.told == ["p"]


@given(waiting=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=30))
def test_namespaces_take_turns(waiting: list[tuple[str, int]]) -> None:
    keys = list(dict.fromkeys(f"{namespace}/{number}" for namespace, number in waiting))

    async def order() -> list[str]:
        asking = Asking()
        questions = {key: job(queue=key) for key in keys}
        for key, question in questions.items():
            asking.queue.compile(key, CONTEXT, question)
        async with asking.running():
            for key, question in questions.items():
                await answered(asking.queue, partial(asking.queue.compile, key, CONTEXT, question))
        return [str(each.job["spec"]["queue"]) for each in asking.asked if isinstance(each, Job)]

    asked = asyncio.run(order())
    assert sorted(asked) == sorted(keys)
    for at, one in enumerate(asked):
        passed = [each[0] for each in asked[:at]]
        for other in {each[0] for each in asked[at:]}:
            assert passed.count(one[0]) <= passed.count(other)


async def test_questions_of_one_job_do_not_pile_up() -> None:
    asking = Asking()
    for number in range(100):
        asking.queue.compile("ml/a", CONTEXT, job(queue=str(number)))
    assert len(asking.queue._waiting["ml"]["ml/a"]) == WAITING


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("factory", sample([uvloop.new_event_loop, asyncio.new_event_loop], 1))
def test_a_process_that_is_killed_while_nothing_is_asked_is_replaced(factory: Any) -> None:
    async def killed() -> None:
        queue = Queue(SystemClock())
        running = asyncio.create_task(queue.run())
        for number in range(2):
            answer = await answered(queue, partial(queue.compile, "ml/a", CONTEXT, job(queue=str(number))))
            assert answer.hash
            worker = queue._worker
            assert worker is not None
            os.kill(worker._process.pid, signal.SIGKILL)
            await worker._process.wait()
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(killed())


@pytest.mark.usefixtures("unhurried")
async def test_the_process_answers_as_this_one_does() -> None:
    queue = Queue(LoopClock())
    policies = {"p": 'permit (principal, action == Muster::Action::"DeployImage", resource);'}
    running = asyncio.create_task(queue.run())
    try:
        for context in (CONTEXT, Context(EMBEDDED_FACTS, policies), Context(EMBEDDED_FACTS, {"p": "no"})):
            for asked in (job(), job(queue="x"), job(unknown=1)):
                got = await answered(queue, partial(queue.compile, "ml/a", context, asked))
                assert got == AtOnce().compile("ml/a", context, asked)
        for text in (*policies.values(), "permit ("):
            got = await answered(queue, partial(queue.judge, Policy("p", text)))
            assert got == AtOnce().judge(Policy("p", text))
        last = queue._worker
        assert last is not None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert last._process.returncode == -signal.SIGKILL, "it ends with its owner, and is waited for"


async def _ended(worker: Worker, by: Callable[[Worker], Awaitable[object]]) -> None:
    try:
        await by(worker)
    finally:
        await worker.end()


@pytest.mark.usefixtures("unhurried")
async def test_the_process_has_a_session_of_its_own() -> None:
    """So Ctrl-C at a terminal is for its parent."""

    async def look(worker: Worker) -> None:
        assert os.getsid(worker._process.pid) == worker._process.pid

    await _ended(await compile_worker.started(), look)


@pytest.mark.usefixtures("unhurried")
async def test_an_exception_is_one_questions_answer() -> None:
    async def ask(worker: Worker) -> None:
        for question in (b"\x00", msgspec.msgpack.encode(Job({"spec": []}, START))):
            answer = msgspec.msgpack.decode(await worker.ask(question), type=Answer)
            assert answer.undecided or answer.findings
        policy = msgspec.msgpack.encode(Policy("p", "permit (principal, action, resource);"))
        assert msgspec.msgpack.decode(await worker.ask(policy), type=Answer).permits == 1

    await _ended(await compile_worker.started(), ask)


async def test_a_process_that_does_not_start_says_how_it_ended() -> None:
    with pytest.raises(Ended, match="exit code 3"):
        await Worker.started(("/bin/sh", "-c", "exit 3"))


def test_the_process_ends_with_its_input() -> None:
    ended = subprocess.run(
        compile_worker.COMMAND, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, bytes(4))
