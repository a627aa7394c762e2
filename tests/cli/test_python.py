"""`muster.submit` does what `muster submit` does, also under a running event loop; the notebook runs."""

import ast
import asyncio
import gc
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

import muster
from muster.app.wiring import embedded, host
from muster.app.wiring.state_directory import Endpoint, StateDirectory
from muster.embedded import nodespec
from muster.kube.clock import SystemClock
from tests.cli.binary import until
from tests.patience import PATIENCE

#: A loop that ends leaves TLS connections of its watches to the collector, which warns of them.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
NOTEBOOK = Path(__file__).parents[2] / "docs/guides/notebook.ipynb"


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateDirectory]:
    """An embedded cluster that a thread of this process hosts, as the user's own."""
    home = StateDirectory(tmp_path_factory.mktemp("cluster") / "home")
    home.make()
    loop, stop, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()

    async def run() -> None:
        with home.hosting():
            async with embedded.running(home, nodespec.read("1 x cpu=8,memory=16Gi"), SystemClock()) as there:
                home.announce(Endpoint(there.server, os.getpid(), stays=True))
                ready.set()
                await stop.wait()
                home.withdraw()
            await asyncio.sleep(0)  # so that its connections close

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_HOME", str(home.root))
        thread.start()
        assert ready.wait(PATIENCE)
        yield home
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        loop.close()


async def run_notebook() -> tuple[list[Any], dict[str, Any]]:
    """The values of the last expressions of the notebook's cells, run as a kernel does: within a loop."""
    values: list[Any] = []
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "notebook", "exec"), names)
        if isinstance(last, ast.Expr):
            values.append(eval(compile(ast.Expression(last.value), "notebook", "eval"), names))
    return values, names


async def test_the_notebook_runs_under_a_running_loop(
    cluster: StateDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    values, names = await run_notebook()
    printed = capsys.readouterr().out
    assert values == [["loss=0.25", "hello"], 3, [("0.1", "succeeded", "0.1"), ("0.01", "succeeded", "0.01")]]
    assert "['starting']" in printed
    assert "spec.comand: unknown field; did you mean command?" in printed
    assert names["job"].result().state == "succeeded"


def test_a_job_that_goes_on_times_out_and_is_cancelled(cluster: StateDirectory) -> None:
    template: Any = {"restartPolicy": "Never", "containers": [{"name": "c", "command": ["sleep", "600"]}]}
    made: Any = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "sleeps"}}
    spec = client.V1JobSpec(template=client.V1PodTemplateSpec(spec=template))
    model = client.V1Job(api_version="batch/v1", kind="Job", metadata=made["metadata"], spec=spec)
    job = muster.submit(model)
    with pytest.raises(TimeoutError, match=r"sleeps has not ended within 0\.01 s; it goes on"):
        job.wait(timeout=0.01)
    assert job.result().exit_code is None
    assert [muster.job("slee"), muster.job(), muster.job("default/sleeps")] == [job] * 3
    events = job.events()
    assert type(next(events)).__name__ == "StatusChanged"
    events.close()
    job.cancel()
    assert job.result().state == "cancelled"
    assert muster.job("sleeps") == job
    assert muster.job("sleeps").wait(PATIENCE).state == "cancelled"
    again = muster.submit({**made, "spec": {"template": {"spec": template}}})
    with pytest.raises(muster.Failure, match="sleeps is gone; what has the name now was submitted since"):
        job.cancel()
    again.cancel()


@pytest.mark.parametrize(
    ("job", "options", "told"),
    [
        ("nosuch.yaml", {}, "nosuch.yaml: cannot be read"),
        (None, {}, "name a job file"),
        ([], {}, "name a job file"),
        (None, {"command": "python3 train.py"}, "command takes a list of words"),
        (None, {"command": ["a"], "gpus": -1}, "--gpus -1: write 0 to 1,000"),
        ({"kind": "Job"}, {"gpus": 1}, "gpus is for a command"),
        ({"a": {1, 2}.pop}, {}, "cannot be written as JSON"),
        (
            [{"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "q"}}],
            {},
            "has 0 jobs",
        ),
        (
            None,
            {"command": ["a"], "nodes": "4", "context": "prod"},
            "--nodes is for the embedded cluster only",
        ),
    ],
)
def test_errors_are_those_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Any, options: dict[str, Any], told: str
) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    with pytest.raises(muster.Failure, match=told) as caught:
        muster.submit(job, **options)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "home").exists(), "no cluster has started"


def test_a_job_that_does_not_exist_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    with pytest.raises(muster.Failure, match="no job") as caught:
        muster.job("nosuch")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "home").exists()


def test_a_command_is_told_of_a_job(cluster: StateDirectory, tmp_path: Path) -> None:
    events = tmp_path / "events"
    told = f"sh -c 'echo $MUSTER_EVENT >> {events}'"
    job = muster.submit(command=["true"], notify=told)
    assert job.wait(PATIENCE).state == "succeeded"
    until(lambda: events.exists() and events.read_text() == "start\nend\n", "both events")


def test_a_process_with_threads_does_not_fork_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    endpoint = Endpoint("https://127.0.0.1:1", 1)

    def spawn(home: StateDirectory, nodes: str, stays: bool) -> Endpoint:
        spawned.append(nodes)
        return endpoint

    monkeypatch.setattr(host, "_spawn", spawn)
    home = StateDirectory(tmp_path / "home")
    done = threading.Event()
    beside = threading.Thread(target=done.wait)
    beside.start()
    try:
        with host.attached(home, "2 x cpu=1") as found:
            assert found is endpoint
    finally:
        done.set()
        beside.join()
    assert spawned == ["2 x cpu=1"]
