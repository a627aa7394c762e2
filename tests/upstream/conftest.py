"""Controllers of other projects beside muster, on a control plane of these tests' own.

They run with MUSTER_TEST_UPSTREAM=1 only (`make test-upstream`). The controllers are unmodified and have all
rights; muster has those of its chart. No kubelet runs: `muster fake-nodes` plays the nodes.
"""

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml

from muster.api.base import Kind, Resource
from muster.api.kinds import JOBSET
from tests.cluster.building import Missing
from tests.cluster.chart import Chart
from tests.cluster.conftest import Cluster, chart, cluster, served
from tests.cluster.control_plane import HOST, ControlPlane, built, free_ports, running
from tests.patience import LONGEST
from tests.upstream import modules, webhooks
from tests.upstream import volcano as vc
from tests.upstream.modules import (
    KUBERAY,
    MPI_OPERATOR,
    POD_GROUPS,
    TRAINING_OPERATOR,
    UNBUILT,
    VOLCANO,
    Upstream,
)

__all__ = ["chart", "cluster"]

#: the JobSet of a pod
JOBSET_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "plane" in getattr(item, "fixturenames", ()):
            if os.environ.get("MUSTER_TEST_UPSTREAM") != "1":
                item.add_marker(
                    pytest.mark.skip(reason="MUSTER_TEST_UPSTREAM=1 (make test-upstream) runs it")
                )
            item.add_marker(pytest.mark.timeout(LONGEST))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Never `$KUBECONFIG`: what these tests install is for the whole cluster."""
    if not any(each.kept for each in modules.ALL):
        pytest.skip("no controller of another project has been built: make test-upstream")
    try:
        built()
    except Missing as missing:
        pytest.skip(str(missing))
    with running(tmp_path_factory.mktemp("plane")) as plane:
        yield plane


def program(upstream: Upstream) -> str:
    """The controller's program; skips the test if there is none."""
    if there := upstream.kept:
        return str(there)
    pytest.skip(f"{upstream.module} {UNBUILT.get(upstream.name, 'is not built: make test-upstream')}")


async def define(cluster: Cluster, upstream: Upstream, *paths: str) -> None:
    """Applies definitions of kinds as the module has them, and waits until they are served."""
    files = [file for path in paths for file in upstream.manifests(path)]
    cluster.chart.kubectl(
        "apply", "--server-side", "--force-conflicts", *(f"--filename={file}" for file in files)
    )
    for file in files:
        spec = yaml.safe_load(file.read_text())["spec"]
        names, version = spec["names"], spec["versions"][0]["name"]
        kind = Kind(spec["group"], version, names["kind"], names["plural"], False, Resource)
        await cluster.until(f"{kind.plural} are served", partial(served, cluster.client, kind))


async def answers(url: str) -> bool:
    """Whether something at this address says that it is ready."""

    def ask() -> bool:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return bool(answer.status == 200)

    with suppress(OSError):
        return await asyncio.to_thread(ask)
    return False


@pytest.fixture(scope="session")
def pod_groups(chart: Chart) -> None:
    """scheduler-plugins' definition of PodGroups, instead of one that keeps any field."""
    for upstream in (TRAINING_OPERATOR, MPI_OPERATOR, KUBERAY):
        if upstream.kept:
            (file,) = upstream.manifests(POD_GROUPS)
            chart.kubectl("delete", f"--filename={file}", "--ignore-not-found", "--wait")
            chart.kubectl("create", f"--filename={file}")
            return


def configured(file: Path, version: str, health: int, **more: object) -> Path:
    """Writes the configuration of a controller that leads at once and answers at this port for its health."""
    own = {
        "apiVersion": version,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{HOST}:{health}"},
        **more,
    }
    file.write_text(json.dumps(own))
    return file


@pytest.fixture
async def jobsets(cluster: Cluster, plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The cluster with JobSet's controller and webhooks."""
    binary = program(modules.JOBSET)
    await define(cluster, modules.JOBSET, "config/components/crd/bases")
    hooks, health = free_ports(2)
    directory = webhooks.certificates(plane, tmp_path / "jobset")
    file = configured(
        directory / "jobset.yaml",
        "config.jobset.x-k8s.io/v1alpha1",
        health,
        internalCertManagement={"enable": False},
        webhook={"host": HOST, "port": hooks, "certDir": str(directory)},
    )
    arguments = (f"--kubeconfig={cluster.kubeconfig}", f"--config={file}")
    cluster.start(modules.JOBSET.name, [binary, *arguments])
    await cluster.until("JobSet's webhooks listen", partial(answers, f"http://{HOST}:{health}/readyz"))
    manifest = "config/components/webhook/manifests.yaml"
    where = webhooks.at(plane, hooks)
    webhooks.register(cluster, modules.JOBSET, manifest, "jobset", where, pods=JOBSET_LABEL)
    try:
        yield cluster
        for each in (await cluster.client.list(JOBSET)).items:
            await cluster.remove(JOBSET, each)
    finally:
        webhooks.unregister(cluster, "jobset")


@pytest.fixture
async def volcano(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The cluster with Volcano's controllers, which write PodGroups and pods for its Jobs.

    Its scheduler does not run. So the Queues that it makes are made here, `root` and `default`; and there are
    no webhooks, so a Job needs what they set: schedulerName, minAvailable, queue.
    """
    binary = program(VOLCANO)
    await define(cluster, VOLCANO, "config/crd/volcano/bases", "config/crd/jobflow/bases")
    for name in ("root", "default"):
        await cluster.make(vc.QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1}})
    arguments = (f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false", "--logtostderr", "-v=3")
    cluster.start(VOLCANO.name, [binary, *arguments])
    yield cluster
    for kind in (vc.JOB, vc.POD_GROUP):
        for each in (await cluster.client.list(kind)).items:
            await cluster.remove(kind, each)
