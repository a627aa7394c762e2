"""Lifecycle hooks: a postStart before the container counts as running, a preStop before SIGTERM."""

import asyncio
from pathlib import Path
from typing import Any

from muster.api.core_v1 import Pod
from muster.api.kinds import POD
from tests.embedded.node.conftest import Cluster
from tests.embedded.node.test_pod_fields import events, messages
from tests.patience import PATIENCE

#: Ends by SIGTERM with what it then finds in the file $0; $0.ready is there once it can.
COMMAND = """
trap 'cat "$0" 2>/dev/null; exit 7' TERM
true > "$0.ready"
while :; do sleep 0.02; done
"""


READY = "until [ -e $FILE.ready ]; do sleep 0.02; done"


def hook(script: str) -> Any:
    return {"exec": {"command": ["sh", "-c", script]}}


async def hooked(cluster: Cluster, file: Path, *, grace: int = 30, **lifecycle: Any) -> Pod:
    container = {"lifecycle": lifecycle, "env": [{"name": "FILE", "value": str(file)}]}
    return await cluster.submit(
        "hooked",
        ["sh", "-c", COMMAND, str(file)],
        container=container,
        terminationGracePeriodSeconds=grace,
        metadata={"finalizers": ["example.com/kept"]},  # so that its end can be read
    )


async def deleted(cluster: Cluster) -> Pod:
    await cluster.started("hooked")
    await cluster.client.delete(POD, "default", "hooked")
    return await cluster.ended("hooked")


def code(pod: Pod) -> int | None:
    [status] = pod.status.container_statuses
    return status.state.terminated.exit_code if status.state.terminated else None


async def test_a_pre_stop_is_over_before_the_command_gets_sigterm(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.running():
        await hooked(cluster, tmp_path / "said", preStop=hook(f"{READY}; echo saved > $FILE"))
        await deleted(cluster)
        assert await cluster.output("hooked") == "saved\n"


async def test_a_container_does_not_run_before_its_post_start_is_over(
    cluster: Cluster, tmp_path: Path
) -> None:
    go, said = tmp_path / "go", tmp_path / "said"
    wait = hook(f"echo begun > $FILE; until [ -e {go} ]; do sleep 0.02; done")
    async with cluster.running():
        await hooked(cluster, said, postStart=wait)
        async with asyncio.timeout(PATIENCE):
            while not said.exists():  # noqa: ASYNC110  # a shell sends no events
                await asyncio.sleep(0.02)
        assert (await cluster.get("hooked")).status.phase == "Pending"
        go.touch()
        await deleted(cluster)


async def test_a_post_start_that_fails_ends_its_container(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.running():
        await hooked(cluster, tmp_path / "said", postStart=hook("echo no dataset; exit 3"))
        pod = await cluster.ended("hooked")
        (told,) = await events(cluster, "FailedPostStartHook")
    assert told == "container main: postStart hook failed: exit 3: no dataset"
    assert messages(pod)["main"] == "postStart hook failed: exit 3: no dataset"


async def test_a_pre_stop_that_hangs_leaves_the_command_its_last_moment(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with cluster.running():
        await hooked(cluster, tmp_path / "said", grace=1, preStop=hook("sleep 300"))
        await deleted(cluster)
        (told,) = await events(cluster, "FailedPreStopHook")
    assert told == "container main: preStop hook failed: not done within the grace period"


async def test_a_pre_stop_that_fails_does_not_keep_the_container(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.running():
        await hooked(cluster, tmp_path / "said", preStop={"httpGet": {"port": 1}})
        assert code(await deleted(cluster)) in (7, 143), "by SIGTERM, maybe before its trap"
        (told,) = await events(cluster, "FailedPreStopHook")
    assert told.startswith("container main: preStop hook failed: ")


async def test_no_hook_delays_a_pod_that_is_deleted_by_force(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.running():
        await hooked(cluster, tmp_path / "said", preStop=hook("echo begun > $FILE; sleep 300"))
        await cluster.started("hooked")
        await cluster.client.delete(POD, "default", "hooked", grace_period=0)
        await cluster.ended("hooked")
    assert not (tmp_path / "said").exists()


async def test_a_container_that_ends_by_itself_has_no_pre_stop_and_waits_for_no_hook(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "said"
    lifecycle = {"preStop": hook(f"echo begun > {file}"), "postStart": {"sleep": {"seconds": 300}}}
    async with cluster.running():
        await cluster.submit(
            "short", ["true"], container={"lifecycle": lifecycle}, terminationGracePeriodSeconds=300
        )
        assert code(await cluster.ended("short")) == 0
    assert not file.exists()


async def test_a_hook_is_not_run_again_by_the_next_agent(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "said"
    async with cluster.running():
        await hooked(cluster, file, postStart=hook("echo begun >> $FILE"))
        await cluster.started("hooked")
    async with cluster.running():
        await deleted(cluster)
    assert file.read_text() == "begun\n"
