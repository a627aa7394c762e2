"""Marks of other schedulers: a gang's mark that is not read keeps its pods from starting one by one."""

from typing import Final

import msgspec
import pytest

from muster.api import groups, kinds
from muster.api.base import Object, ObjectMeta, Resource
from muster.api.batch_v1 import CronJob
from muster.api.foreign_marks import TABLE, Asks, ForeignMark, Where
from muster.core.words.gang import Code, Gate
from muster.translate.dialects import Reader
from muster.translate.group import Group, Touched
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
        schedule = CronJob(api_version="batch/v1", kind="CronJob", metadata=ObjectMeta(name="c", uid="c"))
        above = schedule if row is not None and row.of_templates else None
        owner = job(gang=gang, owner=above, **meta, **fields)
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


TWO: Final = {groups.POD_GROUP.label: "g", groups.KOORDINATOR.label: "h"}
DESCRIBED: Final = dict(
    zip((groups.KOORDINATOR.by_description[-1], groups.KOORDINATOR.minimum[-1]), "k2", strict=True)
)
KEY: Final = GroupKey(groups.POD_GROUP, "ns", "g")


@pytest.mark.parametrize(
    "where", [{"labels": TWO}, {"labels": {groups.POD_GROUP.label: "g"}, "annotations": DESCRIBED}]
)
@pytest.mark.parametrize("there", [True, False])
def test_a_pod_that_names_gangs_of_two_dialects_is_refused(
    where: dict[str, dict[str, str]], there: bool
) -> None:
    one = pod("a", labels=where["labels"], annotations=where.get("annotations"))
    group = read(KEY, world(one, grouped("b"), *([pod_group(minimum=1)] if there else [])))
    assert group is not None
    assert group.gang.gate is not None
    assert group.gang.gate.code is Code.INVALID
    other = "k" if "annotations" in where else "h"
    for named in (
        f"PodGroup g of {kinds.POD_GROUP_X.group}",
        f"PodGroup {other} of {kinds.POD_GROUP_SIGS.group}",
    ):
        assert named in group.gang.gate.message
    assert "keep one of the two marks" in group.gang.gate.message


def test_two_names_of_one_dialect_are_no_contradiction() -> None:
    both = {groups.KOORDINATOR.label: "g"}
    key = GroupKey(groups.KOORDINATOR, "ns", "g")
    group = read(key, world(pod("a", labels=both, annotations=DESCRIBED)))
    assert group is not None
    assert group.gang.gate is not None
    assert group.gang.gate.code is Code.MEMBERS_MISSING


def test_a_group_with_pods_of_several_schedulers_is_refused_while_there_are_any() -> None:
    mine, theirs = (
        grouped(name, spec=pod_spec(schedulerName=who)) for name, who in (("a", "muster"), ("b", "volcano"))
    )
    now = world(pod_group(minimum=1), mine, schedulers=frozenset({"muster"}))
    reader = Reader(KEY, now)
    assert gate_of(reader) is None
    for _ in range(2):
        now.put(kinds.POD, theirs)
        assert keys_touched(kinds.POD, None, theirs, now) == {KEY}
        gate = gate_of(reader)
        assert gate is not None
        assert (gate.code, "schedulerName: volcano" in gate.message) == (Code.INVALID, True)
        now.drop(kinds.POD, "ns", "b")
        assert KEY in keys_touched(kinds.POD, theirs, None, now)
        assert gate_of(reader) is None
    assert gate_of(Reader(KEY, world(pod_group(minimum=1), mine, theirs))) is None


def gate_of(reader: Reader) -> Gate | None:
    group, _ = reader.read(Touched())
    assert group is not None
    return group.gang.gate


def test_a_name_with_a_namespace_is_refused() -> None:
    there = pod_group(minimum=1)
    key = GroupKey(groups.POD_GROUP, "other", "ns/g")
    away = grouped("a", "ns/g")
    away = msgspec.structs.replace(away, metadata=msgspec.structs.replace(away.metadata, namespace="other"))
    group = read(key, world(there, away))
    assert group is not None
    assert group.gang.gate is not None
    assert (group.gang.gate.code, "own namespace" in group.gang.gate.message) == (Code.INVALID, True)
