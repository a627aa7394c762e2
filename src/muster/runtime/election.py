"""Leader election by a Lease (`coordination.k8s.io/v1`): one leader at a time, and a number for each term.

A candidate takes the Lease once its holder has released it, or has not renewed it for the Lease's whole
duration. The candidate measures that on its own monotonic clock, from when it last saw the Lease change;
clocks of different machines are never compared. A leader acts only while less than `deadline` has passed
since it asked for its last renewal that succeeded. The deadline is shorter than the duration, so the leader
stops before a candidate can take the Lease, however late an answer arrives. (client-go's `leaderelection`
does the same.)

The epoch of a term is `leaseTransitions`, which each new holder raises. A Lease that does not exist may have
been deleted under a leader. So it is created with a count that no earlier term can have reached, the seconds
since `BEGIN`, and its creator leads only once such a leader's deadline has passed.

A candidate takes the Lease only while its copy of the cluster is complete (`missing`). A leader that can no
longer read a kind names it in the Lease, and goes on: what it still does is better than nothing. A candidate
that is complete then asks for the Lease by an annotation, and the leader releases it. So the Lease changes
hands only if another replica is better, and all this costs no write while nothing is missing.

A container has no second main process. If the Lease names an earlier process of the same container, that
process is gone, so its successor takes the Lease at once (`instance`). The late writes of the earlier process
are refused as those of any other leader are, since the term is a new one.

A leader that is shut down releases the Lease, and records in it up to which resourceVersion it has seen pods,
for the fencing of the next leader. The record carries the epoch, because it does not cover a later term.

All writes carry the resourceVersion that was read. A write whose answer is lost is resolved by reading.

A Lease that has another uid than before, or an older resourceVersion, shows that the API server's store has
been emptied or restored from a backup. The watches do not show that: the server takes a watch from a revision
of its future, and sends nothing until its own revision is newer (kubernetes/kubernetes#107457). What the
process knows of the cluster may then be wrong as a whole, so it must end, whether it leads or waits. Only
resourceVersions of the Lease are compared, because other resources may be kept in other stores.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TypeVar

from muster.api.base import Object, revision
from muster.api.kinds import LEASE
from muster.api.scheduling import Lease
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unanswered, Unreachable
from muster.names import CANNOT_READ, PODS_SEEN, SUCCESSOR
from muster.runtime.leader import Deposed, Term

log = logging.getLogger(__name__)

T = TypeVar("T")

#: No Lease of muster is older.
BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
#: Seconds that a candidate waits at most for a holder that is gone, whatever the Lease says.
LONGEST: Final = 600.0
#: Seconds between two looks whether a candidate can read all kinds by now.
LOOK: Final = 0.1
NOT_SAID: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, with the values that Kubernetes' own components use."""

    #: without a renewal, after which a candidate takes the Lease
    duration: float = 15.0
    #: without a renewal, after which the leader stops
    deadline: float = 10.0
    #: between two attempts to take or to renew the Lease
    retry: float = 2.0

    @property
    def answer(self) -> float:
        """Until a request counts as not answered (client-go's `resourcelock.NewFromKubeconfig`)."""
        return max(self.retry, self.deadline / 2)


