"""Ending a job from outside."""

import asyncio
from contextlib import closing
from typing import Any

import pytest

from muster.api import groups, kinds
from muster.api.base import Kind, Object
from muster.app.commands import submit
from muster.app.commands.cancel import (
    PATIENCE,
    SUFFIX,
    OfFile,
    Replaced,
    StillThere,
    cancel,
    cancel_all,
    cancel_unfinished,
    creator,
    gone,
    is_run_of,
    made_from,
    of_file,
)
from muster.app.commands.follow import Followed
from muster.app.views.find import all_matching
from muster.app.views.job import JobView, State
from muster.app.views.jobs import views
from muster.app.views.objects import fetch
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.names import SUBMITTED_FROM
from muster.workloads.jobfile import Source
from muster.workloads.load import load

SOURCE = Source("/here/job.yaml", "me@here")


@pytest.mark.looptime
async def test_pods_that_do_not_go_are_waited_for_beyond_their_grace_only() -> None:
    store = Store(":memory:")
    client = LocalClient(Registry(store))
    await client.create(kinds.NODE, "", {"metadata": {"name": "n"}})
    container: Object = {"name": "c", "image": "i"}
    for name in ("quick", "stuck"):
        spec: Object = {"containers": [container], "nodeName": "n", "terminationGracePeriodSeconds": 100}
        await client.create(kinds.POD, "default", {"metadata": {"name": name}, "spec": spec})
    pods = (await client.list(kinds.POD)).items
    job, quick_one = (Followed(kinds.POD, "default", name) for name in ("stuck", "quick"))
    ended: list[Followed] = []
    await cancel(client, job, pods)

    async def quick_goes() -> None:
        await asyncio.sleep(60)
        await client.delete(kinds.POD, "default", "quick", grace_period=0)

    async def wait() -> None:
        async for each in gone(client, {job: pods, quick_one: pods[:1]}):
            ended.append(each)

    now = asyncio.get_running_loop().time
    began = now()
    async with asyncio.TaskGroup() as group:
        group.create_task(quick_goes())
        with pytest.raises(StillThere, match=r"stuck has been deleted, but its pods do not end: stuck$"):
            await wait()
    assert ended == [quick_one], "the others are not held up"
    assert now() - began == pytest.approx(60 + 100 + PATIENCE, abs=1)
    await client.delete(kinds.POD, "default", "stuck", grace_period=0)
    assert [each async for each in gone(client, {job: pods})] == [job]
    store.close()


@pytest.mark.parametrize("count", [1, 40])
async def test_many_jobs_are_cancelled_with_as_many_reads_as_one(count: int) -> None:
    with closing(Store(":memory:")) as store:

        class Counting(LocalClient):
            reads = 0

            async def list(self, *args: Any, **more: Any) -> Any:
                self.reads += 1
                return await super().list(*args, **more)

        client = Counting(Registry(store))
        names = [f"p{number}" for number in range(count)]
        for name in names:
            spec: Object = {"containers": [{"name": "c", "image": "i"}]}
            await client.create(kinds.POD, "default", {"metadata": {"name": name}, "spec": spec})
        client.reads = 0
        wanted = [each.newest for each in await all_matching(client, names, "")]
        once = client.reads
        assert {view.name async for view in cancel_all(client, wanted)} == set(names)
        await fetch(client)
        assert client.reads == 2 * once + 1, "two lists of all, and one of pods"


async def job_set(client: LocalClient, owners: list[Object]) -> JobView:
    """A job whose JobSet has these controllers."""
    pod: Object = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    replicated: Object = {"name": "main", "template": {"spec": {"template": pod}}}
    meta: Object = {"name": "j", "ownerReferences": [{**owner, "controller": True} for owner in owners]}
    await client.create(kinds.JOBSET, "default", {"metadata": meta, "spec": {"replicatedJobs": [replicated]}})
    (view,) = views(await fetch(client))
    return view


