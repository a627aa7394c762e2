"""A leader that dies after any single write on a real API server, with the cluster's own Job controller.

These are histories of `tests/runtime/test_crashes.py` with muster's own core: each case has nodes and a
namespace of its own, and its leaders see nothing else. A leader sends exactly i writes; then another takes
over. The API server's audit log is the witness: after every write that it accepted, a gang below its minimum
has a plan, or its Job is suspended; no pod is bound twice; no gang of several is bound without a plan.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pytest

from muster.api import rates
from muster.api.base import Kind, Object, Resource
from muster.api.kinds import CONFIG_MAP, GANG, GANG_PLAN, JOB, NAMESPACE, NODE, POD, POD_GROUP_X
from muster.kube import config
from muster.kube.clock import SystemClock
from muster.kube.errors import NotFound
from muster.kube.http import HttpClient
from muster.kube.informers import Informers
from muster.names import ADMISSION, SCHEDULER
from muster.names import GANG as IS_GANG
from muster.runtime import loop
from muster.runtime.leader import Term
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL

Sort = Literal["job", "free job", "bare"]
PRIORITY_CLASS: Final = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, Resource, status=False
)
ACCOUNT: Final = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, Resource, status=False)
#: Of what a history leaves, in the order in which it is removed.
KINDS: Final[tuple[Kind[Any], ...]] = (JOB, POD_GROUP_X, POD, GANG_PLAN, GANG)


@dataclass(frozen=True)
class Case:
    size: int
    sort: Sort
    victim: Sort | None = None

    @property
    def slot(self) -> str:
        over = f"-over-{self.victim}" if self.victim else ""
        return f"crash-{self.size}-{self.sort}{over}".replace(" ", "-")


CASES: Final = [
    *(Case(size, sort) for size in (1, 2) for sort in ("job", "bare")),
    Case(3, "job"),
    Case(2, "job", "bare"),
    Case(2, "bare", "free job"),
]


class Mortal:
    """A client that sends so many writes and no more.

    Each write that it sends gets its answer: the audit log does not say what became of the others.
    """

    def __init__(self, client: HttpClient, writes: int | None) -> None:
        self._client, self._left = client, writes
        self.dead = asyncio.Event()
        self.flying: set[asyncio.Future[Any]] = set()  # Any: what the server answers

    def __getattr__(self, name: str) -> Any:  # Any: a method of the client
        method = getattr(self._client, name)
        return self._counted(method) if name in ("create", "patch", "delete", "bind") else method

    def _counted(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **named: Any) -> Any:
            if self._left == 0:
                self.dead.set()
                await asyncio.Event().wait()
            if self._left is not None:
                self._left -= 1
            answer = asyncio.ensure_future(method(*arguments, **named))
            self.flying.add(answer)
            answer.add_done_callback(self.flying.discard)
            return await asyncio.shield(answer)

        return write


@dataclass
class History:
    """One case in its namespace; `number` tells its objects from those of the histories before it."""

    cluster: Cluster
    case: Case
    number: int = 0
    epochs: int = 0
    done: list[str] = field(default_factory=list)

    async def prepare(self) -> None:
        await self.cluster.make(NAMESPACE, {"metadata": {"name": self.case.slot}})

        async def account() -> bool:
            with suppress(NotFound):
                await self.cluster.client.get(ACCOUNT, self.case.slot, "default")
                return True
            return False

        await self.cluster.until("pods may be created", account)

    async def run(self, writes: int) -> bool:
        """The leader dies after so many writes; whether it came to die."""
        case, self.number = self.case, writes
        if case.victim is not None:
            await self._create(f"victim{writes}", case.victim, "crash-low")
            async with self._leader() as leader:
                await self._until(leader, f"victim{writes}")
        await self._create(f"main{writes}", case.sort, "crash-high")
        async with self._leader(writes) as leader:
            died = await self._until(leader, f"main{writes}")
        if died:
            async with self._leader() as leader:
                await self._until(leader, f"main{writes}")
        await self._clear()
        return died

    @asynccontextmanager
    async def _leader(self, writes: int | None = None) -> AsyncIterator[Mortal]:
        self.epochs += 1
        connection = HttpClient(config.load(str(self.cluster.chart.kubeconfig("scheduler"))))
        client = Mortal(connection, writes)
        informers = Informers(client, SystemClock(), namespace=self.case.slot, single={CONFIG_MAP: rates.KEY})
        life = loop.run(client, informers, SystemClock(), Term(self.epochs))
        tasks = [asyncio.create_task(informers.run()), asyncio.create_task(life)]
        try:
            yield client
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, *client.flying, return_exceptions=True)
            await connection.close()

    async def _until(self, leader: Mortal, name: str) -> bool:
        """Until the gang is whole and no plan is open, or the leader has died: whether it has."""

        async def over() -> bool:
            return leader.dead.is_set() or await self._whole(name)

        await self.cluster.until(f"{self.case.slot}: {name} is whole", over, 0.03)
        return leader.dead.is_set()

    async def _whole(self, name: str) -> bool:
        client, slot = self.cluster.client, self.case.slot
        pods = (await client.list(POD, slot)).items
        if (
            sum(bool(pod.spec.node_name) and pod.metadata.name.startswith(name) for pod in pods)
            < self.case.size
        ):
            return False
        gangs = (await client.list(GANG, slot)).items
        own = [gang for gang in gangs if gang.metadata.name.endswith(f"-{name}")]
        return not (
            any(gang.plan is not None for gang in gangs)
            or any(gang.status.phase != "Standing" for gang in own)
            or (await client.list(GANG_PLAN, slot)).items
        )

    async def _create(self, name: str, sort: Sort, priority: str) -> None:
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec: Object = {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "containers": [container],
            "nodeSelector": {"slot": self.case.slot},
            "priorityClassName": priority,
            "terminationGracePeriodSeconds": 0,
        }
        size, slot = self.case.size, self.case.slot
        if sort == "bare":
            group = {"metadata": {"name": name}, "spec": {"minMember": size}}
            await self.cluster.make(POD_GROUP_X, group, slot)
            for index in range(size):
                meta = {"name": f"{name}-{index}", "labels": {POD_GROUP_LABEL: name}}
                await self.cluster.make(POD, {"metadata": meta, "spec": spec}, slot)
            return
        marks = {IS_GANG: "true"} | ({ADMISSION: "gang"} if sort == "job" else {})
        job = {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "suspend": sort == "job",
            "template": {"spec": spec},
        }
        await self.cluster.make(JOB, {"metadata": {"name": name, "annotations": marks}, "spec": job}, slot)

    async def _clear(self) -> None:
        client, slot = self.cluster.client, self.case.slot

        async def cleared() -> bool:
            left = 0
            for kind in KINDS:
                for item in (await client.list(kind, slot)).items:
                    left += 1
                    name = item.metadata.name
                    with suppress(NotFound):
                        if kind is GANG:
                            await client.patch(kind, slot, name, {"metadata": {"finalizers": None}})
                        if item.metadata.deletion_timestamp is None or kind is POD:
                            await client.delete(kind, slot, name, grace_period=0)
            return not left

        await self.cluster.until(f"{slot} is empty", cleared, 0.1)


async def test_a_leader_dies_after_any_write_of_its_own(cluster: Cluster, plane: ControlPlane) -> None:
    if not plane.audit.is_file():
        pytest.skip("this cluster shows no audit log")
    for name, value in (("crash-low", 1), ("crash-high", 1000)):
        await cluster.make(PRIORITY_CLASS, {"metadata": {"name": name}, "value": value})
    cluster.muster(
        "fake-nodes",
        "; ".join(
            f"1 x name={case.slot}-{node},cpu={room},memory=8Gi,label:slot={case.slot}"
            for case in CASES
            for node, room in (("a", (case.size + 1) // 2), ("b", case.size // 2))
            if room
        ),
    )

    async def nodes() -> bool:
        return len((await cluster.client.list(NODE, labels="slot")).items) == sum(
            1 + (case.size > 1) for case in CASES
        )

    await cluster.until("all nodes", nodes)
    counts = await asyncio.gather(*(_histories(History(cluster, case)) for case in CASES))
    print(f"histories of each case: {counts}")
    assert sum(counts) > 45
    written = accepted(plane)
    for case, count in zip(CASES, counts, strict=True):
        for number in range(count):
            check(written[case.slot], case, f"main{number}")


async def _histories(history: History) -> int:
    """Runs the histories of a case; how many there are."""
    await history.prepare()
    writes = 0
    while await history.run(writes):
        writes += 1
    return writes + 1


#: Verb, resource, subresource, name and body.
Written = tuple[str, str, str, str, Object]


def check(written: list[Written], case: Case, name: str) -> None:
    """Follows what the server accepted for this gang, write by write."""
    bound: set[str] = set()
    plans: set[str] = set()
    suspended = case.sort == "job"
    whole = False
    for verb, resource, subresource, of, body in written:
        if f"-{name}-" not in f"-{of}-":
            continue
        match verb, resource, subresource:
            case "create", "pods", "binding":
                assert of not in bound, f"{of} is bound twice"
                assert plans or case.size == 1, f"{of} is bound without a plan"
                bound.add(of)
            case "delete", "pods", "":
                bound.discard(of)
            case "create", "gangplans", "":
                plans.add(of)
            case "delete", "gangplans", "":
                plans.discard(of)
            case (("create" | "patch"), "gangs", "") if "plan" in body:
                (plans.add if body["plan"] is not None else plans.discard)("in its Gang")
            case "patch", "jobs", "" if "suspend" in body.get("spec", {}):
                suspended = body["spec"]["suspend"]
        whole = whole or len(bound) == case.size
        assert whole or not bound or plans or suspended, f"{sorted(bound)} of {case.size} are left alone"
    assert whole
    assert not plans


def accepted(plane: ControlPlane) -> dict[str, list[Written]]:
    """The writes that the server accepted, by namespace, in the order in which it received them.

    A client that has the answer to a write can send the next before the log says that the first has ended.
    """
    found: dict[str, list[Written]] = defaultdict(list)
    for entry in sorted(plane.entries(), key=lambda entry: str(entry["requestReceivedTimestamp"])):
        match entry:
            case {
                "verb": str(verb),
                "objectRef": {
                    "resource": str(resource),
                    "namespace": str(namespace),
                    "name": str(name),
                    **rest,
                },
                "responseStatus": {"code": int(code)},
            } if code < 300 and verb in ("create", "patch", "delete"):
                body = entry.get("requestObject") or {}
                if isinstance(body, list):  # a JSON patch: its last word on each field
                    body = {each["path"][1:]: each.get("value") for each in body if each["op"] != "test"}
                found[namespace].append((verb, resource, str(rest.get("subresource", "")), name, body))
    return found
