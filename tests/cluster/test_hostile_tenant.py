"""Two tenants with `edit` in their namespaces only: what one writes changes nothing of the other's.

Muster runs as the chart installs it. The hostile tenant is a user that the API server knows by impersonation.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.api.base import Kind, Object, Resource
from muster.api.kinds import BATCH_JOB, EVENT, GANG, GANG_PLAN, NAMESPACE, NODE, POD, POD_GROUP_X, QUEUE
from muster.kube import config
from muster.kube.errors import Forbidden
from muster.kube.http import HttpClient
from muster.names import EXCLUSIVE, PREEMPTIBLE, PRIORITY
from muster.names import QUEUE as IN_QUEUE
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL

VICTIM: Final = "victim-space"
HOSTILE: Final = "hostile-space"
LABEL: Final = "tenants"
GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
CLUSTER_ROLE: Final = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, Resource)
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True, Resource)


def pod(name: str, group: str, cpu: str, queue: str, spec: Object | None = None, **marks: str) -> Object:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "name": name,
            "labels": {POD_GROUP_LABEL: group, IN_QUEUE: queue},
            "annotations": marks,
        },
        "spec": {
            "schedulerName": "muster",
            "restartPolicy": "Never",
            "nodeSelector": {"test": LABEL},
            "containers": [container],
            **(spec or {}),
        },
    }


def group(name: str, marks: dict[str, str]) -> Object:
    return {"metadata": {"name": name, "annotations": marks}, "spec": {"minMember": 1}}


def attacks() -> list[tuple[Kind[Any], Object]]:
    """What the hostile tenant writes; some of it is refused at once."""
    marks = {PRIORITY: "1000000000", EXCLUSIVE: "ClusterTopologyLayer", PREEMPTIBLE: "false"}
    both = json.dumps([f"{HOSTILE}/grab", f"{VICTIM}/train"])
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {f"k{i}": "v"}},
            "namespaces": [VICTIM],
        }
        for i in range(200)
    ]
    heavy = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    long = json.dumps([f"{VICTIM}/train", *["a/b"] * 30_000])
    metadata = {"labels": {IN_QUEUE: "victim"}, "annotations": marks}
    forged = {"queue": "hostile", "priority": 10**9, "minCount": 1}
    return [
        (POD_GROUP_X, group("grab", {GROUPS: both, **marks})),
        (POD, pod("grab", "grab", "1m", "hostile", None, **marks)),
        (POD_GROUP_X, group("alone", {})),
        (POD, pod("alone", "alone", "1m", "hostile", None, **marks)),
        (POD, pod("stranger", "alone", "3", "victim", None, **marks)),
        (POD, pod("heavy", "alone", "1m", "hostile", heavy)),
        (POD_GROUP_X, group("long", {GROUPS: long})),
        (POD, pod("long", "long", "1m", "hostile")),
        (GANG, {"metadata": {"name": "podgroup-train"}, "spec": forged}),
        (GANG_PLAN, {"metadata": {"name": "podgroup-train-1"}, "spec": {"gang": "podgroup-train"}}),
        (BATCH_JOB, {"metadata": {"name": "job", **metadata}, "spec": {"tasks": {}}}),
    ]  # fmt: skip


async def test_a_hostile_tenant_changes_nothing_of_the_other(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    cluster.muster("fake-nodes", f"2 x name={LABEL},cpu=4,memory=8Gi,label:test={LABEL}")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    # The definition of PodGroups on this cluster does not add them to `edit`.
    rule = {"apiGroups": ["scheduling.x-k8s.io"], "resources": ["podgroups"], "verbs": ["*"]}
    await cluster.make(CLUSTER_ROLE, {"metadata": {"name": "podgroups"}, "rules": [rule]})
    for namespace, queue in ((VICTIM, "victim"), (HOSTILE, "hostile")):
        await cluster.make(NAMESPACE, {"metadata": {"name": namespace}})
        for role in ("edit", "podgroups"):
            binding = {
                "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": queue}],
            }
            await cluster.make(ROLE_BINDING, binding, namespace)
        spec = {"weight": 1, "allow": {"namespaces": [namespace]}, "maxPriority": 0}
        await cluster.make(QUEUE, {"metadata": {"name": queue}, "spec": spec})
    found = yaml.safe_load(cluster.kubeconfig.read_text())
    found["users"][0]["user"]["as"] = "hostile"
    (tmp_path / "hostile").write_text(json.dumps(found))
    hostile = HttpClient(config.load(str(tmp_path / "hostile")))

    async def nodes() -> bool:
        return len((await cluster.client.list(NODE, labels=f"test={LABEL}")).items) == 2

    await cluster.until("two nodes", nodes)
    await cluster.make(POD_GROUP_X, {"metadata": {"name": "train"}, "spec": {"minMember": 2}}, VICTIM)
    for index in range(2):
        await cluster.make(POD, pod(f"train-{index}", "train", "2", "victim"), VICTIM)

    async def pods() -> dict[str, tuple[str, str]]:
        items = (await cluster.client.list(POD, VICTIM)).items
        return {each.metadata.name: (each.metadata.uid, each.spec.node_name) for each in items}

    async def runs() -> bool:
        items = (await cluster.client.list(POD, VICTIM)).items
        return len(items) == 2 and all(each.status.phase == "Running" for each in items)

    async def quiet() -> bool:
        gang = await cluster.client.get(GANG, VICTIM, "podgroup-train")
        return gang.status.phase == "Standing" and gang.status.running == 2

    await cluster.until("the victim's gang runs", runs)
    await cluster.until("its record says so", quiet)
    before, since = await pods(), plane.audit.stat().st_size

    async def may() -> bool:
        await hostile.list(POD_GROUP_X, HOSTILE)
        return True

    await cluster.until("the hostile tenant may write PodGroups", may)
    refused = set()
    for kind, body in attacks():
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        try:
            await hostile.create(kind, HOSTILE, whole)
        except Forbidden:
            refused.add(f"{kind.kind} {body['metadata']['name']}")
    assert refused == {"Gang podgroup-train", "GangPlan podgroup-train-1"}
    with pytest.raises(Forbidden):
        await hostile.list(POD, VICTIM)

    async def settled() -> bool:
        """The hostile gang that asks for no more than it is charged for starts; the scheduler goes on."""
        gang = await cluster.client.get(GANG, HOSTILE, "podgroup-alone")
        return (gang.status.phase != "" and gang.status.reason is not None) or gang.status.bound > 0

    await cluster.until("muster has decided on what is hostile", settled)
    # A later gang of the victim starts, within the same time as any.
    await cluster.make(POD_GROUP_X, {"metadata": {"name": "later"}, "spec": {"minMember": 1}}, VICTIM)
    await cluster.make(POD, pod("later", "later", "1", "victim"), VICTIM)

    async def starts() -> bool:
        return bool((await pods()).get("later", ("", ""))[1])

    await cluster.until("the victim's next gang starts", starts)
    after = await pods()
    assert {name: after[name] for name in before} == before

    accounts = cluster.chart.accounts
    writes = [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in plane.entries(since)
        if entry["user"]["username"] in accounts
        and entry["verb"] in ("create", "update", "patch", "delete")
        and f"/namespaces/{VICTIM}/" in entry["requestURI"]
        and "later" not in json.dumps(entry["objectRef"])
    ]
    assert [each for each in writes if "/events" not in each] == []
    written: tuple[Kind[Any], ...] = (GANG, POD, EVENT, POD_GROUP_X)
    for kind in written:
        for item in (await cluster.client.list(kind, HOSTILE)).items:
            said = await cluster.client.get_json(kind, HOSTILE, item.metadata.name)
            told = json.dumps([said.get("status"), said.get("message")])
            assert VICTIM not in told, told
            assert "train" not in told, told
    await hostile.close()
