"""Looks images up in their registries in the background, and caches the results.

`known` never waits. It returns the cached result, or starts a look-up and returns why there is no result yet.
When the look-up has a result or a new reason, the callers that have asked are notified. A failed attempt is
retried after a back-off, as long as a caller has asked again since the last attempt.

- A tag is resolved to a digest. The result is valid for `TAG` seconds; a caller that needs it for longer
  stores the digest.
- A digest is verified once for given policies, whichever tags lead to it. If it does not meet them, it is
  verified again when a caller asks after `UNMET` seconds, since it may have been signed since.
- At most `AT_A_TIME` images are looked up at a time, `OF_ONE` of one registry, and `OF_NAMESPACE` for one
  namespace, so that neither a slow registry nor a namespace that names many of them delays the others. An
  attempt times out after `TIME` seconds.
"""

import asyncio
import logging
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from muster.compiler.facts import Image
from muster.kube.clock import Clock, back_off
from muster.security.images import reference
from muster.security.images.reference import InvalidReference, Reference
from muster.security.images.registry import RegistryError
from muster.security.images.trust import TrustPolicy
from muster.security.images.verify import Verified

log = logging.getLogger(__name__)

AT_A_TIME: Final = 16
OF_ONE: Final = 4
OF_NAMESPACE: Final = 8
#: Seconds: the limit of an attempt; the first and the longest back-off; how long results are valid.
TIME: Final = 60.0
BACK_OFF: Final = (2.0, 300.0)
TAG: Final = 300.0
UNMET: Final = 60.0
#: Most images that are cached or being looked up.
KEPT: Final = 10_000
#: Images that are being looked up for one namespace.
KEPT_OF_NAMESPACE: Final = 1_000
K = TypeVar("K")
T = TypeVar("T")


class Source(Protocol):
    """Queries registries. Both methods raise `RegistryError`."""

    async def digest(self, image: Reference) -> str:
        """Returns the digest that a tag leads to."""
        ...

    async def verify(self, image: Reference, policies: Sequence[TrustPolicy]) -> Verified:
        """Returns what is known of an image with a digest."""
        ...


@dataclass(frozen=True, slots=True)
class Unknown:
    """An image that is not known yet, and why."""

    reason: str


@dataclass(slots=True)
class _Entry(Generic[T]):
    result: T | None = None
    reason: str = "it is being looked up"
    #: by namespace for which it is being looked up: the callers that have asked since the last attempt
    askers: dict[str, set[str]] = field(default_factory=dict)
    #: monotonic time until which the result is valid
    until: float = float("inf")
    #: held by the attempt that is being made
    attempt: asyncio.Lock = field(default_factory=asyncio.Lock)


