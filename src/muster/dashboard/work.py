"""Questions of viewers that take long: each is answered in a process with limits, one of a kind at a time.

A plan, or a replay, would hold the interpreter's lock for seconds, in which the pages of all viewers stand
still, and could take any amount of memory. In a process of its own it has at most `MEMORY`, and is ended when
its time is over. A process answers one question, so it leaves nothing behind.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from muster.api.base import Object
from muster.app.snapshot import Settings
from muster.app.worker import Ended, Worker

#: Bytes of data of a process. The chart limits the pod to as much, and the kernel ends the process first.
MEMORY: Final = 2**31
#: Seconds for a plan, and for a replay, from the start of the process.
PLAN: Final = 60.0
REPLAY: Final = 300.0
#: Seconds by which the process ends itself later than its parent would end it.
SPARE: Final = 30.0
COMMAND: Final = (sys.executable, "-P", "-m", "muster.dashboard.worker")


class Planning(msgspec.Struct, tag="plan"):
    """What would happen if `text` were submitted (`plans.py`)."""

    text: str
    embedded: bool
    #: objects of the cluster: the number of their kind in `WATCHED`, and a list of them as msgpack
    objects: list[tuple[int, bytes]]
    #: as `Snapshot` takes them
    schedulers: list[str] | None
    settings: Settings
    now: float


class Replaying(msgspec.Struct, tag="replay", frozen=True):
    """A trace under two policies (`replays.py`)."""

    #: the path of a trace, or of a journal
    trace: str
    policies: tuple[str, str]
    #: of a journal: its last so many seconds; 0 = all
    last: int = 0


Question = Planning | Replaying


class Answer(msgspec.Struct):
    """The values of a page, or what is wrong with the question."""

    values: Object = {}
    problem: str = ""


class Progress(msgspec.Struct):
    """How far a replay is: `done` of `total` under a policy; 0: not known."""

    policy: str
    done: int
    total: int


class Occupied(Exception):
    """Another question of the kind is being answered."""


class Work:
    """Answers questions of a kind, each in a process that is started for it."""

    def __init__(
        self, deadline: float, start: Callable[[], Awaitable[Worker]] = lambda: Worker.started(COMMAND)
    ) -> None:
        self.deadline, self._start = deadline, start
        self._busy = False

    async def ask(
        self,
        question: Callable[[], Awaitable[Question]],
        progress: Callable[[Progress], None] = lambda done: None,
    ) -> Answer:
        """Returns the answer, which may be that there was no time or memory. Raises Occupied.

        `question` is made when it is its turn.
        """
        if self._busy:
            raise Occupied
        self._busy = True
        worker: Worker | None = None
        try:
            async with asyncio.timeout(self.deadline):
                worker = await self._start()
                encoded = msgspec.msgpack.encode(await question())
                read = msgspec.msgpack.Decoder(Progress)
                said = await worker.ask(encoded, lambda told: progress(read.decode(told)))
                return msgspec.msgpack.decode(said, type=Answer)
        except TimeoutError:
            return Answer(problem=f"It takes more than {self.deadline:.0f} s, and was ended.")
        except (Ended, OSError) as error:
            return Answer(problem=f"The process that computes it has failed: {error}.")
        finally:
            self._busy = False
            if worker is not None:
                await worker.end()
