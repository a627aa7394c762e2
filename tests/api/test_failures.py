"""Which failure is the first, and what is said of it and of those that followed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Condition, ObjectMeta
from muster.api.core_v1 import (
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from muster.api.failures import Failure, failures, last_failures, verdict, without_verdict
from muster.names import PREEMPTED

NEVER = ContainerState()
UNCERTAIN = ", so the order is not certain"
T0 = datetime(2026, 3, 1, 12, 0, 0, 500, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def end(code: int, seconds: float, message: str = "", reason: str = "Error") -> ContainerState:
    state = Terminated(exit_code=code, reason=reason, message=message, finished_at=at(seconds))
    return ContainerState(terminated=state)


def pod(
    statuses: Sequence[ContainerStatus],
    *,
    phase: str = "Failed",
    policy: str = "Never",
    inits: Sequence[ContainerStatus] = (),
    sidecars: Sequence[str] = (),
    deleted: float | None = None,
    conditions: Sequence[str] = (),
    why: tuple[str, str] = ("", ""),
) -> Pod:
    meta = ObjectMeta(
        name="p",
        namespace="ns",
        uid="u",
        deletion_timestamp=None if deleted is None else at(deleted + 30),
        deletion_grace_period_seconds=None if deleted is None else 30,
    )
    init_containers = [
        Container(s.name, restart_policy="Always" if s.name in sidecars else "") for s in inits
    ]
    return Pod(
        metadata=meta,
        spec=PodSpec(
            containers=[Container(s.name) for s in statuses],
            init_containers=init_containers,
            restart_policy=policy,
            node_name="n",
        ),
        status=PodStatus(
            phase,
            *why,
            conditions=[Condition(each, "True") for each in conditions],
            container_statuses=list(statuses),
            init_container_statuses=list(inits),
        ),
    )


def main(state: ContainerState, last: ContainerState = NEVER, restarts: int = 0) -> ContainerStatus:
    return ContainerStatus(name="main", state=state, last_state=last, restart_count=restarts)


def codes(of: Pod) -> list[tuple[int | None, int, int]]:
    return [(failure.code, failure.start, failure.times) for failure in failures(of)]


RUNS = ContainerState(running=Running(at(5)))
LOG_STOPPED = ContainerStatus("log", state=end(143, 2))
LOG_AGAIN = ContainerStatus("log", state=RUNS, last_state=end(1, 2), restart_count=1)
WAITS = ContainerState(waiting=Waiting("CrashLoopBackOff", "back-off 10 s"))


#: A container failed and started again, and then its pod was ended as a whole.
AFTER = [(9, 0, 1), (None, 0, 0)]


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (pod([main(end(9, 1))]), [(9, 0, 0)]),
        (pod([main(end(0, 1))], phase="Succeeded"), []),
        (pod([main(end(9, 4, reason="OOMKilled"))], deleted=3), []),
        (pod([main(end(9, 2))], deleted=3), [(9, 0, 0)]),
        (pod([main(end(9, 2))], conditions=[PREEMPTED]), []),
        # it starts again in place: the last state has the real code, whatever the stop made of the container
        (pod([main(RUNS, end(9, 1), 1)], phase="Running", policy="OnFailure"), [(9, 0, 1)]),
        (pod([main(end(143, 9), end(9, 1), 1)], policy="OnFailure", deleted=8), [(9, 0, 1)]),
        (pod([main(end(7, 4), end(9, 1), 1)], phase="Running", policy="OnFailure"), [(9, 0, 1), (7, 1, 2)]),
        # while it waits, the last state is the end of the newest start
        (pod([main(WAITS, end(9, 1), 1)], phase="Running", policy="OnFailure"), [(9, 1, 2)]),
        (pod([main(end(9, 1), end(9, 1), 1)], policy="OnFailure", deleted=8), [(9, 1, 2)]),
        # so it is if the deletion was asked for before that end was seen
        (pod([main(end(9, 9), end(9, 9), 1)], policy="OnFailure", deleted=8), [(9, 1, 2)]),
        (pod([main(NEVER)], inits=[ContainerStatus("fetch", state=end(3, 1))]), [(3, 0, 0)]),
        # a sidecar that is stopped after the others has not failed; one that started again has
        (pod([main(end(0, 1))], inits=[LOG_STOPPED], sidecars=["log"]), [(None, 0, 0)]),
        (pod([main(end(0, 1))], phase="Running", inits=[LOG_STOPPED], sidecars=["log"]), []),
        (pod([main(RUNS)], phase="Running", inits=[LOG_STOPPED], sidecars=["log"]), [(143, 0, 1)]),
        (pod([main(RUNS)], phase="Running", inits=[LOG_AGAIN], sidecars=["log"]), [(1, 0, 1)]),
        (pod([main(NEVER)], why=("Evicted", "disk is full")), [(None, 0, 0)]),
        # its node ended it as a whole: how its containers ended then says nothing, what failed before does
        (pod([main(end(143, 9))], why=("Evicted", "emptyDir")), [(None, 0, 0)]),
        (pod([main(end(1, 9))], why=("Evicted", "emptyDir")), [(None, 0, 0)]),
        (pod([main(end(137, 9))], why=("DeadlineExceeded", "too long")), [(None, 0, 0)]),
        (pod([main(end(143, 9)), main(end(3, 1))], why=("Evicted", "")), [(3, 0, 0), (None, 0, 0)]),
        (pod([main(end(143, 9), end(9, 1), 1)], why=("Evicted", ""), policy="OnFailure"), AFTER),
        (pod([main(end(143, 9))], why=("OutOfSomething", "")), [(143, 0, 0)]),
        (pod([main(NEVER)], deleted=1), []),
    ],
)  # fmt: skip
def test_the_failures_of_a_pod(of: Pod, found: list[tuple[int | None, int, int]]) -> None:
    assert codes(of) == found


def test_a_pod_that_succeeded_after_all_has_no_last_failure() -> None:
    again = pod([main(end(0, 9), end(1, 1), 1)], phase="Succeeded", policy="OnFailure")
    assert (codes(again), last_failures(again)) == ([(1, 0, 1)], [])


def test_an_eviction_is_the_cause_of_what_its_containers_exit_with() -> None:
    told = verdict(
        last_failures(pod([main(end(143, 9), end(9, 1), 1)], policy="OnFailure", why=("Evicted", "full")))
    )
    assert str(told) == "p failed on n: Evicted: full"


def failed(name: str, code: int | None, seconds: float | None, **more: Any) -> Failure:
    when = None if seconds is None else at(seconds)
    return replace(
        Failure("ns", f"pod-{name}", f"uid-{name}", name, "n", "main", False, code, "", when), **more
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([failed("w-0", 1, 9)], "w-0 exited with code 1 on n"),
        (
            [failed("w-0", 1, 9), failed("w-1", 17, 8.85)],
            "w-1 exited with code 17 on n; 1 other with code 1, 150 ms later",
        ),
        (
            [failed("w-2", 17, 8), *(failed(f"w-{n}", 1, 8.13) for n in (0, 1, 3))],
            "w-2 exited with code 17 on n; 3 others with code 1, 130 ms later",
        ),
        (  # as indexes that are retried
            [failed("w-2", 17, 8), *(failed(f"w-{n}", 1, 8.02 + 9 * n) for n in (0, 1, 3))],
            "w-2 exited with code 17 on n; 3 others with code 1, the next within the same 20 ms" + UNCERTAIN,
        ),
        (
            [failed("w-2", 17, 8), *(failed(f"w-{n}", 1, 9 + 9 * n) for n in (0, 1, 3))],
            "w-2 exited with code 17 on n; 3 others with code 1, the next 1 s later",
        ),
        (  # peers of a lost member all fail alike
            [failed("w-2", 17, 8.06), *(failed(f"w-{n}", 1, 8) for n in (0, 1, 3))],
            "w-2 exited with code 17 on n; 3 others with code 1, within the same 60 ms" + UNCERTAIN,
        ),
        (
            [failed("w-0", 1, 0), failed("w-1", 2, 700)],
            "w-0 exited with code 1 on n; 1 other with code 2, 12 min later",
        ),
        (
            [failed("w-0", 9, 3, times=4), failed("w-1", 1, 2, times=3)],
            "w-0 exited with code 9 on n, 4 times; 1 other with code 1",
        ),
        ([failed("w-0", 9, 3, times=4), failed("w-1", 1, 5)], "w-1 exited with code 1 on n"),
        ([failed("w-0", 9, 3), failed("w-1", 1, 5, attempt=1)], "w-1 exited with code 1 on n"),
        ([failed("w-0", None, 3, container="", why="Evicted disk")], "w-0 failed on n: Evicted disk"),
        ([failed("w-0", 3, 3, several=True, container="fetch")], "w-0/fetch exited with code 3 on n"),
    ],
)  # fmt: skip
def test_what_a_verdict_says(found: list[Failure], text: str) -> None:
    told = verdict(found)
    assert told is not None
    assert str(told) == text
    message = f"maxRestarts is 0: {told.exact} (first failed job: j)"
    assert without_verdict(message) == "maxRestarts is 0"


def test_times_in_whole_seconds_do_not_order_failures_within_one() -> None:
    found = [failed("w-0", 1, None), failed("w-1", 1, None), failed("w-2", 17, None)]
    told = verdict([replace(each, at=T0.replace(microsecond=0)) for each in found])
    assert told is not None
    assert str(told) == (
        "w-2 exited with code 17 on n; 2 others with code 1, within the same second" + UNCERTAIN
    )


def test_of_messages_without_a_verdict_only_the_job_is_left_out() -> None:
    assert without_verdict("jobset failed due to one or more job failures (first failed job: j)") == (
        "jobset failed due to one or more job failures"
    )
    assert without_verdict("Job has reached the specified backoff limit") == (
        "Job has reached the specified backoff limit"
    )


FAILURES = st.lists(
    st.builds(
        failed,
        st.sampled_from([f"w-{n}" for n in range(6)]),
        st.sampled_from([None, 1, 2, 17, 137]),
        st.none() | st.integers(0, 400).map(lambda n: n / 30),
        times=st.integers(0, 2),
        attempt=st.integers(0, 2),
    ),
    min_size=1,
    max_size=12,
)


@given(FAILURES, st.randoms())
def test_a_verdict_does_not_depend_on_the_order_in_which_failures_are_known(
    found: list[Failure], random: object
) -> None:
    told = verdict(found)
    assert told is not None
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = verdict(shuffled)
    assert again is not None
    assert again.first == told.first
    assert str(again) == str(told)
    last = max(each.attempt for each in found)
    assert told.first.attempt == last
    assert sum(count for _, count in told.others) == len(
        {f.uid for f in found if f.attempt == last and (f.times > 0) == (told.first.times > 0)}
        - {told.first.uid}
    )
    mine = [each for each in found if each.attempt == last]
    if any(each.times == 0 for each in mine):
        assert told.first.times == 0, "a failure that ended its pod comes before one that did not"
        times = [each.at for each in mine if each.times == 0 and each.at is not None]
        if told.first.at is not None and times:
            assert told.first.at - min(times) < timedelta(milliseconds=100)
