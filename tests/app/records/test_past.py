"""Jobs that have been deleted, as views, and found by name where none is there."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.api import groups, kinds
from muster.api.base import Object
from muster.app.records import past
from muster.app.views.find import UnknownJob, WithoutRun, with_run
from muster.app.views.job import State
from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry

POD: Object = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalClient]:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    StateDirectory.of_user().make()
    with closing(Store(StateDirectory.of_user().store)) as store:
        yield LocalClient(Registry(store))


def job(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"template": {"spec": POD}}}


async def ended(client: LocalClient, name: str, condition: Object | None = None) -> None:
    """A Job that was made, perhaps ended, and deleted."""
    await client.create(kinds.JOB, "default", job(name))
    if condition is not None:
        status = {"conditions": [{"status": "True", **condition}], "succeeded": 1}
        await client.patch(kinds.JOB, "default", name, {"status": status}, subresource="status")
    await client.delete(kinds.JOB, "default", name, propagation="Background")


@pytest.mark.parametrize(
    ("condition", "state", "reason"),
    [
        (None, State.CANCELLED, ("Cancelled", "deleted while it was waiting")),
        ({"type": "Complete"}, State.SUCCEEDED, None),
        (
            {"type": "Failed", "reason": "DeadlineExceeded", "message": "too late"},
            State.FAILED,
            ("DeadlineExceeded", "too late"),
        ),
    ],
)
async def test_a_deleted_job_has_its_last_state(
    client: LocalClient, condition: Object | None, state: State, reason: tuple[str, str] | None
) -> None:
    await ended(client, "j", condition)
    (view,) = past.deleted(Target())
    assert (view.name, view.state, view.reason) == ("j", state, reason)
    assert view.deleted is not None
    assert view.finished is not None
    assert (await past.named(client, "j", Target())).view == view
    assert (await past.named(client, None, Target())).view == view


async def test_pods_of_a_deleted_job_are_counted_by_their_runs(client: LocalClient) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    await client.create(kinds.NODE, "", {"metadata": {"name": "n"}})
    await client.create(kinds.JOB, "default", job("j"))
    for name, phase in (("a", "Succeeded"), ("b", "Failed"), ("c", "Running")):
        meta = {"name": name, "labels": {"batch.kubernetes.io/job-name": "j"}, "ownerReferences": [owner]}
        await client.create(kinds.POD, "default", {"metadata": meta, "spec": {**POD, "nodeName": "n"}})
        await client.patch(kinds.POD, "default", name, {"status": {"phase": phase}}, subresource="status")
    await client.delete(kinds.JOB, "default", "j", propagation="Background")
    (view,) = past.deleted(Target())
    assert (view.succeeded, view.failed, view.running) == (1, 1, 0)
    assert view.reason == ("Cancelled", "deleted while it was running")


async def test_of_deleted_jobs_and_those_that_are_there_the_newest_is_meant(client: LocalClient) -> None:
    async def meant(name: str | None) -> tuple[str, State, str]:
        found = await past.named(client, name, Target())
        return found.view.name, found.view.state, found.told

    cancelled, succeeded = State.CANCELLED, State.SUCCEEDED
    await ended(client, "train-1")
    await ended(client, "train-2")
    assert await meant("train") == ("train-2", cancelled, "train-2, the newest of 2 jobs that match train")
    assert await meant("train-2") == ("train-2", cancelled, "")
    await ended(client, "train-2", {"type": "Complete"})  # another of that name
    assert (await meant("train-2"))[:2] == ("train-2", succeeded)
    await client.create(kinds.JOB, "default", job("train-3"))
    assert await meant("train") == ("train-3", State.WAITING, "")
    await ended(client, "train-4")
    assert (await meant(None))[0] == "train-3", "one that is unfinished comes before all that are deleted"
    complete = {"status": {"conditions": [{"status": "True", "type": "Complete"}]}}
    await client.patch(kinds.JOB, "default", "train-3", complete, subresource="status")
    assert (await meant(None))[0] == "train-4"
    assert (await meant("train-3"))[:2] == ("train-3", succeeded)
    await client.create(kinds.JOB, "default", job("train-5"))
    assert await meant("t") == ("train-5", State.WAITING, "train-5, the newest of 2 jobs that match t")


@pytest.mark.parametrize("name", ["", "nosuch", "other/train-1"])
async def test_a_job_that_never_existed_is_not_found(client: LocalClient, name: str) -> None:
    await ended(client, "train-1")
    with pytest.raises(UnknownJob):
        await past.named(client, name, Target())


async def test_a_batch_job_without_pods_is_a_job_and_says_why_it_has_none(client: LocalClient) -> None:
    for name, spec in (("denied", {}), ("nightly", {"schedule": "@daily"}), ("new", {}), ("over", {})):
        await client.create(kinds.BATCH_JOB, "default", {"metadata": {"name": name}, "spec": spec})
    finding = {"field": "spec.image", "message": "no policy permits it"}
    for name, status in (
        ("denied", {"phase": "Pending", "message": "image denied", "findings": [finding]}),
        ("over", {"phase": "Failed"}),
    ):
        await client.patch(kinds.BATCH_JOB, "default", name, {"status": status}, subresource="status")
        await ended(client, name)  # as it was before a permit was withdrawn
    for name, state in (
        ("denied", State.DENIED),
        ("default/deni", State.DENIED),
        ("nightly", State.SCHEDULED),
        ("new", State.WAITING),
        ("over", State.FAILED),
    ):
        assert (await past.named(client, name, Target())).view.state is state
    for name, why in (
        ("denied", "denied is denied and has no pods: image denied; `muster why denied` says more"),
        ("default/denied", "denied and has no pods"),
        ("nightly", "nightly is scheduled and has no pods: @daily"),
        ("ne", "new is waiting and has no pods: it has not been compiled yet"),
    ):
        with pytest.raises(WithoutRun, match=why):
            await with_run(client, name, "")
    with pytest.raises(UnknownJob, match="no job named typo; there are"):
        await with_run(client, "typo", "")
    await client.create(kinds.JOB, "default", job("nightly-29"))
    assert (await with_run(client, "nightly", "")).view.name == "nightly-29"


@pytest.mark.parametrize(("named", "listed"), [("g", ["j"]), ("other", ["g", "j"])])
async def test_a_deleted_pod_group_that_was_one_with_a_job_is_no_job(
    client: LocalClient, named: str, listed: list[str]
) -> None:
    template: Object = {"metadata": {"labels": {groups.POD_GROUP.label: named}}, "spec": POD}
    await client.create(kinds.JOB, "default", {"metadata": {"name": "j"}, "spec": {"template": template}})
    await client.create(groups.POD_GROUP.kind, "default", {"metadata": {"name": "g"}})
    await client.delete(kinds.JOB, "default", "j", propagation="Background")
    await client.delete(groups.POD_GROUP.kind, "default", "g")
    assert sorted(view.name for view in past.deleted(Target())) == listed
