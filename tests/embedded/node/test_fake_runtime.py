"""Pods without processes, in virtual time."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import is_true
from muster.api.core_v1 import Pod
from muster.api.kinds import POD
from muster.embedded.node.fake_runtime import FakeRuntime, Play, play
from muster.embedded.node.isolation import Isolation
from muster.embedded.nodespec import NodeSpec
from muster.kube.client import Client
from muster.kube.decode import decode
from tests.embedded.node.conftest import Cluster
from tests.embedded.node.virtual import VirtualClock
from tests.spoiled import TIMES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Play()),
        ("run=30s", Play(30.0, 0)),
        ("run=1.5m,exit=3", Play(90.0, 3)),
        ("exit=1, run=200ms", Play(0.2, 1)),
        ("run=2h", Play(7200.0, 0)),
        ("run=5", Play(5.0, 0)),
        ("reject=OutOfcpu", Play(reject="OutOfcpu")),
        ("stop=30s", Play(stop=30.0)),
        ("run=1m,stop=never", Play(60.0, stop=float("inf"))),
        ("at=2030-01-01T00:01:00Z,exit=1", Play(None, 1, datetime(2030, 1, 1, 0, 1, tzinfo=UTC))),
    ],
)
def test_the_annotation(text: str, expected: Play) -> None:
    assert play({"muster.dev/pretend": text}) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("run", "run=long", "walk=3s", "exit=one", "run=-1x", "at=noon", "at=2030-01-01"),
        *("run=1e300", "run=inf", "run=nan", "run=-1", "exit=256", "exit=-1", "exit=" + "9" * 30),
        *("stop=-1", "stop=nan", "stop=soon", "reject=no room", "reject=!"),
    ],
)
def test_an_annotation_that_the_fake_runtime_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match='write "run=30s,exit=1"'):
        play({"muster.dev/pretend": text})


class Patient:
    """An API server that takes whatever it gets."""

    async def delete(self, *_: Any, **__: Any) -> None:
        pass

    async def patch(self, kind: Any, namespace: str, name: str, body: Any, **_: Any) -> Pod:
        return decode(POD, json.dumps({"metadata": {"name": name}, "status": body["status"]}).encode())


@given(
    st.sampled_from(TIMES),
    st.none() | st.sampled_from(TIMES),
    st.sampled_from([None, 0, -(2**63), 2**63 - 1]),
    st.sampled_from(["", "run=68y", "run=2147483648", "run=1,stop=never", "stop=2147483648", *TIMES]),
)
def test_no_time_of_a_pod_stops_the_fake_runtime(
    started: str, deleted: str | None, seconds: int | None, text: str
) -> None:
    body = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "annotations": {"muster.dev/pretend": f"at={text},run=1" if text in TIMES else text},
            "deletionTimestamp": deleted,
            "deletionGracePeriodSeconds": seconds,
        },
        "spec": {"nodeName": "n", "activeDeadlineSeconds": seconds, "containers": [{"name": "c"}]},
        "status": {"startTime": started, "phase": "Running"},
    }
    runtime = FakeRuntime(cast("Client", Patient()), VirtualClock())
    runtime.update(decode(POD, json.dumps(body).encode()))
    asyncio.run(runtime._step("u"))


@pytest.fixture
def simulated(tmp_path: Path) -> Cluster:
    node = NodeSpec("here", {"cpu": 64}, runtime="none")
    return Cluster(tmp_path, Isolation(namespaces=False), [node], VirtualClock())


async def submit(cluster: Cluster, name: str, text: str) -> Pod:
    return await cluster.submit(name, metadata={"annotations": {"muster.dev/pretend": text}})


async def test_pods_run_and_end_as_they_say(simulated: Cluster) -> None:
    assert isinstance(simulated.clock, VirtualClock)
    async with simulated.running():
        await submit(simulated, "good", "run=30s")
        await submit(simulated, "bad", "run=60s,exit=4")
        await submit(simulated, "endless", "")
        for name in ("good", "bad", "endless"):
            pod = await simulated.started(name)
            assert is_true(pod.status.conditions, "Ready")
        simulated.clock.advance(29.0)
        await asyncio.sleep(0.02)
        assert (await simulated.get("good")).status.phase == "Running"
        simulated.clock.advance(1.0)
        assert (await simulated.ended("good")).status.phase == "Succeeded"
        simulated.clock.advance(1000.0)
        pod = await simulated.ended("bad")
        assert pod.status.phase == "Failed"
        ended = pod.status.container_statuses[0].state.terminated
        assert ended is not None
        assert ended.exit_code == 4
        assert (await simulated.get("endless")).status.phase == "Running"
        await simulated.client.delete(POD, "default", "endless")
        await simulated.gone("endless")


async def test_pods_end_at_a_moment_whenever_they_began(simulated: Cluster) -> None:
    assert isinstance(simulated.clock, VirtualClock)
    async with simulated.running():
        await submit(simulated, "early", "at=2030-01-01T00:01:00Z,exit=1")
        await simulated.started("early")
        simulated.clock.advance(50.0)
        await submit(simulated, "late", "at=2030-01-01T00:01:00Z,run=1h,exit=1")
        await submit(simulated, "short", "at=2030-01-01T00:01:00Z,run=5s")
        await simulated.started("late")
        await simulated.started("short")
        simulated.clock.advance(5.0)
        assert (await simulated.ended("short")).status.phase == "Succeeded"
        assert (await simulated.get("late")).status.phase == "Running"
        simulated.clock.advance(5.0)
        for name in ("early", "late"):
            assert (await simulated.ended(name)).status.phase == "Failed"


async def test_an_annotation_that_cannot_be_read_fails_the_pod(simulated: Cluster) -> None:
    async with simulated.running():
        await submit(simulated, "odd", "walk=3s")
        pod = await simulated.ended("odd")
        assert pod.status.reason == "InvalidAnnotation"


async def test_a_pod_that_is_refused_never_runs(simulated: Cluster) -> None:
    async with simulated.running():
        await submit(simulated, "refused", "reject=OutOfmemory")
        refused = await simulated.ended("refused")
    assert (refused.status.phase, refused.status.reason) == ("Failed", "OutOfmemory")
    assert refused.status.container_statuses == []


async def test_an_agent_that_comes_back_ends_them_in_time(simulated: Cluster) -> None:
    assert isinstance(simulated.clock, VirtualClock)
    async with simulated.running():
        await submit(simulated, "good", "run=30s")
        await simulated.started("good")
    simulated.clock.advance(31.0)
    async with simulated.running():
        assert (await simulated.ended("good")).status.phase == "Succeeded"


async def test_pods_do_not_outlive_their_limit(simulated: Cluster) -> None:
    assert isinstance(simulated.clock, VirtualClock)
    async with simulated.running():
        await simulated.submit("endless", activeDeadlineSeconds=30)
        notes = {"annotations": {"muster.dev/pretend": "run=10s"}}
        await simulated.submit("short", activeDeadlineSeconds=30, metadata=notes)
        for name in ("endless", "short"):
            await simulated.started(name)
        simulated.clock.advance(10.0)
        assert (await simulated.ended("short")).status.phase == "Succeeded"
        simulated.clock.advance(20.0)
        pod = await simulated.ended("endless")
        assert (pod.status.phase, pod.status.reason) == ("Failed", "DeadlineExceeded")
