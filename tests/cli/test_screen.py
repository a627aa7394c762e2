"""The terminal during `muster run`."""

import asyncio
import io
import os
from contextlib import suppress

import pytest

from muster.app.commands.follow import StatusChanged
from muster.app.views.job import State
from muster.app.views.lines import Lines, Printed
from muster.cli.screen import Screen, frame
from muster.cli.writer import Writer
from tests.cli.test_show import view


def printed(pod: str, *texts: str, missing: int = 0, unfinished: tuple[tuple[str, str], ...] = ()) -> Printed:
    return Printed((Lines(pod, texts, missing),), unfinished)


async def test_without_a_terminal_a_status_is_printed_once() -> None:
    out = io.StringIO()
    async with Screen(Writer(out, terminal=False)) as screen:
        for _ in range(2):
            await screen.show(StatusChanged((view(),)))
        await screen.show(printed("worker-0", "hello"))
        await screen.show(printed("w", "[bold]not markup", missing=1234))
        await screen.show(StatusChanged((view(),), unread=3))
        await screen.show(StatusChanged((view(State.SUCCEEDED),)))
    assert out.getvalue().splitlines() == [
        "running · 5 of 5 running",
        "worker-0 │ hello",
        "w        │ … 1,234 lines not shown",
        "w        │ [bold]not markup",
        "running · 5 of 5 running · output of 3 containers is not shown yet",
    ]


@pytest.mark.looptime
async def test_on_a_terminal_lines_stand_below_and_each_pod_has_its_colour() -> None:
    out = io.StringIO()
    async with Screen(Writer(out, terminal=True)) as screen:
        await screen.show(StatusChanged((view(State.WAITING, reason=("Fragmented", "x" * 100)),)))
        await screen.show(printed("a", "[red]1"))
        await screen.show(printed("b", "2", unfinished=(("b", "\x1b[31m50%\x1b[0m"), ("c", "░" * 100))))
        await screen.show(printed("a", "3"))
    text = out.getvalue()
    assert text.count("\x1b[36ma │ \x1b[0m") == 2
    assert "\x1b[36ma │ \x1b[0m[red]1\n" in text
    assert "\x1b[35mb │ \x1b[0m2\nb │ 50%\nc │ ░" in text
    assert "\x1b[1A" in text, "three lines stood below"
    assert "Fragmented" in text
    assert "x" * 81 not in text, "the line is cut, not wrapped"
    assert "░" * 80 not in text
    assert text.endswith("\r\x1b[2K"), "at the end nothing stands below"


@pytest.mark.looptime
async def test_more_bars_than_a_terminal_has_lines_are_counted() -> None:
    out = io.StringIO()
    async with Screen(Writer(out, terminal=True)) as screen:
        await screen.show(Printed((), tuple((f"p{number}", "50%") for number in range(100))))
        standing = out.getvalue()
    assert standing.count("50%") == 20
    assert standing.endswith("… and 80 more")


@pytest.mark.parametrize(
    ("scrolled", "before", "below", "expected"),
    [
        ([], [], [], ""),
        ([], ["a"], ["a"], ""),
        (["x\n"], [], ["a"], "x\na"),
        ([], ["a"], ["b", "c"], "\r\x1b[2Kb\nc"),
        (["x\n"], ["b", "c"], [], "\r\x1b[2K\x1b[1A\x1b[2Kx\n"),
    ],
)
def test_a_frame_draws_over_what_stood_below(
    scrolled: list[str], before: list[str], below: list[str], expected: str
) -> None:
    assert frame(scrolled, before, below) == expected


async def test_an_output_that_takes_nothing_holds_up_nothing_else() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="latin-1") as stream, os.fdopen(reading, "rb") as rest:
        writer = Writer(stream)
        stuck = asyncio.create_task(writer.write("x │" * 2**20))
        await asyncio.sleep(0)
        assert not stuck.done()
        stuck.cancel()
        with suppress(asyncio.CancelledError):
            await stuck
        read = asyncio.create_task(asyncio.to_thread(rest.read, 3 * 2**20 + 3))
        await writer.write("end")
        assert (await read)[-6:] == b"x ?end", "what it cannot encode is replaced"


async def test_an_output_whose_reader_has_gone_is_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        screen = Screen(Writer(stream))
        with pytest.raises(BrokenPipeError):
            await screen.show(printed("a", "1"))


async def test_a_stream_that_was_closed_is_an_error() -> None:
    stream = io.StringIO()
    writer = Writer(stream)
    await writer.write("before")
    stream.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await writer.write("after")
