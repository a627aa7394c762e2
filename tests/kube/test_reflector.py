"""Keeping a cache true: resuming, listing again, telling the difference, backing off."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.core_v1 import ConfigMap
from muster.api.kinds import CONFIG_MAP
from muster.kube.client import EventType, Page, WatchEvent
from muster.kube.errors import (
    ApiError,
    BadRequest,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unanswered,
    Unauthorized,
    Unreachable,
)
from muster.kube.reflector import BACK_OFF, LOOK_AGAIN, Reflector
from tests.patience import PATIENCE

Told = tuple[str | None, str | None]


def config(name: str, version: int, uid: str = "") -> ConfigMap:
    meta = {"name": name, "namespace": "ns", "uid": uid or name, "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta}, ConfigMap)


def page(version: int, *items: ConfigMap, token: str = "") -> Page[ConfigMap]:
    return Page(list(items), str(version), token)


def event(type_: str, item: ConfigMap) -> WatchEvent[ConfigMap]:
    return WatchEvent(EventType(type_), item)


class Script:
    """A client that answers lists and watches from a script; at its end a watch goes on for ever."""

    def __init__(self, lists: Sequence[Any], watches: Sequence[Sequence[Any]]) -> None:
        self._lists, self._watches = list(lists), [list(watch) for watch in watches]
        self.asked: list[str] = []
        self.over = asyncio.Event()

    async def list(self, kind: Any, namespace: str, **how: Any) -> Page[ConfigMap]:
        self.asked.append(f"list {how['token']}".strip())
        answer = self._lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Page)
        return answer

    async def watch(
        self, kind: Any, namespace: str, *, resource_version: str, **how: Any
    ) -> AsyncIterator[WatchEvent[ConfigMap]]:
        self.asked.append(f"watch {resource_version}")
        if not self._watches:
            self.over.set()
            await asyncio.Event().wait()
        for answer in self._watches.pop(0):
            if isinstance(answer, Exception):
                raise answer
            yield answer


class Instant:
    """A clock whose sleeps are over at once, and remembered."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


