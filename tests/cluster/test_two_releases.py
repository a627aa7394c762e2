"""Two releases of the chart on one cluster, with scheduler names of their own."""

from pathlib import Path

from muster.api.kinds import GANG
from muster.kube.errors import NotFound
from tests.cluster.chart import install, run
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import bound, gang

SECOND, NAMESPACE = "muster-second", "muster-second"


async def test_they_work_side_by_side_and_share_definitions_controllers_and_guard(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    cluster.muster("fake-nodes", "1 x name=shared,cpu=8,memory=8Gi")
    second = install(
        plane.kubeconfig,
        tmp_path,
        "crds.install=false",
        "controllers.replicas=0",
        "scheduler.replicas=0",
        f"scheduler.config.schedulerNames[0]={SECOND}",
        release=SECOND,
        namespace=NAMESPACE,
    )
    try:
        second.await_roles()
        cluster.daemon("scheduler")
        cluster.daemon("controllers")
        cluster.scheduler_of(second)
        for name, by in (("first", "muster"), ("other", SECOND)):
            await gang(cluster, name, 3, by=by)

        async def whole() -> bool:
            return [await bound(cluster, name) for name in ("first", "other")] == [3, 3]

        async def standing() -> bool:
            try:
                found = [
                    await cluster.client.get(GANG, "default", f"podgroup-{n}") for n in ("first", "other")
                ]
            except NotFound:
                return False
            return [each.spec.lease for each in found] == [
                "muster-system/muster-scheduler",
                f"{NAMESPACE}/{SECOND}-scheduler",
            ] and {each.status.phase for each in found} == {"Standing"}

        await cluster.until("both gangs are bound", whole)
        await cluster.until("each is recorded by its own scheduler", standing)
        refused = [
            entry
            for entry in plane.entries()
            if entry["user"]["username"] in second.accounts | cluster.chart.accounts
            and "-records" in entry.get("responseStatus", {}).get("message", "")
        ]
        assert refused == [], "no guard locks the other release out"
        assert plane.forbidden(second.accounts) == []
    finally:
        run(
            "helm",
            "uninstall",
            SECOND,
            f"--namespace={NAMESPACE}",
            kubeconfig=plane.kubeconfig,
            home=tmp_path,
        )
