"""Evaluates the expressions by which a snapshot's claims select devices, in a process with limits.

A command waits for the answers, at most `LONGEST` seconds. An expression that takes too long, or ends the
process, holds of no device, and its fault says why. A scheduler asks without waiting (`app/wiring/answers`).
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from muster.translate.devices import Devices
from muster.translate.devices.selectors import Facts

#: What evaluates; each question and each answer is a length (four bytes) and bytes.
COMMAND: Final = (sys.executable, "-P", "-m", "muster.app.wiring.selecting")
#: Devices of one question, at most.
TOGETHER: Final = 1_000
#: Seconds for all questions together.
LONGEST: Final = 20.0


class Question(msgspec.Struct):
    expression: str
    devices: list[Facts]


class Answer(msgspec.Struct):
    """Of which of the devices the expression holds, in their order; if it has a fault: of none."""

    holds: list[bool] = []
    fault: str = ""


def answered(devices: Devices, command: Sequence[str] = COMMAND) -> bool:
    """Answers all questions. False: there are none."""
    open_ = [*_parts(devices.questions())]
    if not open_:
        return False
    until = time.monotonic() + LONGEST
    while open_:
        answers = _answers(open_, max(until - time.monotonic(), 0.0), command)
        for question, answer in zip(open_, answers, strict=False):
            holds = answer.holds or [False] * len(question.devices)
            devices.tell(question.expression, question.devices, holds, answer.fault)
        open_ = open_[len(answers) :]
        if open_:  # the first of these has ended the process, or taken too long
            question, *open_ = open_
            fault = "evaluating it failed, or took too long"
            devices.tell(question.expression, question.devices, [False] * len(question.devices), fault)
    return True


def _parts(questions: Sequence[tuple[str, list[Facts]]]) -> Iterator[Question]:
    for expression, of in questions:
        for first in range(0, max(len(of), 1), TOGETHER):
            yield Question(expression, of[first : first + TOGETHER])


def _answers(questions: Sequence[Question], seconds: float, command: Sequence[str]) -> list[Answer]:
    """Returns the answers to the first of these questions, as far as they came in time."""
    asked = b"".join(_framed(msgspec.msgpack.encode(each)) for each in questions)
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    try:
        found, _ = process.communicate(asked, timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        found, _ = process.communicate()
    answers = []
    _, found = _first(found)  # that the process is ready
    while found:
        answer, found = _first(found)
        if answer:
            answers.append(msgspec.msgpack.decode(answer, type=Answer))
    return answers


def _framed(text: bytes) -> bytes:
    return len(text).to_bytes(4) + text


def _first(text: bytes) -> tuple[bytes, bytes]:
    """Returns the first whole part, and the rest; nothing if it is cut off."""
    end = 4 + int.from_bytes(text[:4])
    return (text[4:end], text[end:]) if len(text) >= end else (b"", b"")
