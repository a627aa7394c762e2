"""The process that compiles BatchJobs: what it does with a question."""

import logging
import sys
from typing import Final

import msgspec

from muster.app.wiring.compiling import Answer, Answerer, Question
from muster.app.worker import MEMORY, Worker, serve

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "muster.app.wiring.compile_worker")


async def started() -> Worker:
    """Starts the process. Raises `Ended` if it does not get ready, and OSError."""
    return await Worker.started(COMMAND)


def main() -> None:
    """Answers questions from standard input, until that ends."""
    answerer, decoder = Answerer(), msgspec.msgpack.Decoder(Question)
    serve(lambda question: msgspec.msgpack.encode(_answer(answerer, decoder, question)))


def _answer(answerer: Answerer, decoder: "msgspec.msgpack.Decoder[Question]", question: bytes) -> Answer:
    try:
        return answerer.answer(decoder.decode(question))
    except MemoryError:
        return Answer(undecided=f"compiling it takes more than {MEMORY // 2**20} MiB of memory")
    except Exception as error:  # one job's error must not affect other jobs
        log.exception("a question cannot be answered")
        return Answer(undecided=f"compiling it failed: {type(error).__name__}; muster's log says more")


if __name__ == "__main__":
    main()
