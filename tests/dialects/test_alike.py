"""One demand, written in each dialect, gets one decision."""

import json
import re
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import groups
from muster.api.base import Object
from muster.app.plan.decisions import Decision
from muster.app.snapshot import Snapshot
from muster.runtime.mirror import WATCHED
from muster.workloads.annotate import as_gang
from muster.workloads.snapshot import Objects, parse, typed
from tests.dialects.demands import GROUPS, LAYER, NAME, RACK, UNWRITTEN, WRITTEN, Demand, Pods, Written
from tests.tiers import examples

#: What stands before a pod, or before a place of a Job or JobSet, whose pods do not exist yet.
_PLACE: Final = re.compile(rf"^default/({NAME}/)?")
#: Seconds since the epoch.
NOW: Final = 1_800_000_000.0
#: Demands that fit; each dialect can say one of them.
SIMPLE: Final = (
    Demand(pods=(Pods(2, 3),), minimum=2, queue="small", priority="high"),
    Demand(pods=(Pods(1, 3),), minimum=1, queue="small", priority="high"),
)
#: Two racks of two nodes.
RACKS: Final = {"n-0": "r-0", "n-1": "r-0", "n-2": "r-1", "n-3": "r-1"}


def node(name: str, cpus: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {RACK: RACKS[name]}},
        "status": {
            "allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def running(name: str, node: str, cpu: int) -> Object:
    containers = [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": node, "priorityClassName": "low", "containers": containers},
        "status": {"phase": "Running"},
    }


def priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


#: The racks are a layer.
TOPOLOGY: Final[Object] = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "ClusterNetworkTopology",
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {"topologyLayer": LAYER, "labelKey": [RACK]},
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": LAYER},
        ]
    },
}
SETTINGS: Final[list[Object]] = [
    priority_class("low", -10),
    priority_class("high", 100),
    {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "small"},
        "spec": {"capability": {"cpu": "6"}},
    },
    TOPOLOGY,
]


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    first = Pods(draw(st.integers(1, 4)), draw(st.integers(1, 5)))
    # equal shapes are one pod set of a PodGroup, and two of a JobSet: another demand
    other = draw(st.integers(1, 5).filter(lambda cpu: cpu != first.cpu))
    second = (Pods(draw(st.integers(1, 2)), other, "second"),) if draw(st.booleans()) else ()
    count = sum(each.count for each in (first, *second))
    return Demand(
        pods=(first, *second),
        minimum=draw(st.sampled_from([count, count, *range(1, count + 3)])),
        queue=draw(st.sampled_from(["", "", "", "small", "small", "unknown"])),
        priority=draw(st.sampled_from(["", "", "high", "low"])),
        together=draw(st.booleans()),
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    sizes = draw(st.lists(st.integers(2, 8), min_size=1, max_size=len(RACKS)))
    nodes = [node(name, cpus) for name, cpus in zip(RACKS, sizes, strict=False)]
    there = [
        running(f"other-{number}", name, draw(st.integers(1, cpus)))
        for number, (name, cpus) in enumerate(zip(RACKS, sizes, strict=False))
        if draw(st.booleans())
    ]
    return [*nodes, *there, *SETTINGS]


def decided(proposed: Objects, cluster: Objects) -> list[Decision]:
    found = Snapshot(cluster, now=NOW).plan(proposed)
    return found.decisions[: found.proposed] or found.decisions


def told(decisions: list[Decision]) -> list[Any]:  # Any: JSON
    """The decisions, with the pods named after their set, and the gang after nothing."""
    return [
        (
            each.outcome,
            {_PLACE.sub("", pod).replace("main-", "first-"): node for pod, node in each.assignments.items()},
            each.victims,
            plain(each.reason),
        )
        for each in decisions
    ]


def plain(reason: Any) -> Any:  # Any: JSON
    """An explanation whose pod sets are named by their position: dialects name them by shape or by job."""
    text = json.dumps(reason)
    for number, each in enumerate(reason["podSets"] if reason else ()):
        text = re.sub(rf"\b{each['name']}\b", f"set {number}", text)
    return json.loads(text)


def answers(demand: Demand, cluster: list[Object]) -> dict[str, list[Any]]:  # Any: JSON
    """The decision by the way of writing the demand."""
    there, found = typed(cluster, WATCHED), {}
    for way in WRITTEN:
        if (objects := way.objects(demand)) is not None:
            found[f"{way}"] = told(decided(typed(objects, WATCHED, proposed=True), there))
    return found


@pytest.mark.parametrize("way", WRITTEN, ids=str)
def test_a_snapshot_may_hold_gangs_of_each_dialect(way: Written) -> None:
    """As `kubectl get -o yaml` prints them: a gang that waits there is decided like one that is proposed."""
    demand = next(each for each in SIMPLE if way.objects(each) is not None)
    cluster = [node("n-0", 4), node("n-1", 4), *SETTINGS]
    objects = way.objects(demand) or []
    proposed = decided(typed(objects, WATCHED, proposed=True), typed(cluster, WATCHED))
    for each in objects:
        if "replicatedJobs" in each["spec"] or "parallelism" in each["spec"]:
            as_gang(each)
    text = yaml.safe_dump_all([*cluster, {"apiVersion": "v1", "kind": "List", "items": objects}])
    found = Snapshot(parse(text.encode(), "cluster.yaml", WATCHED), now=NOW).plan(Objects())
    assert not found.proposed
    assert told(found.decisions) == told(proposed)
    assert len(found.decisions[0].assignments) == demand.count


@given(demands(), clusters())
@settings(max_examples=examples(200))
def test_the_same_demand_gets_the_same_decision(demand: Demand, cluster: list[Object]) -> None:
    found = answers(demand, cluster)
    first, expected = next(iter(found.items()))
    for way, answer in found.items():
        assert answer == expected, f"{way} and {first}"


def test_each_dialect_is_written_or_says_why_not() -> None:
    """A new row of the table has to stand in `demands`."""
    assert {way.dialect for way in WRITTEN} | UNWRITTEN.keys() == {*groups.TABLE}
    assert {way.dialect for way in WRITTEN}.isdisjoint(UNWRITTEN)
    assert all(UNWRITTEN.values())
    for row in groups.NAMED:
        keys = {*filter(None, (row.naming.label, *row.naming.annotations))}
        ways = {way.by for way in WRITTEN if way.dialect is row}
        assert row in UNWRITTEN or (row in GROUPS and keys <= ways)
