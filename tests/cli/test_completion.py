"""A shell is told verbs, options and the names of jobs, and never an error."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from muster.api import kinds
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from tests.patience import PATIENCE


def completed(home: Path, words: str, patience: float = PATIENCE) -> list[str]:
    """What bash is told about the last of these words, within this time."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            (
                "import sys; sys.argv[0] = 'muster'; from muster.cli import completion, main; "
                f"completion.PATIENCE = {patience}; main.main()"
            ),
        ],
        env=os.environ
        | {
            "MUSTER_HOME": str(home),
            "_MUSTER_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    """Of a cluster that no process hosts, with three pods."""
    home = StateDirectory(tmp_path / "home")
    home.make()
    store = Store(home.store)
    client = LocalClient(Registry(store))
    for name in ("train-1", "train-2", "sweep"):
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await client.create(kinds.POD, "default", pod)
    store.close()
    return home.root


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("muster time", ["timeline"]),
        ("muster why t", ["train-1", "train-2"]),
        ("muster logs ", ["sweep", "train-1", "train-2"]),
        ("muster cancel -n other t", []),
        ("muster why --kubeconfig nosuch t", []),
    ],
)
def test_completion_offers_jobs_verbs_and_options(home: Path, words: str, offered: list[str]) -> None:
    assert sorted(completed(home, words)) == offered


def test_a_store_that_cannot_be_read_offers_nothing(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_text("this is not a database, and it is long enough to tell")
    assert completed(tmp_path, "muster why t") == []


def test_without_a_cluster_nothing_is_offered_and_nothing_is_made(tmp_path: Path) -> None:
    assert completed(tmp_path / "none", "muster why t") == []
    assert not (tmp_path / "none").exists()


def test_a_cluster_that_never_answers_offers_nothing(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = tmp_path / "config"
        config.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{silent.getsockname()[1]}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n"
        )
        assert completed(tmp_path, f"muster why --kubeconfig {config} t", patience=0.1) == []
