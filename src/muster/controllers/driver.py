"""Runs controllers: watches, observes, calls their reconcile functions and executes the effects.

The process's informers feed caches that all controllers share. A change puts the keys that it concerns
into one queue. A worker takes a key, lets its controller observe and reconcile, and executes the
effects. A key is never with two workers, and many changes cause one reconcile.

**The caches lag behind the driver's own writes**, so a controller that created a pod could reconcile again
before the pod cache shows it, and create another. Therefore the driver does not reconcile a key again until
every cache has reached the revision of each write it made for that key (`Outcome.revision`). A deletion
returns no revision and needs none: it carries the uid, so repeating it is harmless. The trade-off: a key
waits for a kind's watch even if the write would not have mattered. After `LAG_LIMIT` the driver reconciles it
regardless, with a warning, so that a broken watch cannot stop it for good. A create without an answer is
resolved by its name (it "exists already" next time) or, for generated names, by a live list.

**Expensive keys are reconciled less often.** Observing an object with 10,000 pods takes a tenth of a second,
and each of its pods changes several times. After a reconcile its key rests for `REST` times as long as the
computation took, so that no key takes more than a tenth of the process, however large it is; small keys do
not notice. The trade-off: the largest notice a change up to a second later, as in upstream's Job controller,
which reconciles any Job at most once a second.

Errors affect only their key: a conflict, a refusal, or a crash of the reconcile function is logged and
the key is retried after a back-off; a change of its objects is handled at once.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from muster.api.base import AnyKind, Resource, controller_of
from muster.controllers.caches import Cache, Caches, Index
from muster.controllers.workqueue import WorkQueue
from muster.effects import Absent, Create, Effect, Patch, Requeue
from muster.effects.execute import Outcome, attempt, execute_all
from muster.kube.client import Client
from muster.kube.clock import Clock, back_off
from muster.kube.errors import ApiError, Conflict, Unanswered, Unreachable
from muster.kube.informers import Informers

Observed = TypeVar("Observed")
log = logging.getLogger(__name__)

BACK_OFF = (0.05, 30.0)  # seconds between tries of a failing key, first and largest
LAG_LIMIT = 300.0  # seconds after which a key no longer waits for the caches, as client-go's expectations
REST = 9.0  # seconds of rest for each second of computing
SHORTEST_REST = 0.005  # seconds; less is not worth a timer
LONGEST_SLEEP = 60.0  # seconds; timers check the wall clock again, which may have been set


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object; `old` is None for a new object, `new` for one that is gone."""

    caches: Caches
    old: Any  # Any: an object of the kind that is watched
    new: Any

    @property
    def objects(self) -> list[Any]:
        return [item for item in (self.old, self.new) if item is not None]


@dataclass(frozen=True, slots=True)
class Watch:
    """A watch of one kind, and which keys a change of it concerns."""

    kind: AnyKind
    keys: Callable[[Change], Iterable[str]]


def itself(change: Change) -> list[str]:
    """Returns the key of the changed object."""
    return [change.objects[-1].key]


def controlled_by(kind: AnyKind) -> Callable[[Change], list[str]]:
    """Makes a function that returns the key of the object of `kind` that controls the changed object."""

    def keys(change: Change) -> list[str]:
        found = (_controller_key(item, kind) for item in change.objects)
        return [key for key in found if key is not None]

    return keys


class Signal:
    """Notifies controllers of a change that no object of the cluster shows."""

    def __init__(self) -> None:
        self._heard: list[Callable[[Iterable[str] | None], None]] = []

    def subscribe(self, heard: Callable[[Iterable[str] | None], None]) -> None:
        """Calls `heard` with each change from now on."""
        self._heard.append(heard)

    def send(self, keys: Iterable[str] | None = None) -> None:
        """Reconciles these keys; None = the keys of all objects of the controller's first watch."""
        for heard in self._heard:
            heard(keys)


@dataclass(frozen=True, slots=True)
class Controller(Generic[Observed]):
    """A reconcile function and what it observes.

    Keys are the controller's own; most watch their primary kind with `itself`, so that a key is
    `namespace/name`. `observe` returns None if there is nothing to do; it and `reconcile` are pure.
    Changes of one key within `settle` seconds cause one reconcile.
    """

    name: str
    watches: tuple[Watch, ...]
    observe: Callable[[Caches, str], Observed | None]
    reconcile: Callable[[Observed, datetime], Sequence[Effect]]
    indexes: tuple[Index, ...] = ()
    settle: float = 0.0
    signals: tuple[Signal, ...] = ()


