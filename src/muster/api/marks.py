"""The keys under `muster.dev`, each a row: where it is read, what its value may be, what to write instead.

Users write most of them, as a label or an annotation; a label wins. They are read nowhere else, so `check`,
the rules of API servers, the scheduler and the controllers cannot disagree about a value.
docs/reference/names.md has a line for each row.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from muster import names
from muster.api import duration, groups, progress, times
from muster.api.base import ObjectMeta, mark
from muster.api.matrix import Matrix
from muster.api.natural import natural

T = TypeVar("T")

#: Values of `muster.dev/on-partial`.
KEEP: Final = "keep"
RECREATE: Final = "recreate"
#: Values of `muster.dev/below-minimum`.
RESTART: Final = "restart"
LEAVE: Final = "leave"
#: Characters of a value that a message shows.
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Mark(Generic[T]):
    key: str
    #: the kinds on which it is read, a pod template being a Pod; () = any
    on: tuple[str, ...]
    #: returns the value of a text; raises ValueError, whose message says what is wrong
    parse: Callable[[str], T]
    #: what to write instead of a wrong value; "" = the message of `parse` says so
    instead: str = ""
    #: the value as docs/reference/names.md shows it
    form: str = ""

    @property
    def examples(self) -> list[str]:
        """Values as `form` shows them."""
        return [each.strip('"') for each in self.form.split("|")]

    def text(self, meta: ObjectMeta) -> str | None:
        """Returns the value as written; None without the mark."""
        return mark(meta, self.key)

    def read(self, meta: ObjectMeta) -> T | None:
        """Returns the value; None without the mark. ValueError: what is wrong, and what to write instead."""
        text = mark(meta, self.key)
        if text is None:
            return None
        try:
            return self.parse(text)
        except ValueError as error:
            said = f" is {text[:_SHOWN]!r}; {self.instead}" if self.instead else f": {error}"
            raise ValueError(f"{self.key}{said}") from None

    def get(self, meta: ObjectMeta) -> T | None:
        """Returns the value; None without the mark, or if the value cannot be read, which others refuse."""
        try:
            return self.read(meta)
        except ValueError:
            return None

    def advice(self, text: str) -> str:
        """Returns what to write instead of this text; "" if it can be read."""
        try:
            self.parse(text)
        except ValueError as error:
            return self.instead or str(error)
        return ""


class Checkpoint(NamedTuple):
    """How often a job saves its work, in seconds, or when it last did so."""

    every: float | None = None
    at: datetime | None = None


def _seconds(text: str) -> float:
    return float(duration.parse(text))


def _up_to(most: float) -> Callable[[str], float]:
    return lambda text: min(_seconds(text), most)


def _matching(pattern: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if re.fullmatch(pattern, text, re.ASCII) is None:
            raise ValueError
        return text

    return parse


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        found = natural(text, most)
        if found is None or found < least:
            raise ValueError
        return found

    return parse


_NAME: Final = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_name: Final = _matching(_NAME)


def _priority(text: str) -> int | str:
    # nine digits stay slightly below the highest and above the lowest priority
    return int(text) if re.fullmatch("-?[0-9]{1,9}", text, re.ASCII) else _name(text)


def _checkpoint(text: str) -> Checkpoint:
    try:
        return Checkpoint(every=_seconds(text) or None)
    except ValueError:
        return Checkpoint(at=times.read(text))


_JOBS: Final = ("Job", "JobSet")
_GROUPED: Final = (*_JOBS, *groups.NAMES_OF_NAMED)
_GANGS: Final = (*_GROUPED, "Pod")
_FLAG: Final = 'write "true" or "false"'

GANG: Final = Mark(names.GANG, (*_JOBS, "Namespace"), _flag, _FLAG, '"true"|"false"')
HOLD: Final = Mark(names.HOLD, _GANGS, _flag, _FLAG, '"true"')
PRIORITY: Final = Mark(
    names.PRIORITY,
    _GANGS,
    _priority,
    "write a number of up to nine digits, or the name of a PriorityClass",
    '"10"',
)
QUEUE: Final = Mark(
    names.QUEUE, _GANGS, _name, "write the name of a queue: lower-case letters, digits, - and ."
)
GPU_SHARE: Final = Mark(
    names.GPU_SHARE, ("Pod",), _number(1, 1000), 'write thousandths of one GPU, "1" to "1000"', '"250"'
)
RUN_TIME: Final = Mark(names.RUN_TIME, _GANGS, _seconds, form="4h")
CHECKPOINT: Final = Mark(
    names.CHECKPOINT,
    _GANGS,
    _checkpoint,
    "write an interval (30m), or when the last one was (2026-01-31T12:00:00Z)",
    "30m",
)
#: A gang may delay its eviction by ten minutes at most to save its work.
CHECKPOINT_GRACE: Final = Mark(names.CHECKPOINT_GRACE, _GANGS, _up_to(600), form="5m")
#: The cost of a restart makes a gang a dearer victim than others by an hour at most.
RESTART_COST: Final = Mark(names.RESTART_COST, _GANGS, _up_to(3600), form="5m")
MIN_RUN_TIME: Final = Mark(names.MIN_RUN_TIME, _GANGS, _seconds, form="1h")
PREEMPTIBLE: Final = Mark(names.PREEMPTIBLE, _GANGS, _flag, _FLAG, '"false"')
ON_GPU_ANOMALY: Final = Mark(
    names.ON_GPU_ANOMALY,
    _GROUPED,
    _matching("notify|checkpointAndMove|none"),
    "write notify, checkpointAndMove or none",
    "notify|checkpointAndMove|none",
)
PROGRESS_RULES: Final = Mark(
    names.PROGRESS_RULES, _GROUPED, progress.rules, form='"stalledAfter=15m action=notify"'
)
DEADLINE: Final = Mark(names.DEADLINE, ("JobSet",), _seconds, form="6h")
RESTART_BUDGET: Final = Mark(
    names.RESTART_BUDGET,
    ("JobSet",),
    _number(0, 999_999_999),
    'write a number of failures, such as "5"',
    '"5"',
)
ON_JOB_FAILURE: Final = Mark(
    names.ON_JOB_FAILURE, ("JobSet",), _matching("stop|continue"), "write stop or continue", "stop|continue"
)
MATRIX: Final = Mark(names.MATRIX, ("JobSet",), Matrix.read)
ON_PARTIAL: Final = Mark(
    names.ON_PARTIAL,
    (*groups.NAMES_OF_NAMED, "Pod"),
    _matching(f"{KEEP}|{RECREATE}"),
    "write keep or recreate",
    "keep|recreate",
)
BELOW_MINIMUM: Final = Mark(
    names.BELOW_MINIMUM,
    groups.NAMES_OF_NAMED,
    _matching(f"{RESTART}|{LEAVE}"),
    "write restart or leave",
    "restart|leave",
)

#: The marks with a value that `check` and the scheduler refuse if it cannot be read.
CHECKED: Final[tuple[Mark[Any], ...]] = (
    *(GANG, HOLD, PRIORITY, QUEUE, GPU_SHARE, RUN_TIME, CHECKPOINT, CHECKPOINT_GRACE, RESTART_COST),
    *(MIN_RUN_TIME, PREEMPTIBLE, ON_GPU_ANOMALY, PROGRESS_RULES, DEADLINE, RESTART_BUDGET, ON_PARTIAL),
    *(ON_JOB_FAILURE, MATRIX, BELOW_MINIMUM),
)
#: The other keys: what one part of muster writes for another, and what is read where nothing is refused.
_OTHERS: Final[dict[tuple[str, ...], dict[str, str]]] = {
    _GANGS: {names.EXCLUSIVE: "LAYER", names.SUBMITTED_FROM: ""},
    _JOBS: {names.ADMISSION: "gang", names.PROGRESS_MOVES: "", names.MOVED: "", names.RETRY_OF: ""},
    ("JobSet",): {
        names.TRAINING: "PyTorch|DeepSpeed|Jax",
        names.TRAINERS: "GROUP,…",
        **dict.fromkeys([names.SHARED_VOLUME, names.FAILURES, names.RUNNING_SINCE, names.TIME_USED], ""),
        **dict.fromkeys([names.COMPILED, names.GRANTED], ""),
    },
    ("Pod",): {
        names.CHECKPOINT_FILE: "FILE",
        names.PROGRESS_FILE: "FILE",
        names.PROGRESS: '"step=1200 loss=0.31"',
        names.PLAN: "<epoch>.<attempt>/<pod set>/<index>",
        names.PRETEND: '"run=30s,exit=1"',
        **dict.fromkeys([names.GPU_DEVICE, names.CHECKPOINT_REQUESTED, names.CALLER], ""),
        **dict.fromkeys([names.PEERS, names.CONFIG_HASH], ""),
    },
    ("Namespace",): {names.AUDIT_UNTIL: "2030-01-31T12:00:00Z", names.SECRET_STORE: ""},
    ("Service",): {names.ALLOWED_CALLERS: ""},
    ("PersistentVolumeClaim",): {names.ALLOWED_CONSUMERS: ""},
    ("Lease",): dict.fromkeys(
        [names.PODS_SEEN, names.CANNOT_READ, names.SUCCESSOR, names.BAD_NODES, names.ADOPTS, names.AWAITS],
        "",
    ),
    ("ValidatingAdmissionPolicy",): {names.LEASE: ""},
    ("ValidatingAdmissionPolicy", "Lease"): {names.SCHEDULES: ""},
    ("Node",): {names.RUNTIME: ""},
    (): {names.EPOCH: ""},
}
#: Every mark by its key.
MARKS: Final[dict[str, Mark[Any]]] = {row.key: row for row in CHECKED} | {
    key: Mark(key, on, str, form=form) for on, keys in _OTHERS.items() for key, form in keys.items()
}
