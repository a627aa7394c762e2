"""The cases of tests/kubectl on a real API server, with nodes that `muster fake-nodes` plays."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from muster.api.crd import definitions
from tests.cluster.control_plane import ControlPlane
from tests.kubectl import CASES
from tests.kubectl.cases import Case, Kubectl, Run, absent
from tests.kubectl.differences import DIFFERENCES, Difference
from tests.patience import CLUSTER

pytestmark = pytest.mark.skipif(bool(absent()), reason=absent())


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("kubectl")
    kubectl = Kubectl(plane.kubeconfig, home, CLUSTER)
    kubectl.step(
        Run("apply -f -", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": definitions()}))
    )
    with (home / "nodes.log").open("wb") as log:
        nodes = subprocess.Popen(
            [
                *(sys.executable, "-m", "muster", "fake-nodes", "2 x name=node,cpu=4,memory=4Gi"),
                *("--kubeconfig", str(plane.kubeconfig)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        kubectl.step(Run("wait --for=condition=Ready node/node-0 node/node-1", again=True))
        kubectl.step(Run("explain queue.spec", ("weight <integer>",), again=True))
        yield kubectl
        kubectl.step(Run("delete node node-0 node-1"))
    finally:
        nodes.send_signal(signal.SIGTERM)
        nodes.wait(CLUSTER)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_kubectl(kubectl: Kubectl, case: Case) -> None:
    if case.embedded_only:
        pytest.skip(case.embedded_only)
    kubectl.check(case)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.name.replace(" ", "-"))
def test_a_difference(kubectl: Kubectl, difference: Difference) -> None:
    difference.check(kubectl, difference.kubernetes)
