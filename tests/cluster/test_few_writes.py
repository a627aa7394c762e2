"""How many writes a gang costs besides its binds, counted by the API server."""

from collections import Counter

import pytest

from muster.api.kinds import GANG, POD
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, gang

#: By size, the most writes of muster's records for a gang that starts at once and runs.
MOST = {20: 3, 1: 2}


async def test_a_gang_that_starts_at_once_costs_at_most_three_writes_besides_its_binds(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    cluster.muster("fake-nodes", "2 x name=few,cpu=16,memory=8Gi,label:test=few")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    for size in MOST:
        await gang(cluster, f"few{size}", size, test="few")

    async def told() -> bool:
        for size in MOST:
            record = await cluster.client.get(GANG, "default", f"podgroup-few{size}")
            if (record.status.phase, record.status.bound, record.status.running) != ("Standing", size, size):
                return False
        return True

    await cluster.until("both run, and say so", told)
    for size, most in MOST.items():
        pods = await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}=few{size}")
        assert all(pod.status.phase == "Running" for pod in pods.items)
        written = writes(plane, f"podgroup-few{size}")
        print(f"a gang of {size}: {dict(written)}")
        assert written.total() <= most, written
        assert writes(plane, f"few{size}").total() <= 2, "the PodGroup that its user made, and its status"


def writes(plane: ControlPlane, name: str) -> Counter[str]:
    """Accepted writes of objects of this name, or of plans of this gang, by verb and resource."""
    found: Counter[str] = Counter()
    for entry in plane.entries():
        match entry:
            case {
                "verb": str(verb),
                "objectRef": {"resource": "gangs" | "gangplans" | "podgroups" as of, "name": str(one)},
                "responseStatus": {"code": int(code)},
            } if code < 300 and (one == name or (of == "gangplans" and one.startswith(f"{name}-"))):
                found[f"{verb} {of}"] += 1
    return found
