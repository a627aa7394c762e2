"""A cluster is read once, as far as it shows itself; what is said of a job does not depend on the command."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import names
from muster.api import kinds
from muster.api.base import Kind, Object, ObjectMeta
from muster.api.core_v1 import Node
from muster.api.rates import KEY
from muster.app.commands.submit import submit
from muster.app.plan.decisions import Outcome
from muster.app.records import past
from muster.app.snapshot import Snapshot
from muster.app.views.objects import fetch
from muster.app.views.why import asked
from muster.app.wiring.cluster import Target
from muster.cli import jobfile
from muster.cli.errors import Failure
from muster.core.words.gang import Code, GangId
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.client import Client, Page
from muster.kube.clock import SystemClock
from muster.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from muster.names import AWAITS, GPU, SCHEDULER, SCHEDULER_LEASE, SCHEDULES
from muster.runtime.mirror import WATCHED, Mirror
from muster.translate.disclosure import EVERYTHING
from muster.translate.status import explained
from muster.workloads.jobfile import JobFile, Options
from muster.workloads.load import load
from muster.workloads.snapshot import Objects, typed
from tests.app.plan.test_plan import job, node, objects, pod, queue
from tests.tiers import examples
from tests.translate.devices.test_devices import device_class, resource_slice

AnyKind = Kind[Any]


class Server:
    """Lists that are empty but for a node on the second page, and kinds with which it cannot serve."""

    def __init__(self, errors: Mapping[AnyKind, ApiError]) -> None:
        self._errors = errors

    async def list(self, kind: AnyKind, namespace: str = "", *, token: str = "", **_: object) -> Page[Any]:
        if kind in self._errors:
            raise self._errors[kind]
        if kind is kinds.NODE and not token:
            return Page([], "1", "more")
        node = Node(metadata=ObjectMeta(name="n", uid="n"))
        return Page([node] if kind is kinds.NODE else [], "1")


async def look(errors: Mapping[AnyKind, ApiError]) -> Objects:
    return (await Snapshot.observe(cast(Client, Server(errors)))).require().objects


async def test_kinds_that_a_cluster_does_not_know_have_no_objects() -> None:
    found = await look({kinds.QUEUE: NotFound("404"), kinds.JOBSET: NotFound("404")})
    assert [resource.metadata.name for resource in found.items.values()] == ["n"]
    assert found.absent == [kind for kind in WATCHED if kind in (kinds.QUEUE, kinds.JOBSET)]
    assert Snapshot(found).plan(objects(queue("q"))).notes == [
        "the cluster does not know the kind Queue (muster.dev/v1alpha1) and would refuse it"
    ]


async def test_the_error_names_all_kinds_that_may_not_be_listed() -> None:
    with pytest.raises(Forbidden) as error:
        await look({kind: Forbidden(f"no {kind.plural}") for kind in (kinds.POD, kinds.QUEUE, kinds.JOB)})
    first, others = error.value.message.split("; nor may it list ")
    named = {kinds.POD: "pods", kinds.QUEUE: "queues.muster.dev", kinds.JOB: "jobs.batch"}
    in_order = [named[kind] for kind in WATCHED if kind in named]
    assert (first, others) == (f"no {in_order[0].partition('.')[0]}", ", ".join(in_order[1:]))


async def test_a_plan_works_without_kinds_that_only_add_to_new_pods() -> None:
    found = await look({kinds.LIMIT_RANGE: Forbidden("no"), kinds.RUNTIME_CLASS: NotFound("404")})
    assert (found.hidden, found.absent) == ([kinds.LIMIT_RANGE], [kinds.RUNTIME_CLASS])
    said = "limitranges may not be listed; what they add to new pods is not counted"
    assert Snapshot(found).plan(objects(queue("q"))).notes == [said]


async def test_a_plan_without_the_right_to_see_claims_of_devices_says_nothing_of_them() -> None:
    found = await look({kinds.RESOURCE_CLAIM: Forbidden("no")})
    assert found.hidden == [kinds.RESOURCE_CLAIM]
    assert Snapshot(found).plan(objects(queue("q"))).notes == []


async def test_a_plan_works_without_kinds_of_other_schedulers() -> None:
    found = await look({kind: Forbidden("no") for kind in kinds.FOREIGN})
    assert found.hidden == [kind for kind in WATCHED if kind in kinds.FOREIGN]
    [said] = Snapshot(found).plan(objects(queue("q"))).notes
    assert said.endswith(" of other schedulers may not be listed, and do not count")
    assert "podgroups.scheduling.sigs.dev" in said


async def test_other_errors_are_what_they_are() -> None:
    with pytest.raises(Unauthorized):
        await look({kinds.POD: Unauthorized("who?")})


# -- how much is read


class Counting(LocalClient):
    """Counts reads by kind."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.reads: Counter[str] = Counter()

    async def list(self, kind: AnyKind, *args: Any, **more: Any) -> Any:
        self.reads[kind.kind] += 1
        return await super().list(kind, *args, **more)

    async def get(self, kind: AnyKind, namespace: str, name: str) -> Any:
        self.reads[kind.kind] += 1
        return await super().get(kind, namespace, name)


