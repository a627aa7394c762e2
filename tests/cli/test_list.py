"""The table of `list --watch` on terminals of any height."""

import pytest
from rich.text import Text

from muster.cli.list_ import newest


@pytest.mark.parametrize(
    ("jobs", "height", "shown"),
    [
        (3, 4, ["NAME", "0", "1", "2"]),
        (4, 4, ["NAME", "… 2 older", "2", "3"]),
        (2000, 3, ["NAME", "… 1,999 older", "1999"]),
        (2, 1, ["NAME", "… 1 older", "1"]),
        (0, 1, ["NAME"]),
    ],
)
def test_a_short_terminal_shows_the_newest(jobs: int, height: int, shown: list[str]) -> None:
    lines = [Text("NAME"), *(Text(str(number)) for number in range(jobs))]
    assert [line.plain for line in newest(lines, height)] == shown


def test_older_jobs_are_counted_with_those_that_do_not_fit() -> None:
    lines = [Text("NAME"), *(Text(str(number)) for number in range(5))]
    shown = newest(lines, 4, older=10)
    assert [line.plain for line in shown] == ["NAME", "… 13 older", "3", "4"]
    assert [line.plain for line in newest(lines[:2], None, 10, ": say")] == ["NAME", "… 10 older: say", "0"]
    assert [line.plain for line in newest(lines[:1], 24, 10)] == ["NAME", "… 10 older"]
