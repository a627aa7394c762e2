"""How many writes a gang costs the scheduler and the controllers together: exactly, in virtual time.

On a real API server the number depends on how fast pods are made and start, so tests/cluster only bounds it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.api import groups, kinds
from muster.api.base import AnyKind, Kind, Object
from muster.api.core_v1 import Pod
from muster.controllers import driver, gang, podgroup
from muster.controllers.job import CONTROLLER as JOBS
from muster.core.cycle import Scheduler
from muster.embedded.client import LocalClient
from muster.embedded.verbs.registry import Registry
from muster.journal import Tee
from muster.kube.informers import Informers
from muster.names import ADMISSION, GANG
from muster.runtime import loop
from muster.runtime.budget import WriteBudget
from muster.runtime.group_events import NOT_OBEYED, GroupEvents
from muster.runtime.leader import Term
from muster.runtime.reports.conditions import ConditionReports
from muster.runtime.starts import Decisions
from muster.runtime.watched import WatchedMirror
from muster.translate.disclosure import EVERYTHING
from tests.runtime.test_loop import Cluster

pytestmark = pytest.mark.looptime
RECORDED, COUNTED = "create gangs", "patch gangs"
TOLD = "patch podgroups/status"
CONTAINER: Object = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
#: By size, the promise of docs/internals/committing.md for a gang that starts at once, beside its record: the
#: plan's removal, and the counts once it runs. One bind needs no plan; the plan of 400 is an own object.
AT_ONCE: dict[int, dict[str, int]] = {
    1: {COUNTED: 1},
    2: {COUNTED: 2},
    20: {COUNTED: 2},
    300: {COUNTED: 2},
    400: {COUNTED: 2, "create gangplans": 1, "delete gangplans": 1},
}
#: By the seconds between the last bind and the start of all pods, what is written besides: the status of the
#: PodGroup, which may be bound for a while before it runs; and the counts, if the gang is bound for long.
RUNNING_AFTER = {0.2: {TOLD: 1}, 3.0: {TOLD: 2}, 10.0: {TOLD: 2, COUNTED: 1}}


class Counting(LocalClient):
    """Counts what muster asks to be written."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.written: Counter[str] = Counter()

    async def create(self, kind: Kind[Any], namespace: str, obj: Object) -> Any:  # Any: of the kind
        self.written[f"create {kind.plural}"] += 1
        return await super().create(kind, namespace, obj)

    async def patch(
        self, kind: Kind[Any], namespace: str, name: str, patch: Any, *, subresource: str = ""
    ) -> Any:  # Any: of the kind
        self.written["/".join(filter(None, (f"patch {kind.plural}", subresource)))] += 1
        return await super().patch(kind, namespace, name, patch, subresource=subresource)

    async def delete(self, kind: Kind[Any], namespace: str, name: str, **how: Any) -> None:
        self.written[f"delete {kind.plural}"] += 1
        await super().delete(kind, namespace, name, **how)

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        self.written["bind"] += 1
        await super().bind(namespace, name, binding)

    async def evict(self, namespace: str, name: str, eviction: Object) -> None:
        self.written["evict"] += 1
        await super().evict(namespace, name, eviction)


@asynccontextmanager
async def running(
    cluster: Cluster, *others: Coroutine[Any, Any, None], telling: int = 0, nodes: int = 4
) -> AsyncIterator[Counter[str]]:
    """What the scheduler and the controllers write, which run as in the daemons; and others beside them.

    `telling`: with so many writers of Events, none of which knows what another has written.
    """
    for number in range(nodes):
        cluster.node(f"node-{number}")
    client = Counting(cluster.registry)
    informers, core = Informers(client, cluster.clock), Scheduler()
    mirror, leading, budget = WatchedMirror(informers), asyncio.Event(), WriteBudget()
    decisions = Decisions()
    events = [GroupEvents(mirror, decisions, EVERYTHING, budget) for _ in range(telling)]
    controllers: list[driver.Controller[Any]] = [  # Any: each observes something else
        gang.controller(),
        *map(podgroup.controller, groups.NAMED),
    ]
    scheduling = loop.run(
        client,
        informers,
        cluster.clock,
        Term(1, sole=True),
        scheduler=core,
        leading=leading,
        mirror=mirror,
        reports=[ConditionReports(core, mirror, budget)],
        journal=Tee([decisions, *events]),
        budget=budget,
    )
    controlling = driver.run(client, informers, controllers, cluster.clock)
    parts = [informers.run(), scheduling, controlling, *others]
    parts += [each.run(client, cluster.clock) for each in events]
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await leading.wait()
        yield client.written
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cluster.store.close()


async def submit(cluster: Cluster, size: int, apart: float = 0.0, kind: AnyKind = kinds.POD_GROUP_X) -> None:
    """Makes a gang, with so many seconds between two of its pods."""
    cluster.create(kind, {"metadata": {"name": "g"}, "spec": {"minMember": size}})
    for index in range(size):
        metadata = {"name": f"g-{index}", "labels": {groups.BY_KIND[kind].label: "g"}}
        cluster.create(kinds.POD, {"metadata": metadata, "spec": {"containers": [CONTAINER]}})
        await asyncio.sleep(apart)


async def start(cluster: Cluster, size: int, *, after: float = 0.2, apart: float = 0.0) -> None:
    """Lets the pods run, so long after all have been bound, with so many seconds between two of them."""

    async def whole() -> bool:
        return len(await cluster.bound()) == size

    await cluster.until(whole)
    await asyncio.sleep(after)
    pods: list[Pod] = await cluster.all(kinds.POD)
    for pod in pods:
        status = {"status": {"phase": "Running"}}
        await cluster.client.patch(kinds.POD, "default", pod.metadata.name, status, subresource="status")
        await asyncio.sleep(apart)
    await asyncio.sleep(60)
    (record,) = await cluster.all(kinds.GANG)
    told = record.status
    assert (told.phase, told.bound, told.running) == ("Standing", size, size)
    assert not await cluster.all(kinds.GANG_PLAN)


