"""Pods as processes: their life, told by their status."""

from tests.local.node.conftest import Cluster


async def test_a_pod_runs_to_its_end_and_its_output_can_be_read(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.submit("hello", ["sh", "-c", "echo hello; echo $HOSTNAME >&2; exit 3"])
        pod = await cluster.ended("hello")
        status = pod.status.container_statuses[0]
        assert pod.status.phase == "Failed"
        assert status.state.terminated is not None
        assert (status.state.terminated.exit_code, status.state.terminated.reason) == (3, "Error")
        assert await cluster.output("hello") == "hello\nhello\n"
