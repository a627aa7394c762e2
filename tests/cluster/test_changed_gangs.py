"""What people do to gangs that run, that are in the middle of their binds, and that wait.

Each test has a gang of four in each of these states. Two pods of the second are bound, and its other binds
are under way while people change the gang. The scheduler stays up, and starts another gang meanwhile. The
audit log says which pods muster has bound and deleted.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
import pytest

from muster.api.base import Object
from muster.api.kinds import GANG, POD, POD_GROUP_X
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, bound, done, gang, member
from tests.cluster.leaders import HeldBack, leading

SIZE: Final = 4
#: By state, the CPUs of the gang's node, and how many of its pods are bound when people come.
STATES: Final = {"runs": (8, 4), "starts": (8, 2), "waits": (3, 0)}
#: Phase, reason and bound pods of a gang.
Told = tuple[str, str, int]


@dataclass
class Gangs:
    """A gang in each of the states; its name is the test's and the state."""

    cluster: Cluster
    plane: ControlPlane
    client: HeldBack
    test: str
    #: of the audit log before the test, in bytes
    since: int

    @property
    def names(self) -> list[str]:
        return [f"{self.test}-{state}" for state in STATES]

    async def pods(self, name: str) -> list[str]:
        """The gang's pods, those without a node first."""
        pods = (await self.cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={name}")).items
        return [pod.metadata.name for pod in sorted(pods, key=lambda pod: bool(pod.spec.node_name))]

    async def minimum(self, name: str, pods: int) -> None:
        await self.cluster.client.patch(POD_GROUP_X, "default", name, {"spec": {"minMember": pods}})

    async def delete(self, pod: str) -> None:
        await self.cluster.client.delete(POD, "default", pod, grace_period=0)

    async def create(self, pod: str, cpu: str = "1") -> None:
        await self.cluster.make(POD, _pod(pod, cpu))

    def replace(self, pods: list[str]) -> None:
        """Deletes the pods and creates them again. The scheduler, in this process, stands still meanwhile."""
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [_pod(pod) for pod in pods]})
        self.cluster.chart.kubectl("replace", "--force", "--grace-period=0", "-f", "-", stdin=body.decode())

    async def record(self, name: str) -> Object:
        return await self.cluster.client.get_json(GANG, "default", f"podgroup-{name}")

    async def others_start(self) -> None:
        """Another gang starts: the scheduler is up, and has seen all that was done before."""
        name = f"{self.test}-other"
        await gang(self.cluster, name, 2, test=name)

        async def starts() -> bool:
            return await bound(self.cluster, name) == 2

        await self.cluster.until("another gang starts", starts)

    async def become(self, **wanted: Told) -> None:
        """Lets the binds go on, until the gangs are as wanted."""
        self.client.opened.set()
        found: dict[str, Told] = {}

        async def are() -> bool:
            for state in wanted:
                name = f"{self.test}-{state}"
                status = (await self.record(name))["status"]
                code = (status.get("reason") or {}).get("code", "")
                found[state] = status["phase"], code, await bound(self.cluster, name)
            return found == wanted

        try:
            await self.cluster.until("the gangs are as wanted", are)
        except AssertionError as error:
            raise AssertionError(f"not {wanted}, but {found}") from error

    def written(self, verb: str, subresource: str = "") -> Counter[str]:
        """How often the server accepted such a write of muster, for each pod of the three gangs."""
        found = done(self.plane, verb, "pods", subresource, self.since, self.cluster.chart.accounts)
        return Counter(
            name for name, code, _ in found if code < 300 and name.rpartition("-")[0] in self.names
        )


def _pod(pod: str, cpu: str = "1") -> Object:
    name, _, index = pod.rpartition("-")
    return {"apiVersion": "v1", "kind": "Pod", **member(name, int(index), cpu, name)}


@asynccontextmanager
async def gangs(cluster: Cluster, plane: ControlPlane, test: str) -> AsyncIterator[Gangs]:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    rooms = {f"{test}-{state}": room for state, (room, _) in STATES.items()} | {f"{test}-other": 2}
    nodes = (f"1 x name={name},cpu={room},memory=8Gi,label:test={name}" for name, room in rooms.items())
    cluster.muster("fake-nodes", "; ".join(nodes))
    cluster.daemon("controllers")
    client = HeldBack(cluster, {f"{test}-starts": STATES["starts"][1]})
    async with leading(client):
        made = Gangs(cluster, plane, client, test, plane.audit.stat().st_size)
        for name in made.names:
            await gang(cluster, name, SIZE, test=name)

        async def in_their_states() -> bool:
            return [await bound(cluster, name) for name in made.names] == [n for _, n in STATES.values()]

        await cluster.until("gangs run, start and wait", in_their_states)
        yield made


async def test_a_gang_that_shrinks_to_its_minimum_starts_or_goes_on(
    cluster: Cluster, plane: ControlPlane
) -> None:
    async with gangs(cluster, plane, "shrunk") as made:
        runs, starts, waits = made.names
        deleted = [pod for name in made.names for pod in (await made.pods(name))[:2]]
        await made.minimum(starts, 2)  # first: it would be given back while it is below its minimum
        for pod in deleted:
            await made.delete(pod)
        for name in (runs, waits):
            await made.minimum(name, 2)
        await made.others_start()
        stands = ("Standing", "", 2)
        await made.become(runs=stands, starts=stands, waits=stands)
        assert made.written("delete") == Counter()
        kept = [pod for name in made.names for pod in await made.pods(name)]
        assert made.written("create", "binding") == Counter([*kept, *deleted[:2]])


