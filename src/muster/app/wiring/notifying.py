"""Tells what happens to jobs that were submitted with `--notify`, while the embedded cluster is up.

`$MUSTER_HOME/notify` has two files for each such job: `UID.json`, which only its submission writes, has the
address; `UID.told`, which only the host writes, says what is told (`muster.app.wiring.notices`). No object of
the cluster can name a command. Both files go once the job's end is told or given up; what was given up stays
in `UID.told`, for `why` and `get`.

Nothing here can hold up a job or end the host: a failure is logged, and tried again.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Never, TypeVar

import msgspec

from muster.api import kinds
from muster.api.base import Resource
from muster.api.times import seconds
from muster.app.views import jobs
from muster.app.views.job import JobView
from muster.app.views.objects import fetch
from muster.app.wiring import notices
from muster.app.wiring.notices import Delivery, Told
from muster.app.wiring.sending import Address, send
from muster.embedded.client import LocalClient
from muster.embedded.credentials import write_private
from muster.embedded.storage.past import Past
from muster.kube.clock import Clock, first
from muster.kube.decode import decode

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between two looks for what has happened.
LOOK: Final = 1.0
#: A look may take at most one part in so many of the host's time.
_SHARE: Final = 20
#: Deliveries at a time.
AT_ONCE: Final = 4
#: Jobs that are told of; more wait until these have ended.
MOST: Final = 1_000
#: Ended jobs of which is kept what could not be told.
KEPT: Final = 1_000
#: Bytes of a file.
_LARGEST: Final = 1 << 20
_UID: Final = r"[0-9a-f-]{36}"
_FILE: Final = re.compile(rf"({_UID})\.json", re.ASCII)

#: Sends JSON and variables to an address; returns "" or why it could not.
Send = Callable[[Address, bytes, Mapping[str, str]], Coroutine[Any, Any, str]]


class Asked(msgspec.Struct, frozen=True):
    """The address of a job's notifications."""

    kind: str
    namespace: str
    name: str
    #: when the job was created, in seconds since 1970
    created: float
    to: Address


def ask(root: Path, job: Resource, kind: str, to: Address) -> None:
    """Has the host of this state directory tell of the job, which exists. Raises OSError."""
    directory = root / "notify"
    directory.mkdir(0o700, exist_ok=True)
    meta = job.metadata
    asked = Asked(kind, meta.namespace, meta.name, seconds(meta.creation_timestamp), to)
    write_private(directory / f"{meta.uid}.json", msgspec.json.encode(asked).decode())


def untold(root: Path, uid: str) -> list[str]:
    """What of a job's notifications could not be told, or not yet: a line for each event."""
    if not re.fullmatch(_UID, uid):  # of a PodGroup, which only its pods name
        return []
    try:
        return list(_decoded(root / "notify" / f"{uid}.told", Told).untold())
    except (OSError, ValueError):  # nothing was told of it, or nothing failed
        return []


@dataclass(slots=True)
class _Job:
    """A job that is told of."""

    asked: Asked
    #: the time of its file
    written: int
    told: Told
    sending: bool = field(default=False)


