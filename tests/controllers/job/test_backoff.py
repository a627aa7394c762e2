from datetime import timedelta

import pytest

from muster.controllers.job.backoff import delay


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 360), (8, 360), (10_000, 360)],
)
def test_delay(failures: int, seconds: int) -> None:
    assert delay(failures) == timedelta(seconds=seconds)
