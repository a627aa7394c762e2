"""Files are converted between dialects: what they ask for stays, or is reported as lost."""

from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import groups
from muster.api.base import Object
from muster.api.fields import Severity
from muster.api.groups import Dialect
from muster.cli.convert import Dialect as Named
from muster.runtime.mirror import WATCHED
from muster.workloads.convert import TARGETS, Converted, convert
from muster.workloads.snapshot import typed
from tests.dialects.demands import NAME, WRITTEN, Demand, Pods, Written
from tests.dialects.test_alike import clusters, decided, demands, plain
from tests.tiers import examples

#: Rows that no file is converted to, and why.
_NO_TARGETS: Final[dict[Dialect, str]] = {
    groups.JOB: "a Job with the mark stays one; JOBSET stands for both",
    groups.POD: "a pod without a group is no gang of several",
}


def converted(objects: list[Object], to: Dialect, scheduler: str = "") -> Converted:
    return convert(yaml.safe_dump_all(objects), "f.yaml", to, scheduler)


def losses(found: Converted) -> list[str]:
    return [str(each) for each in found.findings if each.severity is Severity.WARNING]


def decision(objects: list[Object], cluster: list[Object]) -> list[Any]:  # Any: JSON
    """The outcome, the nodes of the pods, and the explanation; conversions may rename pods."""
    found = decided(typed(objects, WATCHED, proposed=True), typed(cluster, WATCHED))
    return [
        (each.outcome, sorted(each.assignments.values()), each.victims, plain(each.reason)) for each in found
    ]


def expected(demand: Demand, way: Written, to: Dialect) -> set[str]:
    """Words of what has to be lost."""
    lost = set()
    if way.dialect in (to, groups.POD) or (to is groups.JOBSET and way.dialect is groups.JOB):
        return lost
    if demand.together and way.dialect is groups.NATIVE:
        lost.add("schedulingConstraints")
    if to is groups.JOBSET:
        if demand.minimum > demand.count:
            return {"stays as it is"}
        lost |= {"are called", *(("starts whole",) if demand.minimum < demand.count else ())}
    return lost


@given(demands(), clusters(), st.sampled_from(WRITTEN), st.sampled_from(TARGETS))
@settings(max_examples=examples(300))
def test_a_converted_gang_gets_the_same_decision(
    demand: Demand, cluster: list[Object], way: Written, to: Dialect
) -> None:
    """In the other dialect, and again after the way back."""
    objects = way.objects(demand)
    if objects is None:
        return
    there = converted(objects, to)
    lost = losses(there)
    words = expected(demand, way, to)
    assert all(any(word in each for each in lost) for word in words)
    assert all(any(word in each for word in words) for each in lost)
    if words <= {"are called", "stays as it is"}:
        assert decision(there.objects, cluster) == decision(objects, cluster)
        back = converted(there.objects, way.dialect if way.dialect in TARGETS else groups.JOBSET)
        assert decision(back.objects, cluster) == decision(objects, cluster)


@pytest.mark.parametrize("way", WRITTEN, ids=str)
@pytest.mark.parametrize("to", TARGETS, ids=str)
def test_a_gang_is_written_in_the_dialect_that_is_asked_for(way: Written, to: Dialect) -> None:
    count = 1 if way.dialect is groups.POD else 2
    objects = way.objects(Demand(pods=(Pods(count, 3),), minimum=count, queue="q")) or []
    found = converted(objects, to).objects
    rows = {groups.row_of(each) for each in found} - {groups.POD}
    if way.by.startswith("described") and to is groups.DESCRIBED:
        assert found == objects
    elif way.dialect is groups.JOB:
        assert rows == {groups.JOB, to} - {groups.JOBSET}
    elif way.dialect is groups.JOBSET:
        assert rows == {groups.JOBSET, to}
    elif way.dialect is not groups.POD:
        assert rows == {to}
    named = [groups.named_in(each) for each in found if each["kind"] == "Pod"]
    if way.dialect is groups.POD:
        assert found == objects
    else:
        assert all(each is not None and each[:2] == (to.naming, NAME) for each in named)


def test_each_row_is_a_target_or_says_why_not() -> None:
    assert {*TARGETS, *_NO_TARGETS} == {*groups.TABLE}
    assert [str(row) for row in TARGETS] == [each.value for each in Named]
