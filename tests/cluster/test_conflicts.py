"""The scheduler and the controllers write to the same Gangs at the same time, each its own fields."""

import asyncio
from collections import Counter

import pytest

from muster.api.kinds import GANG
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import gang

GANGS, SIZE = 30, 8


async def test_many_gangs_start_without_a_conflict_over_their_records(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    cluster.muster("fake-nodes", f"4 x name=busy,cpu={GANGS},memory=64Gi,label:test=busy")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    since = plane.audit.stat().st_size
    names = [f"busy{number}" for number in range(GANGS)]
    await asyncio.gather(*(gang(cluster, name, SIZE, cpu="100m", test="busy") for name in names))

    async def running() -> bool:
        records = [await cluster.client.get(GANG, "default", f"podgroup-{name}") for name in names]
        return all((each.status.phase, each.status.running) == ("Standing", SIZE) for each in records)

    await cluster.until("all run", running)
    found = conflicts(plane, since)
    print(f"{GANGS} gangs of {SIZE}: {dict(found)}")
    assert found == {}


def conflicts(plane: ControlPlane, since: int) -> Counter[tuple[str, int]]:
    """Patches of Gangs that were not made because the Gang had changed, by account and code."""
    found: Counter[tuple[str, int]] = Counter()
    for entry in plane.entries(since):
        match entry:
            case {
                "verb": "patch",
                "user": {"username": str(user)},
                "objectRef": {"resource": "gangs"},
                "responseStatus": {"code": (409 | 422) as code},
            }:
                found[user.rpartition("-")[2], code] += 1
    return found
