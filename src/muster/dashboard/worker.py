"""The process that answers one question of a viewer (`work.py`): what it does with it."""

import gc
import logging
from collections.abc import Callable

import msgspec

from muster.api.base import Object
from muster.api.fields import UNREADABLE
from muster.app.snapshot import Snapshot
from muster.app.worker import serve_telling
from muster.dashboard import plans, replays
from muster.dashboard.work import MEMORY, PLAN, REPLAY, SPARE, Answer, Planning, Progress, Question, Replaying
from muster.kube.errors import Invalid
from muster.runtime.mirror import WATCHED
from muster.sim.trace import TraceError
from muster.workloads.findings import JobFileError
from muster.workloads.snapshot import Objects

log = logging.getLogger(__name__)


def main() -> None:
    """Answers questions from standard input, until that ends."""
    gc.disable()  # it lives for one question, and objects of a large cluster are looked at in vain
    decoder = msgspec.msgpack.Decoder(Question)
    serve_telling(
        lambda question, tell: msgspec.msgpack.encode(answer(decoder.decode(question), tell)),
        memory=MEMORY,
        longest=max(PLAN, REPLAY) + SPARE,
    )


def answer(question: Question, tell: Callable[[bytes], None]) -> Answer:
    """The values of the page, or what is wrong."""
    try:
        if isinstance(question, Replaying):
            gc.enable()  # a replay makes and forgets jobs for minutes
            return Answer(replays.replayed(question, lambda done: tell(msgspec.msgpack.encode(done))))
        return Answer(_planned(question))
    except (JobFileError, Invalid, TraceError) as error:
        return Answer(problem=str(error))
    except MemoryError:
        return Answer(problem=f"It takes more than {MEMORY >> 20:,} MiB of memory.")
    except UNREADABLE:
        log.exception("a question of a page cannot be answered")
        return Answer(
            problem="An object in the text has a field that is not as its kind has it, or lacks one."
        )


def _planned(asked: Planning) -> Object:
    found = Objects()
    for number, encoded in asked.objects:
        kind = WATCHED[number]
        for each in msgspec.msgpack.decode(encoded, type=list[kind.type]):  # type: ignore[name-defined]
            found.add(kind, each)
    schedulers = None if asked.schedulers is None else frozenset(asked.schedulers)
    there = Snapshot(found, schedulers, now=asked.now, settings=asked.settings)
    return plans.planned(there, asked.text, embedded=asked.embedded)


__all__ = ["Progress", "answer", "main"]

if __name__ == "__main__":
    main()
