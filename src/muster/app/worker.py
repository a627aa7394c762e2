"""A process that answers questions which may take long, or much memory, and its end of the pipe.

A question and an answer are each a length (four bytes) and bytes. Before its answer, the process may say how
far it is: such a message has the highest bit of its length set. The process ends with its parent: at the end
of its input, or by an alarm if a question takes longer than its longest time, by which its parent would have
ended it. It is a process of its own, and not a thread, because a thread that answers would hold the
interpreter's lock, and because a process can be ended.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, Self

#: Seconds after which the process ends itself, unless it is served with others.
LONGEST: Final = 60
#: Seconds that the interpreter may take to start.
START: Final = 60.0
#: Bytes of data that the process may have. The chart limits both processes to twice that.
MEMORY: Final = 2**29
#: Bytes of an answer.
MOST: Final = 2**26
#: The bit of a length that tells progress from an answer.
_PROGRESS: Final = 1 << 31
#: NumPy's libraries reserve memory for each thread that they might start.
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Ended(Exception):
    """The process has ended, or was ended, before it answered; the message says how."""


class Worker:
    """A running process, which answers one question at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def started(cls, command: Sequence[str]) -> Self:
        """Starts the process. Raises `Ended` if it does not get ready, and OSError."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for its parent, which ends it
            env={**os.environ, **_ENVIRONMENT},
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(START):
                await worker._read()
        except BaseException as error:
            await worker.end()
            if isinstance(error, TimeoutError):
                raise Ended(f"it did not start within {START:.0f} s") from None
            raise
        return worker

    async def ask(self, question: bytes, progress: Callable[[bytes], None] = lambda said: None) -> bytes:
        """Returns the answer. Raises `Ended`. A worker whose question is cancelled can only be ended.

        `progress` is called with what the process says before its answer.
        """
        assert self._process.stdin is not None
        # How it has ended is read below. uvloop raises RuntimeError for a pipe that it has closed.
        with suppress(BrokenPipeError, ConnectionResetError, RuntimeError):
            self._process.stdin.write(len(question).to_bytes(4) + question)
            await self._process.stdin.drain()
        return await self._read(progress)

    async def end(self) -> None:
        """Ends the process and waits until it is gone."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await asyncio.shield(self._process.wait())

    async def _read(self, progress: Callable[[bytes], None] = lambda said: None) -> bytes:
        assert self._process.stdout is not None
        try:
            while True:
                head = int.from_bytes(await self._process.stdout.readexactly(4))
                length = head & ~_PROGRESS
                if length > MOST:
                    raise Ended(f"its answer would have {length:,} bytes")
                said = await self._process.stdout.readexactly(length)
                if not head & _PROGRESS:
                    return said
                progress(said)
        except asyncio.IncompleteReadError:
            code = await self._process.wait()
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise Ended(f"it ended by {how}") from None


def serve(answer: Callable[[bytes], bytes], *, memory: int = MEMORY, longest: float = LONGEST) -> None:
    """Answers questions from standard input, until that ends: what such a process does.

    `memory`: bytes of data that the process may have. `longest`: seconds for a question.
    """
    serve_telling(lambda question, tell: answer(question), memory=memory, longest=longest)


def serve_telling(
    answer: Callable[[bytes, Callable[[bytes], None]], bytes],
    *,
    memory: int = MEMORY,
    longest: float = LONGEST,
) -> None:
    """As `serve`; what `answer` passes to its second argument is progress."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    with suppress(OSError):  # where memory is short, the kernel ends this process, and not its parent
        Path("/proc/self/oom_score_adj").write_text("500")
    os.nice(5)
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing else may write into the pipe
    _write(stdout, b"")
    while len(head := stdin.read(4)) == 4:
        signal.setitimer(signal.ITIMER_REAL, longest)  # SIGALRM ends the process, also within a library
        _write(stdout, answer(stdin.read(int.from_bytes(head)), lambda said: _write(stdout, said, _PROGRESS)))
        signal.setitimer(signal.ITIMER_REAL, 0)


def _write(stdout: BinaryIO, said: bytes, mark: int = 0) -> None:
    stdout.write((len(said) | mark).to_bytes(4) + said)
    stdout.flush()