@pytest.mark.parametrize(
    ("above", "schedule", "deleted"),
    [
        ([], "", kinds.JOBSET),
        ([kinds.BATCH_JOB], "", kinds.BATCH_JOB),
        ([kinds.BATCH_JOB, kinds.LATTICE_JOB], "", kinds.LATTICE_JOB),
        ([kinds.BATCH_JOB], "0 * * * *", kinds.JOBSET),
        ([kinds.CONFIG_MAP], "", kinds.JOBSET),
    ],
)
async def test_what_would_create_a_job_again_is_cancelled(
    above: list[Kind[Any]], schedule: str, deleted: Kind[Any]
) -> None:
    with closing(Store(":memory:")) as store:
        client, owners = LocalClient(Registry(store)), list[Object]()
        for kind in reversed(above):
            body: Object = {"metadata": {"name": "j", "ownerReferences": owners}}
            if kind is not kinds.CONFIG_MAP:
                body["spec"] = {"schedule": schedule} if schedule else {}
            made = await client.create(kind, "default", body)
            owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "j", "uid": made.metadata.uid}
            owners = [{**owner, "controller": True}]
        view = await job_set(client, owners)
        (found,) = [each.metadata.uid for each in (await client.list(deleted)).items]
        assert await creator(client, view) == (Followed(deleted, "default", "j"), found)


@pytest.mark.parametrize(
    ("above", "schedule", "deleted"),
    [
        (None, "", kinds.BATCH_JOB),
        (None, "@daily", kinds.BATCH_JOB),
        (kinds.BATCH_JOB, "@daily", kinds.BATCH_JOB),
        (kinds.LATTICE_JOB, "", kinds.LATTICE_JOB),
    ],
)
async def test_a_batch_job_without_a_run_is_cancelled_itself(
    above: Kind[Any] | None, schedule: str, deleted: Kind[Any]
) -> None:
    with closing(Store(":memory:")) as store:
        client, owners = LocalClient(Registry(store)), list[Object]()
        if above is not None:
            name = "j" if above is kinds.LATTICE_JOB else "schedule"
            body: Object = {"metadata": {"name": name}, "spec": {"schedule": schedule}}
            made = await client.create(above, "default", body)
            owner = {"apiVersion": above.api_version, "kind": above.kind, "name": name}
            owners, schedule = [{**owner, "uid": made.metadata.uid, "controller": True}], ""
        meta: Object = {"name": "j", "ownerReferences": owners}
        await client.create(kinds.BATCH_JOB, "default", {"metadata": meta, "spec": {"schedule": schedule}})
        view = next(view for view in views(await fetch(client)) if view.name == "j")
        uid = (await client.get(deleted, "default", "j")).metadata.uid
        assert await creator(client, view) == (Followed(deleted, "default", "j"), uid)


@pytest.mark.parametrize("kind", [kinds.POD, kinds.JOB, kinds.JOBSET, kinds.BATCH_JOB, groups.OF_NAMED[0]])
@pytest.mark.parametrize("others", [0, 20])
async def test_a_job_submitted_again_meanwhile_is_not_cancelled(kind: Kind[Any], others: int) -> None:
    """It has the name of the job that was seen, which has ended since; the other jobs are cancelled."""
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        pod: Object = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
        template: Object = {"template": {"spec": pod}}
        replicated: Object = {"name": "main", "template": {"spec": template}}
        spec: dict[Kind[Any], Object] = {
            kinds.POD: pod,
            kinds.JOB: template,
            kinds.JOBSET: {"replicatedJobs": [replicated]},
            groups.OF_NAMED[0]: {"minMember": 1},
        }
        names = ["train", *(f"other{number}" for number in range(others))]

        async def submit(name: str) -> object:
            body: Object = {"metadata": {"name": name}, "spec": spec.get(kind, {})}
            made = await client.create(kind, "default", body)
            return made.metadata.uid

        for name in names:
            await submit(name)
        seen = views(await fetch(client))
        assert sorted(view.name for view in seen) == sorted(names)
        await client.delete(kind, "default", "train", propagation="Background", grace_period=0)
        again = await submit("train")
        ended = list[str]()

        async def cancelled() -> None:
            async for view in cancel_all(client, seen):
                ended.append(view.name)

        with pytest.raises(Replaced, match=r"^train: gone already; what has the name now"):
            await cancelled()
        assert sorted(ended) == sorted(names[1:])
        assert [each.metadata.uid for each in (await client.list(kind)).items] == [again]


