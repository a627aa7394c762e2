"""Who failed first, and what followed: the verdict on a job, computed here for all that show one.

A failure is the end of a container that failed by itself: not one that was stopped with its pod, nor one
whose pod muster ended, whatever the exit code. A container that starts again in place leaves its failure in
`lastState`; each counts once. A pod that failed without a failed container is a failure, too, and so is one
that its node ended as a whole, such as an evicted one: what its containers exit with then says nothing.

The verdict names the first failure within the last attempt that had any. Failures that ended their pods come
before those after which a container started again; of the latter the container that failed most often is
first, since it used up what the job allows. Times that differ by less than their clocks resolve do not order
failures: then the one with the rarer exit code is first, because peers of a lost member all fail alike.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from muster.api.base import deletion_asked, explained, is_true
from muster.api.core_v1 import ContainerStatus, Pod, Terminated
from muster.api.jobset_v1alpha2 import RESTART_ATTEMPT
from muster.api.natural import natural
from muster.api.pod_label import pod_label
from muster.api.times import bounded, seconds
from muster.names import PREEMPTED

#: What times of ends resolve: of the embedded cluster, whose wrappers may have to wait on a loaded machine
#: before they record an end, and of API servers.
RESOLUTION: Final = timedelta(milliseconds=100)
WHOLE_SECONDS: Final = timedelta(seconds=1)
#: Pods whose ends are further apart have not failed together.
_AT_ONCE: Final = timedelta(seconds=1)
#: Exit codes that a verdict names at most.
CODES: Final = 3
#: Reasons of pods that a node has ended as a whole, the exit codes of containers that it has killed, and how
#: long an evicted one may take to end.
_ENDED: Final = frozenset(("Evicted", "DeadlineExceeded", "Preempting", "NodeShutdown", "Terminated"))
_KILLED: Final = (137, 143)
_GRACE: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure. Equal uid, container and time mean the same failure."""

    namespace: str
    pod: str
    uid: str
    #: `worker-2-0`
    label: str
    node: str
    #: "" if the pod failed as a whole
    container: str
    #: whether the pod has other containers
    several: bool
    #: None if no container failed
    code: int | None
    #: what is known beyond the code, or the reason if there is no code
    why: str
    at: datetime | None
    attempt: int = 0
    #: how often the container has failed so far if it starts again in place; 0 if it does not
    times: int = 0
    #: which start of the container it was, from 0
    start: int = 0

    @property
    def source(self) -> str:
        """The label, with the container if it is not the only one: as its output is labelled."""
        return f"{self.label}/{self.container}" if self.container and self.several else self.label


@dataclass(frozen=True, slots=True)
class Verdict:
    """What failed first, and what failed after it."""

    first: Failure
    #: of the failures of other pods: how many have each exit code (None: no container failed)
    others: Sequence[tuple[int | None, int]] = ()
    #: time between the first failure and the next; None if it is not known
    later: timedelta | None = None
    #: whether `later` is below what the clocks resolve, so that the order is a guess
    unordered: bool = False
    #: whether the others failed over more than `_AT_ONCE`, so that `later` is that of the next one only
    spread: bool = False

    @property
    def code(self) -> int:
        """The exit code that stands for the whole job."""
        return self.first.code or 1

    def __str__(self) -> str:
        """`worker-2-0 exited with code 17 on n1; 3 others with code 1, 12 ms later`."""
        return self._text(self.first.source)

    @property
    def exact(self) -> str:
        """The same with the names of the objects, for those who read them in the API server."""
        container = f", container {self.first.container}," if self.first.container else ""
        return self._text(f"pod {self.first.pod}{container}")

    def _text(self, who: str) -> str:
        first = self.first
        node = f" on {first.node}" if first.node else ""
        if first.code is None:
            text = f"{who} failed{node}" + (f": {first.why}" if first.why else "")
        else:
            times = f", {first.times} times" if first.times > 1 else ""
            text = f"{who} exited with code {first.code}{node}{times}"
        return f"{text}; {self._others()}" if self.others else text

    def _others(self) -> str:
        total = sum(count for _, count in self.others)
        codes = [str(code) for code, _ in self.others if code is not None]
        named = ", ".join(codes[:CODES]) + (", …" if len(codes) > CODES else "")
        said = f"{total} {'other' if total == 1 else 'others'}" + (
            f" with {'code' if len(codes) == 1 else 'codes'} {named}" if codes else ""
        )
        if self.later is None:
            return said
        said += ", the next" if self.spread else ","
        if self.unordered:
            at = self.first.at
            whole = self.later == timedelta() and at is not None and at.microsecond == 0
            span = "second" if whole else _span(self.later)
            return f"{said} within the same {span}, so the order is not certain"
        return f"{said} {_span(self.later)} later"


