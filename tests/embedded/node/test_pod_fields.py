"""Fields of pods that processes see: termination messages, host names; and Events about what is ignored."""

import asyncio
import os
import sys

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.api.core_v1 import Pod
from tests.embedded.node.conftest import Cluster
from tests.patience import PATIENCE

MESSAGE = "/dev/termination-log"


async def events(cluster: Cluster, reason: str) -> list[str]:
    """The messages of Events with this reason, once there are any: no pod waits for its Events."""
    async with asyncio.timeout(PATIENCE):
        while True:
            names = [
                event.metadata.name for event in (await cluster.client.list(kinds.EVENT, "default")).items
            ]
            found = [await cluster.client.get_json(kinds.EVENT, "default", name) for name in names]
            if messages := [event["message"] for event in found if event["reason"] == reason]:
                return messages
            await asyncio.sleep(0.02)


def messages(pod: Pod) -> dict[str, str]:
    ends = {status.name: status.state.terminated for status in pod.status.container_statuses}
    return {name: end.message for name, end in ends.items() if end is not None}


async def test_termination_messages(cluster: Cluster) -> None:
    if not cluster.isolation.namespaces:
        pytest.skip("without namespaces no file can be mounted")
    custom = str(cluster.root / "said")
    containers: list[Object] = [
        {"name": "default", "command": ["sh", "-c", f"echo NaN > {MESSAGE}; echo last; exit 5"]},
        {
            "name": "custom",
            "command": ["sh", "-c", 'printf own > "$WHERE"'],
            "env": [{"name": "WHERE", "value": custom}],
            "terminationMessagePath": custom,
        },
        {"name": "output", "command": ["sh", "-c", "echo one; echo two; exit 6"]},
        {"name": "fine", "command": ["sh", "-c", "echo fine"]},
        {"name": "silent", "command": ["sh", "-c", "exit 7"]},
    ]
    for container in containers[2:]:
        container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    async with cluster.running():
        await cluster.submit("said", restartPolicy="Never", containers=containers)
        pod = await cluster.ended("said")
    assert messages(pod) == {
        "default": "NaN\n",
        "custom": "own",
        "output": "one\ntwo\n",
        "fine": "",
        "silent": "",
    }
    assert os.path.basename(MESSAGE) not in os.listdir("/dev"), "it is not in the machine's own"


async def test_output_stands_in_for_a_message_only_as_far_as_kubernetes_allows(cluster: Cluster) -> None:
    long = "for i in $(seq 200); do echo line $i; done; exit 1"
    container = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    async with cluster.running():
        await cluster.submit("long", ["sh", "-c", long], container=container)
        message = messages(await cluster.ended("long"))["main"]
    assert message.splitlines() == [f"line {i}" for i in range(121, 201)]


async def test_a_full_host_name(cluster: Cluster) -> None:
    print_name = ["sh", "-c", "echo $HOSTNAME; hostname"]
    async with cluster.running():
        await cluster.submit("full", print_name, hostname="h", subdomain="team", setHostnameAsFQDN=True)
        await cluster.ended("full")
        full = "h.team.default.svc.cluster.local"
        said = (await cluster.output("full")).split()
        assert said == [full, full] if cluster.isolation.namespaces else said[0] == full
        await cluster.submit("long", print_name, hostname="h" * 60, subdomain="team", setHostnameAsFQDN=True)
        assert "the kernel takes 64" in messages(await cluster.ended("long"))["main"]


async def test_an_event_tells_what_is_ignored_once(cluster: Cluster) -> None:
    async with cluster.running():
        await cluster.submit("own", ["true"], dnsConfig={"searches": ["example.internal"]})
        await cluster.ended("own")
        await cluster.submit("plain", ["true"])
        await cluster.ended("plain")
        (told,) = await events(cluster, "FieldsIgnored")
    assert "dnsConfig: names are resolved as on this machine" in told


async def test_host_aliases_are_names_of_the_pod(cluster: Cluster) -> None:
    aliases = [{"ip": "10.1.2.3", "hostnames": ["nas.example.internal", "nas"]}]
    program = (
        "import socket; print([socket.gethostbyname(n) for n in ('nas', 'nas.example.internal', 'peer')])"
    )
    async with cluster.running():
        peer = await cluster.submit("peer", ["true"])
        await cluster.ended("peer")
        await cluster.submit("alias", [sys.executable, "-c", program], hostAliases=aliases)
        await cluster.ended("alias")
        address = (await cluster.get(peer.metadata.name)).status.pod_ip
        assert await cluster.output("alias") == f"['10.1.2.3', '10.1.2.3', '{address}']\n"


async def test_an_event_tells_of_a_failed_liveness_probe_even_if_the_container_returns_0(
    cluster: Cluster,
) -> None:
    command = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.02; done"]
    probe = {
        "exec": {"command": ["sh", "-c", "echo no step; exit 1"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    async with cluster.running():
        await cluster.submit("stuck", command, container={"livenessProbe": probe})
        pod = await cluster.ended("stuck")
        (told,) = await events(cluster, "Unhealthy")
    assert told == "container main: liveness probe failed 1 times: exit 1: no step"
    assert messages(pod)["main"] == "liveness probe failed 1 times: exit 1: no step"
