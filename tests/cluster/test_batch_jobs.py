"""BatchJobs on a real API server: the chapter's job, denied, permitted, run, and withdrawn."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.api.base import Kind, Object
from muster.api.kinds import (
    BATCH_JOB,
    CEDAR_POLICY,
    CONFIG_MAP,
    EMITTED,
    JOB,
    JOBSET,
    NAMESPACE,
    POD,
    QUEUE,
    SERVICE_ACCOUNT,
)
from muster.api.muster_v1alpha1 import BatchJobStatus
from tests.cluster.conftest import CRD, Cluster, open_definition, served

EXAMPLE: Final = Path(__file__).parents[2] / "examples/training.yaml"
NAME: Final = "training-run-42"
#: Kinds of other projects that the job is compiled to.
OTHERS: Final = tuple(kind for kind in (JOBSET, *EMITTED) if kind.group != "networking.k8s.io")
#: What the job is denied without a policy.
DENIED: Final = [
    "external endpoint access denied",
    "image denied",
    "queue denied",
    "secret access denied",
    "secret access denied",
    "security override denied",
    "security override denied",
]


def training() -> Object:
    """The chapter's job as a BatchJob."""
    job: Object = yaml.safe_load(EXAMPLE.read_text())
    return {**job, "apiVersion": BATCH_JOB.api_version, "kind": BATCH_JOB.kind}


@pytest.fixture
async def platform(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster with nodes, muster's daemons, a JobSet controller, and the kinds that the job needs."""
    for kind in OTHERS:
        await cluster.make(CRD, open_definition(kind))
        await cluster.until(f"{kind.plural} are served", partial(served, cluster.client, kind))
    await cluster.make(NAMESPACE, {"metadata": {"name": "ml"}})
    await cluster.make(QUEUE, {"metadata": {"name": "ml-training"}, "spec": {}})
    try:
        yield cluster
    finally:
        await cluster.client.delete(QUEUE, "", "ml-training")
        for kind in OTHERS:
            await cluster.client.delete(CRD, "", f"{kind.plural}.{kind.group}")


async def status(cluster: Cluster) -> BatchJobStatus:
    return (await cluster.client.get(BATCH_JOB, "ml", NAME)).status


async def count(cluster: Cluster, kind: Kind[Any]) -> int:
    """Objects in the job's namespace, but for those that every namespace has."""
    own = {"default", "kube-root-ca.crt"}
    return sum(each.metadata.name not in own for each in (await cluster.client.list(kind, "ml")).items)


async def test_the_chapters_job_is_denied_permitted_run_and_withdrawn(platform: Cluster) -> None:
    cluster = platform
    cluster.muster("fake-nodes", "8 x cpu=8,memory=64Gi,nvidia.com/gpu=1")
    cluster.muster("controllers", "--only=jobset", "--lease=default/jobset")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await cluster.make(BATCH_JOB, training(), "ml")

    async def denied() -> BatchJobStatus | None:
        found = await status(cluster)
        return found if found.findings else None

    told = await cluster.until("the job is denied", denied)
    assert sorted(each.message.partition(":")[0] for each in told.findings) == DENIED
    for kind in (*OTHERS, POD, SERVICE_ACCOUNT, CONFIG_MAP):
        assert await count(cluster, kind) == 0
    permits = "\n".join(each.fix for each in told.findings)
    await cluster.make(CEDAR_POLICY, {"metadata": {"name": "ml"}, "spec": {"policies": permits}})

    async def runs() -> bool:
        return (await status(cluster)).phase == "Running"

    await cluster.until("the job runs", runs)

    async def bound() -> bool:
        pods = (await cluster.client.list(POD, "ml")).items
        return len([each for each in pods if each.spec.node_name]) == 8

    await cluster.until("its pods are bound", bound)
    found = {kind.kind: await count(cluster, kind) for kind in OTHERS}
    assert found == {
        "JobSet": 1,
        "ExternalSecret": 2,
        "CiliumNetworkPolicy": 1,
        "TracingPolicyNamespaced": 1,
    }

    await cluster.client.delete(CEDAR_POLICY, "", "ml")

    async def gone() -> bool:
        kinds = (*OTHERS, JOB, POD, SERVICE_ACCOUNT, CONFIG_MAP)
        return not any([await count(cluster, kind) for kind in kinds])

    await cluster.until("everything is gone", gone)
    assert len((await status(cluster)).findings) == len(told.findings)
