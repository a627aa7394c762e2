"""The cases on the embedded cluster: the real muster, the real kubectl, one cluster for all cases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.binary import Muster, until
from tests.kubectl import reading, typed, writing
from tests.kubectl.cases import Case, Kubectl, absent

CASES = (*reading.CASES, *writing.CASES, *typed.CASES)
NODES = "2 x name=node,cpu=4,memory=4Gi,pods=110"

pytestmark = pytest.mark.skipif(bool(absent()), reason=absent())


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    home: Path = tmp_path_factory.mktemp("kubectl")
    muster = Muster(home)
    muster.run("up", "-d", "--nodes", NODES)
    yield Kubectl(muster.home / "kubeconfig", home)
    muster.run("down")
    until(lambda: not muster.processes(), "the host to end")
    muster.end()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_kubectl(kubectl: Kubectl, case: Case) -> None:
    kubectl.check(case)
