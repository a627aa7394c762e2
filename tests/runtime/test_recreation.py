"""A recreated pod has all that its user wrote, and nothing of its last life."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.api.muster_v1alpha1 import GangPlan
from muster.core.words.gang import GangId, PodId
from muster.kube.errors import Forbidden
from muster.names import EPOCH, PLAN
from muster.runtime.plan_record import PodRef, RecreationPlan, found
from muster.runtime.recreation import NotRecreatable, has_ended, recording, recreated
from muster.runtime.writes import RecordPods
from tests.runtime.server import AnyKind, Server, ServerClient

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


def test_a_recreated_pod_keeps_the_fields_of_its_user_only() -> None:
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


def test_the_priority_of_a_class_is_computed_again() -> None:
    spec = {"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}
    assert recreated({**POD, "spec": spec})["spec"] == {"priorityClassName": "high"}


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        ({}, ""),
        ({"containerStatuses": [{"name": "main", "state": {"running": {}}, "restartCount": 0}]}, ""),
        ({"containerStatuses": [{"name": "main", "state": {"terminated": {}}}]}, "main"),
        ({"containerStatuses": [{"name": "main", "lastState": {"terminated": {}}}]}, "main"),
        ({"containerStatuses": [{"name": "main", "state": {"waiting": {}}, "restartCount": 1}]}, "main"),
        ({"initContainerStatuses": [{"name": "prepare", "state": {"terminated": {}}}]}, "prepare"),
    ],
)
def test_a_container_that_has_run_to_its_end_is_known(status: Object, ended: str) -> None:
    assert has_ended({**POD, "status": status}) == ended


@dataclass
class Rehearsing(ServerClient):
    """What the server says to the creation of a pod."""

    says: Callable[[Object], Object] = lambda body: body

    async def dry_create(self, kind: AnyKind, namespace: str, obj: Object) -> Object:
        return self.says(obj)


def refuses(error: Exception) -> Callable[[Object], Object]:
    def says(body: Object) -> Object:
        raise error

    return says


def adds(body: Object) -> Object:
    return {**body, "spec": {**body["spec"], "priority": 7}}


REHEARSALS: dict[str, tuple[Callable[[Object], Object], str]] = {
    "as it was": (lambda body: body, ""),
    "refused": (refuses(Forbidden("denied by policy")), "pod p would be refused: denied by policy"),
    "changed": (adds, "the new pod p would have another spec.priority"),
    "over the quota that it uses itself": (
        refuses(Forbidden('pods "x" is forbidden: exceeded quota: q')),
        "",
    ),
}


@pytest.mark.parametrize(("says", "why"), REHEARSALS.values(), ids=REHEARSALS.keys())
async def test_a_pod_is_recorded_only_if_it_would_come_back_as_it_was(
    says: Callable[[Object], Object], why: str
) -> None:
    server = Server()
    made = server.create(kinds.POD, "ns", {**POD, "status": {}})
    ref = PodRef("ns", "p", PodId(made.metadata.uid))
    plan = RecreationPlan(GangId("ns/g"), "podgroup-g", "ns", 1, 1, (), "refused")
    write = RecordPods(plan, (ref,))
    client = Rehearsing(server, says=says)
    if why:
        with pytest.raises(NotRecreatable, match=re.escape(why)):
            await recording(client, write)
        return
    read = found(msgspec.convert((await recording(client, write)).body, GangPlan))
    assert isinstance(read, RecreationPlan)
    assert [pod.body for pod in read.pods] == [recreated(POD)]


async def test_pods_that_differ_in_their_names_and_the_volume_of_their_token_are_rehearsed_once() -> None:
    server, asked = Server(), list[Object]()
    refs = []
    for index in range(3):
        name, volume = f"p-{index}", f"kube-api-access-{'abcde'[index]}bcd2"
        containers = [{"name": "main", "image": "x", "volumeMounts": [{"name": volume, "mountPath": "/t"}]}]
        spec = {"volumes": [{"name": volume, "projected": {}}], "containers": containers}
        body = {"metadata": {"name": name}, "spec": spec, "status": {}}
        refs.append(PodRef("ns", name, PodId(server.create(kinds.POD, "ns", body).metadata.uid)))
    plan = RecreationPlan(GangId("ns/g"), "podgroup-g", "ns", 1, 1, (), "refused")

    def says(body: Object) -> Object:
        asked.append(body)
        return body

    read = found(
        msgspec.convert(
            (await recording(Rehearsing(server, says=says), RecordPods(plan, tuple(refs)))).body, GangPlan
        )
    )
    assert isinstance(read, RecreationPlan)
    assert [pod.body["spec"]["volumes"][0]["name"][-5:] for pod in read.pods] == ["abcd2", "bbcd2", "cbcd2"]
    assert len(asked) == 1