async def test_the_creator_of_a_job_that_was_read_is_cancelled_and_not_its_successor() -> None:
    with closing(Store(":memory:")) as store:
        registry = Registry(store)

        class Racing(LocalClient):
            """The BatchJob is submitted again just before it is deleted."""

            async def delete(self, *args: Any, **more: Any) -> None:
                await super().delete(kinds.BATCH_JOB, "default", "j", propagation="Background")
                await self.create(kinds.BATCH_JOB, "default", {"metadata": {"name": "j"}, "spec": {}})
                await super().delete(*args, **more)

        client = Racing(registry)
        made = await client.create(kinds.BATCH_JOB, "default", {"metadata": {"name": "j"}, "spec": {}})
        owner = {"apiVersion": "muster.dev/v1alpha1", "kind": "BatchJob", "name": "j"}
        seen = await job_set(client, [{**owner, "uid": made.metadata.uid}])
        with pytest.raises(Replaced):
            _ = [each async for each in cancel_all(client, [seen])]
        (there,) = (await client.list(kinds.BATCH_JOB)).items
        assert there.metadata.uid != made.metadata.uid


async def test_a_group_made_meanwhile_for_pods_that_name_it_is_not_cancelled() -> None:
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        meta = {"name": "p", "labels": {"scheduling.x-k8s.io/pod-group": "g"}}
        spec: Object = {"containers": [{"name": "c", "image": "i"}]}
        await client.create(kinds.POD, "default", {"metadata": meta, "spec": spec})
        (seen,) = views(await fetch(client))
        assert seen.resource.metadata.uid == ""
        await client.delete(kinds.POD, "default", "p", grace_period=0)
        await client.create(seen.kind, "default", {"metadata": {"name": "g"}, "spec": {"minMember": 1}})
        await client.create(kinds.POD, "default", {"metadata": meta, "spec": spec})
        assert [view.name async for view in cancel_all(client, [seen])] == ["g"]
        assert len((await client.list(seen.kind)).items) == 1
        assert len((await client.list(kinds.POD)).items) == 1


async def test_a_creator_that_is_gone_is_not_cancelled_nor_another_of_its_name() -> None:
    with closing(Store(":memory:")) as store:
        client, itself = LocalClient(Registry(store)), Followed(kinds.JOBSET, "default", "j")
        owner = {"apiVersion": "muster.dev/v1alpha1", "kind": "BatchJob", "name": "b", "uid": "u"}
        view = await job_set(client, [owner])
        found = itself, view.resource.metadata.uid
        assert await creator(client, view) == found
        await client.create(kinds.BATCH_JOB, "default", {"metadata": {"name": "b"}, "spec": {}})
        assert await creator(client, view) == found


@pytest.mark.parametrize(
    ("wanted", "state", "meant"),
    [
        ("train", "Running", ["train"]),
        (f"train-{SUFFIX}", "Running", ["train-0a1b2c3d"]),
        (f"train-{SUFFIX}", "Succeeded", []),  # it is in no job's way
        ("train", "Succeeded", ["train"]),
        ("trai", "Running", []),
    ],
)
async def test_which_jobs_a_file_has_made(wanted: str, state: str, meant: list[str]) -> None:
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        for name in ("train", "train-0a1b2c3d", "train-0a1b2c3z", "train-x-0a1b2c3d", "train-0a1b2c3d4"):
            spec: Object = {"containers": [{"name": "c", "image": "i"}]}
            meta = {"name": name, "annotations": {SUBMITTED_FROM: SOURCE.annotation()}}
            await client.create(kinds.POD, "default", {"metadata": meta, "spec": spec})
            await client.patch(kinds.POD, "default", name, {"status": {"phase": state}}, subresource="status")
        there = views(await fetch(client))
        found = of_file([Followed(kinds.POD, "default", wanted)], there, SOURCE)
        assert [view.name for view in found.made] == meant
        assert (found.unsure, found.others) == ([], [])
        assert of_file([Followed(kinds.POD, "other", wanted)], there, SOURCE).made == []


