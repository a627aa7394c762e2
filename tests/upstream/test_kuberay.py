"""KubeRay with `--batch-scheduler=scheduler-plugins`, whose scheduler name muster serves."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from muster.api.base import Kind, Object
from muster.api.kinds import POD, POD_GROUP_X
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import HOST, ControlPlane, free_ports
from tests.cluster.test_two_releases import released
from tests.upstream import pods
from tests.upstream.conftest import answers, define, program
from tests.upstream.modules import KUBERAY
from tests.upstream.volcano import Loose

RAY_CLUSTER: Final = Kind("ray.io", "v1", "RayCluster", "rayclusters", True, Loose)
#: The name that its pods have.
ITS_SCHEDULER: Final = "scheduler-plugins-scheduler"
ITS: Final = "ray.io/cluster=ray"
WORKERS: Final = f"{ITS},ray.io/node-type=worker"


@pytest.fixture
async def operator(cluster: Cluster, pod_groups: None) -> AsyncIterator[Cluster]:
    """The cluster with KubeRay."""
    binary = program(KUBERAY)
    await define(cluster, KUBERAY, "config/crd/bases")
    (health,) = free_ports(1)
    cluster.start(
        KUBERAY.name,
        [
            *(binary, "--batch-scheduler=scheduler-plugins", "--enable-leader-election=false"),
            *(f"--health-probe-bind-address={HOST}:{health}", "--metrics-addr=0"),
        ],
        KUBECONFIG=str(cluster.kubeconfig),
        # a worker's init container waits for a head that answers
        ENABLE_INIT_CONTAINER_INJECTION="false",
    )
    await cluster.until("KubeRay is ready", partial(answers, f"http://{HOST}:{health}/readyz"))
    yield cluster
    for each in (await cluster.client.list(RAY_CLUSTER)).items:
        await cluster.remove(RAY_CLUSTER, each)


def group(count: int) -> Object:
    """Workers of one sort."""
    counts = dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), count)
    return {"groupName": "w", "rayStartParams": {}, "template": pods.template("ray-worker"), **counts}


async def test_a_raycluster_starts_whole_and_gets_a_lost_worker_back(
    operator: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    """Head and workers are one gang. The chart has to know the name of the scheduler."""
    names = f"scheduler.config.schedulerNames[0]={ITS_SCHEDULER}"
    async with released(operator, plane, tmp_path, names) as release:
        operator.replica_of(release, "scheduler")
        operator.daemon("controllers")
        await _starts_whole(operator)


async def _starts_whole(cluster: Cluster) -> None:
    cluster.muster("fake-nodes", "1 x name=few,cpu=3,memory=8Gi")
    head = {"rayStartParams": {}, "template": pods.template("ray-head")}
    metadata = {"name": "ray", "labels": {"ray.io/gang-scheduling-enabled": "true"}}
    spec = {"headGroupSpec": head, "workerGroupSpecs": [group(3)]}
    await cluster.make(RAY_CLUSTER, {"metadata": metadata, "spec": spec})
    await cluster.until("it waits for a fourth place", partial(pods.lacks_room, cluster, "podgroup-ray"))
    assert await pods.phases(cluster, ITS) == ["Pending"] * 4
    assert (await cluster.client.get(POD_GROUP_X, "default", "ray")).spec.min_member == 4
    cluster.muster("fake-nodes", "1 x name=more,cpu=3,memory=8Gi")
    await cluster.until("all four run", partial(pods.run, cluster, ITS, 4))
    first, *_ = await pods.pods(cluster, WORKERS)
    failed = {"status": {"phase": "Failed"}}
    await cluster.client.patch(POD, "default", first.metadata.name, failed, subresource="status")

    async def replaced() -> bool:
        names = {pod.metadata.name for pod in await pods.pods(cluster, WORKERS)}
        return first.metadata.name not in names and await pods.run(cluster, ITS, 4)

    await cluster.until("another worker runs in its place", replaced)
