"""Jobs that have been deleted: their last state, in the transaction that removes them, and bounded."""

from typing import Any

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.embedded.storage import past
from muster.embedded.storage.past import Past
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from tests.embedded.conftest import StillClock
from tests.embedded.objects import pod

TEMPLATE: Object = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def job(name: str = "j", **metadata: object) -> Object:
    return {"metadata": {"name": name, **metadata}, "spec": {"template": TEMPLATE}}


def delete(registry: Registry, kind: Kind[Any], name: str) -> None:
    registry.delete(kind, "default", name, DeleteOptions(propagation="Background"))


def test_a_job_is_there_or_among_the_past(registry: Registry, clock: StillClock) -> None:
    registry.create(kinds.JOB, "default", job())
    assert registry.past.jobs() == []
    clock.advance(5)
    delete(registry, kinds.JOB, "j")
    (gone,) = registry.past.jobs()
    assert (gone.kind, gone.namespace, gone.name, gone.at) == (
        kinds.JOB,
        "default",
        "j",
        clock.now().timestamp(),
    )
    assert msgspec.json.decode(gone.body)["spec"]["completions"] == 1


def test_objects_that_belong_to_a_job_are_no_jobs(registry: Registry) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    registry.create(kinds.POD, "default", pod("owned", ownerReferences=[owner]))
    registry.create(kinds.POD, "default", pod("member", labels={"scheduling.x-k8s.io/pod-group": "g"}))
    registry.create(kinds.POD, "default", pod("alone"))
    for name in ("owned", "member", "alone"):
        registry.delete(kinds.POD, "default", name, DeleteOptions(grace_period=0))
    assert [gone.name for gone in registry.past.jobs()] == ["alone"]


@pytest.mark.parametrize(
    ("above", "is_job"),
    [
        (kinds.CRON_JOB, True),
        (kinds.BATCH_JOB, True),
        (kinds.JOBSET, False),
    ],
    ids=lambda each: getattr(each, "kind", None),
)
def test_a_run_of_a_schedule_or_of_a_batch_job_is_a_job(
    registry: Registry, above: Kind[Any], is_job: bool
) -> None:
    owner = {"apiVersion": above.api_version, "kind": above.kind, "name": "o", "uid": "u", "controller": True}
    registry.create(kinds.JOB, "default", job(ownerReferences=[owner]))
    delete(registry, kinds.JOB, "j")
    assert [gone.name for gone in registry.past.jobs()] == ["j"] * is_job


def test_jobs_are_found_by_namespace_and_by_how_their_names_begin(registry: Registry) -> None:
    for name in ("train-1", "train-2", "sweep"):
        registry.create(kinds.JOB, "default", job(name))
        delete(registry, kinds.JOB, name)
    find = registry.past.jobs
    assert [gone.name for gone in find(prefix="train")] == ["train-1", "train-2"]
    assert find(prefix="tr%") == find("other") == find(prefix="Train") == []


def test_the_oldest_are_forgotten(
    registry: Registry, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "JOBS", 3)
    monkeypatch.setattr(past, "_COUNTED", 2)
    for number in range(9):
        registry.create(kinds.JOB, "default", job(f"j{number}"))
        clock.advance(1)
        delete(registry, kinds.JOB, f"j{number}")
    assert [gone.name for gone in registry.past.jobs()] == ["j6", "j7", "j8"]


def test_the_old_are_forgotten(
    registry: Registry, clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "_COUNTED", 2)
    for name, later in (("old", past.KEPT + 1), ("new", 0), ("newer", 0)):
        registry.create(kinds.JOB, "default", job(name))
        delete(registry, kinds.JOB, name)
        clock.advance(later)
    assert {gone.name for gone in registry.past.jobs()} == {"new", "newer"}


def test_of_a_large_job_metadata_and_status_are_kept(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "_LARGEST", 100)
    registry.create(kinds.JOB, "default", job(annotations={"a": "x" * 1000}))
    delete(registry, kinds.JOB, "j")
    (gone,) = registry.past.jobs()
    kept = msgspec.json.decode(gone.body)
    assert "spec" not in kept
    assert kept["metadata"]["name"] == "j"


def test_a_store_of_an_earlier_muster_has_no_past() -> None:
    store = Store(":memory:")
    found = Past(store)
    store.execute("DROP TABLE past_jobs")
    assert found.jobs() == []
