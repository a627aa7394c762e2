"""Koordinator's ElasticQuotas on a real API server: whose count, and what muster reports there."""

from functools import partial

from muster.api.base import Object
from muster.api.elastic_quota import NAME, NAMESPACES, RUNTIME
from muster.api.kinds import ELASTIC_QUOTA, LEASE, POD
from muster.names import ADOPTS
from tests.cluster.conftest import CRD, Cluster, open_definition, served
from tests.cluster.gangs import member


async def test_quotas_of_the_administrator_are_queues_and_those_of_a_tenant_are_nothing(
    cluster: Cluster,
) -> None:
    definition = open_definition(ELASTIC_QUOTA)
    await cluster.make(CRD, definition)
    await cluster.until("quotas are served", partial(served, cluster.client, ELASTIC_QUOTA))
    cluster.muster("fake-nodes", "1 x name=quota,cpu=8,memory=8Gi,label:test=quota")
    cluster.daemon("scheduler")
    spec: Object = {"max": {"cpu": "2"}}
    await cluster.make(ELASTIC_QUOTA, {"metadata": {"name": "team"}, "spec": spec}, "kube-system")
    serves = {NAMESPACES: '["default"]'}
    hostile = {"metadata": {"name": "grab", "annotations": serves}, "spec": {"min": {"cpu": "1000"}}}
    await cluster.make(ELASTIC_QUOTA, hostile)
    for name, queue in (("in", "team"), ("out", "grab"), ("free", "")):
        for index in range(3):
            pod = member(name, index, test="quota")
            pod["metadata"]["labels"] = {NAME: queue} if queue else {}
            await cluster.make(POD, pod)

    async def settled() -> bool:
        pods = (await cluster.client.list(POD, "default")).items
        on = sorted(pod.metadata.name.partition("-")[0] for pod in pods if pod.spec.node_name)
        return on == ["free"] * 3 + ["in"] * 2

    async def reported() -> bool:
        quota = await cluster.client.get(ELASTIC_QUOTA, "kube-system", "team")
        return quota.status.used.get("cpu") == "2" and RUNTIME in quota.metadata.annotations

    try:
        await cluster.until("the quota bounds its pods, and a tenant's draws none", settled)
        await cluster.until("its status says what is used", reported)
        grab = await cluster.client.get(ELASTIC_QUOTA, "default", "grab")
        assert (grab.status.used, grab.metadata.annotations) == ({}, serves)
        lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
        assert lease.metadata.annotations[ADOPTS].startswith("volcano,koordinator/")
    finally:
        await cluster.client.delete(CRD, "", definition["metadata"]["name"])
