"""Records of evictions: each once, for as long as they are kept, and never too many."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from muster.api.base import Object
from muster.api.muster_v1alpha1 import Gang, Preemption
from muster.app.views.usage import added_up, summary
from muster.controllers.preemptions import KEPT, MOST, Observed, reconcile
from muster.effects import Create, Delete, Effect, Requeue

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def entry(hours: float = 1.0, **fields: object) -> Object:
    at = (NOW - timedelta(hours=hours)).isoformat()
    told = {"by": "ml/urgent", "at": at, "kind": "preemption", "lostResourceSeconds": 72000.0}
    return {**told, "gpuHoursLost": "20", "costLost": "70.00", **fields}


def gang(*entries: object, name: str = "jobset-train") -> Gang:
    body = {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {"queue": "team-a", "source": {"kind": "JobSet", "name": "train"}},
        "status": {"preemptions": list(entries)},
    }
    return msgspec.convert(body, Gang)


def created(effects: list[Effect]) -> list[Preemption]:
    found = []
    for effect in effects:
        if isinstance(effect, Create):
            body = {**effect.body, "metadata": {**effect.body["metadata"], "namespace": effect.namespace}}
            found.append(msgspec.convert(body, Preemption))
    return found


def test_an_entry_is_copied_once() -> None:
    effects = reconcile(Observed("ml", (gang(entry()),), ()), NOW)
    [record] = created(effects)
    assert (record.spec.queue, record.spec.job, record.spec.gang) == (
        "team-a",
        "JobSet train",
        "jobset-train",
    )
    assert (record.spec.gpu_hours_lost, record.spec.cost_lost) == ("20", "70.00")
    again = reconcile(Observed("ml", (gang(entry()),), (record,)), NOW)
    assert again == [Requeue(NOW - timedelta(hours=1) + KEPT)]
    assert reconcile(Observed("ml", (), (record,)), NOW) == again, "it survives the gang"


def test_a_record_is_deleted_at_its_time_and_not_made_again() -> None:
    old = gang(entry(hours=1))
    [record] = created(reconcile(Observed("ml", (old,), ()), NOW))
    later = NOW + KEPT
    [gone] = reconcile(Observed("ml", (old,), (record,)), later)
    assert isinstance(gone, Delete)
    assert reconcile(Observed("ml", (old,), ()), later) == []


def test_the_newest_are_kept_and_the_others_are_not_made_again() -> None:
    gangs = tuple(gang(*(entry(hours=i * 20 + j) for j in range(20)), name=f"g{i}") for i in range(60))
    records = tuple(created(reconcile(Observed("ml", gangs, ()), NOW)))
    assert len(records) == MOST
    effects = reconcile(Observed("ml", gangs, records), NOW)
    assert [type(effect) for effect in effects] == [Requeue]
    newer = (*gangs, gang(entry(hours=0), name="new"))
    made = reconcile(Observed("ml", newer, records), NOW)
    assert [type(effect) for effect in made] == [Create, Delete, Requeue]


@pytest.mark.parametrize(
    "broken", [{}, {"at": "soon"}, {"by": 5}, {"lostResourceSeconds": "x"}, {"pods": 2**40}, {"costLost": 7}]
)
def test_an_entry_that_cannot_be_read_harms_no_other(broken: Object) -> None:
    bad = {**entry(hours=2), **broken} if broken else {}
    records = created(reconcile(Observed("ml", (gang(bad, entry()),), ()), NOW))
    assert "20" in [record.spec.gpu_hours_lost for record in records]
    added_up(records)


def test_a_time_to_come_is_not_kept_for_longer() -> None:
    [_, requeue] = reconcile(Observed("ml", (gang(entry(hours=-9e4)),), ()), NOW)
    assert requeue == Requeue(NOW + KEPT)


def test_sums_are_exact() -> None:
    many = gang(*(entry(hours=i, gpuHoursLost="0.1", costLost="0.10") for i in range(3)))
    records = created(reconcile(Observed("ml", (many,), ()), NOW))
    unpriced = gang(entry(hours=0.5, costLost=""), name="other")
    records += created(reconcile(Observed("ml", (unpriced,), ()), NOW))
    [week] = added_up(records)
    assert summary(week) == {
        "week": "2026-W48",
        "queue": "team-a",
        "namespace": "ml",
        "jobs": 0,
        "gpuHours": "0",
        "cpuHours": "0",
        "cost": None,
        "waitedSeconds": 0.0,
        "preemptions": 4,
        "gpuHoursLost": "20.3",
        "costLost": "0.30",
        "unpriced": 1,
    }


UNWRITTEN = ["1e999999", "9E+999999", "-5", "NaN", "Infinity", "1_000", " 5", "٣", "9" * 16, "0x10"]


@pytest.mark.parametrize("text", UNWRITTEN)
def test_an_amount_that_muster_does_not_write_counts_nothing(text: str) -> None:
    record = next(iter(created(reconcile(Observed("ml", (gang(entry()),), ()), NOW))))
    spec = msgspec.structs.replace(record.spec, gpu_hours_lost=text, cost_lost=text)
    [week] = added_up([record, msgspec.structs.replace(record, spec=spec)])
    assert (week.preemptions, week.gpu_hours, week.unpriced) == (2, Decimal(20), 1)


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_is_in_no_week_is_left_out(at: str) -> None:
    record = next(iter(created(reconcile(Observed("ml", (gang(entry()),), ()), NOW))))
    spec = msgspec.structs.replace(record.spec, at=datetime.fromisoformat(at))
    assert len(added_up([record, msgspec.structs.replace(record, spec=spec)])) == 1
