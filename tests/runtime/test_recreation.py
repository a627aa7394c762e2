"""What makes a pod anew: all that its user wrote, nothing of its last life."""

from muster.names import EPOCH, PLAN
from muster.runtime.recreation import recreated

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "labels": {"app": "x"},
        "annotations": {"note": "kept", PLAN: "1.1/w/0", EPOCH: "1"},
    },
    "spec": {
        "nodeName": "n",
        "hostname": "p",
        "priority": 1000,
        "containers": [{"name": "main", "image": "x", "unknown": {"to": "muster"}}],
    },
    "status": {"phase": "Running"},
}


def test_what_the_user_wrote_and_nothing_of_its_last_life() -> None:
    assert recreated(POD) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "labels": {"app": "x"}, "annotations": {"note": "kept"}},
        "spec": {
            "hostname": "p",
            "priority": 1000,
            "containers": [{"name": "main", "image": "x", "unknown": {"to": "muster"}}],
        },
    }


def test_the_priority_of_a_class_is_computed_anew() -> None:
    spec = {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}
    assert recreated({**POD, "spec": spec})["spec"] == {"priorityClassName": "high"}