class Run:
    tolerated: tuple[type[ApiError], ...] = ()
    unread: tuple[type[ApiError], ...] = ()
    streaming = False

    def __init__(self, script: Script) -> None:
        self.script, self.clock = script, Instant()
        self.told: list[Told] = []
        self.progress: list[str] = []
        client: Any = script  # Any: it has no more than the reflector needs
        self.reflector = Reflector(
            client,
            CONFIG_MAP,
            clock=self.clock,
            tolerated=self.tolerated,
            unread=self.unread,
            streaming=self.streaming,
        )
        self.reflector.subscribe(self._note, self.progress.append)

    def _note(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        self.told.append((_version(old), _version(new)))


def _version(item: ConfigMap | None) -> str | None:
    return None if item is None else f"{item.metadata.name}@{item.metadata.resource_version}"


@asynccontextmanager
async def ran(
    lists: Sequence[Any], watches: Sequence[Sequence[Any]], kind: type[Run] = Run
) -> AsyncIterator[Run]:
    """A reflector that has come to the end of the script."""
    run = kind(Script(lists, watches))
    task = asyncio.create_task(run.reflector.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await run.script.over.wait()
        yield run
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_reflector_lists_once_and_watches_from_there() -> None:
    changes = [
        event("ADDED", config("b", 6)),
        event("MODIFIED", config("a", 7)),
        event("DELETED", config("b", 8)),
    ]
    async with ran([page(5, config("a", 3))], [changes]) as run:
        assert run.script.asked == ["list", "watch 5", "watch 8"], "it resumes after what it has seen"
        assert run.told == [(None, "a@3"), (None, "b@6"), ("a@3", "a@7"), ("b@6", None)]
        assert run.progress == ["5", "6", "7", "8"]
        assert {key: _version(item) for key, item in run.reflector.items.items()} == {"ns/a": "a@7"}
        assert run.clock.slept == []


async def test_a_bookmark_moves_on_without_a_change() -> None:
    async with ran([page(5)], [[event("BOOKMARK", config("", 90))]]) as run:
        assert run.script.asked[-1] == "watch 90"
        assert (run.told, run.reflector.items) == ([], {})


async def test_an_object_that_cannot_be_taken_in_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    class Picky(Run):
        def _note(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
            if new is not None and new.metadata.name == "bad":
                raise OverflowError("too large")
            super()._note(old, new)

    changes = [event("MODIFIED", config("bad", 6)), event("ADDED", config("b", 7))]
    async with ran([page(5, config("bad", 3), config("a", 4))], [changes], Picky) as run:
        assert run.script.asked == ["list", "watch 5", "watch 7"]
        assert run.told == [(None, "a@4"), (None, "b@7")]
    assert caplog.messages.count("ConfigMap ns/bad cannot be read, and is set aside") == 2


async def test_fields_that_cannot_be_read_are_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    damaged = config("a", 1)
    meta = msgspec.structs.replace(damaged.metadata, unreadable="spec.x: Expected `int`, got null")
    async with ran([page(5, msgspec.structs.replace(damaged, metadata=meta))], []) as run:
        assert run.told == [(None, "a@1")]
    assert caplog.messages == ["ConfigMap ns/a cannot be read as a whole: spec.x: Expected `int`, got null"]


async def test_all_pages_are_one_list_at_the_first_ones_revision() -> None:
    pages = [page(5, config("a", 1), token="t"), page(9, config("b", 2))]
    async with ran(pages, []) as run:
        assert run.script.asked == ["list", "list t", "watch 5"]
        assert list(run.reflector.items) == ["ns/a", "ns/b"]


async def test_changes_between_two_lists_are_reported_once() -> None:
    first = page(5, config("same", 1), config("changed", 2), config("gone", 3), config("anew", 4, "old"))
    second = page(20, config("same", 1), config("changed", 12), config("anew", 14, "new"), config("new", 15))
    async with ran([first, second], [[event("BOOKMARK", config("", 6)), Expired("too old")]]) as run:
        assert run.script.asked == ["list", "watch 5", "list", "watch 20"]
        assert run.told[4:] == [
            ("gone@3", None),
            ("changed@2", "changed@12"),
            ("anew@4", None),
            (None, "anew@14"),
            (None, "new@15"),
        ]
        assert run.clock.slept == [], "the first time it lists at once"


async def test_an_expired_page_restarts_the_list() -> None:
    pages = [page(5, config("a", 1), token="t"), Expired("too old"), page(9, config("b", 8))]
    async with ran(pages, []) as run:
        assert run.script.asked == ["list", "list t", "list", "watch 9"]
        assert list(run.reflector.items) == ["ns/b"]


@pytest.mark.parametrize(
    "failure", [Unreachable("down"), Unanswered("no answer"), ServerError("broken"), Expired("too old")]
)
async def test_repeated_failures_back_off(failure: Exception) -> None:
    async with ran([failure] * 12 + [page(1)], []) as run:
        for number, slept in enumerate(run.clock.slept):
            longest = min(BACK_OFF[1], BACK_OFF[0] * 2**number)
            assert longest / 2 <= slept <= longest
        assert len(run.clock.slept) == 12
        assert run.reflector.synced.is_set()


class Optional(Run):
    tolerated = (Forbidden, NotFound)


@pytest.mark.parametrize(
    ("kind", "failure", "synced"),
    [
        (Run, Forbidden("no"), False),
        (Run, NotFound("what?"), False),
        (Optional, Forbidden("no"), True),
        (Optional, NotFound("what?"), True),
        (Optional, ServerError("broken"), False),
    ],
)
async def test_an_optional_kind_that_is_not_served_delays_nothing(
    kind: type[Run], failure: Exception, synced: bool
) -> None:
    seen: list[bool] = []

    class Watched(kind):  # type: ignore[misc, valid-type]  # a class that is a parameter
        def __init__(self, script: Script) -> None:
            super().__init__(script)
            sleep = self.clock.sleep

            async def slept(seconds: float) -> None:
                seen.append(self.reflector.synced.is_set())
                await sleep(seconds)

            self.clock.sleep = slept

    async with ran([failure, page(1, config("a", 1))], [], Watched) as run:
        assert seen == [synced]
        assert run.told == [(None, "a@1")], "it is listed as soon as it may be"
        assert run.reflector.synced.is_set()


async def test_success_resets_the_back_off() -> None:
    works: Callable[[int], list[Any]] = lambda version: [  # noqa: E731  # one line of three watches
        event("MODIFIED", config("a", version)),
        Unanswered("cut"),
    ]
    cut = [Unanswered("cut")]
    async with ran([page(5)], [cut, cut, cut, works(6), cut, works(7)]) as run:
        assert run.script.asked == ["list", *["watch 5"] * 4, *["watch 6"] * 2, "watch 7"]
        assert len(run.clock.slept) == 4
        assert run.clock.slept[2] > BACK_OFF[0]
        assert run.clock.slept[3] <= BACK_OFF[0]


async def test_a_server_that_ends_watches_at_once_is_not_asked_without_pause() -> None:
    async with ran([page(5)], [[], [], []]) as run:
        assert run.clock.slept == [BACK_OFF[0]] * 3


class Streaming(Run):
    streaming = True


def end(version: int) -> WatchEvent[ConfigMap]:
    """The bookmark after what exists."""
    marks = {"k8s.io/initial-events-end": "true"}
    meta = {"resourceVersion": str(version), "annotations": marks}
    return event("BOOKMARK", msgspec.convert({"metadata": meta}, ConfigMap))


async def test_existing_objects_may_come_with_the_watch() -> None:
    exists = [event("ADDED", config("a", 3)), event("ADDED", config("b", 4)), end(5)]
    after = [event("MODIFIED", config("a", 6))]
    async with ran([], [[*exists, *after]], Streaming) as run:
        assert run.script.asked == ["watch ", "watch 6"]
        assert run.told == [(None, "a@3"), (None, "b@4"), ("a@3", "a@6")]
        assert run.progress == ["5", "6"], "nothing is up to date before all of it is there"
        assert run.reflector.synced.is_set()


async def test_after_an_expired_revision_the_difference_is_reported_also_from_a_stream() -> None:
    first = [event("ADDED", config("a", 3)), event("ADDED", config("b", 4)), end(5), Expired("gone")]
    again = [
        event("ADDED", config("b", 4)),
        event("ADDED", config("c", 8)),
        event("ADDED", config("d", 8)),
        event("DELETED", config("d", 9)),
        end(9),
    ]
    async with ran([], [first, again], Streaming) as run:
        assert run.script.asked == ["watch ", "watch ", "watch 9"]
        assert run.told == [(None, "a@3"), (None, "b@4"), ("a@3", None), (None, "c@8")]


@pytest.mark.parametrize(
    "watch",
    [
        pytest.param([Invalid("sendInitialEvents is forbidden")], id="refused"),
        pytest.param([BadRequest("unknown parameter")], id="not known"),
        pytest.param([event("ADDED", config("a", 3))], id="ends before it has sent all"),
        pytest.param([event("ADDED", config("a", 3)), event("BOOKMARK", config("", 9))], id="ignored"),
    ],
)
async def test_a_server_that_does_not_stream_lists_is_asked_for_pages(watch: Sequence[Any]) -> None:
    async with ran([page(5, config("a", 3))], [watch], Streaming) as run:
        assert run.script.asked == ["watch ", "list", "watch 5"]
        assert run.told == [(None, "a@3")]


@pytest.mark.looptime
async def test_a_server_that_sends_nothing_at_first_is_asked_for_pages() -> None:
    class Silent(Script):
        async def watch(
            self, kind: Any, namespace: str, *, resource_version: str, **how: Any
        ) -> AsyncIterator[WatchEvent[ConfigMap]]:
            if not resource_version:
                self.asked.append("watch ")
                await asyncio.Event().wait()
            async for each in super().watch(kind, namespace, resource_version=resource_version, **how):
                yield each

    run = Streaming(Silent([page(5)], []))
    task = asyncio.create_task(run.reflector.run())
    await run.script.over.wait()
    assert run.script.asked == ["watch ", "list", "watch 5"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_list_that_the_server_puts_off_is_asked_for_when_it_says() -> None:
    async with ran([TooManyRequests("busy", retry_after=7.0), page(5)], []) as run:
        assert run.clock.slept == [7.0]


async def test_a_kind_that_the_server_lacks_is_looked_for_every_few_seconds() -> None:
    class Lacking(Run):
        tolerated = (NotFound,)

    async with ran([*[NotFound("no such kind")] * 12, page(5, config("a", 3))], [], Lacking) as run:
        assert run.told == [(None, "a@3")]
        assert max(run.clock.slept) <= LOOK_AGAIN


async def test_a_kind_that_is_refused_for_a_while_is_on_again_with_its_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The watch goes on from before, without a list. Later failures of the kind are logged again."""
    caplog.set_level(logging.INFO)
    watches: list[list[Any]] = [
        [Forbidden("no")],
        [event("MODIFIED", config("a", 6))],
        [ServerError("broken")],
    ]
    async with ran([page(5, config("a", 3))], watches, Optional) as run:
        assert run.told == [(None, "a@3"), ("a@3", "a@6")]
    assert caplog.messages == [
        "configmaps are off, as the cluster does not show them: no",
        "configmaps can be read now",
        "watching configmaps: broken; retried every 30 s at most",
    ]


@pytest.mark.parametrize(
    ("failure", "counts"),
    [
        (Forbidden("no"), True),
        (Unauthorized("who?"), True),
        (NotFound("what?"), True),
        (ServerError("broken"), False),
        (Unreachable("down"), False),
        (TooManyRequests("busy"), False),
    ],
)
@pytest.mark.parametrize("first", ["list", "watch"])
async def test_for_how_long_a_kind_has_been_refused_is_known(
    failure: Exception, counts: bool, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of one that is watched already, and only by answers that refuse it."""
    caplog.set_level(logging.INFO)
    refused = [failure] * 8
    lists: list[Any] = [*refused] if first == "list" else [page(5)]
    watches = [[each] for each in refused] if first == "watch" else []
    async with ran([*lists, page(6)], [*watches, []]) as run:
        between = sum(run.clock.slept[: len(refused) - 1])
        assert run.script.over.is_set()
    if first == "watch":
        assert run.reflector.refused_for == pytest.approx(between if counts else 0.0)
    else:
        assert run.reflector.refused_for == 0.0, "it has been listed since"
    assert [each for each in caplog.messages if each.startswith("watching")] == [
        f"watching configmaps: {failure}; retried every 30 s at most"
    ], "once, as long as the reason is the same"


async def test_a_kind_that_is_read_again_is_no_longer_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watches: list[list[Any]] = [
        *[[Forbidden("no")]] * 5,
        [event("BOOKMARK", config("", 6))],
        [Forbidden("no")],
    ]
    async with ran([page(5)], watches) as run:
        assert run.reflector.refused_for == 0.0
    told = "watching configmaps: no; retried every 30 s at most"
    assert caplog.messages == [told, "configmaps can be read again", told]


async def test_a_tolerated_refusal_does_not_count() -> None:
    async with ran([page(5)], [[Forbidden("no")]] * 9, Optional) as run:
        assert run.reflector.refused_for == 0.0


class OfAnother(Run):
    tolerated, unread = (NotFound,), (Forbidden,)


async def test_a_kind_that_a_role_lacks_is_off_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A server answers so whether or not it has the kind. Nothing waits for it until it can be read."""
    caplog.set_level(logging.INFO)
    lists = [*[Forbidden("no")] * 9, NotFound("what?"), page(5, config("a", 3))]
    async with ran(lists, [], OfAnother) as run:
        assert run.reflector.synced.is_set()
        assert run.told == [(None, "a@3")]
        assert max(run.clock.slept) <= LOOK_AGAIN
    off = "configmaps are off, as the cluster does not show them: no; if the cluster has them, grant list "
    assert caplog.messages == [f"{off}and watch, and they are read at once", "configmaps can be read now"]
    assert caplog.records[0].levelno == logging.WARNING


async def test_a_kind_that_has_been_read_is_not_off_when_a_role_loses_it() -> None:
    """Its objects are not gone: what is known of them grows old, and another replica may know more."""
    async with ran([page(5, config("a", 3))], [[Forbidden("no")]] * 9, OfAnother) as run:
        assert run.told == [(None, "a@3")]
        assert run.reflector.refused_for > 0
