"""Who writes what about a gang, as the API server saw it, and how much at most.

How many writes it is exactly depends on how fast pods are made and start: tests/runtime/test_few_writes.py
counts them in virtual time.
"""

from collections import Counter

import pytest

from muster.api.kinds import GANG, POD, POD_GROUP_X
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, gang

SIZES = (20, 1)
SCHEDULER, CONTROLLERS = (
    f"system:serviceaccount:muster-system:muster-{name}" for name in ("scheduler", "controllers")
)


async def test_a_gang_costs_a_few_writes_besides_its_binds_each_by_the_daemon_whose_it_is(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    cluster.muster("fake-nodes", "2 x name=few,cpu=16,memory=8Gi,label:test=few")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    for size in SIZES:
        await gang(cluster, f"few{size}", size, test="few")

    async def told() -> bool:
        for size in SIZES:
            record = await cluster.client.get(GANG, "default", f"podgroup-few{size}")
            if (record.status.phase, record.status.bound, record.status.running) != ("Standing", size, size):
                return False
            group = await cluster.client.get(POD_GROUP_X, "default", f"few{size}")
            if (group.status.phase, group.status.running) != ("Running", size):
                return False
        return True

    await cluster.until("both run, and say so", told)
    for size in SIZES:
        pods = await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}=few{size}")
        assert all(pod.status.phase == "Running" for pod in pods.items)
        gangs = writes(plane, "gangs", f"podgroup-few{size}")
        groups = writes(plane, "podgroups", f"few{size}")
        print(f"a gang of {size}: {dict(gangs)}, {dict(groups)}")
        assert gangs["create gangs", SCHEDULER] == 1
        assert gangs.keys() <= {
            ("create gangs", SCHEDULER),
            ("patch gangs", SCHEDULER),
            ("patch gangs", CONTROLLERS),
        }, "its plan is in its record"
        assert gangs.total() <= 3 + size + size, "one more for each pod that comes late or starts late"
        assert groups["create podgroups", "admin"] == 1
        assert groups.keys() == {("create podgroups", "admin"), ("patch podgroups/status", CONTROLLERS)}
        assert groups.total() <= 4 + size, "Pending, Scheduled, Running, and each pod that starts late"


def writes(plane: ControlPlane, of: str, name: str) -> Counter[tuple[str, str]]:
    """Accepted writes of the object of this name, and of plans of this gang, by verb, resource and user."""
    found: Counter[tuple[str, str]] = Counter()
    for entry in plane.entries():
        match entry:
            case {
                "verb": str(verb),
                "user": {"username": str(user)},
                "objectRef": {"resource": str(resource), "name": str(one), **more},
                "responseStatus": {"code": int(code)},
            } if code < 300 and (
                (resource, one) == (of, name) or (resource == "gangplans" and one.startswith(f"{name}-"))
            ):
                what = "/".join(filter(None, (resource, str(more.get("subresource", "")))))
                found[f"{verb} {what}", user] += 1
    return found
