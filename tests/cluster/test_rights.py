"""A right that muster's role lacks, as after an upgrade by somebody who may not write roles."""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp

from muster.api.base import Kind, Resource
from muster.api.kinds import LEASE
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import free_ports
from tests.cluster.gangs import bound, gang

ROLE: Kind[Any] = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, Resource
)  # Any: only its rules are looked at
BUDGETS = "poddisruptionbudgets"


@asynccontextmanager
async def without_budgets(cluster: Cluster) -> AsyncIterator[None]:
    """Takes the right to read disruption budgets away from the scheduler's role, for a while."""
    name = "muster-scheduler"
    rules = json.loads(cluster.chart.kubectl("get", "clusterrole", name, "--output=json"))["rules"]
    fewer = [
        {**rule, "resources": [each for each in rule.get("resources", ()) if each != BUDGETS]}
        for rule in rules
        if rule.get("resources") != [BUDGETS]
    ]
    cluster.withheld.add(f"/{BUDGETS}")
    await cluster.client.patch(ROLE, "", name, {"rules": fewer})

    async def withheld() -> bool:
        return not cluster.chart.may("scheduler", "list", f"{BUDGETS}.policy")

    try:
        await cluster.until("the right is taken away", withheld)
        yield
    finally:
        await cluster.client.patch(ROLE, "", name, {"rules": rules})
        await cluster.may("scheduler", "list", f"{BUDGETS}.policy")


async def test_replicas_that_lack_a_right_do_not_replace_one_that_has_it(cluster: Cluster) -> None:
    cluster.muster("fake-nodes", "1 x name=righted,cpu=8,memory=8Gi")
    ports = free_ports(4)
    async with aiohttp.ClientSession() as http:

        async def says(port: int, what: str) -> bool:
            try:
                async with http.get(f"http://127.0.0.1:{port}/readyz") as response:
                    return (await response.text()).strip() == what
            except aiohttp.ClientError:
                return False

        async def shown(port: int, what: str) -> None:
            await cluster.until(f"port {port}: {what}", partial(says, port, what))

        leader = cluster.daemon("scheduler", ports[0])
        await shown(ports[0], "ok, leads")
        cluster.daemon("scheduler", ports[1])
        await shown(ports[1], "ok, waits for the lease")
        async with without_budgets(cluster):
            for port in ports[2:]:
                cluster.daemon("scheduler", port)
                await shown(port, f"not ready, waits for the lease: cannot read {BUDGETS}")
            terms = (
                await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
            ).spec.lease_transitions
            leader.send_signal(signal.SIGTERM)
            await shown(ports[1], "ok, leads")
            now = (
                await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
            ).spec.lease_transitions
            assert now == terms + 1
            await gang(cluster, "righted", 2)

            async def whole() -> bool:
                return await bound(cluster, "righted") == 2

            await cluster.until("the gang is bound", whole)
        for port in ports[2:]:
            await shown(port, "ok, waits for the lease")
