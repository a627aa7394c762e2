"""The informers of a process: one watch per kind for all its readers, and kinds that a cluster may lack."""

import asyncio
import logging
from typing import Any

import pytest

from muster.api import groups
from muster.api.base import Kind
from muster.api.core_v1 import ConfigMap
from muster.api.kinds import CONFIG_MAP, FOREIGN, JOBSET, POD
from muster.kube.errors import Forbidden, NotFound
from muster.kube.informers import Informers
from tests.kube.test_reflector import Instant, Script, config, event, page
from tests.patience import PATIENCE

Told = list[tuple[str, str]]


def version(item: ConfigMap | None) -> str:
    return item.metadata.resource_version if item is not None else ""


def noting(told: Told) -> Any:
    def note(old: ConfigMap | None, new: ConfigMap | None) -> None:
        told.append(
            (old.metadata.resource_version if old else "", new.metadata.resource_version if new else "")
        )

    return note


async def settled(informers: Informers, script: Script) -> "asyncio.Task[None]":
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(PATIENCE):
        await script.over.wait()
    return task


async def test_a_kind_is_watched_once_for_all_that_read_it() -> None:
    client: Any = Script([page(5, config("a", 3))], [[event("MODIFIED", config("a", 6))]])
    informers, clock = Informers(client, Instant()), Instant()
    first: Told = []
    second: Told = []
    informers[CONFIG_MAP].subscribe(noting(first))
    informers[CONFIG_MAP].subscribe(noting(second))
    task = await settled(informers, client)
    assert client.asked == ["list", "watch 5", "watch 6"]
    assert first == second == [("", "3"), ("3", "6")]
    assert informers[CONFIG_MAP].items["ns/a"].metadata.resource_version == "6"
    task.cancel()
    assert clock.slept == []


async def test_a_late_subscriber_is_shown_what_is_there_and_how_far_it_is() -> None:
    client: Any = Script([page(5, config("a", 3))], [])
    informers = Informers(client, Instant())
    informers[CONFIG_MAP].subscribe(noting([]))
    task = await settled(informers, client)
    late: Told = []
    progress: list[str] = []
    informers[CONFIG_MAP].subscribe(noting(late), progress.append)
    assert (late, progress) == ([("", "3")], ["5"])
    task.cancel()


async def test_a_subscriber_that_cannot_read_an_object_leaves_it_to_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def picky(old: ConfigMap | None, new: ConfigMap | None) -> None:
        raise OverflowError("too large")

    client: Any = Script([page(5, config("a", 3))], [])
    informers = Informers(client, Instant())
    told: Told = []
    informers[CONFIG_MAP].subscribe(picky)
    informers[CONFIG_MAP].subscribe(noting(told))
    task = await settled(informers, client)
    assert told == [("", "3")]
    assert caplog.messages == ["ConfigMap ns/a cannot be read, and is set aside"]
    task.cancel()


#: Kinds of every dialect that a cluster may lack.
_OF_DIALECTS = sorted({JOBSET, *groups.OF_NAMED, *FOREIGN}, key=lambda kind: (kind.group, kind.plural))


@pytest.mark.parametrize("kind", _OF_DIALECTS, ids=lambda kind: f"{kind.plural}.{kind.group}")
async def test_a_kind_that_the_cluster_does_not_know_is_off_until_it_does(
    kind: Kind[Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client: Any = Script([NotFound("no such resource")] * 3 + [page(5, config("a", 3))], [])
    informers = Informers(client, Instant())
    told: Told = []
    informers[kind].subscribe(noting(told))
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(PATIENCE):
        await informers.synced([kind])
        assert told == [], "nothing waits for it"
        await client.over.wait()
    assert told == [("", "3")], "it appears when its definition does"
    called = f"{kind.plural}.{kind.group}"
    assert caplog.messages == [
        f"{called} are off, as the cluster does not show them: no such resource",
        f"{called} can be read now",
    ]
    task.cancel()


@pytest.mark.parametrize("kind", [*_OF_DIALECTS, POD], ids=lambda kind: f"{kind.plural}.{kind.group}")
async def test_only_kinds_of_other_schedulers_are_off_if_a_role_lacks_them(kind: Kind[Any]) -> None:
    """Muster can do without their groups, whose pods wait; not without jobs and pods."""
    client: Any = Script([Forbidden("no")] * 3 + [page(5, config("a", 3))], [])
    informers = Informers(client, Instant())
    reflector, off = informers[kind], []
    reflector.subscribe(lambda old, new: off.append(reflector.synced.is_set()))
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(PATIENCE):
        await client.over.wait()
    assert off == [kind in FOREIGN]
    assert kind in FOREIGN or kind in (JOBSET, POD)
    task.cancel()
