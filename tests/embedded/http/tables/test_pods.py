"""What `kubectl get pods` says of a pod, as upstream's printers_test.go has it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api.base import Object
from muster.embedded.http.tables.pods import COLUMNS

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE = "2026-01-01T11:59:50Z"
RUNNING: Object = {"ready": True, "state": {"running": {}}}


def ended(code: int, reason: str = "", **more: object) -> Object:
    return {"state": {"terminated": {"exitCode": code, **({"reason": reason} if reason else {})}}, **more}


def pod(*statuses: Object, init: list[Object] = [], **status: object) -> Object:  # noqa: B006  # not changed
    sidecar = {"restartPolicy": "Always"}
    return {
        "metadata": {"name": "p", "creationTimestamp": BEFORE},
        "spec": {
            "containers": [{"name": f"c{index}"} for index, _ in enumerate(statuses)],
            "initContainers": [
                {"name": f"i{index}", **(sidecar if "started" in one else {})}
                for index, one in enumerate(init)
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": f"c{index}", **one} for index, one in enumerate(statuses)],
            "initContainerStatuses": [{"name": f"i{index}", **one} for index, one in enumerate(init)],
            **status,
        },
    }


READY = [{"type": "Ready", "status": "True"}]
GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
RESTARTED = {"restartCount": 3, "lastState": {"terminated": {"finishedAt": BEFORE}}}


@pytest.mark.parametrize(
    ("given", "cells"),
    [
        (pod(RUNNING, RUNNING), ["2/2", "Running", "0"]),
        (pod({"state": {}}, phase="Pending"), ["0/1", "Pending", "0"]),
        (pod(phase="Pending", conditions=GATED), ["0/0", "SchedulingGated", "0"]),
        (pod({"state": {"waiting": {"reason": "CrashLoopBackOff"}}}), ["0/1", "CrashLoopBackOff", "0"]),
        (pod(ended(0, "Completed"), phase="Succeeded"), ["0/1", "Completed", "0"]),
        (pod(ended(1, "Error"), ended(0, "Completed"), phase="Failed"), ["0/2", "Error", "0"]),
        (pod(ended(0, "Completed"), ended(1, "Error"), phase="Failed"), ["0/2", "Error", "0"]),
        (pod(ended(7), phase="Failed"), ["0/1", "ExitCode:7", "0"]),
        (pod({"state": {"terminated": {"exitCode": 9, "signal": 9}}}), ["0/1", "Signal:9", "0"]),
        (pod(ended(0, "Completed"), RUNNING, conditions=READY), ["1/2", "Running", "0"]),
        (pod(ended(0, "Completed"), RUNNING), ["1/2", "NotReady", "0"]),
        (pod(RUNNING | RESTARTED), ["1/1", "Running", "3 (10s ago)"]),
        (pod(phase="Failed", reason="Evicted"), ["0/0", "Evicted", "0"]),
        (pod({}, init=[ended(0), ended(2)], phase="Pending"), ["0/1", "Init:ExitCode:2", "0"]),
        (pod({}, init=[ended(0), {"state": {}}], phase="Pending"), ["0/1", "Init:1/2", "0"]),
        (pod({}, init=[{"state": {"waiting": {"reason": "Oops"}}}]), ["0/1", "Init:Oops", "0"]),
        (pod(RUNNING, init=[RUNNING | {"started": True, "restartCount": 1}]), ["2/2", "Running", "1"]),
    ],
)
def test_a_pod(given: Object, cells: list[Any]) -> None:  # Any: cells are JSON
    assert [column.read(given, NOW) for column in COLUMNS[1:4]] == cells


def test_a_pod_that_is_being_deleted() -> None:
    given = pod(RUNNING)
    given["metadata"]["deletionTimestamp"] = BEFORE
    assert COLUMNS[2].read(given, NOW) == "Terminating"