ANOTHERS = Source("/there/job.yaml", "me@here")


@pytest.mark.parametrize(
    ("marks", "made", "unsure", "others"),
    [
        ({}, [], ["train", "train-0a1b2c3d"], []),
        *(
            ({SUBMITTED_FROM: hostile}, [], ["train", "train-0a1b2c3d"], [])
            for hostile in (
                "[" * 9,
                '{"x":' + "[" * 5_000,
                '{"file":"' + "a" * 30_000 + '","by":"me"}',
                "null",
            )
        ),
        ({SUBMITTED_FROM: SOURCE.annotation()}, ["train", "train-0a1b2c3d"], [], []),
        ({SUBMITTED_FROM: ANOTHERS.annotation()}, [], ["train"], ["train-0a1b2c3d"]),
        ({SUBMITTED_FROM: Source(SOURCE.file, "you@here").annotation()}, [], ["train"], ["train-0a1b2c3d"]),
    ],
)
async def test_a_name_alone_makes_no_job_that_of_a_file(
    marks: dict[str, str], made: list[str], unsure: list[str], others: list[str]
) -> None:
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        for name in ("train", "train-0a1b2c3d"):
            spec: Object = {"containers": [{"name": "c", "image": "i"}]}
            await client.create(
                kinds.POD, "default", {"metadata": {"name": name, "annotations": marks}, "spec": spec}
            )
        wanted = [Followed(kinds.POD, "default", name) for name in ("train", f"train-{SUFFIX}")]
        found = of_file(wanted, views(await fetch(client)), SOURCE)
        assert [[view.name for view in each] for each in (found.made, found.unsure, found.others)] == [
            made,
            unsure,
            others,
        ]
        told = OfFile.told([*found.unsure, *found.others])
        assert ("a file that is not recorded" in told) == (bool(unsure) and not others)
        assert not others or "/job.yaml, submitted by " in told


async def test_pods_say_it_for_a_group_that_has_no_object() -> None:
    for second in (SOURCE, ANOTHERS):
        with closing(Store(":memory:")) as store:
            client = LocalClient(Registry(store))
            for name, source in (("a", SOURCE), ("b", second)):
                meta: Object = {
                    "name": name,
                    "labels": {"scheduling.x-k8s.io/pod-group": "g"},
                    "annotations": {SUBMITTED_FROM: source.annotation()},
                }
                spec: Object = {"containers": [{"name": "c", "image": "i"}]}
                await client.create(kinds.POD, "default", {"metadata": meta, "spec": spec})
            (view,) = views(await fetch(client))
            assert made_from(view) == (SOURCE if second == SOURCE else None)


async def test_a_job_that_finishes_while_it_is_cancelled_stays() -> None:
    with closing(Store(":memory:")) as store:
        registry = Registry(store)

        class Racing(LocalClient):
            """The pod ends just before it is deleted."""

            async def delete(self, *args: Any, **more: Any) -> None:
                ended = {"status": {"phase": "Succeeded"}}
                await self.patch(kinds.POD, "default", "p", ended, subresource="status")
                await super().delete(*args, **more)

        client = LocalClient(registry)
        job = Followed(kinds.POD, "default", "p")
        body: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        await client.create(kinds.POD, "default", body)
        view = await cancel_unfinished(Racing(registry), job, ())
        assert view is not None
        assert view.state is State.SUCCEEDED
        assert len((await client.list(kinds.POD)).items) == 1
        await cancel(client, job, ())
        assert await cancel_unfinished(client, job, ()) is None, "it has gone"
        await client.create(kinds.POD, "default", body)
        assert await cancel_unfinished(client, job, ()) is None
        assert not (await client.list(kinds.POD)).items


