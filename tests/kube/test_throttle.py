"""The limit of requests per second."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from muster.kube.throttle import Bucket


class Time:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


async def test_a_burst_goes_out_at_once_and_then_so_many_a_second() -> None:
    clock = Time()
    bucket = Bucket(10.0, 3, clock)
    assert [round(await bucket.take(), 3) for _ in range(6)] == [0, 0, 0, 0.1, 0.1, 0.1]
    clock.time += 10.0
    assert [round(await bucket.take(), 3) for _ in range(4)] == [0, 0, 0, 0.1]
    bucket.set(0.0)
    assert [await bucket.take() for _ in range(100)] == [0.0] * 100


@given(st.floats(0.5, 500), st.integers(1, 50), st.lists(st.floats(0, 2), max_size=60))
async def test_no_second_sees_more_than_the_rate_and_a_burst(
    rate: float, burst: int, gaps: list[float]
) -> None:
    clock = Time()
    bucket, sent = Bucket(rate, burst, clock), list[float]()
    for gap in gaps:
        clock.time += gap
        await bucket.take()
        sent.append(clock.time)
    for first, begin in enumerate(sent):
        for last in range(first, len(sent)):
            assert last - first + 1 <= burst + rate * (sent[last] - begin) + 1e-6
