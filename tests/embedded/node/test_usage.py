"""A pod whose emptyDir exceeds its sizeLimit is evicted."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.embedded.node import usage
from muster.embedded.node.usage import used
from tests.embedded.node.conftest import Cluster
from tests.tiers import examples

#: Fills the volume with one MiB, and goes on.
FILL = 'dd if=/dev/zero of="$V/data" bs=64k count=16 2>/dev/null; while :; do sleep 0.02; done'
WHOLE, NEVER = 2**60, threading.Event()


async def volume(cluster: Cluster, name: str, script: str, **source: Any) -> None:
    path = str(cluster.root / f"mounted-{name}")
    container = {
        "env": [{"name": "V", "value": path}],
        "volumeMounts": [{"name": "v", "mountPath": path}],
    }
    volumes = [{"name": "v", "emptyDir": source}, {"name": "other", "emptyDir": {}}]
    await cluster.submit(name, ["sh", "-c", script], container=container, volumes=volumes)


@pytest.mark.parametrize("medium", ["", "Memory"])
async def test_a_pod_that_exceeds_the_limit_is_evicted(
    cluster: Cluster, medium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "PERIOD", 0.01)
    async with cluster.running():
        await volume(cluster, "full", FILL, medium=medium, sizeLimit="500Ki")
        pod = await cluster.ended("full")
    assert (pod.status.phase, pod.status.reason) == ("Failed", "Evicted")
    assert pod.status.message == 'Usage of EmptyDir volume "v" exceeds the limit "500Ki".'
    assert not any(condition.type == "DisruptionTarget" for condition in pod.status.conditions)


@pytest.mark.parametrize("source", [{"sizeLimit": "2Mi"}, {"sizeLimit": "0"}, {}])
async def test_a_pod_within_its_limit_or_without_one_goes_on(
    cluster: Cluster, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "PERIOD", 0.0)
    script = FILL.replace("while :;", "for i in $(seq 10);")
    async with cluster.running():
        await volume(cluster, "some", script, **source)
        assert (await cluster.ended("some")).status.phase == "Succeeded"


@settings(max_examples=examples(40), deadline=None)
@given(sizes=st.lists(st.integers(0, 40), max_size=12), depth=st.integers(0, 4))
def test_usage_is_what_du_counts(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], depth: int
) -> None:
    root = tmp_path_factory.mktemp("usage")
    at = root
    expected = 0
    for number, size in enumerate(sizes):
        if number <= depth:
            at = at / "d"
            at.mkdir()
        file = at / str(number)
        file.write_bytes(b"x" * size * 4096)
        os.link(file, at / f"{number}.second")
        (at / f"{number}.link").symlink_to("/")
        expected += size * 4096
    assert expected <= used(root, WHOLE, NEVER) <= expected + 8192 * len(sizes)


def test_the_rest_is_not_counted_above_the_limit_or_once_stopped(tmp_path: Path) -> None:
    for number in range(10):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "data").write_bytes(b"x" * 4096)
    assert 4096 < used(tmp_path, 4096, NEVER) < used(tmp_path, WHOLE, NEVER)
    stopped = threading.Event()
    stopped.set()
    assert used(tmp_path, WHOLE, stopped) == used(tmp_path / "none", WHOLE, NEVER) == 0