async def test_an_interrupted_run_ends_no_job_submitted_since_under_its_name() -> None:
    with closing(Store(":memory:")) as store:
        client, job = LocalClient(Registry(store)), Followed(kinds.POD, "default", "p")
        body: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        first = await client.create(kinds.POD, "default", body)
        await cancel(client, job, ())
        again = await client.create(kinds.POD, "default", body)
        assert await cancel_unfinished(client, job, (), uid=first.metadata.uid) is None
        (left,) = (await client.list(kinds.POD)).items
        assert left.metadata.uid == again.metadata.uid
        await cancel_unfinished(client, job, (), uid=again.metadata.uid)
        assert not (await client.list(kinds.POD)).items


LABEL: Object = {groups.POD_GROUP.label: "g"}


async def grouped(client: LocalClient, *jobs: str) -> list[JobView]:
    """Jobs whose pods are in one PodGroup, all made from one file."""
    notes = {SUBMITTED_FROM: SOURCE.annotation()}
    about: Object = {"metadata": {"name": "g", "annotations": notes}, "spec": {"minMember": 1}}
    await client.create(groups.POD_GROUP.kind, "default", about)
    spec: Object = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    for name in jobs:
        template: Object = {"metadata": {"labels": LABEL}, "spec": spec}
        meta: Object = {"name": name, "annotations": notes}
        await client.create(kinds.JOB, "default", {"metadata": meta, "spec": {"template": template}})
    return views(await fetch(client))


@pytest.mark.parametrize("how", ["by name", "when interrupted"])
async def test_a_job_goes_with_the_pod_group_that_is_one_with_it(how: str) -> None:
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        (view,) = await grouped(client, "j")
        if how == "by name":
            assert [each.name async for each in cancel_all(client, [view])] == ["j"]
        else:
            assert await cancel_unfinished(client, Followed(kinds.JOB, "default", "j"), ()) is None
        assert views(await fetch(client)) == []


async def test_the_name_of_the_pod_group_that_is_one_with_a_job_is_a_whole_name() -> None:
    with closing(Store(":memory:")) as store:
        (view,) = await grouped(LocalClient(Registry(store)), "j")
        assert [is_run_of(name, view) for name in ("j", "g", "default/g", "x")] == [True, True, True, False]


async def test_a_pod_group_that_another_job_needs_stays() -> None:
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        there = {view.name: view for view in await grouped(client, "j", "other")}
        assert [each.name async for each in cancel_all(client, [there["j"]])] == ["j"]
        (left,) = views(await fetch(client))
        assert left.marked, "it is one with the other"


async def test_a_pod_group_made_since_is_left_alone() -> None:
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        (view,) = await grouped(client, "j")
        await client.delete(groups.POD_GROUP.kind, "default", "g")
        again = await client.create(groups.POD_GROUP.kind, "default", {"metadata": {"name": "g"}})
        assert [each.name async for each in cancel_all(client, [view])] == ["j"]
        (left,) = views(await fetch(client))
        assert left.resource.metadata.uid == again.metadata.uid


async def test_the_pod_group_of_a_file_is_of_the_file() -> None:
    """Also one that several of its jobs name."""
    text = """
kind: PodGroup
apiVersion: scheduling.x-k8s.io/v1alpha1
metadata: {name: g}
spec: {minMember: 2}
"""
    for name in ("j", "k"):
        text += f"""---
kind: Job
apiVersion: batch/v1
metadata: {{name: {name}}}
spec:
  template:
    metadata: {{labels: {{scheduling.x-k8s.io/pod-group: g}}}}
    spec: {{restartPolicy: Never, containers: [{{name: c, image: i, command: [x]}}]}}
"""
    wanted = submit.made_from(load("two.yaml", text=text.encode()))
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        found = of_file(wanted, await grouped(client, "j", "k"), SOURCE)
        assert sorted(view.name for view in found.made) == ["g", "j", "k"]
        assert len([each async for each in cancel_all(client, found.made)]) == 3
        assert views(await fetch(client)) == []
