"""Times of objects, as absurd as they may be."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import ObjectMeta, deletion_asked
from muster.api.core_v1 import Pod
from muster.api.times import FIRST, LAST, after, bounded, read
from muster.api.times import written as written_
from muster.controllers.cron.objects import written
from muster.controllers.job.status import text
from muster.workloads.pod_run import _seconds, told_to_end
from tests.spoiled import TIMES as ABSURD

ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))
EXTREMES = [each.replace(tzinfo=UTC) for each in (datetime.min, datetime.max)]  # noqa: DTZ901
TIMES = st.one_of(
    st.datetimes(timezones=ZONES),
    st.builds(lambda zone, at: at.replace(tzinfo=zone), ZONES, st.sampled_from(EXTREMES)),
)


@given(TIMES)
def test_every_time_can_be_calculated_with(time: datetime) -> None:
    at = bounded(time)
    assert FIRST <= at <= LAST
    assert at == time or not FIRST <= time <= LAST
    assert datetime.fromtimestamp(at.timestamp(), UTC) <= LAST
    assert text(time)
    assert written(time)
    assert (_seconds(time) or 0) >= 0


@given(TIMES, st.floats(allow_nan=False) | st.integers(-(2**63), 2**63))
def test_no_delay_is_too_long(time: datetime, delay: float) -> None:
    found = after(time, delay)
    assert FIRST <= found <= LAST
    assert delay < 0 or found >= bounded(time)
    assert delay > 0 or found <= bounded(time)
    assert abs(delay) > 10**9 or found in (FIRST, LAST) or found - bounded(time) == timedelta(seconds=delay)


@given(TIMES | st.datetimes(), st.text() | st.sampled_from(ABSURD))
def test_a_time_is_read_as_it_is_written_if_it_is_usable(time: datetime, text: str) -> None:
    at = bounded(time if time.tzinfo is not None else time.replace(tzinfo=UTC))
    assert read(time.isoformat()) == read(written_(at)) == at
    try:
        found = read(text)
    except ValueError:
        return
    assert FIRST <= found <= LAST


@given(TIMES, TIMES, st.integers(-(2**63), 2**63 - 1))
def test_no_grace_period_is_too_long(deleted: datetime, ended: datetime, grace: int) -> None:
    meta = ObjectMeta(deletion_timestamp=deleted, deletion_grace_period_seconds=grace)
    asked = deletion_asked(meta)
    assert asked is not None
    assert FIRST <= asked <= bounded(deleted)
    assert told_to_end(Pod(metadata=meta), ended) == (ended >= asked)
