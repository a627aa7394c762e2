"""Which pods have failed at their start, and what the core is told of them."""

from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from muster.api.base import Object
from muster.api.core_v1 import Pod, PodStatus
from muster.api.kinds import JOB, POD
from muster.core.words.events import PodsEnded, StartFailed
from muster.core.words.gang import NodeName
from muster.runtime.mirror import Mirror
from muster.translate.start_failures import Counted, origin_of, start_failed
from tests.translate import cluster

AT: Final = cluster.START.timestamp()
NOW: Final = AT + 1000.0
REJECTED: Final = {
    "phase": "Failed",
    "reason": "OutOfcpu",
    "message": "Pod was rejected: Node didn't have enough resource: cpu",
    "startTime": cluster.time(),
}
ALL: Final = Counted(exits_within=10.0)


def ended(code: int, seconds: float, reason: str = "Error") -> Object:
    times = {"startedAt": cluster.time(), "finishedAt": cluster.time(seconds)}
    state = {"terminated": {"exitCode": code, "reason": reason, "message": "told", **times}}
    return {"phase": "Failed", "containerStatuses": [{"name": "c", "state": state}]}


def pod(status: Object, name: str = "a", **fields: Any) -> Pod:
    made = cluster.pod(name, node="n", **fields)
    return replace(made, status=msgspec.convert({"conditions": [], **status}, PodStatus))


@pytest.mark.parametrize(
    ("status", "counted", "at", "why"),
    [
        (REJECTED, Counted(), 0, "OutOfcpu: Pod was rejected: Node didn't have enough resource: cpu"),
        (REJECTED, Counted(rejections=False, exits_within=60.0), None, ""),
        (
            REJECTED | {"message": "Usage of EmptyDir volume exceeds the limit", "reason": "Evicted"},
            ALL,
            None,
            "",
        ),
        (REJECTED | {"phase": "Pending"}, ALL, None, ""),
        (REJECTED | ended(0, 3), ALL, None, ""),
        (ended(128, 0, "StartError"), Counted(), 0, "StartError: told"),
        (ended(128, 0, "StartError"), Counted(start_errors=False, exits_within=60.0), None, ""),
        (ended(1, 9.5), ALL, 9.5, "exit code 1 after 9.5 s"),
        (ended(1, 10), ALL, None, ""),
        (ended(1, 1), Counted(), None, ""),
    ],
)
def test_what_counts_is_a_setting(status: Object, counted: Counted, at: float | None, why: str) -> None:
    found = start_failed(pod(status), counted, "o", NOW)
    if at is None:
        assert found is None
    else:
        told = f"n failed pod a at its start: {why}"
        assert found == StartFailed(NodeName("n"), "o", "ns", AT + at, told)


@pytest.mark.parametrize("start", ["9999-12-31T23:59:59-12:00", "2100-01-01T00:00:00Z"])
def test_a_clock_that_is_ahead_keeps_no_node_avoided_for_longer(start: str) -> None:
    found = start_failed(pod({**REJECTED, "startTime": start}), Counted(), "o", NOW)
    assert found is not None
    assert found.at == NOW


def test_a_pod_that_was_disrupted_or_has_no_node_accuses_none() -> None:
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    assert start_failed(pod(REJECTED | {"conditions": disrupted}), Counted(), "o", NOW) is None
    assert start_failed(pod(REJECTED, deleting=True), Counted(), "o", NOW) is None
    unbound = pod(REJECTED)
    unbound = replace(unbound, spec=replace(unbound.spec, node_name=""))
    assert start_failed(unbound, Counted(), "o", NOW) is None


def failures(mirror: Mirror) -> list[StartFailed]:
    events = mirror.drain(NOW).events
    found = [event for event in events if isinstance(event, StartFailed)]
    gone = [number for number, event in enumerate(events) if isinstance(event, PodsEnded)]
    assert not found or not gone or gone[0] < events.index(found[0])
    return found


def test_the_mirror_reports_a_failure_once_also_one_of_before_it_began() -> None:
    mirror = Mirror()
    made = cluster.job("j")
    running, failed = pod({"phase": "Running"}, owner=made), pod(REJECTED, owner=made)
    mirror.change(JOB, None, made)
    mirror.change(POD, None, running)
    assert failures(mirror) == []
    mirror.change(POD, running, failed)
    (event,) = failures(mirror)
    assert (event.origin, event.tenant, event.at) == ("Job ns/j", "ns", AT)
    later = replace(failed, metadata=replace(failed.metadata, labels={"a": "b"}))
    mirror.change(POD, failed, later)
    assert failures(mirror) == []
    again = Mirror()
    again.change(JOB, None, made)
    again.change(POD, None, later)
    assert failures(again) == [event]


def test_the_origin_of_a_gangs_pod_is_the_gang_and_of_a_pod_of_no_controller_the_pod() -> None:
    mirror = Mirror()
    mirror.change(POD, None, pod(REJECTED, "alone"))
    group = cluster.pod_group("g", 1)
    mirror.change(cluster.kind_of(group), None, group)
    member = cluster.grouped("m", "g", node="n")
    mirror.change(POD, None, replace(member, status=msgspec.convert(REJECTED, PodStatus)))
    assert {event.origin for event in failures(mirror)} == {"ns/alone", "ns/g"}
    assert origin_of(pod(REJECTED)) == ""
