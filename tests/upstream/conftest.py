"""Controllers of other projects beside muster, on a control plane of these tests' own.

They run with MUSTER_TEST_UPSTREAM=1 only (`make test-upstream`). The controllers are unmodified and have all
rights; muster has those of its chart. No kubelet runs: `muster fake-nodes` plays the nodes.
"""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.cluster.building import Missing
from tests.cluster.conftest import Cluster, chart, cluster
from tests.cluster.control_plane import ControlPlane, built, running
from tests.patience import LONGEST
from tests.upstream import volcano as vc
from tests.upstream.modules import UNBUILT, VOLCANO, Upstream

__all__ = ["chart", "cluster"]


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
    files = [f"--filename={file}" for path in paths for file in upstream.manifests(path)]
    cluster.chart.kubectl("apply", "--server-side", "--force-conflicts", *files)
    cluster.chart.kubectl("wait", "--for=condition=Established", "--timeout=10m", *files)


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
