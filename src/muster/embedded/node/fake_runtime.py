"""The fake runtime of nodes with `runtime=none`: pods without processes, which run at once.

The pods end as their annotation says. `muster.dev/pretend: "run=30s,exit=1"` lets each container end with
code 1 after 30 s; without `run` it runs until the pod is deleted. `at=2026-03-01T12:00:00Z` ends it at that
time, however long it has run, to simulate a failure of many pods at one moment. The earlier of `run` and `at`
counts. `reject=OutOfcpu` lets the node refuse the pod for this reason, as a kubelet does that has no room.
With `stop=30s` a deleted pod takes 30 s to end; with `stop=never` it is stuck until a user forces its
deletion. The fake runtime also reports the pods of removed nodes, of either runtime, as ended with their
node. A pod waits for its devices as one with processes does.

One heap holds the time at which each pod ends, and a bounded number of status writes is pending at a time, so
that 10,000 such pods cost ten thousand writes and little else.
"""

import asyncio
import heapq
import logging
import re
from collections.abc import Callable, Mapping, Set
from datetime import datetime
from math import inf
from typing import Final

import msgspec

from muster import names
from muster.api import times
from muster.api.core_v1 import ContainerState, Pod, Running
from muster.api.kinds import POD
from muster.embedded.node import claims, status
from muster.embedded.node.environment import NOTHING, Lookup
from muster.embedded.node.reporting import record_event
from muster.embedded.node.status import TOO_LONG, Observed, Override
from muster.kube.client import Client
from muster.kube.clock import Clock, back_off
from muster.kube.errors import ApiError, Conflict, NotFound, Unanswered, Unreachable

log = logging.getLogger(__name__)

WRITES: Final = 16  # status writes under way at a time
CLAIM_RETRY: Final = 2.0  # seconds between looks at the claims of a pod that waits for its devices
_KILLED: Final = 137
_LOST: Final = Override("NodeLost", "The node of the pod was removed", failed=True, spared=True)
_RETRY: Final = (0.1, 10.0)
_RIGHT: Final = 'write "run=30s,exit=1", "at=2026-03-01T12:00:00Z", "reject=OutOfcpu" or "stop=30s"'
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9./-]{0,62}")
_LONGEST: Final = 2**31  # seconds
_LAST_CODE: Final = 255
_KEYS: Final = ("run", "exit", "at", "reject", "stop")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Play(msgspec.Struct, frozen=True):
    """The annotation's content: seconds until the end, or the time of it (None: never), and the exit code."""

    run: float | None = None
    exit: int = 0
    at: datetime | None = None
    #: why the node refuses the pod; "" if it does not
    reject: str = ""
    #: seconds from the request to delete the pod until it has ended; infinite: it is stuck
    stop: float = 0.0

    def end(self, started: datetime) -> datetime | None:
        ends = [] if self.run is None else [times.after(started, self.run)]
        return min(ends if self.at is None else [*ends, self.at], default=None)


def play(annotations: Mapping[str, str]) -> Play:
    """Reads the annotation. Raises ValueError, whose message says how to write it."""
    text = annotations.get(names.PRETEND, "")
    values: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS:
            raise ValueError(f"{names.PRETEND}: {part!r}: {_RIGHT}")
        values[key] = value
    try:
        run = _seconds(values["run"]) if "run" in values else None
        at = _time(values["at"]) if "at" in values else None
        code = int(values.get("exit", 0))
        if not 0 <= code <= _LAST_CODE or (run is not None and not 0 <= run <= _LONGEST):
            raise ValueError("no such exit code or run time")
        stop = inf if values.get("stop") == "never" else _seconds(values.get("stop", "0"))
        reject = values.get("reject", "")
        if not stop >= 0 or (reject and not _REASON.fullmatch(reject)):
            raise ValueError("no such time to stop or reason")
        return Play(run, code, at, reject, stop)
    except ValueError:
        raise ValueError(f"{names.PRETEND}: {text!r}: {_RIGHT}") from None


def _seconds(text: str) -> float:
    for unit in ("ms", "s", "m", "h"):
        if text.endswith(unit) and text[: -len(unit)].replace(".", "", 1).isdigit():
            return float(text[: -len(unit)]) * _UNITS[unit]
    return float(text)


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without a time zone")
    return times.bounded(time)


