"""The election beside a daemon: what ends it, ends the daemon."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from muster.app.wiring import daemon
from muster.app.wiring.daemon import Candidate
from muster.app.wiring.settings import ControllersSettings
from muster.kube.http import Connection
from muster.runtime.election import Election
from muster.runtime.leader import Deposed, Term
from tests.patience import PATIENCE


async def _fails(*args: Any) -> Any:
    raise ValueError("a fault in the election")


async def _wins(*args: Any) -> Term:
    return Term(7)


@pytest.mark.parametrize(
    ("win", "ends"), [(_fails, Candidate.won), (_wins, Candidate.lost)], ids=["to win", "to keep"]
)
async def test_an_election_that_fails_is_not_waited_for(
    win: Callable[..., Awaitable[Term]],
    ends: Callable[[Candidate], Awaitable[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing(Election):
        pass

    monkeypatch.setattr(Failing, "win", win)
    monkeypatch.setattr(Failing, "keep", _fails)
    monkeypatch.setattr(daemon, "Election", Failing)
    candidate = Candidate(Connection("http://127.0.0.1:1"), ControllersSettings())
    candidate.start()
    with pytest.raises(ValueError, match="a fault in the election"):
        async with asyncio.timeout(PATIENCE):
            await ends(candidate)
    await candidate.leave(0)


async def test_the_lease_is_released_once_what_leads_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the election is what ends it: a late write must not meet the next leader."""
    released: list[int] = []

    async def deposed(*args: Any) -> None:
        raise Deposed("another can read what this leader cannot")

    async def release(self: Any, pods_seen: int) -> None:
        released.append(pods_seen)

    monkeypatch.setattr(Election, "win", _wins)
    monkeypatch.setattr(Election, "keep", deposed)
    monkeypatch.setattr(Election, "release", release)
    candidate = Candidate(Connection("http://127.0.0.1:1"), ControllersSettings())
    candidate.start()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Deposed):
            await candidate.lost()
    assert released == []
    await candidate.leave(42)
    assert released == [42]


@pytest.mark.parametrize(
    ("pid", "pod", "instance"), [(1, "u-1", "u-1_"), (7, "u-1", ""), (1, "", ""), (1, None, "")]
)
def test_only_the_first_process_of_a_container_knows_that_the_last_one_is_gone(
    pid: int, pod: str | None, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process in the container, or in a namespace of several containers, has another number."""
    monkeypatch.setattr("os.getpid", lambda: pid)
    monkeypatch.delenv(daemon.POD_UID, raising=False)
    if pod is not None:
        monkeypatch.setenv(daemon.POD_UID, pod)
    assert daemon.instance() == instance
