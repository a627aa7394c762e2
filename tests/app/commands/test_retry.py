"""`muster retry`: one of two that retry the same job wins, and what cannot be retried is refused."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from muster.api.base import Object
from muster.api.kinds import JOB, POD
from muster.app.commands.change import Refused
from muster.app.commands.retry import retry
from muster.app.commands.submit import Taken
from muster.app.views.jobs import views
from muster.app.views.objects import fetch
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.names import CALLER, RETRY_OF, SUBMITTED_FROM
from muster.workloads.jobfile import Source

SOURCE = Source("/here/job.yaml", "me@here")
JOB_OF_THREE: Object = {
    "metadata": {"name": "j", "namespace": "default"},
    "spec": {
        "completionMode": "Indexed",
        "completions": 3,
        "parallelism": 3,
        "backoffLimitPerIndex": 0,
        "template": {
            "metadata": {"annotations": {CALLER: '{"cwd":"/copy","PATH":"/bin"}'}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["x"]}]},
        },
    },
}
FAILED: Object = {
    "failed": 1,
    "succeeded": 2,
    "completedIndexes": "0,2",
    "failedIndexes": "1",
    "startTime": "2026-03-01T12:00:00Z",
    "conditions": [
        {"type": "FailureTarget", "status": "True", "lastTransitionTime": "2026-03-01T12:00:09Z"},
        {"type": "Failed", "status": "True", "lastTransitionTime": "2026-03-01T12:00:09Z"},
    ],
}


@pytest.fixture
def client() -> Iterator[LocalClient]:
    with closing(Store(":memory:")) as store:
        yield LocalClient(Registry(store))


async def ended(client: LocalClient, status: Object | None = None) -> Any:  # Any: its view
    await client.create(JOB, "default", JOB_OF_THREE)
    if status is not None:
        await client.patch(JOB, "default", "j", {"status": status}, subresource="status")
    (view,) = views(await fetch(client))
    return view


async def test_of_two_terminals_one_wins_and_the_other_is_told(client: LocalClient) -> None:
    view = await ended(client, FAILED)
    both = await asyncio.gather(
        retry(client, view, SOURCE), retry(client, view, SOURCE), return_exceptions=True
    )
    (lost,) = [each for each in both if isinstance(each, BaseException)]
    assert isinstance(lost, Taken)
    assert str(lost).startswith("j has been retried already, as j-r1; `muster why j-r1`")
    made = await client.get_json(JOB, "default", "j-r1")
    assert made["spec"]["completions"] == 1
    assert made["metadata"]["annotations"][SUBMITTED_FROM] == SOURCE.annotation()
    assert '"indexes":"1"' in made["metadata"]["annotations"][RETRY_OF]


async def test_another_job_that_has_the_name_is_no_retry(client: LocalClient) -> None:
    view = await ended(client, FAILED)
    other = {**JOB_OF_THREE, "metadata": {**JOB_OF_THREE["metadata"], "name": "j-r1"}}
    await client.create(JOB, "default", other)
    with pytest.raises(Taken, match="j-r1, as a retry of j is called, is another job"):
        await retry(client, view, SOURCE)


async def test_its_pods_run_in_the_directory_that_is_asked_for(client: LocalClient) -> None:
    await retry(client, await ended(client, FAILED), SOURCE, directory="/new")
    made = await client.get_json(JOB, "default", "j-r1")
    assert made["spec"]["template"]["metadata"]["annotations"][CALLER] == '{"cwd":"/new","PATH":"/bin"}'


async def test_what_runs_is_not_retried(client: LocalClient) -> None:
    with pytest.raises(Refused, match="j is waiting; it is retried when it has ended"):
        await retry(client, await ended(client), SOURCE)


async def test_what_has_succeeded_is_not_retried(client: LocalClient) -> None:
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": "2026-03-01T12:00:09Z"}
        for each in ("SuccessCriteriaMet", "Complete")
    ]
    status = {
        "succeeded": 3,
        "completedIndexes": "0-2",
        "conditions": conditions,
        "startTime": "2026-03-01T12:00:00Z",
        "completionTime": "2026-03-01T12:00:09Z",
    }
    with pytest.raises(Refused, match="everything of j has succeeded"):
        await retry(client, await ended(client, status), SOURCE)


async def test_a_pod_has_no_parts(client: LocalClient) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await client.create(POD, "default", {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    (view,) = views(await fetch(client))
    with pytest.raises(Refused, match="p is a Pod, of which no part can run again; submit its file again"):
        await retry(client, view, SOURCE)
