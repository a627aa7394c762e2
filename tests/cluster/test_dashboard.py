"""Users of a real API server see, on the pages that the chart installs, what their rights permit."""

from functools import partial

import aiohttp

from muster.api.base import Kind, Resource
from muster.api.kinds import JOB, NAMESPACE, SERVICE_ACCOUNT
from tests.cluster.chart import Chart
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import free_ports

ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True, Resource)
RBAC = "rbac.authorization.k8s.io"


async def test_each_user_sees_the_jobs_of_its_namespaces(cluster: Cluster, chart: Chart) -> None:
    for team in ("red", "blue"):
        await cluster.make(NAMESPACE, {"metadata": {"name": team}})
        for user in ("viewer", "nobody", "gone"):
            await cluster.make(SERVICE_ACCOUNT, {"metadata": {"name": user}}, team)
        view = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
        viewer = {"kind": "ServiceAccount", "name": "viewer", "namespace": team}
        binding = {"metadata": {"name": "viewer"}, "roleRef": view, "subjects": [viewer]}
        await cluster.make(ROLE_BINDING, binding, team)
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        await cluster.make(
            JOB, {"metadata": {"name": f"job-of-{team}"}, "spec": {"template": {"spec": pod}}}, team
        )
    (port,) = free_ports(1)
    tokens = {
        (team, user): chart.kubectl("create", "token", user, f"--namespace={team}").strip()
        for team in ("red", "blue")
        for user in ("viewer", "nobody", "gone")
    }
    chart.kubectl("delete", "serviceaccount", "gone", "--namespace=red")
    cluster.daemon("dashboard", port)
    address = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:

        async def get(path: str, token: str = "", **headers: str) -> tuple[int, str]:
            bearer = {"Authorization": f"Bearer {token}"} if token else {}
            async with http.get(address + path, headers={**bearer, **headers}) as answer:
                return answer.status, await answer.text()

        async def ready(path: str) -> bool:
            try:
                return (await get(path))[0] == 200
            except aiohttp.ClientError:
                return False

        for probe in ("healthz", "readyz"):
            await cluster.until(probe, partial(ready, f"/{probe}"))

        async def sees(team: str) -> bool:
            return f"job-of-{team}" in (await get("/jobs", tokens[team, "viewer"]))[1]

        for team, other in (("red", "blue"), ("blue", "red")):
            await cluster.until(f"{team} sees its job", partial(sees, team))
            token = tokens[team, "viewer"]
            for path in ("/", "/jobs", "/queues", "/nodes"):
                status, text = await get(path, token)
                assert (status, f"job-of-{other}" in text) == (200, False), path
            assert (await get(f"/jobs/{team}/job-of-{team}", token))[0] == 200
            assert (await get(f"/jobs/{other}/job-of-{other}", token))[0] == 404
        status, text = await get("/jobs", tokens["red", "nobody"])
        assert (status, "job-of" in text) == (200, False)
        for token in ("", "forged", tokens["red", "gone"]):
            status, text = await get("/jobs", token)
            assert (status, "job-of" in text) == (401, False)
        assert (await get("/jobs", tokens["red", "viewer"], Host="evil.example"))[0] == 421
        form, origin = {"token": tokens["red", "viewer"]}, {"Origin": address}
        async with http.post(f"{address}/sign-in", data=form, headers=origin) as answer:
            assert (answer.status, "job-of-red" in await answer.text()) == (200, True)
        assert "job-of-blue" not in (await get("/jobs"))[1]
