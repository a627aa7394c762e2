"""Marks of other schedulers: a gang's mark that is not read keeps its pods from starting one by one."""

from typing import Final

import pytest

from muster.api import groups, kinds
from muster.api.base import Object, Resource
from muster.api.foreign_marks import TABLE, Asks, ForeignMark, Where
from muster.core.words.gang import Code
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.touched import keys_touched
from tests.api.test_foreign_marks import marked
from tests.translate.cluster import child, grouped, job, jobset, pod, pod_group, pod_spec, read, world

ALONE: Final = GroupKey(groups.POD, "ns", "a")
CASES: Final = [
    pytest.param(row, kind, id=f"{row.key} {kind}")
    for row in TABLE
    for kind in ("Pod", "Job", "JobSet")
    if kind in row.on
]


def objects(row: ForeignMark | None, on: str, gang: str = "") -> list[Resource]:
    """A pod `a`, and its owners if the mark stands on them."""
    where = marked(row) if row is not None else {}
    meta: Object = {**where.get("metadata", {})}
    fields: Object = {**where.get("spec", {})}
    if on == "Pod":
        return [pod("a", spec={**pod_spec(), **fields}, **meta)]
    if on == "Job":
        owner = job(gang=gang, **meta, **fields)
        return [pod("a", owner=owner), owner]
    top = jobset(gang=gang, **meta, **fields)
    below = child(top, "w", 0)
    return [pod("a", owner=below), below, top]


def the_pod(*found: Resource) -> Group:
    group = read(ALONE, world(*found))
    assert group is not None
    return group


@pytest.mark.parametrize(("row", "on"), CASES)
def test_a_pod_without_a_gang_is_refused_if_it_asks_for_one_and_else_warned_of(
    row: ForeignMark, on: str
) -> None:
    assert the_pod(*objects(None, on)).gang.gate is None
    group = the_pod(*objects(row, on))
    assert group.warnings == (row.sentence(),)
    gate = group.gang.gate
    if row.asks is not Asks.GANG:
        assert gate is None
        return
    assert gate is not None
    assert (gate.code, gate.message) == (Code.INVALID, row.sentence())


@pytest.mark.parametrize(("row", "on"), [each for each in CASES if each.values[1] != "Pod"])
def test_the_gang_of_a_job_is_warned_of(row: ForeignMark, on: str) -> None:
    dialect, name = (groups.JOB, "j") if on == "Job" else (groups.JOBSET, "s")
    _, *owners = objects(row, on, gang="true")
    group = read(GroupKey(dialect, "ns", name), world(*owners))
    assert group is not None
    assert group.warnings == (row.sentence(),)
    assert group.gang.gate is None or group.gang.gate.code is Code.MEMBERS_MISSING


@pytest.mark.parametrize("row", [row for row in TABLE if "Pod" in row.on and row.where is not Where.FIELD])
def test_the_gang_of_a_pod_group_is_warned_of(row: ForeignMark) -> None:
    of_group = pod_group(minimum=1, **marked(row)["metadata"])
    both = {key: {**values} for key, values in marked(row)["metadata"].items()}
    labels = {**both.get("labels", {}), groups.POD_GROUP.label: "g"}
    member = pod("a", labels=labels, annotations=both.get("annotations"))
    for found in (of_group, grouped("a")), (pod_group(minimum=1), member):
        group = read(GroupKey(groups.POD_GROUP, "ns", "g"), world(*found))
        assert group is not None
        assert (group.gang.gate, group.warnings) == (None, (row.sentence(),))


@pytest.mark.parametrize(("row", "on"), [each for each in CASES if each.values[1] != "Pod"])
def test_pods_are_read_again_when_their_owner_gets_a_mark(row: ForeignMark, on: str) -> None:
    one, *before = objects(None, on)
    _, *after = objects(row, on)
    now = world(one, *after)
    kind = kinds.JOB if on == "Job" else kinds.JOBSET
    assert ALONE in keys_touched(kind, before[-1], after[-1], now)
    assert ALONE in keys_touched(kind, after[-1], before[-1], now)
    assert ALONE not in keys_touched(kind, after[-1], after[-1], now)
