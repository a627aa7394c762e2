"""LeaderWorkerSet with gang scheduling by Volcano's PodGroups, and muster as the scheduler of its pods."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from muster.api.base import Kind
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import HOST, ControlPlane, free_ports
from tests.upstream import modules, pods, webhooks
from tests.upstream import volcano as vc
from tests.upstream.conftest import answers, configured, define, program
from tests.upstream.modules import LWS

SET: Final = Kind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", True, vc.Loose)
NAME_LABEL: Final = "leaderworkerset.sigs.k8s.io/name"
GROUP_LABEL: Final = "leaderworkerset.sigs.k8s.io/group-index"


@pytest.fixture
async def sets(cluster: Cluster, plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The cluster with LeaderWorkerSet's controller and webhooks, and Volcano's definition of PodGroups."""
    binary = program(LWS)
    program(modules.VOLCANO)
    await define(cluster, modules.VOLCANO, "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml")
    await define(cluster, LWS, "config/crd/bases")
    hooks, health = free_ports(2)
    directory = webhooks.certificates(plane, tmp_path / "lws")
    file = configured(
        directory / "lws.yaml",
        "config.lws.x-k8s.io/v1alpha1",
        health,
        internalCertManagement={"enable": False},
        gangSchedulingManagement={"schedulerProvider": "volcano"},
        webhook={"host": HOST, "port": hooks, "certDir": str(directory)},
    )
    cluster.start(LWS.name, [binary, f"--kubeconfig={cluster.kubeconfig}", f"--config={file}"])
    await cluster.until("LeaderWorkerSet is ready", partial(answers, f"http://{HOST}:{health}/readyz"))
    webhooks.register(
        cluster, LWS, "config/webhook/manifests.yaml", "lws", webhooks.at(plane, hooks), pods=NAME_LABEL
    )

    try:
        yield cluster
        for kind in (SET, vc.POD_GROUP):
            for each in (await cluster.client.list(kind)).items:
                await cluster.remove(kind, each)
    finally:
        webhooks.unregister(cluster, "lws")


async def test_each_group_of_a_set_starts_whole(sets: Cluster) -> None:
    """With five places for two groups of three, one group runs, and no pod of the other."""
    cluster, its = sets, f"{NAME_LABEL}=serve"
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "1 x name=few,cpu=5,memory=8Gi")
    template = {"size": 3, "workerTemplate": pods.template(schedulerName=SCHEDULER)}
    spec = {"replicas": 2, "leaderWorkerTemplate": template}
    await cluster.make(SET, {"metadata": {"name": "serve"}, "spec": spec})

    async def one() -> bool:
        return await pods.phases(cluster, its) == [*["Pending"] * 3, *["Running"] * 3]

    await cluster.until("one group runs, and the other is there", one)
    groups = [await pods.phases(cluster, f"{its},{GROUP_LABEL}={index}") for index in (0, 1)]
    assert sorted(groups) == [["Pending"] * 3, ["Running"] * 3]
    cluster.muster("fake-nodes", "1 x name=more,cpu=1,memory=8Gi")
    await cluster.until("both groups run", partial(pods.run, cluster, its, 6))
