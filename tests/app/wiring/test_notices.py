"""What is told of a job: each event once, in order, with a bounded number of attempts, over any restarts."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Condition, Object, ObjectMeta
from muster.api.batch_v1 import Job, JobSpec, JobStatus
from muster.api.muster_v1alpha1 import PROGRESSING, Gang, GangStatus, Preemption, Source
from muster.app.views.job import JobView
from muster.app.views.jobs import alone, views
from muster.app.views.objects import Objects
from muster.app.wiring.notices import ATTEMPTS, HOLD, LIMIT, MOST, PACE, Event, Told, gone, happened
from muster.controllers.preemptions import entries
from tests.app.objects import T0, at, pod
from tests.tiers import examples

META = ObjectMeta(name="train", namespace="default", uid="u", creation_timestamp=T0)
NOW = T0.timestamp()
ENTRY: Final[Object] = {
    "by": "ml/urgent",
    "at": "2026-03-01T12:00:05Z",
    "kind": "preemption",
    "gpuHoursLost": "20",
}


def event(number: int) -> Event:
    return Event(f"anomaly {number}", "anomaly", NOW, "running")


END = Event("end", "end", NOW, "failed")


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("hear"), st.integers(0, 5)),
            st.tuples(st.just("end"), st.just(0)),
            st.tuples(st.just("tell"), st.booleans()),
            st.tuples(st.just("crash"), st.booleans()),
            st.tuples(st.just("wait"), st.integers(0, 100)),
            st.tuples(st.just("back"), st.integers(0, 10**7)),
        ),
        max_size=60,
    )
)
def test_each_event_is_told_once_in_order_over_restarts(steps: list[tuple[str, int]]) -> None:
    told, now = Told(), NOW
    heard, arrived, attempts = list[str](), list[str](), dict[str, int]()

    def attempt(arrives: bool, recorded: bool) -> None:
        nonlocal told
        delivery = told.due(now)
        if delivery is None:
            return
        key = delivery.event.key
        assert key not in arrived, "told again"
        told = told.begun(key, now)
        attempts[key] = attempts.get(key, 0) + 1
        if recorded:
            told = told.answered(key, "" if arrives else "500", now)
            arrived.extend([key] * arrives)

    for step, value in steps:
        match step:
            case "hear" | "end":
                new = END if step == "end" else event(value)
                if new.key not in heard and END.key not in heard:
                    heard.append(new.key)
                told = told.heard([new], now)
            case "tell":
                attempt(bool(value), recorded=True)
            case "crash":  # the host ends within an attempt, or between two
                if value:
                    attempt(False, recorded=False)
                told = msgspec.json.decode(msgspec.json.encode(told), type=Told).resumed()
            case "wait":
                now += value
            case "back":
                now -= value
    told = told.heard([END], now)
    for _ in range(2_000):
        if told.over:
            break
        now += 1
        attempt(False, recorded=True)
    assert told.over, "it is given up at some time"
    assert [each.event.key for each in told.deliveries] == [*heard, *([END.key] * (END.key not in heard))]
    assert arrived == [key for key in heard if key in arrived]
    assert all(number <= ATTEMPTS for number in attempts.values())
    assert told.heard([event(9)], now) == told, "nothing is told after the end"


def test_attempts_are_further_and_further_apart_and_the_host_waits_for_all_of_them() -> None:
    told, now, attempts = Told().heard([END], NOW), NOW, list[float]()
    while not told.over:
        if (delivery := told.due(now)) is None:
            now += 1
            continue
        assert told.holds(now)
        attempts.append(now)
        told = told.begun(delivery.event.key, now)
        assert told.due(now + LIMIT) is None, "one at a time"
        now += LIMIT
        told = told.answered(delivery.event.key, "no answer", now)
    pauses = [after - before - LIMIT for before, after in pairwise(attempts)]
    assert pauses == [2, 4, 8, 16, 32, 60, 60]
    assert len(attempts) == ATTEMPTS
    assert not told.holds(now)
    assert told.deliveries[0].trouble == "no answer"


def test_a_host_is_held_up_for_a_bounded_time() -> None:
    told = Told().heard([END], NOW)
    assert told.holds(NOW + HOLD - 1)
    assert not told.holds(NOW + HOLD)
    assert not told.holds(NOW - 1), "by no clock that was put back either"


def test_a_clock_that_is_put_back_delays_nothing() -> None:
    told = Told().heard([END], NOW).begun("end", NOW).answered("end", "500", NOW)
    assert told.due(NOW) is None
    assert told.due(NOW - LIMIT - PACE[1] - 10) is not None


def test_a_job_that_stalls_for_ever_is_told_of_so_often_and_its_end_always() -> None:
    told = Told().heard(map(event, range(10 * MOST)), NOW).heard([END], NOW)
    assert len(told.deliveries) == MOST + 1
    assert told.deliveries[-1].event == END


def view(phase: str = "Running", gangs: tuple[Gang, ...] = (), **status: object) -> JobView:
    job = Job(metadata=META, spec=JobSpec(), status=JobStatus(**status))  # type: ignore[arg-type]
    [found] = views(Objects(jobs=[job], pods=[pod(owner="u", phase=phase)], gangs=list(gangs)))
    return found


def gang(conditions: list[Condition], preemptions: list[Object]) -> Gang:
    spec = Gang().spec
    source = Source("batch/v1", "Job", "train", "u")
    return Gang(
        metadata=ObjectMeta(name="job-train", namespace="default", uid="g"),
        spec=msgspec.structs.replace(spec, source=source),
        status=GangStatus(conditions=conditions, preemptions=preemptions),
    )


def told(found: list[Event]) -> list[tuple[str, str, str]]:
    return [(each.what, each.code, each.message) for each in found]


def test_a_job_that_waits_has_nothing_to_tell() -> None:
    assert told(list(happened(view("Pending"), NOW))) == []


def test_a_job_tells_its_start_its_anomalies_its_evictions_and_its_end() -> None:
    stalled = Condition(PROGRESSING, "False", "NaN", "loss\0is NaN\n", last_transition_time=at(3))
    running = list(happened(view(gangs=(gang([stalled], [ENTRY]),)), NOW))
    assert told(running) == [
        ("start", "", ""),
        ("anomaly", "NaN", "loss is NaN "),
        ("eviction", "preemption", "evicted by ml/urgent; lost 20 GPU-hours"),
    ]
    assert [each.at for each in running[1:]] == [at(3).timestamp(), at(5).timestamp()]
    again = Condition(PROGRESSING, "False", "NaN", "later", last_transition_time=at(9))
    assert {each.key for each in happened(view(gangs=(gang([again], []),)), NOW)} != {
        each.key for each in running
    }, "a second anomaly is another one"
    fine = Condition(PROGRESSING, "True", "Progressing", "", last_transition_time=at(9))
    assert told(list(happened(view(gangs=(gang([fine], []),)), NOW))) == [("start", "", "")]


def test_a_job_that_ended_between_two_looks_tells_its_start_too() -> None:
    failed = Condition("Failed", "True", "BackoffLimitExceeded", "too often", last_transition_time=at(9))
    found = list(happened(view("Failed", conditions=[failed], failed=1), NOW))
    assert told(found) == [("start", "", ""), ("end", "BackoffLimitExceeded", "too often: p failed")]
    assert (found[-1].state, found[-1].exit_code) == ("failed", 1)
    never = list(happened(view("Pending", conditions=[failed]), NOW))
    assert [each.what for each in never] == ["end"]


def test_an_eviction_is_the_same_while_the_gang_exists_and_when_only_its_record_is_left() -> None:
    [(name, spec)] = entries(gang([], [ENTRY]))
    seen = [each for each in happened(view(gangs=(gang([], [ENTRY]),)), NOW) if each.what == "eviction"]

    def records(**of: str) -> list[Preemption]:
        fields: Mapping[str, object] = {"job": "Job train", **of}
        changed = msgspec.structs.replace(spec, **fields)
        return [Preemption(metadata=ObjectMeta(name=name, namespace="default"), spec=changed)]

    last = alone(kinds.JOB, Job(metadata=META, spec=JobSpec()))
    found = list(gone(last, records(), NOW, NOW))
    assert [each.key for each in found] == [seen[0].key, "end"]
    assert (found[-1].state, found[-1].code) == ("cancelled", "Cancelled")
    for others in (gone(last, records(job="Job other"), NOW, NOW), gone(last, records(), NOW + 60, NOW)):
        assert [each.what for each in others] == ["end"], "of another job, or of an earlier one"


def test_a_job_that_was_deleted_after_its_end_tells_how_it_ended() -> None:
    done = Condition("Complete", "True", "CompletionsReached", "", last_transition_time=at(9))
    last = alone(
        kinds.JOB, Job(metadata=META, spec=JobSpec(), status=JobStatus(conditions=[done], succeeded=1))
    )
    assert [(each.what, each.state, each.exit_code) for each in gone(last, [], NOW, NOW)] == [
        ("start", "running", None),
        ("end", "succeeded", 0),
    ]
    assert [each.state for each in gone(None, [], NOW, NOW)] == ["cancelled"]
