"""Following jobs to their end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from muster.api import kinds
from muster.api.base import Object, ObjectMeta
from muster.api.jobset_v1alpha2 import JobSet, JobSetSpec, ReplicatedJob
from muster.app.commands.follow import (
    READERS,
    SILENCE,
    Ended,
    Followed,
    StatusChanged,
    Update,
    _shared_groups,
    follow,
)
from muster.app.views.job import State
from muster.app.views.jobs import views
from muster.app.views.lines import Lines, Printed
from muster.app.views.objects import Objects
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.client import LogOptions
from muster.kube.errors import Unreachable


class Told:
    """A log source that says one line for each start."""

    async def read(
        self,
        namespace: str,
        pod_name: str,
        pod_uid: str,
        container: str,
        how: LogOptions,
    ) -> AsyncIterator[bytes]:
        yield f"I am {pod_name}\n".encode()


class Slow(Told):
    """A log source that says many lines, each before the patience with the last one is over, and one that
    never comes to its end."""

    async def read(self, namespace: str, pod_name: str, *rest: object) -> AsyncIterator[bytes]:
        for number in range(100):
            yield f"{number}\n".encode()
            await asyncio.sleep(SILENCE - 1)
        if pod_name == "endless":
            await asyncio.Event().wait()
        yield b"the end"


@pytest.fixture
def registry() -> Iterator[Registry]:
    store = Store(":memory:")
    registry = Registry(store)
    registry.create(kinds.NODE, "", {"metadata": {"name": "n"}})
    yield registry
    store.close()


@pytest.fixture
def client(registry: Registry) -> LocalClient:
    return LocalClient(registry, Told())


async def pod(client: LocalClient, name: str) -> Followed:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    await client.create(kinds.POD, "default", {"metadata": {"name": name}, "spec": spec})
    return Followed(kinds.POD, "default", name)


async def status(client: LocalClient, name: str, phase: str, **state: Object) -> None:
    container: Object = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    container["state"] = state
    body = {"status": {"phase": phase, "containerStatuses": [container]}}
    await client.patch(kinds.POD, "default", name, body, subresource="status")


async def play(client: LocalClient, news: AsyncIterator[Update], *acts: Callable[[], object]) -> list[Update]:
    """Each act follows a change of how the jobs stand."""
    told, left = [], list(acts)
    async for each in news:
        told.append(each)
        if isinstance(each, StatusChanged) and left:
            result = left.pop(0)()
            if asyncio.iscoroutine(result):
                await result
    return told


async def test_lines_statuses_and_the_end(client: LocalClient) -> None:
    job, other = await pod(client, "mine"), await pod(client, "other")
    await client.bind("default", "mine", {"target": {"name": "n"}})
    told = await play(
        client,
        follow(client, [job]),
        lambda: status(client, "mine", "Running", running={"startedAt": "2026-03-01T12:00:00Z"}),
        lambda: status(
            client,
            "mine",
            "Failed",
            terminated={"exitCode": 3, "reason": "Error", "finishedAt": "2026-03-01T12:00:09Z"},
        ),
    )
    stands = [news.views[0].state for news in told if isinstance(news, StatusChanged)]
    assert stands == [State.STARTING, State.RUNNING, State.FAILED]
    assert [news for news in told if isinstance(news, Printed)] == [Printed((Lines("mine", ("I am mine",)),))]
    end = told[-1]
    assert isinstance(end, Ended)
    assert (end.views[0].state, end.pods[0].metadata.name) == (State.FAILED, "mine")
    assert other.name not in {pod.metadata.name for pod in end.pods}


def test_groups_that_several_jobsets_have_are_told_apart_by_their_jobsets() -> None:
    def jobset(name: str, *groups: str) -> JobSet:
        meta = ObjectMeta(name=name, namespace="default", uid=name)
        spec = JobSetSpec(replicated_jobs=[ReplicatedJob(each) for each in groups])
        return JobSet(metadata=meta, spec=spec)

    made = views(Objects(jobsets=[jobset("a", "w", "m"), jobset("b", "w"), jobset("c", "x")]))
    assert _shared_groups(made) == {"w"}
    assert _shared_groups(made[:1]) == set()


async def test_only_the_chosen_pods_are_read(client: LocalClient) -> None:
    job = await pod(client, "mine")
    terminated = {"exitCode": 0, "finishedAt": "2026-03-01T12:00:09Z"}
    await status(client, "mine", "Succeeded", terminated=terminated)
    told = [news async for news in follow(client, [job], only=lambda pod: False)]
    assert [type(news) for news in told] == [StatusChanged, Ended]


async def test_a_deleted_job_has_ended_without_a_view(client: LocalClient) -> None:
    job = await pod(client, "mine")
    told = await play(
        client,
        follow(client, [job]),
        lambda: client.delete(kinds.POD, "default", "mine", grace_period=0),
    )
    end = told[-1]
    assert isinstance(end, Ended)
    assert (end.views, len(end.pods)) == ((), 1)


async def test_a_cluster_that_is_not_alive_is_not_waited_for(client: LocalClient) -> None:
    job = await pod(client, "mine")
    with pytest.raises(Unreachable, match="stopped"):
        await play(client, follow(client, [job], alive=lambda: False))


@pytest.mark.looptime
@pytest.mark.parametrize(("name", "last", "cut"), [("slow", "the end", ()), ("endless", "99", ("endless",))])
async def test_lines_are_waited_for_as_long_as_they_come(
    registry: Registry, name: str, last: str, cut: tuple[str, ...]
) -> None:
    client = LocalClient(registry, Slow())
    job = await pod(client, name)
    terminated = {"exitCode": 0, "finishedAt": "2026-03-01T12:00:09Z"}
    await status(client, name, "Succeeded", terminated=terminated)
    *_, printed, end = [news async for news in follow(client, [job])]
    assert printed == Printed((Lines(name, (last,)),))
    assert isinstance(end, Ended)
    assert end.cut == cut


async def test_pods_that_are_not_read_yet_are_reported(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.app.commands.follow.READERS", 2)
    free = asyncio.Event()

    class Held(Told):
        async def read(self, *where: object, **how: object) -> AsyncIterator[bytes]:
            yield b"x\n"
            await free.wait()

    client = LocalClient(registry, Held())
    jobs = [await pod(client, name) for name in ("a", "b", "c")]
    for job in jobs:
        await status(client, job.name, "Running", running={"startedAt": "2026-03-01T12:00:00Z"})
    unread = []
    async for news in follow(client, tuple(jobs)):
        if isinstance(news, StatusChanged):
            unread.append(news.unread)
            if news.unread:
                free.set()
            elif free.is_set():
                while jobs:
                    await client.delete(kinds.POD, "default", jobs.pop().name, grace_period=0)
    assert (max(unread), unread[-1]) == (1, 0)
    assert READERS > 64