class Election:
    """One candidate. `identity` must be new for each process: a restarted process is another candidate."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        identity: str,
        namespace: str,
        name: str,
        timing: Timing | None = None,
        *,
        missing: Callable[[], Sequence[str]] = tuple,
        instance: str = "",
        told: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`client`: its requests must not wait for the connections of others.

        `missing`: the kinds that this candidate cannot read; it is called in the thread of the election.
        `instance`: how the identities begin of all processes that can only run one after the other, of which
        this is one; "": none are known. `told`: annotations of the Lease while this candidate has it.
        """
        self._client, self._clock, self._identity = client, clock, identity
        self._missing, self._instance, self._notes = missing, instance, told
        self._namespace, self._name = namespace, name
        self.timing = timing or Timing()
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._renewed_at = self._not_before = float("-inf")
        #: when this candidate may take the Lease, if it is not renewed meanwhile
        self._free_at = float("-inf")
        self._told = ""
        #: up to which resourceVersion the earlier leader has seen pods; infinite = not recorded
        self._pods_seen = NOT_SAID

    @property
    def fresh(self) -> bool:
        """Whether this candidate leads now, and no other candidate can."""
        return self._left > 0

    @property
    def _left(self) -> float:
        """Seconds until this candidate no longer leads, unless it renews."""
        return self._renewed_at + self.timing.deadline - self._clock.monotonic()

    async def win(self) -> Term:
        """Wait until this candidate leads. Return its term. Raises `Deposed` if the store is another one."""
        while not await self._try(self._take()):
            left = self._free_at - self._clock.monotonic()
            await self._pause(left if 0 < left < self.timing.retry else self.timing.retry)
        assert self._seen is not None
        epoch = self._seen.spec.lease_transitions
        log.info("%s leads, epoch %d", self._identity, epoch)
        return Term(epoch, seen=self._pods_seen, fresh=lambda: self.fresh)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until this candidate can read all kinds, if it cannot now."""
        until = self._clock.monotonic() + seconds
        if self._missing():
            while self._missing() and (left := until - self._clock.monotonic()) > 0:
                await self._clock.sleep(min(left, LOOK))
        else:
            await self._clock.sleep(seconds)

    async def keep(self) -> None:
        """Renew the Lease until it is lost. Ends when the deadline has passed, whatever is under way.

        The next attempt follows at once if one has taken longer than what is between two of them. Raises
        `Deposed` if the API server's store is another one, or if the Lease is to be released for a candidate
        that can read what this leader cannot.
        """
        pause = self.timing.retry
        while (left := self._left) > 0:
            await self._clock.sleep(min(pause, left))
            asked = self._clock.monotonic()
            if left <= pause or await self._try(self._within(self._renew(), self._left)) is False:
                break
            self._make_way()
            pause = max(0.0, asked + self.timing.retry - self._clock.monotonic())
        self._renewed_at = float("-inf")
        log.warning("%s no longer leads", self._identity)

    async def release(self, pods_seen: int = 0) -> None:
        """Release the Lease, so that no candidate has to wait. Call it once nothing more is decided.

        `pods_seen`: no pod of a later resourceVersion has been decided on; 0: unknown.
        """
        if self.fresh and self._seen is not None:
            self._renewed_at = float("-inf")
            note = f"{self._seen.spec.lease_transitions}/{pods_seen}" if pods_seen else None
            with suppress(Deposed):
                await self._try(self._renew({"holderIdentity": "", "leaseDurationSeconds": 1}, note))

    def _make_way(self) -> None:
        """Raises `Deposed` if a candidate can read what this leader cannot; `release` is to follow."""
        assert self._seen is not None
        if (successor := self._seen.metadata.annotations.get(SUCCESSOR)) and (missing := self._missing()):
            raise Deposed(f"{', '.join(missing)} cannot be read any more; {successor} can, and is to lead")

    async def _try(self, attempt: Coroutine[Any, Any, T]) -> T | None:
        """The result of the attempt; None if it failed."""
        try:
            return await attempt
        except (ApiError, Unanswered, Unreachable) as error:
            self._tell(str(error))
        return None

    async def _get(self) -> Lease:
        return self._of_same_store(await self._answer(self._client.get(LEASE, self._namespace, self._name)))

    def _of_same_store(self, lease: Lease) -> Lease:
        """Return the Lease. Raises `Deposed` if it cannot follow on the one that was seen before."""
        new, old = lease.metadata, (self._seen or lease).metadata
        if new.uid == old.uid and revision(new.resource_version) >= revision(old.resource_version):
            return lease
        self._renewed_at = float("-inf")
        raise Deposed(
            f"lease {self._namespace}/{self._name} is not the one seen before, or older: the API server's "
            "store has been emptied or restored, or the lease deleted; start again to read everything"
        )

    async def _answer(self, request: Coroutine[Any, Any, T]) -> T:
        return await self._within(request, self.timing.answer)

    async def _within(self, request: Coroutine[Any, Any, T], most: float) -> T:
        """What the request returns. Raises `Unanswered` if it takes longer than `most` seconds."""
        task = asyncio.ensure_future(request)
        timer = asyncio.ensure_future(self._clock.sleep(most))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Unanswered("the API server does not answer")
        finally:
            task.cancel()
            timer.cancel()

    async def _take(self) -> bool:
        """Take the Lease if it is free. Return whether this candidate holds it."""
        try:
            lease = await self._get()
        except NotFound:
            return await self._create()
        if self._seen is None or lease.metadata.resource_version != self._seen.metadata.resource_version:
            self._seen, self._seen_at = lease, self._clock.monotonic()
        spec = lease.spec
        if self._clock.monotonic() < self._not_before:
            return False
        if spec.holder_identity != self._identity:
            self._pods_seen = _pods_seen(lease)
        missing = self._missing()
        if spec.holder_identity not in ("", self._identity) and not self._succeeds(spec.holder_identity):
            patience = min(max(spec.lease_duration_seconds, 1), LONGEST)
            self._free_at = self._seen_at + patience
            if self._clock.monotonic() < self._free_at:
                self._tell(f"{spec.holder_identity} leads")
                if not missing:
                    await self._ask_for(lease)
                return False
        if missing:
            self._tell(f"this replica cannot read {', '.join(missing)}")
            return False
        new = {} if spec.holder_identity == self._identity else self._new(spec.lease_transitions + 1)
        return await self._write(lease, new)

    def _succeeds(self, holder: str) -> bool:
        """Whether the holder is an earlier process of this candidate's container, and so is gone."""
        return bool(self._instance) and holder.startswith(self._instance)

    async def _ask_for(self, lease: Lease) -> None:
        """Ask the leader for the Lease if it cannot read a kind, and no other candidate has asked."""
        for _ in range(2):  # the leader may renew at the same moment, each time
            noted = lease.metadata.annotations
            if CANNOT_READ not in noted or SUCCESSOR in noted:
                return
            self._tell(f"the leader cannot read {noted[CANNOT_READ]}, and is asked to release it")
            metadata = {
                "resourceVersion": lease.metadata.resource_version,
                "annotations": {SUCCESSOR: self._identity},
            }
            try:
                asking = self._client.patch(LEASE, self._namespace, self._name, {"metadata": metadata})
                await self._answer(asking)
            except Conflict:
                lease = await self._get()
            else:
                return

    async def _create(self) -> bool:
        """Create the Lease, as this candidate's. It does not lead yet."""
        if missing := self._missing():
            self._tell(f"this replica cannot read {', '.join(missing)}")
            return False
        count = max(1, int((self._clock.now() - BEGIN).total_seconds()))
        body = {"metadata": {"name": self._name}, "spec": {**self._held(), **self._new(count)}}
        with suppress(AlreadyExists):
            self._of_same_store(await self._answer(self._client.create(LEASE, self._namespace, body)))
            self._not_before = self._clock.monotonic() + self.timing.deadline
        return False

    async def _renew(self, more: Object | None = None, note: str | None = None) -> bool:
        """Renew the Lease, or write `more`. False: another candidate has it."""
        assert self._seen is not None
        more = more or {}
        if await self._write(self._seen, more, note):
            return True
        lease = await self._get()
        if lease.spec.holder_identity != self._identity:
            return False
        self._seen = lease
        return await self._write(lease, more, note)

    async def _write(self, lease: Lease, more: Object, note: str | None = None) -> bool:
        """Write the Lease as held since now, with `more`. False: it has changed since it was read."""
        asked = self._clock.monotonic()
        cannot_read = ", ".join(self._missing()) or None
        notes = {**self._notes, PODS_SEEN: note, CANNOT_READ: cannot_read}
        if cannot_read is None:
            notes[SUCCESSOR] = None
        noted = lease.metadata.annotations
        changed = {key: value for key, value in notes.items() if noted.get(key) != value}
        metadata: Object = {"resourceVersion": lease.metadata.resource_version}
        if changed:
            metadata["annotations"] = changed
        patch = {"metadata": metadata, "spec": {**self._held(), **more}}
        try:
            asking = self._client.patch(LEASE, self._namespace, self._name, patch)
            written = await self._answer(asking)
        except (Conflict, NotFound):
            return False
        self._seen, self._seen_at = written, self._clock.monotonic()
        if written.spec.holder_identity == self._identity:
            self._renewed_at = max(self._renewed_at, asked)
            self._told = ""  # the next failure is another one, even if its words are the same
        return True

    def _held(self) -> Object:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self.timing.duration),
            "renewTime": _micro(self._clock.now()),
        }

    def _new(self, count: int) -> Object:
        return {"leaseTransitions": count, "acquireTime": _micro(self._clock.now())}

    def _tell(self, why: str) -> None:
        if why == self._told:
            return
        self._told = why
        level, does = (logging.WARNING, "cannot renew") if self.fresh else (logging.INFO, "waits for")
        log.log(level, "%s %s lease %s/%s: %s", self._identity, does, self._namespace, self._name, why)


def _pods_seen(lease: Lease) -> float:
    """Returns up to which resourceVersion the last holder had seen pods, if it recorded that for its term."""
    epoch, _, seen = lease.metadata.annotations.get(PODS_SEEN, "").partition("/")
    released = not lease.spec.holder_identity and epoch == str(lease.spec.lease_transitions)
    return revision(seen) or NOT_SAID if released else NOT_SAID


def _micro(time: datetime) -> str:
    """Kubernetes' MicroTime, which needs its six digits."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
