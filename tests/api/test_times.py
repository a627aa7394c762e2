"""Times of objects, as absurd as they may be."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import FIRST, LAST, ObjectMeta, bounded, deletion_asked
from muster.api.core_v1 import Pod
from muster.controllers.cron.objects import written
from muster.controllers.job.status import text
from muster.workloads.pod_run import _seconds, told_to_end

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


@given(TIMES, TIMES, st.integers(-(2**63), 2**63 - 1))
def test_no_grace_period_is_too_long(deleted: datetime, ended: datetime, grace: int) -> None:
    meta = ObjectMeta(deletion_timestamp=deleted, deletion_grace_period_seconds=grace)
    asked = deletion_asked(meta)
    assert asked is not None
    assert FIRST <= asked <= bounded(deleted)
    assert told_to_end(Pod(metadata=meta), ended) == (ended >= asked)
