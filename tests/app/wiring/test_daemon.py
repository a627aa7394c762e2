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
from muster.runtime.leader import Term
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