class Clock(SystemClock):
    at = 1_800_000_000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


@contextmanager
def cluster(*there: Object) -> Iterator[tuple[Counting, Clock]]:
    store, clock = Store(":memory:"), Clock()
    try:
        registry = Registry(store, clock=clock)
        client = Counting(registry)

        async def make() -> None:
            for each in there:
                kind = kinds.BY_NAME[each["apiVersion"], each["kind"]]
                namespace = "default" if kind.namespaced else ""
                if kind is kinds.CONFIG_MAP:
                    namespace = KEY.split("/")[0]
                    await client.create(kinds.NAMESPACE, "", {"metadata": {"name": namespace}})
                await client.create(kind, namespace, each)
                if kind is kinds.NODE:
                    name, status = each["metadata"]["name"], {"status": each["status"]}
                    await client.patch(kind, "", name, status, subresource="status")

        asyncio.run(make())
        clock.at += 60
        yield client, clock
    finally:
        store.close()


@pytest.fixture
def mirrors(monkeypatch: pytest.MonkeyPatch) -> list[Mirror]:
    """The mirrors that have been built."""
    built: list[Mirror] = []
    make = Mirror.__init__

    def counted(self: Mirror, *args: Any, **more: Any) -> None:
        built.append(self)
        make(self, *args, **more)

    monkeypatch.setattr(Mirror, "__init__", counted)
    return built


def file(*written: Object, embedded: bool = True) -> JobFile:
    text = yaml.safe_dump_all(written)
    return load("f.yaml", Options(suffix="0" * 8, local=embedded, runs=False), text=text)


