"""What a user of one namespace writes changes nothing in another: no start, no eviction, status or object.

Two namespaces share a cluster: the scheduler, muster's controllers, the embedded store, in virtual time. The
users of `theirs` name all that is in `ours`: in lists, labels, owner references, volumes and records.
They use nodes of their own, so that they take no capacity from `ours`.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from muster import names
from muster.api import groups, kinds
from muster.api.base import AnyKind, Object
from muster.api.groups import Dialect
from muster.api.koordinator_v1alpha1 import BY_NAME, GROUPS, MIN_AVAILABLE
from muster.app.wiring.batch_jobs import Site
from muster.app.wiring.compile_queue import AtOnce
from muster.app.wiring.controllers import CONTROLLERS
from muster.compiler.facts import EMBEDDED_FACTS
from muster.controllers import driver
from muster.core.words.gang import GangId, NodeName, Place, PodId
from muster.embedded.verbs.deletion import DeleteOptions
from muster.kube.errors import ApiError
from muster.runtime.leader import Term
from muster.runtime.loop import run
from muster.runtime.plan_record import PlacementPlan, PodRef, VictimRef, encode, packed
from tests.informed import informed
from tests.runtime.test_loop import Cluster
from tests.tiers import examples

pytestmark = pytest.mark.looptime
OURS: Final = "ours"
THEIRS: Final = "theirs"
POD_GROUPS: Final[tuple[AnyKind, ...]] = groups.OF_NAMED
#: What a user of a namespace may write, and (with all rights there, and no guard) muster's own records.
KINDS: Final[tuple[AnyKind, ...]] = (
    *POD_GROUPS,
    kinds.POD,
    kinds.JOB,
    kinds.JOBSET,
    kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.PDB,
    kinds.GANG,
    kinds.GANG_PLAN,
)
NAMES: Final = ("train", "a", "b", "told", "job", "set", "late", "x", *(row.name for row in groups.NAMED))
#: Ends of the names of fields that differ between any two runs.
_GIVEN: Final = (
    "uid",
    "resourceVersion",
    "Time",
    "imestamp",
    "IP",
    "IPs",
    "counted",
    "remedies",
    "expectedStart",
)


def spec(pool: str, **fields: Any) -> Object:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    return {
        "containers": [container],
        "restartPolicy": "Never",
        "nodeSelector": {"pool": pool},
        **fields,
    }


def minimum(row: Dialect, least: int) -> Object:
    """The spec of a group of this dialect."""
    return {"schedulingPolicy": {"gang": {"minCount": least}}} if row.in_spec else {"minMember": least}


def member(row: Dialect, group: str, meta: Object, of: Object) -> Object:
    """A pod that names this group."""
    if row.in_spec:
        of = {**of, "schedulingGroup": {"podGroupName": group}}
    elif row.label:
        meta = {**meta, "labels": {**meta.get("labels", {}), row.label: group}}
    else:
        notes = {**meta.get("annotations", {}), row.naming.annotations[0]: group}
        meta = {**meta, "annotations": notes}
    return {"metadata": meta, "spec": of}


def ours(cluster: Cluster) -> None:
    """Gangs of each dialect, most of which start, and one that waits for room."""
    lists = {GROUPS: json.dumps([f"{OURS}/a", f"{OURS}/b"])}
    gangs = [
        ("train", 2, {names.PRIORITY: "10"}, 2),
        ("a", 1, lists, 1),
        ("b", 1, lists, 1),
        ("waits", 9, {}, 9),
    ]
    for name, least, notes, pods in gangs:
        body = {"metadata": {"name": name, "annotations": notes}, "spec": {"minMember": least}}
        cluster.registry.create(kinds.POD_GROUP_X, OURS, body)
        for i in range(pods):
            labels = {groups.POD_GROUP.label: name, "app": name}
            meta = {"name": f"{name}-{i}", "labels": labels}
            cluster.registry.create(kinds.POD, OURS, {"metadata": meta, "spec": spec(OURS)})
    for row in groups.NAMED:
        cluster.registry.create(row.kind, OURS, {"metadata": {"name": row.name}, "spec": minimum(row, 2)})
        for i in range(2):
            pod = member(row, row.name, {"name": f"{row.name}-{i}"}, spec(OURS))
            cluster.registry.create(kinds.POD, OURS, pod)
    for i in range(2):
        notes = {BY_NAME[1]: "told", MIN_AVAILABLE[1]: "2"}
        body = {"metadata": {"name": f"told-{i}", "annotations": notes}, "spec": spec(OURS)}
        cluster.registry.create(kinds.POD, OURS, body)
    job: Object = {"parallelism": 2, "completions": 2, "template": {"spec": spec(OURS)}}
    marks = {"labels": {names.GANG: "true"}, "annotations": {names.ADMISSION: "gang"}}
    cluster.registry.create(
        kinds.JOB, OURS, {"metadata": {"name": "job", **marks}, "spec": {**job, "suspend": True}}
    )
    replicated = [{"name": "w", "replicas": 1, "template": {"spec": job}}]
    body = {"metadata": {"name": "set", **marks}, "spec": {"suspend": True, "replicatedJobs": replicated}}
    cluster.registry.create(kinds.JOBSET, OURS, body)


def late(cluster: Cluster) -> None:
    """What changes in the namespace after the others have written: a gang arrives, a pod is lost."""
    cluster.registry.create(kinds.POD_GROUP_X, OURS, {"metadata": {"name": "late"}, "spec": {"minMember": 1}})
    labels = {groups.POD_GROUP.label: "late"}
    cluster.registry.create(
        kinds.POD, OURS, {"metadata": {"name": "late-0", "labels": labels}, "spec": spec(OURS)}
    )
    cluster.registry.delete(kinds.POD, OURS, "train-1", DeleteOptions(grace_period=0))


class Hostile:
    """A user of `theirs` that names what is in `ours`."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._choose = cluster, random.Random(seed)
        self._number = 0
        self._there: dict[AnyKind, list[Any]] = {}  # Any: objects of many kinds

    async def act(self) -> None:
        """Creates, changes or deletes an object; what the server refuses, it does not try again."""
        self._there = {kind: await self._cluster.all(kind) for kind in KINDS}
        act: Callable[[], None] = self._choose.choice(
            [self._group, self._group, self._group, self._pod, self._pod, self._job, self._record,
             self._claim, self._delete]
        )  # fmt: skip
        with suppress(ApiError, ValueError):
            act()

    def _in(self, namespace: str, kind: AnyKind) -> list[Any]:
        return [item for item in self._there[kind] if item.metadata.namespace == namespace]

    def _name(self) -> str:
        return self._choose.choice(NAMES)

    def _marks(self) -> dict[str, str]:
        found = {}
        for key, values in {
            names.PRIORITY: ("-1000", "100000"),
            names.PREEMPTIBLE: ("true", "false"),
            names.HOLD: ("true",),
            names.QUEUE: ("default", f"{OURS}"),
            names.EXCLUSIVE: ("NodeTopologyLayer",),
            names.PLAN: ("1.1/pods-00000000/0", "9.9/main/1"),
            names.EPOCH: ("1", "99"),
        }.items():
            if self._choose.random() < 0.3:
                found[key] = self._choose.choice(values)
        return found

    def _list(self) -> str:
        there = [f"{where}/{name}" for where in (OURS, THEIRS) for name in NAMES]
        return json.dumps(self._choose.sample(there, self._choose.randint(1, 6)))

    def _meta(self) -> Object:
        annotations = self._marks()
        if self._choose.random() < 0.6:
            annotations[GROUPS] = self._list()
        meta: Object = {"name": self._name(), "annotations": annotations, "labels": self._marks()}
        if self._choose.random() < 0.4:
            meta["ownerReferences"] = [self._owner()]
        return meta

    def _owner(self) -> Object:
        """A reference to an object of `ours`, right but for its namespace, or wrong in a field."""
        kind: AnyKind = self._choose.choice(
            [kinds.JOB, kinds.JOBSET, kinds.POD_GROUP_X, kinds.POD, kinds.GANG]
        )
        found = self._in(OURS, kind)
        owner = self._choose.choice(found) if found else None
        return {
            "apiVersion": kind.api_version,
            "kind": self._choose.choice([kind.kind, "Job"]),
            "name": owner.metadata.name if owner is not None else self._name(),
            "uid": owner.metadata.uid if owner is not None else "none",
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def _put(self, kind: AnyKind, body: Object) -> None:
        registry, name = self._cluster.registry, body["metadata"]["name"]
        try:
            registry.create(kind, THEIRS, body)
        except ApiError:
            meta = {key: body["metadata"].get(key) for key in ("labels", "annotations", "ownerReferences")}
            patch = {"metadata": meta, **({"plan": body["plan"]} if "plan" in body else {})}
            registry.patch(kind, THEIRS, name, patch)

    def _group(self) -> None:
        row = self._choose.choice(groups.NAMED)
        least = self._choose.choice([0, 1, 2, 100])
        self._put(row.kind, {"metadata": self._meta(), "spec": minimum(row, least)})

    def _pod(self) -> None:
        meta = self._meta()
        self._number += 1
        meta["name"] = f"{meta['name']}-{self._number}"
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": self._name()}}]
        more = {"volumes": volumes} if self._choose.random() < 0.2 else {}
        row = self._choose.choice([*groups.NAMED, None])
        if row is not None:
            self._put(kinds.POD, member(row, self._name(), meta, spec(THEIRS, **more)))
            return
        meta["annotations"] |= {BY_NAME[1]: self._name(), MIN_AVAILABLE[1]: "1"}
        self._put(kinds.POD, {"metadata": meta, "spec": spec(THEIRS, **more)})

    def _job(self) -> None:
        meta = self._meta()
        meta["labels"][names.GANG] = "true"
        template = {"metadata": {"labels": {"app": "train"}}, "spec": spec(THEIRS)}
        self._put(kinds.JOB, {"metadata": meta, "spec": {"parallelism": 1, "template": template}})

    def _claim(self) -> None:
        access = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self._put(
            kinds.PERSISTENT_VOLUME_CLAIM, {"metadata": self._meta(), "spec": {**access, "volumeName": "pv"}}
        )

    def _record(self) -> None:
        """A Gang or a GangPlan as if muster had written it: it ends, binds and counts pods of `ours`."""
        pods = [pod for pod in self._in(OURS, kinds.POD) if pod.spec.node_name]
        refs = tuple(PodRef(OURS, pod.metadata.name, PodId(pod.metadata.uid)) for pod in pods[:3])
        victim = VictimRef(GangId(f"{OURS}/{self._name()}"), None, refs, self._choose.random() < 0.5)
        own, epoch = self._in(THEIRS, kinds.GANG), self._choose.choice([1, 9])
        if own and self._choose.random() < 0.7:  # right but for its victim
            gang = self._choose.choice(own)
            record, name = gang.metadata.name, f"{THEIRS}/{gang.metadata.name.partition('-')[2]}"
            asked = [Place(each.name, i) for each in gang.spec.pod_sets for i in range(each.count)]
            places = dict.fromkeys(asked, NodeName("theirs-0"))
        else:
            record, name = f"podgroup-{self._name()}", f"{self._choose.choice([OURS, THEIRS])}/{self._name()}"
            places = {Place("pods-00000000", 0): NodeName("ours-0")}
        plan = PlacementPlan(GangId(name), record, THEIRS, epoch, 1, places, victims=(victim,))
        if self._choose.random() < 0.5:
            self._put(kinds.GANG_PLAN, encode(plan))
            return
        source = {
            "apiVersion": kinds.POD_GROUP_X.api_version,
            "kind": kinds.POD_GROUP_X.kind,
            "name": f"{OURS}/{self._name()}",
        }
        sets = [{"name": "pods", "count": 1, "group": f"{OURS}/{self._name()}"}]
        meta = {"name": record, "finalizers": [names.GANG_FINALIZER]}
        self._put(
            kinds.GANG,
            {"metadata": meta, "spec": {"source": source, "podSets": sets}, "plan": packed(plan)},
        )

    def _delete(self) -> None:
        kind: AnyKind = self._choose.choice([*POD_GROUPS, kinds.POD, kinds.JOB])
        if found := self._in(THEIRS, kind):
            self._cluster.registry.delete(kind, THEIRS, self._choose.choice(found).metadata.name)


@asynccontextmanager
async def muster(cluster: Cluster) -> AsyncIterator[None]:
    """The scheduler, and all controllers that concern jobs."""
    leading = asyncio.Event()
    wanted = ("job", "jobset", "garbage", "gang", "podgroup")
    site = Site(lambda: EMBEDDED_FACTS, lambda: datetime.now(UTC), strict=False, compiler=AtOnce())
    controllers = [each for name in wanted for each in CONTROLLERS[name](site)]
    tasks = [
        asyncio.create_task(
            informed(run, cluster.client, cluster.clock, Term(1, sole=True), leading=leading)
        ),
        asyncio.create_task(informed(driver.run, cluster.client, controllers, cluster.clock)),
    ]
    try:
        await asyncio.wait([asyncio.create_task(leading.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def history(seed: int | None) -> dict[str, Any]:
    """Returns all that is in `ours` at three times. `seed`: of what is written to `theirs`; None: nothing."""
    cluster, found = Cluster(), {}
    try:
        for name, pool in (("ours-0", OURS), ("ours-1", OURS), ("theirs-0", THEIRS)):
            cluster.node(name, 14)
            cluster.registry.patch(kinds.NODE, "", name, {"metadata": {"labels": {"pool": pool}}})
        for namespace in (OURS, THEIRS):
            cluster.registry.create(kinds.NAMESPACE, "", {"metadata": {"name": namespace}})
        async with muster(cluster):
            hostile = Hostile(cluster, seed) if seed is not None else None
            for act, when in ((ours, "started"), (late, "later"), (lambda _: None, "in the end")):
                act(cluster)
                for _ in range(10):
                    if hostile is not None:
                        await hostile.act()
                    await asyncio.sleep(2.0)
                found[when] = await seen(cluster)
    finally:
        cluster.store.close()
    return found


async def seen(cluster: Cluster) -> dict[str, Any]:
    """Returns the objects of `ours` by kind and name, without what no two runs have in common."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        for item in await cluster.all(kind):
            meta = item.metadata
            if meta.namespace != OURS:
                continue
            body, name = plain(msgspec.to_builtins(item)), meta.name
            if kind is kinds.POD and meta.owner_references:  # its name ends with random letters
                name = f"{meta.owner_references[0].name} {meta.annotations.get(names.PLAN)}"
                del body["metadata"]["name"]
            found[f"{kind.kind} {name}"] = body
    return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if not key.endswith(_GIVEN)}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize("seed", range(examples(8)))
async def test_what_another_namespace_writes_changes_nothing_here(
    seed: int, undisturbed: dict[str, Any]
) -> None:
    if not undisturbed:
        undisturbed.update(await history(None))
    there = await history(seed)
    for when, objects in undisturbed.items():
        assert there[when] == objects, when


async def test_undisturbed_the_gangs_start(undisturbed: dict[str, Any]) -> None:
    """The test above would hold for a scheduler that does nothing."""
    found = undisturbed or await history(None)
    phases = Counter(
        body["status"]["phase"] for name, body in found["started"].items() if name.startswith("Gang ")
    )
    assert phases == {"Standing": 5 + len(groups.NAMED), "Waiting": 1}


async def test_a_gang_of_two_namespaces_that_agree_ends_when_one_withdraws_and_its_pods_stay() -> None:
    """The one that withdraws gets a record of its own; nothing of the other's is ended or left behind."""
    cluster, both = Cluster(), json.dumps([f"{OURS}/a", f"{THEIRS}/b"])
    label = groups.POD_GROUP.label
    try:
        cluster.node("node", 6)
        async with muster(cluster):
            for namespace, name in ((OURS, "a"), (THEIRS, "b")):
                cluster.registry.create(kinds.NAMESPACE, "", {"metadata": {"name": namespace}})
                meta: Object = {"name": name, "annotations": {GROUPS: both}}
                body = {"metadata": meta, "spec": {"minMember": 2}}
                cluster.registry.create(kinds.POD_GROUP_X, namespace, body)
            for i in range(2):
                await asyncio.sleep(5.0)
                assert await cluster.bound() == {}
                for namespace, name in ((OURS, "a"), (THEIRS, "b")):
                    pod = {"metadata": {"name": f"{name}-{i}", "labels": {label: name}}}
                    more = {"spec": {"containers": spec(OURS)["containers"], "restartPolicy": "Never"}}
                    cluster.registry.create(kinds.POD, namespace, pod | more)
            await asyncio.sleep(10.0)
            assert len(await cluster.bound()) == 4
            assert [gang.key for gang in await cluster.all(kinds.GANG)] == [f"{OURS}/podgroup-a"]
            cluster.registry.patch(
                kinds.POD_GROUP_X, THEIRS, "b", {"metadata": {"annotations": {GROUPS: None}}}
            )
            await asyncio.sleep(10.0)
            gangs = {gang.key: gang for gang in await cluster.all(kinds.GANG)}
            pods = await cluster.all(kinds.POD)
    finally:
        cluster.store.close()
    assert sorted(gangs) == [f"{OURS}/podgroup-a", f"{THEIRS}/podgroup-b"]
    assert [(gang.status.phase, gang.status.bound) for gang in gangs.values()] == [("Standing", 2)] * 2
    assert all(gang.plan is None for gang in gangs.values())
    assert all(pod.spec.node_name and pod.metadata.deletion_timestamp is None for pod in pods)
    assert len(pods) == 4
