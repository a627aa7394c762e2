"""Two tenants with the role `edit` in a namespace each: what one says of the other changes nothing there."""

import json
from typing import Final

import pytest

from muster import names
from muster.api.base import Object
from muster.api.kinds import GANG, GANG_PLAN, POD
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.muster_v1alpha1 import Gang
from tests.cluster.conftest import Cluster
from tests.cluster.gangs import member

OURS: Final = "tenant-ours"
THEIRS: Final = "tenant-theirs"


class Tenant:
    """A user who may write in one namespace only."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._kubectl, self._namespace = cluster.chart.kubectl, namespace
        self._kubectl("create", "namespace", namespace)
        # the role `edit` says nothing of PodGroups
        of = "--resource=podgroups.scheduling.x-k8s.io"
        self._as_admin("create", "role", "podgroups", "--verb=*", of)
        for name, role in (("edit", "--clusterrole=edit"), ("podgroups", "--role=podgroups")):
            self._as_admin("create", "rolebinding", name, role, f"--user={namespace}")

    def _as_admin(self, *arguments: str) -> str:
        return self._kubectl(*arguments, f"--namespace={self._namespace}")

    def apply(self, kind: str, api_version: str, body: Object) -> None:
        whole = {"kind": kind, "apiVersion": api_version, **body}
        user = f"--as={self._namespace}"
        self._kubectl("apply", "-f", "-", user, f"--namespace={self._namespace}", stdin=json.dumps(whole))

    def group(self, name: str, least: int, **notes: str) -> None:
        body = {"metadata": {"name": name, "annotations": notes}, "spec": {"minMember": least}}
        self.apply("PodGroup", "scheduling.x-k8s.io/v1alpha1", body)

    def pod(self, gang: str, index: int) -> None:
        self.apply("Pod", "v1", member(gang, index, test="tenants"))


async def test_a_tenant_that_names_the_others_podgroup_changes_nothing_there(cluster: Cluster) -> None:
    cluster.muster("fake-nodes", "2 x name=tenants,cpu=16,memory=8Gi,label:test=tenants")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    ours, theirs = Tenant(cluster, OURS), Tenant(cluster, THEIRS)
    try:
        ours.group("train", 2)
        for index in range(2):
            ours.pod("train", index)
        await cluster.until("our gang stands", lambda: _phase(cluster, OURS, "train", "Standing"))
        before = await _gangs(cluster, OURS)

        lists = json.dumps([f"{OURS}/train", f"{OURS}/later", f"{THEIRS}/trick"])
        theirs.group("trick", 1, **{GROUPS: lists, names.PRIORITY: "-1000", names.HOLD: "true"})
        theirs.pod("trick", 0)
        await cluster.until("theirs waits", lambda: _phase(cluster, THEIRS, "trick", "Waiting"))
        (trick,) = await _gangs(cluster, THEIRS)
        assert trick.status.reason is not None
        assert trick.status.reason.code == "Invalid"
        assert "does not exist or has another list" in trick.status.reason.message
        assert [gang.spec for gang in await _gangs(cluster, OURS)] == [gang.spec for gang in before]

        for kind in (GANG, GANG_PLAN):
            with pytest.raises(AssertionError, match="orbidden"):
                theirs.apply(kind.kind, kind.api_version, {"metadata": {"name": "forged"}, "spec": {}})

        ours.group("later", 1)  # a gang that theirs named before it was there
        ours.pod("later", 0)
        await cluster.until("ours starts", lambda: _phase(cluster, OURS, "later", "Standing"))
        names_of_ours = sorted(gang.metadata.name for gang in await _gangs(cluster, OURS))
        assert names_of_ours == ["podgroup-later", "podgroup-train"]
        pods = (await cluster.client.list(POD, OURS)).items
        assert all(pod.spec.node_name and pod.metadata.deletion_timestamp is None for pod in pods)
    finally:
        await cluster.clear()
        for namespace in (OURS, THEIRS):
            cluster.chart.kubectl("delete", "namespace", namespace, "--wait=false")


async def _gangs(cluster: Cluster, namespace: str) -> list[Gang]:
    return [*(await cluster.client.list(GANG, namespace)).items]


async def _phase(cluster: Cluster, namespace: str, name: str, phase: str) -> bool:
    found = await _gangs(cluster, namespace)
    return any(g.metadata.name == f"podgroup-{name}" and g.status.phase == phase for g in found)