@pytest.mark.parametrize("written", ["", "muster"])
@pytest.mark.parametrize("served", ["", "muster", "volcano", "volcano,muster", "volcano,kube-batch"])
def test_the_pods_of_a_gang_get_the_name_that_muster_has_in_the_cluster(
    served: str, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless their author wrote one, of which a warning says that muster does not have it there."""
    spec = job("j", 2, 1, gang=True)
    pods = spec["spec"]["template"]["spec"]
    pods.pop("schedulerName", None)
    if written:
        pods["schedulerName"] = written

    def read(scheduler: str = SCHEDULER) -> JobFile:
        options = Options(local=False, runs=False, mode="gang", scheduler=scheduler)
        return load("f.yaml", options, text=yaml.safe_dump(spec))

    with cluster(node("n")) as (client, _):
        namespace, _, name = SCHEDULER_LEASE.partition("/")

        async def found() -> JobFile:
            await client.create(kinds.NAMESPACE, "", {"metadata": {"name": namespace}})
            marks = {SCHEDULES: served} if served else {}
            await client.create(kinds.LEASE, namespace, {"metadata": {"name": name, "annotations": marks}})
            return await jobfile.preflight(client, read(), None, Target("config"), read)

        (made,) = asyncio.run(found()).objects
    known = not served or "muster" in served.split(",")
    expected = written or ("muster" if known else min(served.split(",")))
    assert made["spec"]["template"]["spec"]["schedulerName"] == expected
    assert ("muster schedules no pods there" in capsys.readouterr().err) == (bool(written) and not known)


@pytest.mark.parametrize("count", [1, 10])
@pytest.mark.parametrize("queued", [None, "q"])
@pytest.mark.parametrize("target", [Target(), Target("config")])
def test_a_submit_reads_each_kind_once_and_builds_one_mirror(
    target: Target, queued: str | None, count: int, mirrors: list[Mirror]
) -> None:
    made = file(*(job(f"j{i}", 2, 1, gang=True) for i in range(count)), embedded=target.embedded)
    with cluster(node("n"), queue("q")) as (client, _):
        client.reads.clear()

        async def act() -> None:
            assert await jobfile.preflight(client, made, queued, target, load) is made
            await submit(client, made)

        asyncio.run(act())
        assert len((asyncio.run(client.list(kinds.JOB))).items) == count
        client.reads["Job"] -= 1
    # on a real cluster also which schedulerNames muster serves: by its Lease, or else by its policies
    assert client.reads.total() <= (12 if target.embedded else 14)
    assert client.reads.pop("Queue") == 2, "muster's and Volcano's"
    assert max(client.reads.values()) == 1
    assert len(mirrors) == 1


def test_a_file_of_queues_reads_queues_and_one_of_other_objects_reads_nothing() -> None:
    other: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    for written, reads in (([other], {}), ([other, queue("q")], {"Queue": 2, "ElasticQuota": 1})):
        made = load("f.yaml", Options(suffix="0" * 8, jobs=False), text=yaml.safe_dump_all(written))
        with cluster() as (client, _):
            asyncio.run(jobfile.preflight(client, made, None, Target(), load))
            assert client.reads == reads


def test_nodes_of_a_real_cluster_are_read_only_if_queues_share_them() -> None:
    made = file(job("j", 2, 1, gang=True), embedded=False)
    for queues in ([], [queue("q")]):
        with cluster(node("n"), *queues) as (client, _):
            client.reads.clear()
            asyncio.run(Snapshot.around(client, made.objects, frozenset({"muster"})))
            assert client.reads["Node"] == len(queues)


@pytest.mark.parametrize("embedded", [True, False])
def test_a_submit_warns_of_resources_that_exist_as_devices_only(
    embedded: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = job("j", 2, 1, gang=True)
    (container,) = asking["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"example.com/gpu": 1}}
    made = file(asking, embedded=embedded)
    target = Target() if embedded else Target("config")
    for there in ([], [device_class()]):
        with cluster(node("n")) as (client, _):
            asyncio.run(
                client.create(kinds.RESOURCE_SLICE, "", resource_slice("s", driver="gpu.example.com"))
            )
            for each in there:
                asyncio.run(client.create(kinds.DEVICE_CLASS, "", each))
            client.reads.clear()
            said = ""
            try:
                asyncio.run(jobfile.preflight(client, made, None, target, load))
            except Failure as error:
                said = str(error)
            assert client.reads["ResourceSlice"] == len(there), "they may be many"
            told = "write extendedResourceName: example.com/gpu into its DeviceClass"
            assert (told in (said if embedded else capsys.readouterr().err)) == bool(there)


LEASED: Final[Object] = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {
        "name": SCHEDULER_LEASE.split("/")[1],
        "namespace": SCHEDULER_LEASE.split("/")[0],
        "annotations": {SCHEDULES: "volcano,batch"},
    },
}


@pytest.mark.parametrize("served", ["volcano", "muster", None])
def test_commands_learn_the_scheduler_names_that_muster_serves(
    served: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    made = file(job("j", 2, 1, gang=True), embedded=False)
    name = served or "muster"
    made.objects[0]["spec"]["template"]["spec"]["schedulerName"] = name
    with cluster(node("n")) as (client, clock):
        if served is not None:
            lease = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster-system"}}
            asyncio.run(client.create(kinds.NAMESPACE, "", lease))
            asyncio.run(client.create(kinds.LEASE, "muster-system", LEASED))
        snapshot = asyncio.run(Snapshot.observe(client, frozenset({"muster"}), now=clock.at))
        around = asyncio.run(Snapshot.around(client, made.objects, frozenset({"muster"})))
        asyncio.run(jobfile.preflight(client, made, None, Target("config"), lambda scheduler: made))
        assert (snapshot.schedulers, around.schedulers) == (around.schedulers, snapshot.schedulers)
    assert snapshot.schedulers == frozenset({"volcano", "batch"} if served is not None else {"muster"})
    planned = snapshot.plan(typed(made.objects, WATCHED, proposed=True))
    left = [note for note in planned.notes if "is left to" in note]
    assert bool(left) == (served == "muster")
    assert ("write schedulerName: batch or volcano" in capsys.readouterr().err) == (served == "muster")


@pytest.mark.parametrize(("awaited", "waits"), [("", False), ("volcano", True), ("volcano,batch", True)])
def test_plan_knows_which_pods_wait_for_a_pod_group(awaited: str, waits: bool) -> None:
    body: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]},
    }
    stated = {**LEASED["metadata"]["annotations"], AWAITS: awaited}
    with cluster(node("n")) as (client, clock):
        asyncio.run(client.create(kinds.NAMESPACE, "", {"metadata": {"name": "muster-system"}}))
        lease = {"metadata": {**LEASED["metadata"], "annotations": stated}}
        asyncio.run(client.create(kinds.LEASE, "muster-system", lease))
        snapshot = asyncio.run(Snapshot.observe(client, frozenset({"muster"}), now=clock.at))
    (decision,) = snapshot.plan(typed([body], WATCHED, proposed=True)).decisions
    assert (decision.outcome is Outcome.WAIT) == waits
    assert ("(awaitPodGroups)" in str(decision.reason)) == waits


def test_why_and_plan_read_each_kind_once_and_build_one_mirror(mirrors: list[Mirror]) -> None:
    made = file(job("j", 2, 9, gang=True))
    with cluster(node("n"), queue("q")) as (client, clock):
        asyncio.run(submit(client, made))
        client.reads.clear()

        async def asks_why() -> None:
            there = await fetch(client)
            view = replace(past.among(there, "j", Target()).view, reason=("NothingMatches", ""))
            await asked(client, there, view, clock.at, None)

        asyncio.run(asks_why())
        assert client.reads == Counter([kind.kind for kind in (*WATCHED, kinds.BATCH_JOB, kinds.VOLCANO_JOB)])
        client.reads.clear()
        snapshot = asyncio.run(Snapshot.observe(client, now=clock.at, priced=True))
        assert client.reads == Counter([kind.kind for kind in (*WATCHED, kinds.CONFIG_MAP)])
    assert len(mirrors) == 1
    proposed = file(job("k", 1, 1, gang=True)).objects
    snapshot.plan(typed(proposed, WATCHED, proposed=True))
    assert snapshot.preflight(proposed).never == []
    assert snapshot.why(GangId("default/j")) is not None
    assert len(mirrors) == 2


@pytest.mark.parametrize(
    "denied", [None, *(kinds.PRIORITY_CLASS, *kinds.QUEUES, kinds.NAMESPACE, kinds.NODE)]
)
def test_what_may_not_be_read_is_not_judged(denied: AnyKind | None) -> None:
    """A job is refused, or warned of, only by what the cluster shows."""

    class Hiding(Counting):
        async def list(self, kind: AnyKind, *args: Any, **more: Any) -> Any:
            if kind is denied:
                raise Forbidden("no")
            return await super().list(kind, *args, **more)

    refused, barred, risky = (job(name, 1, 4, gang=True) for name in ("refused", "barred", "risky"))
    refused["metadata"]["labels"][names.PRIORITY] = "gold"
    barred["metadata"]["labels"][names.QUEUE] = "nowhere"
    risky["metadata"]["labels"][names.QUEUE] = "q"
    made = file(refused, barred, risky, embedded=False)
    with cluster(node("n"), priority_class("high", 9), queue("q"), queue("r")) as (client, _):
        hiding = Hiding(client.registry)
        snapshot = asyncio.run(Snapshot.around(hiding, made.objects, frozenset({"muster"})))
    known = snapshot.preflight(made.objects)
    around = denied in (kinds.PRIORITY_CLASS, kinds.NAMESPACE)
    assert [each.partition(" ")[0] for each in known.never] == ["refused"] * (not around)
    assert [*known.barred] == ["barred"] * (not around and denied not in kinds.QUEUES)
    assert bool(known.risks()) is (denied is not kinds.PRIORITY_CLASS)
    reclaims = denied not in (kinds.PRIORITY_CLASS, kinds.QUEUE, kinds.NODE)
    assert any("can reclaim" in each.message for each in known.risks()) is reclaims


# -- what is said


def priority_class(name: str, value: int) -> Object:
    meta = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


PRICES: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": KEY.split("/")[1], "namespace": KEY.split("/")[0]},
    "data": {"default": "3.50"},
}


def test_a_question_leaves_nothing_behind() -> None:
    """Neither new objects, nor an edited one, nor a priority that the proposed PriorityClass would give."""
    waits = pod("waits", 3)
    waits["metadata"]["labels"][names.QUEUE] = "q"
    snapshot = Snapshot(objects(node("n0"), queue("q", capability={GPU: 2}), waits))
    urgent = job("urgent", 1, 1, gang=True)
    urgent["metadata"]["labels"][names.PRIORITY] = "high"
    proposed = typed([urgent], WATCHED, proposed=True)
    (first, *_) = decisions = snapshot.plan(proposed).decisions
    assert first.outcome is Outcome.INVALID
    more = [queue("q"), priority_class("high", 9), job("other", 4, 1, gang=False)]
    (_, *others) = snapshot.plan(typed([urgent, *more], WATCHED, proposed=True)).decisions
    assert others
    assert all(each.outcome is not Outcome.INVALID for each in others)
    assert snapshot.plan(proposed).decisions == decisions
    explanation = snapshot.why(GangId("default/waits"))
    assert explanation is not None
    assert explanation.code is Code.QUOTA_EXCEEDED


@st.composite
def gangs(draw: st.DrawFn, prefix: str, most: int) -> list[Object]:
    """Jobs that are gangs, in queues and with priorities that exist or not."""
    found = []
    for number in range(draw(st.integers(prefix == "new", most))):
        made = job(f"{prefix}{number}", draw(st.integers(1, 3)), draw(st.integers(1, 5)), gang=True)
        labels = made["metadata"]["labels"]
        if wanted := draw(st.sampled_from(["", "", "q", "r", "nowhere"])):
            labels[names.QUEUE] = wanted
        if wanted := draw(st.sampled_from(["", "", "high", "low", "none", "77"])):
            labels[names.PRIORITY] = wanted
        if draw(st.booleans()):
            made["metadata"]["annotations"] = {names.RUN_TIME: draw(st.sampled_from(["1h", "90m"]))}
        found.append(made)
    return found


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    found = [node(f"n{number}", draw(st.integers(1, 4))) for number in range(draw(st.integers(0, 3)))]
    busy = draw(st.integers(0, 4))
    if found and busy:
        found.append(pod("runs", busy, node="n0"))
    for name in ("q", "r"):
        if draw(st.booleans()):
            limits: Object = draw(
                st.sampled_from([{}, {"capability": {GPU: 2}}, {"maxPriority": 5}, {"weight": 3}])
            )
            found.append(queue(name, **limits))
    for name, value in (("high", 100), ("low", 1)):
        if draw(st.booleans()):
            found.append(priority_class(name, value))
    return [*found, *([PRICES] if draw(st.booleans()) else [])]


@given(clusters(), gangs("old", 2), gangs("new", 3), st.sampled_from([None, frozenset({"muster"})]))
@settings(max_examples=examples(120), deadline=None)
def test_submit_plan_and_why_agree(
    there: list[Object], old: list[Object], new: list[Object], schedulers: frozenset[str] | None
) -> None:
    embedded = schedulers is None
    earlier, made = (file(*jobs, embedded=embedded) if jobs else None for jobs in (old, new))
    assert made is not None
    with cluster(*there) as (client, clock):

        async def observed() -> Snapshot:
            return await Snapshot.observe(client, schedulers, now=clock.at, priced=True)

        if earlier is not None:
            asyncio.run(submit(client, earlier))
            clock.at += 60
        around = asyncio.run(Snapshot.around(client, made.objects, schedulers))
        before = asyncio.run(observed())
        asyncio.run(submit(client, made))
        after = asyncio.run(observed())
    known = around.preflight(made.objects)
    proposed = typed(made.objects, WATCHED, proposed=True)
    planned = before.plan(proposed)
    decisions = {each.gang: each for each in planned.decisions[: planned.proposed]}
    assert decisions.keys() == {f"default/{each['metadata']['name']}" for each in new}

    # the same object, asked again and in another order
    again = before.preflight(made.objects)
    assert (again.barred, again.warnings(), again.risks()) == (known.barred, known.warnings(), known.risks())
    assert again.never == known.never
    assert before.plan(proposed) == planned

    refused = {said.partition(" ")[0]: said for said in known.never if "can never start" in said}
    for gang, decision in decisions.items():
        name, reason = gang.partition("/")[2], decision.reason
        starts = decision.outcome in (Outcome.PLACE, Outcome.PREEMPT)
        assert not (starts and (name in refused or name in known.barred))
        invalid = "Invalid" in refused.get(name, "") + known.barred.get(name, "")
        assert invalid is (decision.outcome is Outcome.INVALID)
        if name in known.barred:
            assert reason is not None
            assert known.barred[name].startswith(reason["code"])
        told = [note for note in planned.notes if note.startswith(f"{gang}: ")]
        assert (f"{gang}: {known.warnings().get(name)}" in told) is (name in known.warnings())
        explanation = after.why(GangId(gang))
        whole = explained(explanation, EVERYTHING) if explanation is not None else None
        assert whole == (None if starts else reason)
    risks = {each.message for each in known.risks()}
    noted = {note.partition(": ")[2] for note in planned.notes if "PreemptionRisk" in note}
    assert risks == noted
