"""Two releases of the chart on one cluster, with scheduler names of their own."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster.api.kinds import GANG, LEASE, POD, POD_GROUP_X
from muster.kube.errors import NotFound
from tests.cluster.chart import Chart, install, run
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import bound, done, gang, member

SECOND, NAMESPACE = "muster-second", "muster-second"


@asynccontextmanager
async def released(cluster: Cluster, plane: ControlPlane, home: Path, *values: str) -> AsyncIterator[Chart]:
    """The second release, with these values. Its roles must allow it all that it asks for."""
    second = install(
        plane.kubeconfig,
        home,
        "crds.install=false",
        "controllers.replicas=0",
        "scheduler.replicas=0",
        *values,
        release=SECOND,
        namespace=NAMESPACE,
    )
    before = len(plane.forbidden(second.accounts))
    try:
        second.await_roles()
        yield second
        assert plane.forbidden(second.accounts)[before:] == []
    finally:
        cluster.end()  # without its roles a replica would be refused
        run("helm", "uninstall", SECOND, f"--namespace={NAMESPACE}", kubeconfig=plane.kubeconfig, home=home)


async def test_the_later_of_two_with_one_scheduler_name_does_not_start_and_says_who_has_it(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    async with released(cluster, plane, tmp_path) as second:
        cluster.muster("fake-nodes", "1 x name=kept,cpu=8,memory=8Gi")
        log, refused = cluster.refused(second)
        await cluster.until("it has ended", lambda: ended(refused))
        assert refused.returncode == 2
        assert "muster is served by the scheduler of lease muster-system/muster-scheduler" in log.read_text()
        cluster.daemon("scheduler")  # the earlier one starts, whichever comes first
        await gang(cluster, "kept", 3)

        async def whole() -> bool:
            return await bound(cluster, "kept") == 3

        await cluster.until("the earlier one schedules", whole)


async def ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


async def test_they_work_side_by_side_and_share_definitions_controllers_and_guard(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    cluster.muster("fake-nodes", "1 x name=shared,cpu=8,memory=8Gi")
    values = (f"schedulerNames[0]={SECOND}", f"awaitPodGroups[0]={SECOND}")
    async with released(
        cluster, plane, tmp_path, *(f"scheduler.config.{value}" for value in values)
    ) as second:
        cluster.daemon("scheduler")
        cluster.daemon("controllers")
        cluster.replica_of(second, "scheduler")
        awaits = member("awaits", 0, by=SECOND)
        awaits["metadata"]["labels"] = {}
        await cluster.make(POD, awaits)
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
        there = await cluster.client.get(POD, "default", "awaits-0")
        assert not there.spec.node_name, "a controller is to make its PodGroup first"
        refused = [
            entry
            for entry in plane.entries()
            if entry["user"]["username"] in second.accounts | cluster.chart.accounts
            and "-records" in entry.get("responseStatus", {}).get("message", "")
        ]
        assert refused == [], "no guard locks the other release out"


async def test_the_controllers_of_both_work_side_by_side(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    """Both write what they find to the same objects, and neither undoes what the other has written."""
    cluster.muster("fake-nodes", "1 x name=both,cpu=8,memory=8Gi")
    async with released(cluster, plane, tmp_path, f"scheduler.config.schedulerNames[0]={SECOND}") as second:
        for daemon in ("scheduler", "controllers"):
            cluster.daemon(daemon)
            cluster.replica_of(second, daemon)

        async def lead() -> bool:
            first = await cluster.client.get(LEASE, "muster-system", "muster-controllers")
            other = await cluster.client.get(LEASE, NAMESPACE, f"{SECOND}-controllers")
            return bool(first.spec.holder_identity and other.spec.holder_identity)

        await cluster.until("both controllers lead", lead)
        since = plane.audit.stat().st_size
        for name, by in (("first", "muster"), ("other", SECOND)):
            await gang(cluster, name, 3, by=by)

        async def counted() -> bool:
            records = [await cluster.client.get(GANG, "default", f"podgroup-{n}") for n in ("first", "other")]
            return [(each.status.phase, each.status.bound) for each in records] == [("Standing", 3)] * 2

        await cluster.until("both gangs stand, and their pods are counted", counted)
        for name in ("first", "other"):
            await cluster.client.delete(POD_GROUP_X, "default", name)
            for index in range(3):
                await cluster.client.delete(POD, "default", f"{name}-{index}", grace_period=0)

        async def gone() -> bool:
            return not (await cluster.client.list(GANG)).items

        await cluster.until("their records go", gone)
        both = second.accounts | cluster.chart.accounts
        writes = [each for each in done(plane, "patch", "gangs", "status", since, both) if each[1] < 300]
        assert len(writes) < 60, "they do not answer each other's writes"