class FakeRuntime:
    """Simulates the pods of all nodes without a runtime. Call `run` once, `update` with each pod version."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        refuses: Callable[[Pod], str] = lambda pod: "",
        lookup: Callable[[Pod], Lookup] = lambda pod: NOTHING,
    ) -> None:
        """`refuses`: why a new pod's node has no room for it; "" if it has. `lookup`: what is on its node."""
        self._client, self._clock, self._refuses, self._lookup = client, clock, refuses, lookup
        #: names of removed nodes
        self.lost: Set[str] = set()
        self._pods: dict[str, Pod] = {}  # newest version, by uid
        self._ends: list[tuple[float, str]] = []  # monotonic seconds, uid
        self._due: dict[str, float] = {}  # the earliest of each pod in the heap
        self._work: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._earlier = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_ends())
            for _ in range(WRITES):
                tasks.create_task(self._write_all())

    def update(self, pod: Pod) -> None:
        self._pods[pod.metadata.uid] = pod
        if not pod.terminal or pod.metadata.deletion_timestamp is not None:
            self._enqueue(pod.metadata.uid)

    def forget(self, pod: Pod) -> None:
        self._pods.pop(pod.metadata.uid, None)

    def _enqueue(self, uid: str) -> None:
        if uid not in self._queued:
            self._queued.add(uid)
            self._work.put_nowait(uid)

    async def _watch_ends(self) -> None:
        while True:
            self._earlier.clear()
            wait = self._ends[0][0] - self._clock.monotonic() if self._ends else None
            if wait is None:
                await self._earlier.wait()
            elif wait > 0:
                await self._first(wait)
            else:
                at, uid = heapq.heappop(self._ends)
                if self._due.get(uid) == at:
                    del self._due[uid]
                self._enqueue(uid)

    async def _first(self, seconds: float) -> None:
        """Waits until `seconds` have passed or an earlier end has been added."""
        sleep = asyncio.create_task(self._clock.sleep(seconds))
        wake = asyncio.create_task(self._earlier.wait())
        try:
            await asyncio.wait({sleep, wake}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            wake.cancel()

    async def _write_all(self) -> None:
        failures = 0
        while True:
            uid = await self._work.get()
            self._queued.discard(uid)
            try:
                await self._step(uid)
                failures = 0
            except (NotFound, Conflict):
                pass  # the watch will deliver a newer version
            except (ApiError, Unanswered, Unreachable) as error:
                self._enqueue(uid)
                log.warning("pretending: %s", error)
                await self._clock.sleep(back_off(_RETRY, failures))
                failures += 1

    async def _step(self, uid: str) -> None:
        pod = self._pods.get(uid)
        if pod is None:
            return
        meta = pod.metadata
        if (asked := meta.deletion_timestamp) is not None:
            now, stop = self._clock.now(), _stop(pod)
            ended = times.after(asked, stop - (meta.deletion_grace_period_seconds or 0))
            if stop and now < ended:
                if stop < inf:
                    self._wait_for(uid, ended, now)
                return
            await self._client.delete(POD, meta.namespace, meta.name, uid=uid, grace_period=0)
            return
        if why := await self._lacks(pod):
            told = f"Failed to prepare dynamic resources: {why}"
            await record_event(self._client, self._clock, pod, claims.FAILED, told)
            now = self._clock.now()
            self._wait_for(uid, times.after(now, CLAIM_RETRY), now)
            return
        body = self._next_status(pod)
        if body is not None:
            patch = {
                "metadata": {"uid": uid, "resourceVersion": meta.resource_version},
                "status": body,
            }
            written = await self._client.patch(POD, meta.namespace, meta.name, patch, subresource="status")
            if uid in self._pods:
                self._pods[uid] = written

    async def _lacks(self, pod: Pod) -> str:
        """Why a new pod cannot have its devices; "" if it can."""
        started = pod.status.start_time is not None or pod.spec.node_name in self.lost
        if started or not pod.spec.resource_claims:
            return ""
        return await claims.lacking(self._client, pod, self._lookup(pod))

    def _next_status(self, pod: Pod) -> dict[str, object] | None:
        now = self._clock.now()
        containers = status.restored(pod)
        if pod.spec.node_name in self.lost:
            started = pod.status.start_time or now
            _end(containers, _KILLED, started, now)
            return status.document(pod, containers, now, started, _LOST)
        override = Override()
        try:
            part = play(pod.metadata.annotations)
        except ValueError as error:
            override = Override("InvalidAnnotation", str(error), failed=True)
            return status.document(pod, containers, now, now, override)
        if pod.status.start_time is None and (reason := part.reject or self._refuses(pod)):
            override = Override(reason, f"Pod was rejected: {reason}", failed=True)
            return status.document(pod, [], now, now, override)
        started = pod.status.start_time or now
        ends, code = part.end(started), part.exit
        deadline = status.deadline(pod, started)
        overdue = deadline is not None and (ends is None or deadline < ends)
        if overdue:
            ends, code = deadline, _KILLED
        if ends is not None and now >= ends:
            _end(containers, code, started, now)
        elif pod.status.phase != "Running":
            _begin(containers, now)
            if ends is not None:
                self._wait_for(pod.metadata.uid, ends, now)
        else:
            if ends is not None:
                self._wait_for(pod.metadata.uid, ends, now)
            return None
        if code and ends is not None and now >= ends:
            override = TOO_LONG if overdue else Override(failed=True)
        return status.document(pod, containers, now, started, override)

    def _wait_for(self, uid: str, ends: datetime, now: datetime) -> None:
        at = self._clock.monotonic() + (ends - now).total_seconds()
        if self._due.get(uid, inf) <= at:
            return
        self._due[uid] = at
        heapq.heappush(self._ends, (at, uid))
        self._earlier.set()


def _stop(pod: Pod) -> float:
    try:
        return play(pod.metadata.annotations).stop
    except ValueError:
        return 0.0


def _begin(containers: list[Observed], now: datetime) -> None:
    for container in containers:
        if container.init and not container.sidecar:
            container.state = status.ended(0, "Completed", "", now, now)
        else:
            container.state = ContainerState(running=Running(now))
            container.started = container.ready = True


def _end(containers: list[Observed], code: int, started: datetime, now: datetime) -> None:
    for container in containers:
        own = 0 if container.init else code
        container.state = status.ended(own, "Error" if own else "Completed", "", started, now)
        container.started = container.ready = False
