"""Kubeflow's mpi-operator with `--gang-scheduling=muster`, and an MPIJob."""

import socket
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import pytest

from muster.api.base import Kind
from muster.api.kinds import NAMESPACE, POD_GROUP_X
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.upstream import pods
from tests.upstream.conftest import define, program
from tests.upstream.modules import MPI_OPERATOR
from tests.upstream.volcano import Loose

MPI_JOB: Final = Kind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs", True, Loose)
#: where it answers for its health; the port is in its source
HEALTH: Final = 8080
ITS: Final = "training.kubeflow.org/job-name=pi"
LAUNCHER: Final = f"{ITS},training.kubeflow.org/job-role=launcher"


@pytest.fixture
async def operator(cluster: Cluster, pod_groups: None) -> AsyncIterator[Cluster]:
    """The cluster with the mpi-operator."""
    binary = program(MPI_OPERATOR)
    with socket.socket() as taken:
        if taken.connect_ex(("127.0.0.1", HEALTH)) == 0:
            pytest.skip(f"port {HEALTH}, where mpi-operator listens, is taken")
    await define(cluster, MPI_OPERATOR, "manifests/base/kubeflow.org_mpijobs.yaml")
    await cluster.make(NAMESPACE, {"metadata": {"name": "mpi-operator"}})  # of its Lease
    arguments = (f"--kubeConfig={cluster.kubeconfig}", f"--gang-scheduling={SCHEDULER}")
    cluster.start(MPI_OPERATOR.name, [binary, *arguments], KUBECONFIG=str(cluster.kubeconfig))
    yield cluster
    for each in (await cluster.client.list(MPI_JOB)).items:
        await cluster.remove(MPI_JOB, each)


async def test_an_mpijob_starts_whole_starts_its_launcher_anew_and_succeeds(operator: Cluster) -> None:
    """Launcher and workers are one gang, although the launcher is the pod of a Job."""
    cluster = operator
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "1 x name=few,cpu=3,memory=8Gi")
    replicas = {
        role: {"replicas": count, "template": pods.template(f"mpi-{role.lower()}")}
        for role, count in (("Launcher", 1), ("Worker", 3))
    }
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": replicas}
    await cluster.make(MPI_JOB, {"metadata": {"name": "pi"}, "spec": spec})
    await cluster.until("it waits for a fourth place", partial(pods.lacks_room, cluster, "podgroup-pi"))
    assert await pods.phases(cluster, ITS) == ["Pending"] * 4
    assert (await cluster.client.get(POD_GROUP_X, "default", "pi")).spec.min_member == 4
    cluster.muster("fake-nodes", "1 x name=more,cpu=3,memory=8Gi")
    await cluster.until("all four run", partial(pods.run, cluster, ITS, 4))
    (first,) = await pods.pods(cluster, LAUNCHER)
    await pods.end(cluster, LAUNCHER, "Failed")

    async def anew() -> bool:
        launchers = [pod for pod in await pods.pods(cluster, LAUNCHER) if pod.status.phase == "Running"]
        return [pod.metadata.uid for pod in launchers] not in ([], [first.metadata.uid])

    await cluster.until("a new launcher runs", anew)
    await pods.end(cluster, LAUNCHER)
    await cluster.until("it has succeeded", partial(pods.holds, cluster, MPI_JOB, "pi", "Succeeded"))

    async def cleaned() -> bool:
        return "Running" not in await pods.phases(cluster, ITS)

    await cluster.until("its workers are gone", cleaned)