def failures(pod: Pod) -> list[Failure]:
    """All failures that the pod's status still has, of each container the older first."""
    if is_true(pod.status.conditions, PREEMPTED):
        return []
    found = []
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    statuses = [*pod.status.init_container_statuses, *pod.status.container_statuses]
    over = pod.terminal or all(status.state.terminated for status in pod.status.container_statuses)
    ends = [status.state.terminated.finished_at for status in statuses if status.state.terminated]
    latest = max(filter(None, ends), default=None)
    whole = pod.status.phase == "Failed" and pod.status.reason in _ENDED
    for status in statuses:
        last, now = status.last_state.terminated, status.state.terminated
        for start, end in _ends(status):
            # after what `lastState` has, the container was to start again: it was not stopped with its pod
            if not end.exit_code or (end != last and _after_deletion(pod, end)):
                continue
            ended = pod.terminal and end is now and now != last  # the container does not start again
            if over and end is now and status.name in sidecars:
                continue  # it was stopped after the other containers
            if whole and end is now and _ended_with(latest, end):
                continue
            again = not ended and (pod.spec.restart_policy != "Never" or status.name in sidecars)
            why = end.message or ("" if end.reason in ("Error", "") else end.reason) or _of_pod(pod)
            failure = _failure(pod, end.exit_code, why, end.finished_at)
            found.append(
                replace(
                    failure,
                    container=status.name,
                    several=len(statuses) > 1,
                    start=start,
                    times=start + 1 if again else 0,
                )
            )
    if (whole or not found) and pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is None:
        found.append(_failure(pod, None, _of_pod(pod), latest))
    return found


def last_failures(pod: Pod) -> list[Failure]:
    """The newest failure of each container that has failed, unless the pod succeeded all the same."""
    if pod.status.phase == "Succeeded":
        return []
    return list({failure.container: failure for failure in failures(pod)}.values())


def verdict(found: Iterable[Failure]) -> Verdict | None:
    """The verdict on these failures; None if there are none."""
    every = list(found)
    if not every:
        return None
    last = max(failure.attempt for failure in every)
    mine = sorted((failure for failure in every if failure.attempt == last), key=_order)
    rank = mine[0].times
    close = [each for each in mine if each.times == rank and _too_close(mine[0], each)]
    counts = Counter(each.code for each in close)
    first = min(close, key=lambda each: (counts[each.code], *_order(each)))
    alike = (each for each in reversed(mine) if (each.times > 0) == (rank > 0) and each.uid != first.uid)
    others = list({each.uid: each for each in alike}.values())[::-1]
    if not others:
        return Verdict(first)
    codes = Counter(each.code for each in others).most_common()
    if rank:  # of a container that starts again only its newest failure is known
        return Verdict(first, codes)
    times = [each.at for each in others if each.at is not None]
    later = abs(min(times) - first.at) if times and first.at is not None else None
    unordered = any(_too_close(first, each) for each in others)
    spread = bool(times) and max(times) - min(times) > _AT_ONCE
    return Verdict(first, codes, later, unordered, spread)


#: Words between what a message says and the verdict with which it ends.
_CAUSE: Final = re.compile(
    r": pod \S+(, container \S+,)? (exited|failed).*\Z|( \(first failed job: \S+\))\Z", re.DOTALL
)


def without_verdict(message: str) -> str:
    """The message of a condition without the verdict that it ends with (`Verdict.exact`)."""
    return _CAUSE.sub("", message)


def _failure(pod: Pod, code: int | None, why: str, at: datetime | None) -> Failure:
    meta = pod.metadata
    return Failure(
        namespace=meta.namespace,
        pod=meta.name,
        uid=meta.uid,
        label=pod_label(meta),
        node=pod.spec.node_name,
        container="",
        several=False,
        code=code,
        why=why,
        at=bounded(at) if at is not None else None,
        attempt=natural(meta.labels.get(RESTART_ATTEMPT)) or 0,
    )


def _ends(status: ContainerStatus) -> list[tuple[int, Terminated]]:
    """The ends of the container that its status has, each with the number of the start that ended, from 0.

    While a container waits to start again, its last state is the end of its newest start.
    """
    last, now = status.last_state.terminated, status.state.terminated
    waits = status.state.waiting is not None
    ends = [] if last is None or last == now else [(max(0, status.restart_count - 1 + waits), last)]
    return ends + ([(status.restart_count, now)] if now is not None else [])


def _after_deletion(pod: Pod, end: Terminated) -> bool:
    asked = deletion_asked(pod.metadata)
    return asked is not None and (end.finished_at is None or end.finished_at >= asked)


def _ended_with(latest: datetime | None, end: Terminated) -> bool:
    """Whether a container has ended with its pod, whose last container ended at this time."""
    at = end.finished_at
    return end.exit_code in _KILLED or (latest is not None and at is not None and latest - at <= _GRACE)


def _of_pod(pod: Pod) -> str:
    return explained(pod.status.reason, pod.status.message)


def _order(failure: Failure) -> tuple[bool, int, bool, float, str, str, int]:
    at = failure.at
    return (
        failure.times > 0,
        -failure.times,
        at is None,
        seconds(at),
        failure.pod,
        failure.container,
        failure.code or 0,
    )


def _too_close(one: Failure, other: Failure) -> bool:
    """Whether the times of both do not tell which was first."""
    if one.at is None or other.at is None:
        return one.at is other.at
    between = abs(one.at - other.at)
    if one.at.microsecond == 0 and other.at.microsecond == 0:
        return between < WHOLE_SECONDS
    return between < RESOLUTION


def _span(time: timedelta) -> str:
    """`12 ms`, `1.4 s`, `3 min`, `2.5 h`."""
    seconds = time.total_seconds()
    if seconds < 1:
        return f"{max(1, round(seconds * 1000))} ms"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