@pytest.mark.parametrize(("after", "more"), RUNNING_AFTER.items())
@pytest.mark.parametrize(
    ("size", "apart", "kind"),
    [
        (1, 0.0, kinds.POD_GROUP_X),
        (2, 0.1, kinds.POD_GROUP_X),
        (20, 0.0, kinds.POD_GROUP_X),
        (20, 0.0, kinds.POD_GROUP_SIGS),
        (20, 0.01, kinds.POD_GROUP_X),
        (300, 0.0, kinds.POD_GROUP_X),
        (400, 0.0, kinds.POD_GROUP_X),
    ],
)
async def test_a_gang_that_starts_at_once_costs_so_many_writes(
    size: int, apart: float, kind: AnyKind, after: float, more: dict[str, int]
) -> None:
    cluster = Cluster()
    async with running(cluster) as written:
        await submit(cluster, size, apart, kind)
        await start(cluster, size, after=after)
        assert written == Counter({"bind": size, RECORDED: 1}) + Counter(AT_ONCE[size]) + Counter(more)


@pytest.mark.parametrize("size", [2, 20])
@pytest.mark.parametrize("apart", [0.1, 0.5, 3.0, 30.0])
async def test_each_pod_that_comes_late_costs_one_write_at_most(size: int, apart: float) -> None:
    """Until the gang is whole, its record says how many are missing."""
    cluster = Cluster()
    async with running(cluster) as written:
        await submit(cluster, size, apart)
        await start(cluster, size)
        counted, told = written.pop(COUNTED), written.pop(TOLD)
        assert written.pop("patch pods/status", 0) <= size - 1, "each says once that it waits, if for long"
        assert written == {"bind": size, RECORDED: 1}
        assert counted <= size + 3
        assert told <= 3, "Pending, Scheduled, Running"


@pytest.mark.parametrize("size", [2, 20])
@pytest.mark.parametrize("apart", [0.1, 0.5, 3.0, 30.0])
async def test_pods_that_start_one_after_the_other_cost_a_write_every_few_seconds(
    size: int, apart: float
) -> None:
    cluster = Cluster()
    async with running(cluster) as written:
        await submit(cluster, size)
        await start(cluster, size, apart=apart)
        counted, told = written.pop(COUNTED), written.pop(TOLD)
        assert written == {"bind": size, RECORDED: 1}
        assert counted <= 2 + min(size, size * apart / gang.REFRESH.total_seconds())
        assert told <= min(size, 1 + size * apart / podgroup.SETTLE)


@pytest.mark.parametrize(("marks", "resumed"), [({GANG: "true"}, 0), ({GANG: "true", ADMISSION: "gang"}, 1)])
async def test_a_job_costs_one_more_if_muster_resumes_it(marks: dict[str, str], resumed: int) -> None:
    cluster = Cluster()
    theirs = Informers(cluster.client, cluster.clock)
    jobs = driver.run(cluster.client, theirs, [JOBS], cluster.clock)
    async with running(cluster, theirs.run(), jobs) as written:
        template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
        spec = {"parallelism": 20, "completions": 20, "suspend": bool(resumed), "template": template}
        cluster.create(kinds.JOB, {"metadata": {"name": "g", "annotations": marks}, "spec": spec})
        await start(cluster, 20)
        assert written == Counter({"bind": 20, RECORDED: 1, "patch jobs": resumed}) + Counter(AT_ONCE[20])


@pytest.mark.parametrize("gang", [None, "true"])
@pytest.mark.parametrize("on", ["job", "template", "pod"])
async def test_what_is_not_obeyed_of_a_job_is_told_once_also_after_a_restart(
    on: str, gang: str | None
) -> None:
    """Ten pods of a Job, and one alone, that ask for a queue of another scheduler; some wait for ever."""
    mark = {"kueue.x-k8s.io/queue-name": "team"}
    cluster = Cluster()
    theirs = Informers(cluster.client, cluster.clock)
    jobs = driver.run(cluster.client, theirs, [JOBS], cluster.clock)
    large = {**CONTAINER, "resources": {"requests": {"cpu": "1000"}}}
    async with running(cluster, theirs.run(), jobs, telling=2):
        own = {"labels": mark} if on == "job" else {}
        marks = {"annotations": {GANG: gang}} if gang else {}
        template: Object = {"spec": {"restartPolicy": "Never", "containers": [large]}}
        template["metadata"] = {"labels": mark if on == "template" else {}}
        spec = {"parallelism": 10, "completions": 10, "template": template}
        cluster.create(kinds.JOB, {"metadata": {"name": "j", **own, **marks}, "spec": spec})
        labels = {"labels": mark if on == "pod" else {}}
        alone = {"metadata": {"name": "p", **labels}, "spec": {"containers": [CONTAINER]}}
        cluster.create(kinds.POD, alone)
        await asyncio.sleep(30)
        assert await told(cluster) == [("Pod", "p") if on == "pod" else ("Job", "j")]


async def told(cluster: Cluster) -> list[tuple[str, str]]:
    """What the Events of what is not obeyed are about, once for each time that it was told."""
    found = [each for each in await cluster.all(kinds.EVENT) if each.reason == NOT_OBEYED]
    assert all("label kueue.x-k8s.io/queue-name asks for a queue of Kueue" in each.message for each in found)
    return [
        (each.involved_object.kind, each.involved_object.name) for each in found for _ in range(each.count)
    ]
