"""Two policies on one trace, side by side, for the page Replay: what is asked, computed and kept.

The address of a result has all that was asked. Opened later, it shows the result if that is kept, and can be
asked again. What `muster replay` says of a policy is said here of two: the same figures, the same charts.
"""

import asyncio
import logging
import shlex
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from os.path import isfile
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from muster.api import duration
from muster.api.base import Object
from muster.dashboard.work import Answer, Occupied, Progress, Replaying, Work
from muster.sim import experiment, policies, readers
from muster.sim.metrics import Recorder
from muster.sim.page import pictures
from muster.sim.readers.native import is_journal
from muster.sim.report import Report, compared, headline, left_out
from muster.sim.trace import Survey, Trace, TraceError

#: Results that are kept.
KEPT: Final = 16
#: What of a journal may be replayed, by its name in the address.
SPANS: Final = ("1h", "24h", "7d", "all")
#: The policy of a live scheduler, and what it is compared with, unless others are named.
POLICIES: Final = ("easy", "fcfs")
#: Seconds between two messages about progress.
_OFTEN: Final = 0.2
#: Characters of a path, and of one in a message.
_LONGEST: Final = 4096
_SHOWN: Final = 300
log = logging.getLogger(__name__)


def asked(query: Mapping[str, str], trace: str) -> Replaying:
    """What an address or a form asks for. What it lacks, or has wrong, is as usual, such as `trace`."""
    names = []
    for key, usual in zip(("first", "second"), POLICIES, strict=True):
        name = query.get(key, usual)
        names.append(name if name in policies.POLICIES else usual)
    span = query.get("last", "24h")
    span = span if span in SPANS else "24h"
    first, second = names
    path = query.get("trace", trace)[:_LONGEST].strip()
    return Replaying(path, (first, second), 0 if span == "all" else duration.parse(span))


def address(one: Replaying) -> str:
    """The address of the page that shows it."""
    first, second = one.policies
    return "/replay?" + urlencode(
        {"trace": one.trace, "last": span(one), "first": first, "second": second}, errors="replace"
    )


def span(one: Replaying) -> str:
    """The name of its part of a journal."""
    return next((each for each in SPANS if each != "all" and duration.parse(each) == one.last), "all")


def commands(one: Replaying) -> list[str]:
    """What says the same in a terminal."""
    journal = _is_journal(one)
    options = f" --format journal{f' --last {span(one)}' if one.last else ''}" if journal else ""
    return [f"muster replay {shlex.quote(one.trace)}{options} --policy {name}" for name in one.policies]


@dataclass(slots=True)
class Run:
    """A replay that is computed, or has been."""

    at: float
    progress: Progress | None = None
    answer: Answer | None = None
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)


class Replays:
    """Computes one at a time, and keeps the last results."""

    def __init__(self, work: Work, trace: str = "") -> None:
        """`trace`: the path that the page proposes."""
        self.trace, self._work = trace, work
        self._runs: OrderedDict[Replaying, Run] = OrderedDict()

    @property
    def deadline(self) -> float:
        return self._work.deadline

    def of(self, one: Replaying) -> Run | None:
        return self._runs.get(one)

    @property
    def now(self) -> Replaying | None:
        """What is being computed."""
        return next((one for one, run in self._runs.items() if run.answer is None), None)

    def begin(self, one: Replaying, now: float) -> None:
        """Begins to compute it, unless that is under way. Raises Occupied for another that is."""
        if self.now is not None:
            if self.now != one:
                raise Occupied
            return
        self._runs.pop(one, None)
        run = self._runs[one] = Run(now)
        while len(self._runs) > KEPT:
            self._runs.popitem(last=False)
        run.task = asyncio.create_task(self._compute(one, run))

    async def _compute(self, one: Replaying, run: Run) -> None:
        async def question() -> Replaying:
            return one

        def progress(done: Progress) -> None:
            run.progress = done

        try:
            run.answer = await self._work.ask(question, progress)
        except Exception as error:  # the page says it; the terminal says more
            log.exception("a replay has failed")
            run.answer = Answer(problem=f"The replay has failed: {type(error).__name__}.")
        finally:
            if run.answer is None:  # it was cancelled
                run.answer = Answer(problem="The replay was ended.")


def replayed(one: Replaying, tell: Callable[[Progress], None]) -> Object:
    """The values of the page. Raises TraceError."""
    if not isfile(one.trace):  # unlike Path.is_file, also for what no path can be
        raise TraceError(f"{one.trace[:_SHOWN] or 'the path'}: there is no such file")
    path = Path(one.trace)
    found = readers.open_trace(
        readers.Format.JOURNAL if is_journal(path) else None, [path], last=one.last or inf
    )
    often = _Often(tell)
    surveyed = experiment.prepare(
        experiment.Experiment(found, one.policies[0]), lambda read: often(Progress("", read, 0))
    )
    reports = [_one(found, policy, surveyed, often) for policy in one.policies]
    notes = [
        f"{policy}: {said}"
        for policy, report in zip(one.policies, reports, strict=True)
        for said in left_out(surveyed, report)
    ]
    return {
        "headline": headline(found, surveyed, None, reports[0]),
        "rows": compared(reports[0], reports[1], found.resource),
        "notes": [*dict.fromkeys(notes)],
        "pictures": ["".join(pictures(each, found.resource, found.clock)) for each in reports],
    }


def _one(found: Trace, policy: str, surveyed: Survey, tell: Callable[[Progress], None]) -> Report:
    def turn(done: int, recorder: Recorder | None) -> None:
        settled = recorder.finished + recorder.dropped if recorder is not None else surveyed.jobs
        tell(Progress(policy, settled, surveyed.jobs))

    return experiment.run(experiment.Experiment(found, policy, history=True), surveyed, turn=turn)


class _Often:
    """Tells progress, but not too often."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self._tell, self._next = tell, 0.0

    def __call__(self, progress: Progress) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + _OFTEN
            self._tell(progress)


def _is_journal(one: Replaying) -> bool:
    return isfile(one.trace) and is_journal(Path(one.trace))