async def run(
    client: Client,
    informers: Informers,
    controllers: Sequence[Controller[Any]],  # Any: each has its own type of observation
    clock: Clock,
    *,
    concurrency: int = 16,
    synced: asyncio.Event | None = None,
) -> None:
    """Runs the controllers until cancelled; the caller runs the informers.

    `synced` is set once all caches are filled and work starts.
    """
    async with asyncio.TaskGroup() as group:
        driver = _Driver(client, informers, controllers, clock, group)
        await informers.synced(driver.kinds)
        if synced is not None:
            synced.set()
        for number in range(concurrency):
            group.create_task(driver.work(), name=f"reconcile {number}")


class _Key(NamedTuple):
    controller: int  # position in the list: names need not be unique
    key: str


@dataclass(slots=True)
class _KeyState:
    """The state of a key between two reconciles."""

    failures: int = 0
    #: revisions that the caches must reach first
    awaited: dict[AnyKind, int] = field(default_factory=dict)
    awaited_until: float = 0.0
    #: when the key may be reconciled again after a change
    rested: float = 0.0
    timer: asyncio.Task[None] | None = None
    #: where the key is set aside, and until which revision
    parked: tuple[AnyKind, int] | None = None


class _Driver:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        controllers: Sequence[Controller[Any]],
        clock: Clock,
        group: asyncio.TaskGroup,
    ) -> None:
        self._client, self._controllers, self._clock, self._group = client, controllers, clock, group
        self._informers = informers
        self._queue: WorkQueue[_Key] = WorkQueue()
        self._states: dict[_Key, _KeyState] = {}
        self._settling: dict[_Key, asyncio.Task[None]] = {}
        watched: dict[AnyKind, list[tuple[int, Watch]]] = {}
        for number, controller in enumerate(controllers):
            for watch in controller.watches:
                watched.setdefault(watch.kind, []).append((number, watch))
        indexes = [index for controller in controllers for index in controller.indexes]
        self._caches = Caches(watched, indexes)
        #: keys that wait for a kind's cache, by the revision they wait for
        self._parked: dict[AnyKind, list[tuple[int, _Key]]] = {cache.kind: [] for cache in self._caches}
        self.kinds = [cache.kind for cache in self._caches]
        for cache in self._caches:
            takes_in = self._takes_in(cache, watched.get(cache.kind, []))
            informers[cache.kind].subscribe(takes_in, self._advances(cache))
        for number, controller in enumerate(controllers):
            for signal in controller.signals:
                signal.subscribe(self._hears(number, self._caches[controller.watches[0].kind]))

    async def work(self) -> None:
        """Runs one worker: processes one key after the other, until cancelled."""
        while True:
            key = await self._queue.take()
            try:
                await self._process(key)
            finally:
                self._queue.done(key)

    async def _process(self, key: _Key) -> None:
        state = self._states.setdefault(key, _KeyState())
        if self._waits_for_caches(key, state):
            return
        controller = self._controllers[key.controller]
        outcomes: list[Outcome[Effect]] = []
        delay: float | None = None
        begun = self._clock.monotonic()
        try:
            observed = controller.observe(self._caches, key.key)
            if observed is None:
                self._forget(key)
                return
            effects = controller.reconcile(observed, self._clock.now())
            looked = self._clock.monotonic()
            state.rested = looked + REST * (looked - begun)
            outcomes = await self._execute(effects, controller.name)
            if error := next((outcome.error for outcome in outcomes if outcome.error), None):
                raise error
            state.failures = 0
            again = [effect.at for effect in effects if isinstance(effect, Requeue)]
            if again:
                delay = (min(again) - self._clock.now()).total_seconds()
        except Exception as error:  # one object's error must not affect other objects
            state.failures += 1
            delay = back_off(BACK_OFF, state.failures - 1)
            delay = max(delay, min(BACK_OFF[1], getattr(error, "retry_after", None) or 0.0))
            self._report(controller, key, error, delay)
        state.awaited = self._revisions(outcomes)
        state.awaited_until = self._clock.monotonic() + LAG_LIMIT
        self._set_timer(key, state, delay)

    async def _execute(self, effects: Sequence[Effect], component: str) -> list[Outcome[Effect]]:
        """Executes effects. If the server refuses one, executes what the first such effect says of that."""
        now = self._clock.now()

        async def one(effect: Effect) -> Outcome[Effect]:
            return await attempt(self._client, effect, now, component=component)

        outcomes = await execute_all(effects, one)
        failed = next((outcome for outcome in outcomes if outcome.error), None)
        if failed is None or not isinstance(failed.error, ApiError):
            return outcomes
        effect = failed.effect
        outdated = isinstance(effect, Patch) and isinstance(failed.error, Conflict)
        if isinstance(effect, Create | Patch | Absent) and effect.refused is not None and not outdated:
            outcomes += await execute_all(effect.refused(failed.error.message), one)
        return outcomes

    def _revisions(self, outcomes: Iterable[Outcome[Effect]]) -> dict[AnyKind, int]:
        """Returns the revisions that show these outcomes, of the objects that a cache shows.

        A watch of other objects may be silent for a minute, so its cache would reach the revision late.
        """
        found: dict[AnyKind, int] = {}
        for outcome in outcomes:
            if outcome.revision and isinstance(outcome.effect, Create | Patch):
                effect = outcome.effect
                kind = effect.kind
                if kind in self._caches and self._informers.shows(kind, effect.namespace, effect.name):
                    found[kind] = max(found.get(kind, 0), outcome.revision)
        return found

    def _waits_for_caches(self, key: _Key, state: _KeyState) -> bool:
        """Sets a key aside if the caches do not show its own writes yet."""
        behind = self._caches.behind(state.awaited)
        if behind is None:
            return False
        remaining = state.awaited_until - self._clock.monotonic()
        if remaining <= 0:
            name = self._controllers[key.controller].name
            log.warning("%s %s: %s were not seen to change; continuing", name, key.key, behind.plural)
            return False
        revision = state.awaited[behind]
        if state.parked != (behind, revision):  # it may be here once more, because an object changed
            state.parked = behind, revision
            heapq.heappush(self._parked[behind], (revision, key))
        self._set_timer(key, state, remaining)
        return True

    def _takes_in(
        self, cache: Cache[Any], watches: list[tuple[int, Watch]]
    ) -> Callable[[Resource | None, Resource | None], None]:
        def on_change(old: Resource | None, new: Resource | None) -> None:
            cache.change(old, new)
            change = Change(self._caches, old, new)
            for number, watch in watches:
                for key in watch.keys(change):
                    self._add(_Key(number, key))

        return on_change

    def _advances(self, cache: Cache[Any]) -> Callable[[str], None]:
        parked = self._parked[cache.kind]

        def on_progress(resource_version: str) -> None:
            cache.progress(resource_version)
            while parked and parked[0][0] <= cache.version:
                _, key = heapq.heappop(parked)
                if (state := self._states.get(key)) is not None:
                    state.parked = None
                self._queue.add(key)

        return on_progress

    def _hears(self, number: int, primary: Cache[Any]) -> Callable[[Iterable[str] | None], None]:
        def heard(keys: Iterable[str] | None) -> None:
            for key in primary.items if keys is None else keys:
                self._add(_Key(number, key))

        return heard

    def _add(self, key: _Key) -> None:
        settle = self._controllers[key.controller].settle
        if (state := self._states.get(key)) is not None:
            rest = state.rested - self._clock.monotonic()
            settle = max(settle, rest if rest >= SHORTEST_REST else 0.0)
        if not settle:
            self._queue.add(key)
        elif key not in self._settling:
            self._settling[key] = self._group.create_task(self._settle(key, settle))

    async def _settle(self, key: _Key, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._settling[key]
        self._queue.add(key)

    def _set_timer(self, key: _Key, state: _KeyState, delay: float | None) -> None:
        """Replaces the key's timer: the last reconcile knows best when to reconcile again."""
        if state.timer is not None:
            state.timer.cancel()
        state.timer = None if delay is None else self._group.create_task(self._wait(key, delay))

    async def _wait(self, key: _Key, delay: float) -> None:
        due = self._clock.now().timestamp() + delay
        while (remaining := due - self._clock.now().timestamp()) > 0:
            await self._clock.sleep(min(remaining, LONGEST_SLEEP))
        self._queue.add(key)

    def _forget(self, key: _Key) -> None:
        state = self._states.pop(key, None)
        if state is not None and state.timer is not None:
            state.timer.cancel()

    def _report(self, controller: Controller[Any], key: _Key, error: Exception, delay: float) -> None:
        match error:
            case Conflict():
                log.debug("%s %s: %s; again in %.2f s", controller.name, key.key, error, delay)
            case ApiError() | Unanswered() | Unreachable():
                log.warning("%s %s: %s; again in %.2f s", controller.name, key.key, error, delay)
            case _:
                log.error("%s %s crashed; again in %.2f s", controller.name, key.key, delay, exc_info=error)


def _controller_key(item: Resource, kind: AnyKind) -> str | None:
    reference = controller_of(item)
    if reference is None or not kind.matches(reference):
        return None
    namespace = item.metadata.namespace
    return f"{namespace}/{reference.name}" if kind.namespaced and namespace else reference.name
