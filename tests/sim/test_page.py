"""The report as a page: whole in itself, well-formed, small, and nothing in it that a trace could inject."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from math import inf, isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.words.events import QueueChanged
from muster.core.words.gang import Queue
from muster.names import GPU
from muster.sim import charts, units
from muster.sim.experiment import Experiment, prepare, run
from muster.sim.history import History
from muster.sim.metrics import UNITS, Recorder
from muster.sim.page import page
from muster.sim.report import Figure, Report, readable
from muster.sim.trace import Clock, Job
from tests.sim.test_experiment import Drawn, Plain
from tests.sim.traces import job
from tests.tiers import examples


class Reader(HTMLParser):
    """Checks that what is opened is closed, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    return reader


EVIL = '<script>alert("x")</script>'


class Queued(Plain):
    rules = [QueueChanged(Queue(name)) for name in (EVIL, "b & c", "c")]

    def jobs(self, tally: object) -> "list[Job]":  # type: ignore[override]
        return [
            job(1, 0, 100, 2)._replace(queue=EVIL),
            job(2, 10, 90, 2)._replace(queue="b & c"),
            job(3, 20, 40, 4)._replace(queue="c"),
        ]


def report(experiment: Experiment) -> Report:
    return run(replace(experiment, history=True), prepare(experiment))


def test_a_page_is_whole_in_itself() -> None:
    found = report(Experiment(Queued()))
    text = page("<b>title</b>", "a & b", "nvidia.com/gpu", found, ("never started: 1",))
    reader = read(text)
    assert "script" not in reader.tags
    assert not [value for _, value in reader.attributes if value and ("http" in value or "url(" in value)]
    assert not {"src", "href", "onload"} & {name for name, _ in reader.attributes}
    words = " ".join(reader.text)
    assert all(name in words for name in UNITS)
    for said in ("<b>title</b>", "a & b", "never started: 1", EVIL, "b & c"):
        assert said in words
    assert {"Utilisation", "Waits by size", "Allocation by queue (GPUs)"} <= set(reader.text)
    assert reader.tags.count("svg") == 4
    assert len(text) < 200_000


class Queueing(Plain):
    """Jobs that each need all of the machine and come at once: the n-th waits n times 40 s."""

    def jobs(self, tally: object) -> "list[Job]":  # type: ignore[override]
        return [job(number, 0, 40, 4) for number in range(20)]


def test_bars_are_the_waits_as_they_were() -> None:
    found = report(Experiment(Queueing(), policy="fcfs"))
    shown = [text for text in read(page("t", "h", "gpu", found)).text if text.startswith("4–7: ")]
    waits = 40.0 * np.arange(20)
    for value in (np.median(waits), waits.mean(), np.percentile(waits, 95)):
        assert f"4–7: {units.duration(float(value))}" in shown
    assert found.metrics["wait_p95"].mean == np.percentile(waits, 95)


def test_seeds_are_reported_with_their_spread() -> None:
    found = report(Experiment(Drawn(), seeds=(1, 2, 3)))
    words = read(page("t", "h", "gpu", found)).text
    assert "over 3 seeds" in words
    assert "The charts show seed 1." in words
    assert {"mean", "std"} <= set(words)


def test_demand_is_what_was_asked_for_also_by_jobs_that_were_dropped() -> None:
    recorder = Recorder(4000, history := History())
    for number in range(4):  # of two GPUs each, where there are four
        arrival = job(number, number, inf, 2)._replace(waits=False)
        recorder.job_submitted(arrival, number)
        if number < 2:
            recorder.job_started(arrival, arrival.size, number)
        else:
            recorder.job_dropped(arrival, number)
    recorder.capacity_changed(0, 4)
    assert history.series["allocated"].tolist() == [2, 4, 4, 4]
    assert history.series["demand"].tolist() == [2, 4, 6, 8]
    assert recorder.allocation_at(200) == 1.0


def test_a_trace_without_times_is_drawn_over_its_arrivals() -> None:
    found = report(Experiment(Queued()))
    words = " ".join(read(page("t", "h", GPU, found, clock=Clock.ARRIVALS)).text)
    assert "The horizontal axis counts arrivals." in words
    charted = words.partition("Allocation and demand")[2].partition("Waits by size")[0]
    assert " 50 100 " in charted
    assert "min" not in charted


@pytest.mark.parametrize(
    ("name", "mean", "std", "shown"),
    [
        ("wait_mean", 5.0, 0.5, ("5", "0.5", "s")),
        ("wait_mean", 6836.8422, 360.0, ("1.8991", "0.1", "h")),
        ("makespan", 864_000.0, None, ("10", "-", "d")),
        ("work_lost", 5400.0, 0.0, ("1.5", "0", "GPU-hours")),
        ("utilisation", 0.75, 0.0, ("0.75", "0", "")),
        ("wait_p95", None, None, ("-", "-", "")),
    ],
)
def test_figures_have_the_units_that_people_use(
    name: str, mean: float | None, std: float | None, shown: tuple[str, str, str]
) -> None:
    found = Report("pack", [1], {name: Figure(mean, std, [mean])}, [])
    assert readable(found, GPU) == [(name, *shown)]


def test_without_a_history_there_are_figures() -> None:
    experiment = Experiment(Plain())
    found = run(experiment, prepare(experiment))
    assert "svg" not in read(page("t", "h", "gpu", found)).tags


rows_of = st.integers(2, 60).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(0, 1e6), min_size=n, max_size=n).map(lambda row: np.array(row)),
        min_size=1,
        max_size=9,
    )
)


@given(rows_of, st.floats(0, 1e9), st.floats(1e-3, 1e7), st.sampled_from(Clock))
@settings(max_examples=examples(60), deadline=None)
def test_whatever_is_drawn_stays_on_the_picture(
    rows: list[charts.Floats], start: float, width: float, clock: Clock
) -> None:
    times: charts.Floats = start + np.arange(len(rows[0]), dtype=np.float64) * width
    named = {f"r{i}": row for i, row in enumerate(rows)}
    top = float(sum(row.max() for row in rows))
    for text in (
        charts.lines(times, named, clock, area="r0"),
        charts.stacked(times, named, clock, top=top),
        charts.bars(
            [f"g{i}" for i in range(len(rows[0]))], {name: row.tolist() for name, row in named.items()}
        ),
    ):
        picture = ET.fromstring(text.partition("<p class")[0])
        assert len(picture) < 3000
        for element in picture:
            for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height"):
                if name in element.attrib:
                    value = float(element.attrib[name])
                    assert isfinite(value)
                    assert -1 <= value <= charts.WIDTH + 1
            for pair in element.attrib.get("d", "").replace("M", "").replace("Z", "").split("L"):
                if pair:
                    x, y = map(float, pair.split(","))
                    assert -1 <= x <= charts.WIDTH + 1
                    assert -1 <= y <= charts.HEIGHT + 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.5, "0.5 s"), (59, "59 s"), (60, "1 min"), (5400, "1.5 h"), (86_400, "1 d"), (1e6, "11.6 d")],
)
def test_durations(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text
