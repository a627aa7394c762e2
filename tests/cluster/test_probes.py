"""What the chart lets the cluster ask of the daemons, they answer."""

import json
import re
from functools import partial

import aiohttp

from tests.cluster.chart import CHART, Chart
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import free_ports
from tests.cluster.gangs import bound, gang


async def test_the_probes_succeed_and_the_metrics_of_the_dashboard_are_served(
    cluster: Cluster, chart: Chart
) -> None:
    cluster.muster("fake-nodes", "1 x name=probed,cpu=4,memory=8Gi")
    ports = dict(zip(("scheduler", "controllers"), free_ports(2), strict=True))
    await gang(cluster, "probed", 2)
    async with aiohttp.ClientSession() as http:

        async def answer(port: int, path: str) -> str | None:
            try:
                async with http.get(f"http://127.0.0.1:{port}{path}") as response:
                    return await response.text() if response.status == 200 else None
            except aiohttp.ClientError:
                return None

        for daemon, port in ports.items():
            cluster.daemon(daemon, port)
            container = chart.container(daemon)
            listens = {each["name"]: each["containerPort"] for each in container["ports"]}
            assert f"--listen=:{listens['http']}" in container["args"]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                get = container[probe]["httpGet"]
                assert get["port"] == "http"
                path = get["path"]
                await cluster.until(f"{daemon}: {path}", partial(answer, port, path))

        async def whole() -> bool:
            return await bound(cluster, "probed") == 2

        await cluster.until("the gang is bound", whole)
        served = await cluster.until("metrics", partial(answer, ports["scheduler"], "/metrics"))
    names = set(re.findall(r"^# TYPE (\w+) ", served, re.MULTILINE))
    dashboard = json.loads((CHART / "files/dashboard.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    shown = {
        re.sub("_(bucket|count|sum)$", "", name) for name in re.findall(r"\b(?:muster|process)_\w+", asked)
    }
    assert shown - names == set()
