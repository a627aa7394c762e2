"""The phase of a pod, by table."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.base import Condition
from muster.api.core_v1 import (
    Container,
    ContainerState,
    Pod,
    PodSpec,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from muster.api.times import LAST
from muster.embedded.node.status import Observed, Override, deadline, document, phase

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def containers(init: str, main: str) -> list[Observed]:
    """One container per letter: w(aiting), r(unning), 0 and 1 ended so, c(rash loop); S: a sidecar."""
    result: list[Observed] = []
    for letters, is_init in ((init, True), (main, False)):
        sidecar = False
        for letter in letters:
            if letter == "S":
                sidecar = True
                continue
            spec = Container(f"{letter}{len(result)}", restart_policy="Always" if sidecar else "")
            made = Observed(spec, is_init)
            if letter == "r":
                made.state = ContainerState(running=Running())
                made.ready = made.started = True
            elif letter in "01":
                made.state = ContainerState(terminated=Terminated(exit_code=int(letter)))
            elif letter == "c":
                made.state = ContainerState(waiting=Waiting("CrashLoopBackOff"))
                made.last_state = ContainerState(terminated=Terminated(exit_code=1))
            result.append(made)
            sidecar = False
    return result


@pytest.mark.parametrize(
    ("policy", "init", "main", "expected"),
    [
        ("Never", "", "w", "Pending"),
        ("Never", "", "r", "Running"),
        ("Never", "", "0", "Succeeded"),
        ("Never", "", "1", "Failed"),
        ("Never", "", "01", "Failed"),
        ("Never", "", "0r", "Running"),
        ("Never", "", "1r", "Running"),
        ("OnFailure", "", "00", "Succeeded"),
        ("OnFailure", "", "1", "Running"),
        ("OnFailure", "", "c", "Running"),
        ("Always", "", "0", "Running"),
        ("Always", "", "1", "Running"),
        ("Always", "", "c", "Running"),
        ("Never", "r", "w", "Pending"),
        ("Never", "1", "w", "Failed"),
        ("OnFailure", "1", "w", "Pending"),
        ("OnFailure", "c", "w", "Pending"),
        ("Never", "0", "w", "Pending"),
        ("Never", "0Sr", "r", "Running"),
        ("Never", "0S0", "0", "Succeeded"),
        ("Never", "0S1", "0", "Succeeded"),
    ],
)
def test_phases(policy: str, init: str, main: str, expected: str) -> None:
    assert phase(Pod(spec=PodSpec(restart_policy=policy)), containers(init, main)) == expected


def test_a_pod_that_is_not_over_is_not_terminal_yet() -> None:
    pod = Pod(spec=PodSpec(restart_policy="Never"))
    assert document(pod, containers("", "0"), NOW, NOW, over=False)["phase"] == "Running"
    assert document(pod, containers("", "0"), NOW, NOW)["phase"] == "Succeeded"


def test_an_override_fails_the_pod_and_tells_why() -> None:
    body = document(
        Pod(), containers("", "r"), NOW, NOW, Override("DeadlineExceeded", "too long", failed=True)
    )
    assert (body["phase"], body["reason"], body["message"]) == ("Failed", "DeadlineExceeded", "too long")


def test_conditions_of_others_stay_and_times_move_only_with_the_status() -> None:
    before = datetime(2029, 1, 1, tzinfo=UTC)
    theirs = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    ours = Condition(type="Ready", status="True", last_transition_time=before)
    initialized = Condition(type="Initialized", status="False", last_transition_time=before)
    pod = Pod(status=PodStatus(conditions=[theirs, ours, initialized]))
    body = document(pod, containers("", "r"), NOW, NOW)
    found = {c["type"]: c for c in body["conditions"]}
    assert found["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    assert found["Ready"]["lastTransitionTime"] == "2029-01-01T00:00:00Z"
    assert found["Initialized"]["lastTransitionTime"] == "2030-01-01T00:00:00Z"


def test_status_fields_that_the_official_client_needs_are_written_even_if_zero() -> None:
    status = document(Pod(), containers("", "0"), NOW, NOW)["containerStatuses"][0]
    assert status["restartCount"] == 0
    assert status["ready"] is False
    assert status["imageID"] == ""
    assert status["state"]["terminated"]["exitCode"] == 0
    assert set(status["state"]) == {"terminated"}


def test_a_deadline_beyond_all_times_is_the_last_time() -> None:
    def limited(seconds: int | None) -> Pod:
        return Pod(spec=PodSpec(active_deadline_seconds=seconds))

    started = datetime(2026, 3, 1, tzinfo=UTC)
    assert deadline(limited(5), started) == started + timedelta(seconds=5)
    assert deadline(limited(None), started) is None
    assert deadline(limited(10**15), started) == LAST
