"""Evaluates the expressions that select devices in a process with limits, so that nothing waits for them.

The library bounds the steps of an expression, but not its memory, and users write expressions. An expression
that takes too long, or ends the process, holds of no device, and its fault says why.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from muster.app.plan.answers import COMMAND, TOGETHER, Answer, Question
from muster.app.worker import MEMORY, Ended, Worker, serve
from muster.translate.devices.selectors import MISSING, Expressions, Facts

log = logging.getLogger(__name__)

#: Seconds for one expression and at most `TOGETHER` devices.
DEADLINE: Final = 10.0


class Selecting:
    """Asks one process after the other; it starts with the first question. One caller at a time."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Worker]] | None = None) -> None:
        self._start = start or (lambda: Worker.started(COMMAND))
        self._worker: Worker | None = None

    async def holds(self, expression: str, devices: Sequence[Facts]) -> Answer:
        """Returns of which devices an expression holds. Raises OSError if no process can be started."""
        found = Answer()
        for first in range(0, max(len(devices), 1), TOGETHER):
            some = await self._asked(Question(expression, [*devices[first : first + TOGETHER]]))
            if some.fault:
                return Answer([False] * len(devices), some.fault)
            found.holds += some.holds
        return found

    async def end(self) -> None:
        """Ends the process. The next question starts another one."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.end()

    async def _asked(self, question: Question) -> Answer:
        """The answer; a process that has ended is replaced and asked once more: others may have ended it."""
        encoded, told = msgspec.msgpack.encode(question), ""
        for _ in range(2):
            if self._worker is None:
                self._worker = await self._start()
            try:
                async with asyncio.timeout(DEADLINE):
                    return msgspec.msgpack.decode(await self._worker.ask(encoded), type=Answer)
            except TimeoutError:
                await self.end()
                return Answer(fault=f"evaluating it took longer than {DEADLINE:.0f} s")
            except (Ended, msgspec.MsgspecError) as error:
                told = f"evaluating it failed: {error}"
                await self.end()
            except asyncio.CancelledError:
                await self.end()
                raise
        log.warning("an expression that selects devices: %s", told)
        return Answer(fault=told)


def answer(question: bytes, by: Expressions | None) -> bytes:
    """Returns the answer to a question, both encoded. `by`: None if the library is missing."""
    if by is None:
        return msgspec.msgpack.encode(Answer(fault=MISSING))
    asked = msgspec.msgpack.decode(question, type=Question)
    try:
        fault = by.fault(asked.expression)
        holds = [not fault and by.holds(asked.expression, each) for each in asked.devices]
    except MemoryError:
        holds, fault = [], f"evaluating it takes more than {MEMORY // 2**20} MiB of memory"
    return msgspec.msgpack.encode(Answer(holds, fault))


def main() -> None:
    """Answers questions from standard input, until that ends."""
    try:
        by = Expressions()
    except ImportError:
        by = None
    serve(lambda question: answer(question, by))


if __name__ == "__main__":
    main()
