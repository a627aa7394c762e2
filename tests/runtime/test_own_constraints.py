"""Pods that differ from their template: admission has changed them. None is bound where it must not run.

The model checks after every write that each pod is on a node of its own selector, and has room there.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.core.cycle import Scheduler
from tests.runtime.model import Cluster, Kind, Running
from tests.runtime.test_repeats import play

SIZE, LONG = 4, 120.0
ZONES = ("a", "b")


def own(zone: str = "", cpu: int = 1) -> Object:
    selector = {"nodeSelector": {"zone": zone}} if zone else {}
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}], **selector}


def cluster_of(pods: list[Object], kind: Kind, rooms: dict[str, int]) -> Cluster:
    cluster = Cluster()
    for zone, room in rooms.items():
        cluster.node(f"n{zone}", room, zone=zone)
    cluster.admits = {("main", index): spec for index, spec in enumerate(pods)}
    cluster.gang("main", len(pods), kind)
    cluster.settle()
    return cluster


def leader(cluster: Cluster, epoch: int = 2) -> Running:
    running = Running(cluster, epoch, core=Scheduler())
    running.take_over()
    running.mirror.changed.set()
    return running


@pytest.mark.parametrize("kind", ["job", "free job"])
def test_a_gang_starts_where_its_pods_may_run_and_not_where_its_template_may(kind: Kind) -> None:
    """Its first plan is of nodes that the template allows and that its pods exclude."""
    cluster = cluster_of([own("b")] * SIZE, kind, {"a": SIZE, "b": SIZE})
    play(cluster, leader(cluster), LONG)
    assert cluster.outcome("main", SIZE) == "whole"


@pytest.mark.parametrize("kind", ["job", "free job"])
def test_a_gang_waits_with_the_reason_if_its_pods_may_run_nowhere(kind: Kind) -> None:
    cluster = cluster_of([own("c")] * SIZE, kind, {"a": SIZE, "b": SIZE})
    running = leader(cluster)
    play(cluster, running, 5.0)
    assert cluster.bound("main") == 0
    record = cluster.record("main")
    assert record is not None
    assert record.status.reason is not None
    assert "zone" in record.status.reason.message
    play(cluster, running, LONG)
    assert running.writes < 200, "it does not start over and over"


@pytest.mark.parametrize("kind", ["job", "free job"])
def test_pods_that_need_more_than_their_template_get_the_room(kind: Kind) -> None:
    cluster = cluster_of([own(cpu=2)] * SIZE, kind, {"a": SIZE, "b": 2 * SIZE})
    play(cluster, leader(cluster), LONG)
    assert cluster.outcome("main", SIZE) == "whole"


PODS = st.builds(own, st.sampled_from(["", *ZONES]), st.integers(1, 2))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(PODS, min_size=1, max_size=SIZE),
    st.sampled_from(["job", "free job"]),
    st.lists(st.integers(1, 8), min_size=2, max_size=2),
    st.integers(0, 12),
    st.booleans(),
)
def test_no_pod_is_ever_bound_against_its_own_constraints(
    pods: list[Object], kind: Kind, rooms: list[int], dies: int, overlapping: bool
) -> None:
    """Whatever admission makes of each pod, and whenever a leader dies."""
    cluster = cluster_of(pods, kind, dict(zip(ZONES, rooms, strict=True)))
    first = leader(cluster)
    first.overlapping = overlapping
    first.quiesce(dies)
    first.stop()
    play(cluster, leader(cluster, 3), LONG)
    zones = {spec.get("nodeSelector", {}).get("zone") for spec in pods}
    cpu = max(int(spec["containers"][0]["resources"]["requests"]["cpu"]) for spec in pods)
    if len(zones) == 1:
        room = {zone: room // cpu for zone, room in zip(ZONES, rooms, strict=True)}
        (zone,) = zones
        fits = sum(room.values()) if zone is None else room[zone]
        if fits >= len(pods):
            assert cluster.outcome("main", len(pods)) == "whole"
