"""The cases on the embedded cluster: the real muster, the real kubectl, one cluster for all cases."""

from collections.abc import Iterator

import pytest

from tests.cli.binary import Muster, Terminal
from tests.kubectl import CASES
from tests.kubectl.cases import Case, Kubectl, Run, absent
from tests.kubectl.differences import DIFFERENCES, Difference
from tests.kubectl.manifests import POD

NODES = "2 x name=node,cpu=4,memory=4Gi,pods=110"

pytestmark = [pytest.mark.full, pytest.mark.skipif(bool(absent()), reason=absent())]


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """A running cluster."""
    muster = Muster(tmp_path_factory.mktemp("kubectl"), forks=False)
    try:
        muster.run("up", "-d", "--nodes", NODES)
        yield muster
        muster.run("down")
    finally:
        muster.end()


@pytest.fixture(scope="module")
def kubectl(muster: Muster) -> Kubectl:
    return Kubectl(muster.home / "kubeconfig", muster.cwd)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_kubectl(kubectl: Kubectl, case: Case) -> None:
    kubectl.check(case)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.name.replace(" ", "-"))
def test_a_difference(kubectl: Kubectl, difference: Difference) -> None:
    difference.check(kubectl, difference.embedded)


def test_a_command_in_a_terminal(muster: Muster, kubectl: Kubectl) -> None:
    """The terminal is the container's: it has a size, it echoes, and Ctrl-D ends its input."""
    kubectl.step(Run("create -f -", stdin=POD.format(name="screen")))
    kubectl.step(Run("wait --for=condition=Ready pod/screen"))
    muster.environ["KUBECONFIG"] = str(kubectl.kubeconfig)
    # The size comes in a message of its own, after the command has begun.
    sized = 'until [ "$(stty size)" = "40 100" ]; do sleep 0.05; done'
    script = f"{sized}; stty size; test -t 0 && cat; hostname; exit 3"
    terminal = Terminal(muster, "exec", "-it", "screen", "--", "sh", "-c", script, program="kubectl")
    terminal.until("40 100")
    terminal.type("hello\r")
    terminal.until("hello\r\nhello")
    terminal.type("\x04")
    terminal.until("screen")
    assert terminal.exit_code() == 3
    kubectl.step(Run("delete pod screen --now"))