class Lookups:
    """Looks images up. `tell` is called with the callers that asked about an image, on a result or reason."""

    def __init__(self, source: Source, clock: Clock, tell: Callable[[Iterable[str]], None]) -> None:
        self._source, self._clock, self._tell = source, clock, tell
        self._digests: dict[str, _Entry[str]] = {}
        self._verified: dict[tuple[str, str], _Entry[Verified]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._waiting: list[Callable[[], None]] = []
        self._slots = asyncio.Semaphore(AT_A_TIME)
        #: by registry, (namespace,), and (namespace, registry)
        self._limits: weakref.WeakValueDictionary[object, asyncio.Semaphore] = weakref.WeakValueDictionary()
        #: entries that are being looked up, by namespace
        self._looking: Counter[str] = Counter()

    def known(
        self, text: str, policies: Sequence[TrustPolicy], version: str, asker: str
    ) -> Verified | Unknown:
        """Returns what is known of an image under these policies, without waiting.

        `version` changes whenever the policies do; `asker` is notified if the answer changes.
        """
        try:
            image = reference.parse(text)
        except InvalidReference as error:
            return Verified(Image("", trusted=False, reason=str(error)), ())
        if not image.digest:
            digest = self._ask(self._digests, text, asker, image, lambda: self._source.digest(image))
            if isinstance(digest, Unknown):
                return digest
            image = reference.parse(image.pinned(digest))
        key = (image.pinned(image.digest), version)
        return self._ask(self._verified, key, asker, image, lambda: self._verify(image, policies))

    async def run(self) -> None:
        """Makes the look-ups, until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for start in self._waiting:
                start()
            self._waiting.clear()
            await asyncio.Event().wait()

    async def _verify(self, image: Reference, policies: Sequence[TrustPolicy]) -> Verified:
        found = await self._source.verify(image, policies)
        if not found.image.trusted and not found.complete:
            raise RegistryError(f"not all signatures can be read: {found.image.reason}")
        return found

    def _ask(
        self,
        entries: dict[K, _Entry[T]],
        key: K,
        asker: str,
        image: Reference,
        look: Callable[[], Awaitable[T]],
    ) -> T | Unknown:
        namespace = asker.partition("/")[0]
        entry = entries.get(key)
        if entry is not None and self._valid(entry):
            return entry.result if entry.result is not None else Unknown(entry.reason)
        new = entry is None or isinstance(entry.result, str)  # a tag may lead to another digest by now
        if new or entry is None or namespace not in entry.askers:
            if self._looking[namespace] >= KEPT_OF_NAMESPACE or (new and not self._room(entries)):
                return Unknown("too many images are being looked up; this one is tried later")
            if new or entry is None:
                entry = entries[key] = _Entry()
            self._looking[namespace] += 1
            entry.askers[namespace], made = set(), entry

            def start() -> None:
                assert self._group is not None
                self._group.create_task(self._follow(entries, key, made, image, namespace, look))

            if self._group is None:
                self._waiting.append(start)
            else:
                start()
        entry.askers[namespace].add(asker)
        return Unknown(entry.reason) if entry.result is None else entry.result

    def _valid(self, entry: _Entry[T]) -> bool:
        return entry.result is not None and entry.until > self._clock.monotonic()

    def _room(self, entries: dict[K, _Entry[T]]) -> bool:
        """Whether another entry may be added; drops the oldest result if that makes room."""
        if len(entries) < KEPT:
            return True
        oldest = next((key for key, entry in entries.items() if entry.result is not None), None)
        if oldest is None:
            return False
        del entries[oldest]
        return True

    async def _follow(
        self,
        entries: dict[K, _Entry[T]],
        key: K,
        entry: _Entry[T],
        image: Reference,
        namespace: str,
        look: Callable[[], Awaitable[T]],
    ) -> None:
        """Looks one image up until there is a result, or no caller of the namespace asks any more."""
        try:
            before, failures = entry.result, 0
            while not await self._attempt(entry, image, namespace, look):
                askers, entry.askers[namespace] = entry.askers[namespace], set()
                self._tell(sorted(askers))
                await self._clock.sleep(back_off(BACK_OFF, failures))
                failures += 1
                if not entry.askers[namespace]:
                    return
            if entry.result != before:
                self._tell(sorted(entry.askers[namespace]))
        finally:
            self._looking[namespace] -= 1
            del entry.askers[namespace]
            if entry.result is None and not entry.askers and entries.get(key) is entry:
                del entries[key]

    def _limit(self, of: object, most: int) -> asyncio.Semaphore:
        return self._limits.setdefault(of, asyncio.Semaphore(most))

    async def _attempt(
        self, entry: _Entry[T], image: Reference, namespace: str, look: Callable[[], Awaitable[T]]
    ) -> bool:
        """Makes one attempt; returns whether the result is valid, by this attempt or by another one."""
        # The namespace's own bounds come first, so that at most this many of its attempts wait for the slots
        # that namespaces share.
        of_both = self._limit((namespace, image.registry), OF_ONE)
        of_namespace, of_registry = (
            self._limit((namespace,), OF_NAMESPACE),
            self._limit(image.registry, OF_ONE),
        )
        async with of_both, of_namespace, entry.attempt:
            if self._valid(entry):
                return True
            try:
                async with of_registry, self._slots, asyncio.timeout(TIME):
                    entry.result = await look()
                entry.until = self._clock.monotonic() + _counts(entry.result)
            except RegistryError as error:
                entry.reason = str(error)
            except TimeoutError:
                entry.reason = f"{image.registry} has not answered in full within {TIME:g} s"
            except Exception as error:  # a fault in one look-up must not stop the others
                log.exception("looking up %s failed", image.name)
                entry.reason = f"it cannot be looked up: {type(error).__name__}"
            return self._valid(entry)


def _counts(result: object) -> float:
    """Returns the seconds for which a result is valid."""
    if not isinstance(result, Verified):
        return TAG
    return UNMET if result.unmet else float("inf")