async def test_a_gang_that_shrinks_below_its_minimum_says_so_and_is_not_left_in_part(
    cluster: Cluster, plane: ControlPlane
) -> None:
    """The one that ran keeps its other pods. All are whole once the members exist again."""
    async with gangs(cluster, plane, "lacking") as made:
        deleted = [pod for name in made.names for pod in (await made.pods(name))[:2]]
        for pod in deleted:
            await made.delete(pod)
        await made.others_start()
        waits = ("Waiting", "MembersMissing", 0)
        await made.become(runs=("Degraded", "MembersMissing", 2), starts=waits, waits=waits)
        assert made.written("delete") == Counter(await made.pods("lacking-starts"))
        await made.minimum("lacking-waits", 3)
        for pod in deleted:
            if "-waits-" not in pod:
                await made.create(pod)
        await made.create("lacking-waits-9")
        stands = ("Standing", "", SIZE)
        await made.become(runs=stands, starts=stands, waits=("Standing", "", 3))


@pytest.mark.parametrize("fits", [True, False])
async def test_a_gang_that_grows_gets_more_places_or_says_why_not(
    cluster: Cluster, plane: ControlPlane, fits: bool
) -> None:
    """The one that ran goes on as it is. The one that has never stood is not left in part."""
    async with gangs(cluster, plane, f"grown-{fits}".lower()) as made:
        for name in made.names:
            for index in (SIZE, SIZE + 1):
                await made.create(f"{name}-{index}", "1" if fits else "99")
            await made.minimum(name, SIZE + 2)  # last: without its members, it would be given back
        await made.others_start()
        if fits:
            stands = ("Standing", "", SIZE + 2)
            await made.become(runs=stands, starts=stands, waits=("Waiting", "InsufficientCapacity", 0))
            assert set(made.written("create", "binding").values()) == {1}
        else:
            waits = ("Waiting", "NothingMatches", 0)
            await made.become(runs=("Degraded", "NothingMatches", SIZE), starts=waits, waits=waits)
        assert all("-starts-" in pod and not fits for pod in made.written("delete"))


@pytest.mark.parametrize("seen", [True, False])
async def test_members_that_are_created_again_under_their_names_are_bound_as_what_they_are(
    cluster: Cluster, plane: ControlPlane, seen: bool
) -> None:
    """The binds that were under way are of pods that no longer exist, whether the scheduler knows or not."""
    async with gangs(cluster, plane, f"again-{seen}".lower()) as made:
        again = [pod for name in made.names for pod in (await made.pods(name))[:: SIZE - 1]]
        made.replace(again)
        if seen:
            await made.others_start()
        stands = ("Standing", "", SIZE)
        await made.become(runs=stands, starts=stands, waits=("Waiting", "InsufficientCapacity", 0))
        await made.others_start()
        assert made.written("delete") == Counter()
        twice = {*again[:2], again[3]}  # both of the gang that ran, and the bound one of the next
        started = [pod for name in made.names[:2] for pod in await made.pods(name)]
        assert made.written("create", "binding") == Counter([*started, *twice])


async def test_a_group_that_is_deleted_under_its_pods_is_missed_and_no_pod_is_touched(
    cluster: Cluster, plane: ControlPlane
) -> None:
    async with gangs(cluster, plane, "orphaned") as made:
        for name in made.names:
            await cluster.client.delete(POD_GROUP_X, "default", name)
        await made.others_start()
        stands, missing = ("Standing", "", SIZE), ("Waiting", "MembersMissing", 0)
        await made.become(runs=stands, starts=stands, waits=missing)
        for name in made.names[:2]:

            async def warned(name: str = name) -> bool:
                warnings = (await made.record(name))["status"].get("warnings", [])
                return any(f"there is no PodGroup {name}" in warning for warning in warnings)

            await cluster.until(f"{name} says that its group is missing", warned)
        for name in made.names:
            await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": SIZE}})
        await made.become(runs=stands, starts=stands, waits=("Waiting", "InsufficientCapacity", 0))
        assert made.written("delete") == Counter()


@pytest.mark.parametrize("forced", [True, False])
async def test_a_record_that_is_deleted_is_written_again_and_the_start_it_held_is_completed(
    cluster: Cluster, plane: ControlPlane, forced: bool
) -> None:
    """The plan is in the record. One that keeps its finalizer stays until its gang is gone."""
    async with gangs(cluster, plane, f"unrecorded-{forced}".lower()) as made:
        for name in made.names:
            await cluster.client.delete(GANG, "default", f"podgroup-{name}")
            if forced:
                record = f"podgroup-{name}"
                await cluster.client.patch(GANG, "default", record, {"metadata": {"finalizers": None}})
        await made.others_start()
        stands = ("Standing", "", SIZE)
        await made.become(runs=stands, starts=stands, waits=("Waiting", "InsufficientCapacity", 0))
        assert made.written("delete") == Counter()
        assert set(made.written("create", "binding").values()) == {1}
