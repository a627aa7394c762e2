"""Kubeflow Trainer with a runtime whose podGroupPolicy is coscheduling, and a TrainJob."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from muster.api.base import Kind
from muster.api.kinds import POD_GROUP_X
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import HOST, ControlPlane, free_ports
from tests.upstream import pods, webhooks
from tests.upstream.conftest import JOBSET_LABEL, answers, configured, define, program
from tests.upstream.modules import TRAINER
from tests.upstream.volcano import Loose

GROUP: Final = ("trainer.kubeflow.org", "v1alpha1")
TRAIN_JOB: Final = Kind(*GROUP, "TrainJob", "trainjobs", True, Loose)
RUNTIME: Final = Kind(*GROUP, "ClusterTrainingRuntime", "clustertrainingruntimes", False, Loose)
ITS: Final = f"{JOBSET_LABEL}=train"


@pytest.fixture
async def trainer(
    pod_groups: None, jobsets: Cluster, plane: ControlPlane, tmp_path: Path
) -> AsyncIterator[Cluster]:
    """The cluster with Trainer, JobSet's controller, and a runtime whose pods are muster's to start."""
    cluster, binary = jobsets, program(TRAINER)
    definitions = (f"manifests/base/crds/{GROUP[0]}_{kind}.yaml" for kind in PLURALS)
    await define(cluster, TRAINER, *definitions)
    hooks, health, status = free_ports(3)
    directory = webhooks.certificates(plane, tmp_path / "k8s-webhook-server/serving-certs")
    file = configured(
        directory / "trainer.yaml",
        "config.trainer.kubeflow.org/v1alpha1",
        health,
        certManagement={"enable": False},
        webhook={"host": HOST, "port": hooks},
        statusServer={"port": status},
    )
    arguments = (f"--kubeconfig={cluster.kubeconfig}", f"--config={file}")
    cluster.start(TRAINER.name, [binary, *arguments], TMPDIR=str(tmp_path))
    await cluster.until("Trainer is ready", partial(answers, f"http://{HOST}:{health}/readyz"))
    manifest = "manifests/base/webhook/manifests.yaml"
    webhooks.register(cluster, TRAINER, manifest, "trainer", webhooks.at(plane, hooks))
    label = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {"template": pods.template("node", schedulerName=SCHEDULER), "backoffLimit": 0}
    node = {"name": "node", "template": {"metadata": {"labels": label}, "spec": job}}
    spec = {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "podGroupPolicy": {"coscheduling": {}},
        "template": {"spec": {"replicatedJobs": [node]}},
    }
    runtime = {
        "metadata": {"name": "torch", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": spec,
    }
    try:
        await cluster.make(RUNTIME, runtime)
        yield cluster
        for kind in (TRAIN_JOB, RUNTIME):
            for each in (await cluster.client.list(kind)).items:
                await cluster.remove(kind, each)
    finally:
        webhooks.unregister(cluster, "trainer")


PLURALS: Final = ("clustertrainingruntimes", "trainingruntimes", "trainjobs")


async def test_a_trainjob_starts_whole_and_completes(trainer: Cluster) -> None:
    """Its JobSet's pods are in the PodGroup of the TrainJob, of as many members as it has nodes."""
    cluster = trainer
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "1 x name=few,cpu=2,memory=8Gi")
    reference = {"apiGroup": GROUP[0], "kind": RUNTIME.kind, "name": "torch"}
    spec = {"runtimeRef": reference, "trainer": {"numNodes": 3}}
    await cluster.make(TRAIN_JOB, {"metadata": {"name": "train"}, "spec": spec})
    await cluster.until("it waits for a third place", partial(pods.lacks_room, cluster, "podgroup-train"))
    assert await pods.phases(cluster, ITS) == ["Pending"] * 3
    assert (await cluster.client.get(POD_GROUP_X, "default", "train")).spec.min_member == 3
    cluster.muster("fake-nodes", "1 x name=more,cpu=2,memory=8Gi")
    await cluster.until("all three run", partial(pods.run, cluster, ITS, 3))
    await pods.end(cluster, ITS)
    await cluster.until("it is complete", partial(pods.holds, cluster, TRAIN_JOB, "train", "Complete"))
