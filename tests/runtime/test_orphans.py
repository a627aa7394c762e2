"""Members whose node has been deleted are lost at once."""

from dataclasses import replace

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import OwnerReference
from muster.api.core_v1 import Pod
from muster.effects import Absent, Evict, Patch
from muster.runtime.commit.step import step
from muster.runtime.commit.view import GangView, RetryState
from muster.runtime.mirror import Mirror
from tests.runtime.model import Cluster, Running
from tests.runtime.test_commit import LIMITS, TWO, group, plan, pod, view
from tests.translate import cluster


def member(index: int, node: str, *, controlled: bool = True, leaving: bool = False) -> Pod:
    made = pod(index, node)
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="g", uid="uid", controller=True)
    meta = msgspec.structs.replace(made.metadata, owner_references=[owner] if controlled else [])
    if leaving:
        meta = msgspec.structs.replace(meta, deletion_timestamp=cluster.START)
    return msgspec.structs.replace(made, metadata=meta)


BOTH = [member(0, "a"), member(1, "b")]


def done(seen: GangView) -> list[str]:
    found = []
    for write in step(replace(seen, present={"b"}), RetryState(), 0.0, LIMITS).writes:
        match write:
            case Absent(kinds.NODE, "", name, ""):
                found.append(f"no node {name}")
            case Evict(lost, message, True):
                found.append(f"evict {lost.metadata.name}: {message}")
            case Patch(kinds.JOB, body={"spec": {"suspend": True}}):
                found.append("suspend")
            case _:
                found.append(type(write).__name__)
    return found


def test_a_gang_below_its_minimum_is_suspended_if_muster_may_and_then_its_lost_pods_go() -> None:
    assert done(view(group(2, BOTH), {})) == ["no node a", "suspend"]
    gone = member(0, "a", leaving=True)
    after = group(2, [], suspended=True, leaving={gone.metadata.uid: gone})
    assert done(view(after, {})) == ["no node a", "evict p0: "]


@pytest.mark.parametrize("way", ["not muster's", "above the minimum", "while it starts"])
def test_else_only_the_lost_pods_go_so_that_their_controller_replaces_them(way: str) -> None:
    seen = view(group(2, BOTH), {})
    match way:
        case "not muster's":
            seen = view(group(2, BOTH, owner=None), {})
        case "above the minimum":
            made = group(2, BOTH)
            sets = tuple(replace(one, min_count=1) for one in made.gang.pod_sets)
            seen = view(replace(made, gang=replace(made.gang, min_count=1, pod_sets=sets)), {})
        case "while it starts":
            seen = view(group(2, BOTH), {}, plan(TWO))
    assert done(seen) == ["no node a", "evict p0: node a has been deleted"]


def test_a_pod_without_a_controller_is_left_to_the_cluster() -> None:
    alone = [member(0, "a", controlled=False), BOTH[1]]
    assert not [write for write in done(view(group(2, alone, owner=None), {})) if "evict" in write]


def test_the_mirror_names_the_gangs_of_a_node_that_is_gone() -> None:
    mirror = Mirror()
    made, node = cluster.job("j", gang="true"), msgspec.convert({"metadata": {"name": "n"}}, kinds.NODE.type)
    mirror.change(kinds.NODE, None, node)
    mirror.change(kinds.JOB, None, made)
    mirror.change(kinds.POD, None, cluster.pod("p", owner=made, index=0, node="n", phase="Running"))
    assert mirror.drain(0.0).gangs
    assert "n" in mirror.present
    mirror.change(kinds.NODE, node, None)
    assert [*mirror.drain(0.0).gangs] == ["ns/j"]
    assert "n" not in mirror.present


@pytest.mark.parametrize("kind", ["job", "free job"])
def test_a_gang_is_whole_again_on_other_nodes(kind: str) -> None:
    small = Cluster()
    small.node("a", 1)
    small.node("b", 1)
    small.gang("main", 2, kind)  # type: ignore[arg-type]  # one of `Kind`
    leader = Running(small, 1)
    leader.quiesce()
    assert small.outcome("main", 2) == "whole"
    small.node("c", 1)
    small.server.end(kinds.NODE, "a")
    leader.quiesce()
    nodes = {found.spec.node_name for found in small.server.all(kinds.POD) if not found.terminal}
    assert nodes == {"b", "c"}
    assert small.outcome("main", 2) == "whole"
    leader.stop()
