"""What is to be told of a job, and what has been: a state machine without a clock, files or a network.

`happened` and `gone` read events from what the cluster says of the job. `heard` adds those that are new, so
an event is told once however often it is seen, and by however many hosts: the state is kept on disk. `due`
gives the next delivery. Events of a job are told in their order, one at a time. An attempt is recorded before
it is made (`begun`), so a host that is killed again and again makes no more than `ATTEMPTS` of one event; its
result follows (`answered`). Only a host that is killed between the two tells an event twice, with one id.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import msgspec

from muster.api.base import condition
from muster.api.muster_v1alpha1 import GPU_HEALTHY, PROGRESSING, Preemption, PreemptionSpec
from muster.api.times import seconds
from muster.app.views.failures import failure_code
from muster.app.views.job import JobView, State
from muster.controllers.preemptions import entries
from muster.kube.clock import back_off

#: Attempts to tell an event.
ATTEMPTS: Final = 8
#: Seconds between two attempts: at first, doubling, and at most.
PACE: Final = (2.0, 60.0)
#: Seconds that an attempt may take.
LIMIT: Final = 10.0
#: Seconds for which an event that is not told yet keeps the host up: longer than all its attempts take.
HOLD: Final = 300.0
#: Events of a job that are told, besides its end: a job may stall, or be evicted, for ever.
MOST: Final = 50
#: Why an event is not told of whose last attempt the result is not known.
_UNKNOWN: Final = "the cluster was stopped during the last attempt"
#: Characters of a message: its author may be a pod.
_LONGEST: Final = 1_000

What = Literal["start", "anomaly", "eviction", "end"]


class Event(msgspec.Struct, frozen=True):
    #: the same however often the event is seen
    key: str
    what: What
    #: seconds since 1970
    at: float
    state: str
    code: str = ""
    message: str = ""
    #: of a job that has ended by itself
    exit_code: int | None = None


class Delivery(msgspec.Struct, frozen=True):
    """An event, and how far it is told."""

    event: Event
    #: when it was seen, in seconds since 1970
    since: float
    #: when the next attempt may be made
    due: float
    attempts: int = 0
    #: told, or given up
    closed: bool = False
    #: why the last attempt failed; "" if it did not
    trouble: str = ""


class Told(msgspec.Struct, frozen=True):
    """What there is to tell of one job, in the order of the events."""

    deliveries: tuple[Delivery, ...] = ()

    @property
    def over(self) -> bool:
        """Whether nothing will be told any more."""
        return self._ended and all(each.closed for each in self.deliveries)

    @property
    def _ended(self) -> bool:
        return bool(self.deliveries) and self.deliveries[-1].event.what == "end"

    def holds(self, now: float) -> bool:
        """Whether a host should stay up to tell something."""
        return any(not each.closed and 0 <= now - each.since < HOLD for each in self.deliveries)

    def heard(self, events: Iterable[Event], now: float) -> "Told":
        """With the events that are new. After the end there are none."""
        found = list(self.deliveries)
        known = {each.event.key for each in found}
        for event in events if not self._ended else ():
            if event.key not in known and (len(found) < MOST or event.what == "end"):
                known.add(event.key)
                found.append(Delivery(event, since=now, due=now))
        return Told(tuple(found))

    def due(self, now: float) -> Delivery | None:
        """What is to be attempted now. A time further ahead than any pause is one of a clock put back."""
        first = next((each for each in self.deliveries if not each.closed), None)
        if first is None or now < first.due <= now + LIMIT + PACE[1]:
            return None
        return first

    def begun(self, key: str, now: float) -> "Told":
        """An attempt is about to be made."""
        return self._with(key, lambda was: _retried(was, was.attempts + 1, now + LIMIT))

    def answered(self, key: str, trouble: str, now: float) -> "Told":
        """The attempt has succeeded (`trouble` is ""), or failed: the last one is given up."""

        def change(was: Delivery) -> Delivery:
            closed = not trouble or was.attempts >= ATTEMPTS
            return msgspec.structs.replace(
                _retried(was, was.attempts, now), closed=closed, trouble=trouble[:_LONGEST]
            )

        return self._with(key, change)

    def resumed(self) -> "Told":
        """As the next host finds it: a last attempt of which no result was recorded is given up."""

        def change(was: Delivery) -> Delivery:
            if was.closed or was.attempts < ATTEMPTS:
                return was
            return msgspec.structs.replace(was, closed=True, trouble=was.trouble or _UNKNOWN)

        return Told(tuple(map(change, self.deliveries)))

    @property
    def given_up(self) -> "Told":
        """Only what was given up."""
        return Told(tuple(each for each in self.deliveries if each.closed and each.trouble))

    def untold(self) -> Iterator[str]:
        """A line for each event that could not be told, or not yet."""
        for each in self.deliveries:
            what = f"{each.event.what} ({each.trouble}"
            if each.trouble and each.closed:
                yield f"--notify: not told: {what}; given up after {each.attempts} attempts)"
            elif each.trouble:
                yield f"--notify: not told yet: {what}; attempt {each.attempts} of {ATTEMPTS})"

    def _with(self, key: str, change: Callable[[Delivery], Delivery]) -> "Told":
        return Told(tuple(change(each) if each.event.key == key else each for each in self.deliveries))


def _retried(was: Delivery, attempts: int, since: float) -> Delivery:
    return msgspec.structs.replace(was, attempts=attempts, due=since + back_off(PACE, attempts - 1))


def happened(view: JobView, now: float) -> Iterator[Event]:
    """The events of a job that exists, as far as it shows them; in the order in which they are told.

    `now`: seconds since 1970, for what has no time of its own.
    """
    state = view.state
    ran = state.finished and view.succeeded + view.failed > 0
    if state is State.RUNNING or ran:
        yield Event("start", "start", now, State.RUNNING.value)
    for gang in view.gangs:
        for each in (condition(gang.status.conditions, name) for name in (PROGRESSING, GPU_HEALTHY)):
            if each is not None and each.status == "False":
                at = seconds(each.last_transition_time) if each.last_transition_time else now
                key = f"anomaly {gang.metadata.uid} {_plain(each.reason)} {each.last_transition_time}"
                yield Event(key, "anomaly", at, state.value, _plain(each.reason), _plain(each.message))
    for gang in view.gangs:
        yield from _evictions(entries(gang), state.value, now)
    if state.finished:
        code, message = view.reason or ("", "")
        exit_code = {State.SUCCEEDED: 0, State.FAILED: failure_code(view)}.get(state)
        at = seconds(view.finished) if view.finished else now
        yield Event("end", "end", at, state.value, _plain(code), _plain(message), exit_code)


def gone(last: JobView | None, records: Iterable[Preemption], created: float, now: float) -> Iterator[Event]:
    """The events of a job that was deleted. `last`: its last state; None if it was not kept.

    `records`: all of its namespace; those since `created`, in seconds since 1970, count.
    """
    if last is not None:
        job = f"{last.kind.kind} {last.name}"
        mine = ((each.metadata.name, each.spec) for each in records if each.spec.job == job)
        since = ((name, spec) for name, spec in mine if spec.at is not None and seconds(spec.at) >= created)
        yield from _evictions(since, State.CANCELLED.value, now)
        if last.state.finished:
            yield from happened(last, now)
            return
    yield Event("end", "end", now, State.CANCELLED.value, "Cancelled", "deleted before it finished")


def _evictions(found: Iterable[tuple[str, PreemptionSpec]], state: str, now: float) -> Iterator[Event]:
    """`found`: by the names of their records, which are the same for a Gang's entry."""
    for name, spec in found:
        lost = f"; lost {spec.gpu_hours_lost} GPU-hours" if spec.gpu_hours_lost else ""
        at = seconds(spec.at) if spec.at is not None else now
        message = f"evicted by {spec.by or 'another gang'}{lost}"
        yield Event(f"eviction {name}", "eviction", at, state, _plain(spec.kind), _plain(message))


def _plain(text: str) -> str:
    """Text from outside, as a line that fits into a variable."""
    return "".join(each if each.isprintable() else " " for each in text[:_LONGEST])
