"""Kubeflow's training-operator with `--gang-scheduler-name=muster`, and a PyTorchJob."""

import base64
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from muster.api.base import Kind
from muster.api.kinds import GANG, NAMESPACE, POD_GROUP_X, QUEUE, SECRET, SERVICE
from muster.names import QUEUE as IN_QUEUE
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.gangs import POD_GROUP_LABEL
from tests.upstream import pods, webhooks
from tests.upstream.conftest import answers, define, program
from tests.upstream.modules import TRAINING_OPERATOR
from tests.upstream.volcano import Loose

PYTORCH_JOB: Final = Kind("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", True, Loose)
HOOKS: Final = "validator.training-operator.kubeflow.org"
CERTIFICATE: Final = "training-operator-webhook-cert"
#: where it reads its certificate; the path is in its source
MOUNT: Final = Path("/tmp/k8s-webhook-server/serving-certs")
ITS: Final = "training.kubeflow.org/job-name=train"


@pytest.fixture
async def operator(cluster: Cluster, pod_groups: None) -> AsyncIterator[Cluster]:
    """The cluster with the training-operator, and its webhook at the Service of its installation.

    It makes its certificate itself, as a Secret, and waits until that is mounted.
    """
    binary = program(TRAINING_OPERATOR)
    hooks, health = free_ports(2)
    await define(cluster, TRAINING_OPERATOR, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml")
    await cluster.make(NAMESPACE, {"metadata": {"name": "kubeflow"}})
    await cluster.make(SECRET, {"metadata": {"name": CERTIFICATE}}, "kubeflow")
    local = {"type": "ExternalName", "externalName": "localhost"}
    await cluster.make(SERVICE, {"metadata": {"name": "training-operator"}, "spec": local}, "kubeflow")
    service = {"name": "training-operator", "namespace": "kubeflow", "port": hooks}
    manifest = "manifests/base/webhook/manifests.yaml"
    webhooks.register(
        cluster, TRAINING_OPERATOR, manifest, HOOKS, lambda path: {"service": {**service, "path": path}}
    )
    arguments = (
        f"--kubeconfig={cluster.kubeconfig}",
        f"--gang-scheduler-name={SCHEDULER}",
        "--enable-scheme=pytorchjob",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={HOST}:{health}",
        f"--webhook-server-port={hooks}",
    )
    cluster.start(TRAINING_OPERATOR.name, [binary, *arguments], MY_POD_NAMESPACE="kubeflow", TMPDIR="/tmp")

    async def certificate() -> dict[str, str]:
        data: dict[str, str] = (await cluster.client.get_json(SECRET, "kubeflow", CERTIFICATE)).get(
            "data", {}
        )
        return data

    made = await cluster.until("it has made its certificate", certificate)
    MOUNT.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (MOUNT / name).write_bytes(base64.b64decode(text))
    await cluster.until("it is ready", partial(answers, f"http://{HOST}:{health}/readyz"))
    try:
        yield cluster
        for each in (await cluster.client.list(PYTORCH_JOB)).items:
            await cluster.remove(PYTORCH_JOB, each)
    finally:
        webhooks.unregister(cluster, HOOKS)
        for name in made:
            (MOUNT / name).unlink(missing_ok=True)


async def test_a_pytorchjob_starts_whole_replaces_a_worker_and_succeeds(operator: Cluster) -> None:
    """With three places for the four pods of its PodGroup none is bound. It is in the queue the job names."""
    cluster = operator
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "1 x name=few,cpu=3,memory=8Gi")
    replicas = {
        role: {"replicas": count, "restartPolicy": "ExitCode", "template": pods.template("pytorch", "900m")}
        for role, count in (("Master", 1), ("Worker", 3))
    }
    await cluster.make(QUEUE, {"metadata": {"name": "team"}, "spec": {}})
    metadata = {"name": "train", "annotations": {IN_QUEUE: "team"}}
    await cluster.make(PYTORCH_JOB, {"metadata": metadata, "spec": {"pytorchReplicaSpecs": replicas}})
    await cluster.until("it waits for a fourth place", partial(pods.lacks_room, cluster, "podgroup-train"))
    assert await pods.phases(cluster, ITS) == ["Pending"] * 4
    group = await cluster.client.get(POD_GROUP_X, "default", "train")
    assert group.spec.min_member == 4
    assert (await cluster.client.get(GANG, "default", "podgroup-train")).spec.queue == "team"
    made = await pods.pods(cluster, ITS)
    assert {(pod.spec.scheduler_name, pod.metadata.labels[POD_GROUP_LABEL]) for pod in made} == {
        (SCHEDULER, "train")
    }
    cluster.muster("fake-nodes", "1 x name=more,cpu=3,memory=8Gi")
    await cluster.until("all four run", partial(pods.run, cluster, ITS, 4))

    async def phase(wanted: str) -> bool:
        return (await cluster.client.get(POD_GROUP_X, "default", "train")).status.phase == wanted

    await cluster.until("its PodGroup runs", partial(phase, "Running"))
    worker = f"{ITS},training.kubeflow.org/replica-type=worker,training.kubeflow.org/replica-index=2"
    (before,) = await pods.pods(cluster, worker)
    await pods.end(cluster, worker, "Failed")

    async def replaced() -> bool:
        now = [pod.metadata.uid for pod in await pods.pods(cluster, worker)]
        return now != [before.metadata.uid] and await pods.run(cluster, ITS, 4)

    await cluster.until("a new worker runs beside the others", replaced)
    await pods.end(cluster, ITS)
    await cluster.until("it has succeeded", partial(pods.holds, cluster, PYTORCH_JOB, "train", "Succeeded"))
