"""Whoever has a token of muster's can change no more than muster itself does.

All other tests of this folder run under the same policies: muster works under them. Here requests are made as
muster's accounts, by impersonation.
"""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.api import groups
from muster.api.base import Kind, Object
from muster.api.elastic_quota import PARENT, RUNTIME
from muster.api.kinds import ELASTIC_QUOTA, JOB, POD, RESOURCE_CLAIM
from muster.api.pod_claims import DELETE_PROTECTION
from muster.controllers import podgroup
from muster.controllers.podgroup.observed import Observed
from muster.kube import config
from muster.kube.errors import Forbidden, Invalid
from muster.kube.http import HttpClient
from muster.names import ADMISSION, BELOW_MINIMUM, CHECKPOINT_REQUESTED, EPOCH, PLAN, PREEMPTED, PRIORITY
from tests.cluster.chart import NAMESPACE
from tests.cluster.conftest import CRD, Cluster, open_definition, served

SCHEDULER: Final = f"system:serviceaccount:{NAMESPACE}:muster-scheduler"
CONTROLLERS: Final = f"system:serviceaccount:{NAMESPACE}:muster-controllers"
#: As Pod Security's level *restricted* wants it, so that no other admission refuses a pod first.
CONTAINER: Final[Object] = {
    "name": "main",
    "image": "registry.example.com/a",
    "command": ["sleep", "1"],
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
TRUE: Final[Object] = {"type": PREEMPTED, "status": "True", "reason": "EndedByMuster"}


def pod(name: str, scheduler: str = "muster") -> Object:
    spec = {
        "schedulerName": scheduler,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [CONTAINER],
        "schedulingGates": [{"name": "example.com/x"}],
    }
    return {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": spec}


def job(name: str) -> Object:
    template = {"spec": {"schedulerName": "muster", "restartPolicy": "Never", "containers": [CONTAINER]}}
    spec = {"suspend": True, "parallelism": 1, "completions": 2, "template": template}
    return {"metadata": {"name": name, "annotations": {ADMISSION: "gang"}}, "spec": spec}


class Thief:
    """Acts as an account of muster's, by impersonation."""

    def __init__(self, cluster: Cluster, home: Path, account: str = SCHEDULER) -> None:
        found = yaml.safe_load(cluster.kubeconfig.read_text())
        found["users"][0]["user"]["as"] = account
        path = home / "thief.kubeconfig"
        path.write_text(json.dumps(found))
        self.client = HttpClient(config.load(str(path)))

    async def patch(self, kind: Kind[Any], name: str, body: Object, subresource: str = "") -> None:
        await self.client.patch(kind, "default", name, body, subresource=subresource)


@pytest.fixture
async def thief(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Thief]:
    """With a pod and a Job for muster and a pod for another scheduler, once the policies are enforced."""
    for name, scheduler in (("mine", "muster"), ("foreign", "default-scheduler")):
        await cluster.make(POD, pod(name, scheduler))
    await cluster.make(JOB, job("job"))
    made = Thief(cluster, tmp_path)

    async def enforced() -> bool:
        try:
            await made.patch(POD, "mine", {"metadata": {"labels": {"tried": "a"}}})
        except Forbidden as error:
            return "muster does not change" in str(error)
        return False

    await cluster.until("the policies are enforced", enforced)
    yield made
    await made.client.close()


@pytest.fixture
async def controllers(cluster: Cluster, thief: Thief, tmp_path: Path) -> AsyncIterator[Thief]:
    """Once the policies are enforced."""
    made = Thief(cluster, tmp_path, CONTROLLERS)
    yield made
    await made.client.close()


def annotated(key: str) -> Object:
    return {"metadata": {"annotations": {key: "1"}}}


STOLEN: Final[list[tuple[Kind[Any], str, Object, str]]] = [
    (POD, "mine", {"spec": {"activeDeadlineSeconds": 1}}, "spec.activeDeadlineSeconds"),
    (POD, "mine", {"spec": {"schedulingGates": []}}, "spec.schedulingGates"),
    (POD, "mine", {"spec": {"nodeSelector": {"a": "b"}}}, "spec.nodeSelector"),
    (POD, "mine", {"metadata": {"labels": {"app": "b"}}}, "metadata.labels"),
    (POD, "mine", {"metadata": {"labels": {"app": None}}}, "metadata.labels"),
    (POD, "mine", {"metadata": {"finalizers": ["example.com/x"]}}, "metadata.finalizers"),
    (POD, "mine", annotated(PRIORITY), f"annotations.{PRIORITY}"),
    (POD, "mine", annotated("example.com/x"), "annotations.example.com/x"),
    (POD, "foreign", annotated(EPOCH), "only pods that it schedules"),
    (JOB, "job", {"spec": {"parallelism": 5}}, "spec.parallelism"),
    (JOB, "job", {"spec": {"activeDeadlineSeconds": 1}}, "spec.activeDeadlineSeconds"),
    (JOB, "job", {"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}, "spec.template"),
    (JOB, "job", {"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
    (JOB, "job", annotated(PRIORITY), f"annotations.{PRIORITY}"),
    (JOB, "job", {"metadata": {"annotations": {ADMISSION: None}}}, f"annotations.{ADMISSION}"),
]


async def test_a_stolen_token_changes_nothing_else(thief: Thief) -> None:
    (container,) = (await thief.client.get_json(POD, "default", "mine"))["spec"]["containers"]
    image: Object = {"spec": {"containers": [{**container, "image": "registry.example.com/evil"}]}}
    for kind, name, body, wrong in (*STOLEN, (POD, "mine", image, "spec.containers")):
        with pytest.raises(Forbidden) as refused:
            await thief.patch(kind, name, body)
        assert wrong in str(refused.value), (kind, name, body)
    for status in ({"phase": "Succeeded"}, {"podIP": "192.0.2.1"}, {"message": "x"}):
        with pytest.raises(Forbidden, match="muster does not change status"):
            await thief.patch(POD, "mine", {"status": status}, "status")


async def test_a_stolen_token_changes_of_claims_only_what_muster_does(cluster: Cluster, thief: Thief) -> None:
    asked = {"name": "gpu", "exactly": {"deviceClassName": "none"}}
    metadata = {"name": "claim", "finalizers": ["example.com/x"]}
    body = {"metadata": metadata, "spec": {"devices": {"requests": [asked]}}}
    await cluster.client.create(RESOURCE_CLAIM, "default", body)
    both = ["example.com/x", DELETE_PROTECTION]
    result = {"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "g"}
    given = {"allocation": {"devices": {"results": [result]}}}
    identity = {key: result[key] for key in ("driver", "pool", "device")}
    try:
        for forged, wrong in (
            ({"metadata": {"finalizers": None}}, "no finalizer of a claim but delete-protection"),
            ({"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
            (annotated("example.com/x"), "annotations.example.com/x"),
        ):
            with pytest.raises(Forbidden, match=wrong):
                await thief.patch(RESOURCE_CLAIM, "claim", forged)
        marked = {"finalizers": both, "annotations": {PLAN: "1.1/w/0", EPOCH: "1"}}
        await thief.patch(RESOURCE_CLAIM, "claim", {"metadata": marked})
        await thief.patch(RESOURCE_CLAIM, "claim", {"status": given}, "status")
        with pytest.raises((Forbidden, Invalid), match=r"reports no devices|changing status\.devices"):
            await thief.patch(RESOURCE_CLAIM, "claim", {"status": {"devices": [identity]}}, "status")
        await cluster.client.patch(
            RESOURCE_CLAIM, "default", "claim", {"status": {"devices": [identity]}}, subresource="status"
        )
        await thief.patch(RESOURCE_CLAIM, "claim", {"status": {"allocation": None}}, "status")
        await thief.patch(
            RESOURCE_CLAIM, "claim", {"metadata": {"finalizers": both[:1], "annotations": {PLAN: None}}}
        )
    finally:
        await cluster.client.patch(RESOURCE_CLAIM, "default", "claim", {"metadata": {"finalizers": None}})
        await cluster.client.delete(RESOURCE_CLAIM, "default", "claim")


async def test_a_stolen_token_deletes_and_creates_only_pods_of_muster(thief: Thief) -> None:
    with pytest.raises(Forbidden, match="only pods that it schedules"):
        await thief.client.delete(POD, "default", "foreign")
    for namespace, scheduler, wrong in (
        ("default", "default-scheduler", "only pods that it schedules"),
        ("kube-system", "muster", "no pods in this namespace"),
        (NAMESPACE, "muster", "no pods in this namespace"),
    ):
        body = {"apiVersion": "v1", "kind": "Pod", **pod("forged", scheduler)}
        with pytest.raises(Forbidden, match=wrong):
            await thief.client.create(POD, namespace, body)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "mine", "annotations": {PRIORITY: "1"}},
        "target": {"kind": "Node", "name": "n"},
    }
    with pytest.raises(Forbidden, match="nothing but the node"):
        await thief.client.bind("default", "mine", binding)


async def test_what_muster_changes_is_let_through(thief: Thief) -> None:
    await thief.patch(POD, "mine", annotated(EPOCH))
    await thief.patch(POD, "mine", annotated(CHECKPOINT_REQUESTED))
    await thief.patch(POD, "mine", {"status": {"conditions": [TRUE]}}, "status")
    await thief.patch(POD, "mine", {"status": {"nominatedNodeName": "n"}}, "status")
    await thief.patch(JOB, "job", {**annotated(EPOCH), "spec": {"suspend": False}})
    await thief.client.delete(POD, "default", "mine", grace_period=0)


async def test_of_a_quota_of_koordinator_muster_changes_what_it_reports(
    cluster: Cluster, thief: Thief
) -> None:
    """Its status is no subresource, so the right to write it is that to write the quota."""
    await cluster.make(CRD, open_definition(ELASTIC_QUOTA))
    await cluster.until("quotas are served", partial(served, cluster.client, ELASTIC_QUOTA))
    await cluster.make(ELASTIC_QUOTA, {"metadata": {"name": "q"}, "spec": {"max": {"cpu": "1"}}})
    for body, wrong in (
        ({"spec": {"max": {"cpu": "9"}}}, "spec.max"),
        ({"spec": {"min": {"cpu": "9"}}}, "spec.min"),
        ({"metadata": {"labels": {PARENT: "a"}}}, "metadata.labels"),
        (annotated("quota.scheduling.koordinator.sh/shared-weight"), "annotations"),
        ({"status": {"other": {}}}, "status.other"),
    ):
        with pytest.raises(Forbidden, match=wrong):
            await thief.patch(ELASTIC_QUOTA, "q", body)
    await thief.patch(ELASTIC_QUOTA, "q", {**annotated(RUNTIME), "status": {"used": {"cpu": "1"}}})
    await cluster.client.delete(CRD, "", open_definition(ELASTIC_QUOTA)["metadata"]["name"])


@pytest.mark.parametrize("row", [groups.VOLCANO, groups.INCUBATOR], ids=["volcano", "kube-batch"])
async def test_of_a_group_whose_status_is_no_subresource_muster_changes_its_status(
    cluster: Cluster, controllers: Thief, row: groups.Dialect
) -> None:
    """The right to write the status is that to write the group: with its mark, muster deletes its pods."""
    kind = row.kind
    await cluster.make(CRD, open_definition(kind))
    await cluster.until("groups are served", partial(served, cluster.client, kind))
    await cluster.make(kind, {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
    for body, wrong in (
        ({"spec": {"minMember": 9}}, "spec.minMember"),
        ({"spec": {"queue": "other"}}, "spec.queue"),
        ({"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
        ({"metadata": {"finalizers": ["example.com/x"]}}, "metadata.finalizers"),
        ({"metadata": {"annotations": {BELOW_MINIMUM: "restart"}}}, f"annotations.{BELOW_MINIMUM}"),
        ({"status": {"other": 1}}, "status.other"),
    ):
        with pytest.raises(Forbidden, match=wrong):
            await controllers.patch(kind, "g", body)
    found = await cluster.client.get(kind, "default", "g")
    status = podgroup.STATUS[row](Observed(row, found, ()), datetime.now(UTC))
    assert status is not None, "it has none yet"
    conditions = [{"type": "Scheduled", "status": "True"}]
    await controllers.patch(kind, "g", {"status": {**status, "conditions": conditions}})
    await cluster.client.delete(CRD, "", open_definition(kind)["metadata"]["name"])


async def test_others_are_not_confined(cluster: Cluster, thief: Thief) -> None:
    await cluster.client.patch(POD, "default", "mine", {"metadata": {"labels": {"app": "c"}}})