class Notifying:
    def __init__(self, root: Path, client: LocalClient, past: Past, clock: Clock, send: Send = send) -> None:
        self._directory, self._client, self._past = root / "notify", client, past
        self._clock, self._send = clock, send
        self._jobs: dict[str, _Job] = {}
        self._looked = -1  # the revision of the store up to which events are known
        self._trouble = ""

    async def run(self) -> Never:
        """Tells until it is cancelled."""
        async with asyncio.TaskGroup() as sending:
            while True:
                began = self._clock.monotonic()
                try:
                    self._read()
                    await self._look()
                    self._begin(sending)
                    self._trouble = ""
                except Exception as error:
                    if self._trouble != (trouble := repr(error)):
                        log.exception("cannot tell what happens to jobs; trying again: %s", error)
                        self._trouble = trouble
                await self._clock.sleep(max(LOOK, _SHARE * (self._clock.monotonic() - began)))

    def busy(self) -> bool:
        """Whether the host should stay for now, needed by nothing else: for `HOLD` seconds at most.

        While there is trouble it need not: what is left is told by the next host.
        """
        if self._trouble or not (self._jobs or any(True for _ in self._files())):
            return False
        now = self._clock.now().timestamp()
        return (
            self._looked != self._client.registry.store.revision
            or any(uid not in self._jobs for uid, _ in self._files())
            or any(job.told.over or job.told.holds(now) for job in self._jobs.values())
        )

    def _files(self) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """The jobs that are to be told of, by uid: at most `MOST`, the same ones at each look."""
        try:
            entries = sorted(os.scandir(self._directory), key=lambda each: each.name)
        except FileNotFoundError:
            return
        found = ((named[1], each) for each in entries if (named := _FILE.fullmatch(each.name)))
        for number, each in enumerate(found):
            if number >= MOST:
                return
            yield each

    def _read(self) -> None:
        """Finds jobs that were submitted since."""
        for uid, entry in self._files():
            try:
                written = entry.stat(follow_symlinks=False).st_mtime_ns
                known = self._jobs.get(uid)
                if known is not None and known.written == written:
                    continue
                asked = _decoded(Path(entry.path), Asked)
                if known is not None:  # submitted again, with another address
                    known.asked, known.written = asked, written
                    continue
                told = Told()
                with suppress(FileNotFoundError):
                    told = _decoded(self._file(uid), Told).resumed()
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                log.error("%s: there are no notifications of this job: %s", entry.path, error)
                with suppress(OSError):
                    os.rename(entry.path, f"{entry.path}.unreadable")
                continue
            self._jobs[uid], self._looked = _Job(asked, written, told), -1

    async def _look(self) -> None:
        """Finds what has happened since the last look."""
        revision = self._client.registry.store.revision
        if self._jobs and revision != self._looked:
            there = {view.resource.metadata.uid: view for view in jobs.views(await fetch(self._client))}
            now = self._clock.now().timestamp()
            for uid, job in list(self._jobs.items()):
                view = there.get(uid)
                events = notices.happened(view, now) if view is not None else await self._gone(uid, job, now)
                told = job.told.heard(events, now)
                if told != job.told:
                    self._write(uid, told)
                    job.told = told
        self._looked = revision

    async def _gone(self, uid: str, job: _Job, now: float) -> Iterator[notices.Event]:
        asked = job.asked
        last: JobView | None = None
        for each in self._past.jobs(asked.namespace, asked.name):
            if each.meta.uid == uid:
                last = jobs.alone(each.kind, decode(each.kind, each.body))
        records = (await self._client.list(kinds.PREEMPTION, asked.namespace)).items
        return notices.gone(last, records, asked.created, now)

    def _begin(self, sending: asyncio.TaskGroup) -> None:
        """Begins what is due, and forgets jobs of which all is told."""
        now = self._clock.now().timestamp()
        free = AT_ONCE - sum(job.sending for job in self._jobs.values())
        for uid, job in list(self._jobs.items()):
            if job.told.over and not job.sending:
                (self._directory / f"{uid}.json").unlink(missing_ok=True)  # else it would begin again
                del self._jobs[uid]
                self._keep(uid, job.told.given_up)
            elif free > 0 and not job.sending and (delivery := job.told.due(now)) is not None:
                begun = job.told.begun(delivery.event.key, now)
                self._write(uid, begun)
                job.told, job.sending, free = begun, True, free - 1
                sending.create_task(self._tell(uid, job, delivery))

    async def _tell(self, uid: str, job: _Job, delivery: Delivery) -> None:
        asked, event = job.asked, delivery.event
        said = _said(uid, asked, event)
        body = msgspec.json.encode({**said, "exitCode": event.exit_code})
        variables = {f"MUSTER_{name.upper()}": value for name, value in said.items()}
        try:
            trouble = await first(self._send(asked.to, body, variables), self._too_long())
        except Exception as error:
            trouble = repr(error)
        job.told = job.told.answered(event.key, trouble, self._clock.now().timestamp())
        job.sending = False
        if trouble:
            last = "; it is given up" if delivery.attempts + 1 >= notices.ATTEMPTS else ""
            log.warning("%s: %s of %s is not told: %s%s", asked.to, event.what, asked.name, trouble, last)
        try:
            self._write(uid, job.told)
        except OSError as error:
            log.error("%s: cannot be written: %s", self._file(uid), error)

    def _keep(self, uid: str, left: Told) -> None:
        """Keeps of a job that has ended what was given up, and of `KEPT` such jobs at most."""
        if not left.deliveries:
            self._file(uid).unlink(missing_ok=True)
            return
        self._write(uid, left)
        kept = [each for each in os.scandir(self._directory) if each.name.endswith(".told")]
        ended = [each for each in kept if each.name.removesuffix(".told") not in self._jobs]
        for each in sorted(ended, key=lambda each: each.stat().st_mtime_ns)[:-KEPT]:
            os.unlink(each.path)

    async def _too_long(self) -> str:
        await self._clock.sleep(notices.LIMIT)
        return f"no answer within {notices.LIMIT:.0f} s"

    def _file(self, uid: str) -> Path:
        return self._directory / f"{uid}.told"

    def _write(self, uid: str, told: Told) -> None:
        write_private(self._file(uid), msgspec.json.encode(told).decode())


def _decoded(path: Path, type: type[T]) -> T:
    """Raises OSError, ValueError."""
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"larger than {_LARGEST:,} bytes")
    return msgspec.json.decode(content, type=type)


def _said(uid: str, asked: Asked, event: notices.Event) -> dict[str, str]:
    """The event, as text."""
    ending = f" with exit code {event.exit_code}" if event.exit_code else ""
    verb = {
        "start": "runs", "anomaly": f"has an anomaly: {event.code}", "eviction": "has lost its place",
        "end": f"has ended: {event.state}{ending}",
    }[event.what]  # fmt: skip
    return {
        "id": f"{uid} {event.key}",
        "event": event.what,
        "job": asked.name,
        "namespace": asked.namespace,
        "kind": asked.kind,
        "state": event.state,
        "code": event.code,
        "message": event.message,
        "at": datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds"),
        "text": f"{asked.name} {verb}" + (f" ({event.message})" if event.message else ""),
    }
