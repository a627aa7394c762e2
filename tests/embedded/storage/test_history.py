from typing import Any

from muster.api import kinds
from muster.api.base import Object
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.jobset_v1alpha2 import (
    JOB_GLOBAL_INDEX,
    JOB_INDEX,
    JOBSET_NAME,
    JOBSET_UID,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.names import PREEMPTED
from muster.workloads.pod_run import PodRun
from tests.embedded.conftest import StillClock
from tests.embedded.objects import bound, pod

START = 1_772_366_400.25  # the still clock's

LABELS = {
    JOBSET_NAME: "train",
    JOBSET_UID: "uid-1",
    REPLICATED_JOB_NAME: "worker",
    JOB_NAME: "train-worker-0",
    JOB_INDEX: "0",
    JOB_GLOBAL_INDEX: "1",
    COMPLETION_INDEX: "3",
    RESTART_ATTEMPT: "2",
}


def status(registry: Registry, name: str = "p", **fields: Any) -> None:
    registry.patch(kinds.POD, "default", name, {"status": fields}, subresource="status")


def container(**state: Object) -> list[Object]:
    return [{"name": "main", "restartCount": 1, "state": state}]


def run(registry: Registry) -> PodRun:
    (only,) = registry.history.runs()
    return only


def test_a_run_from_its_creation_to_its_end(registry: Registry, clock: StillClock) -> None:
    registry.create(kinds.POD, "default", pod(labels=LABELS))
    new = run(registry)
    assert (new.jobset, new.jobset_uid, new.replicated_job, new.job) == (
        "train",
        "uid-1",
        "worker",
        "train-worker-0",
    )
    assert (new.job_index, new.job_global_index, new.completion_index, new.attempt) == (0, 1, 3, 2)
    assert (new.created, new.bound, new.started, new.ended, new.phase) == (START, None, None, None, "Pending")
    clock.advance(5)
    registry.bind("default", "p", {"target": {"name": "node-0"}})
    assert (run(registry).node, run(registry).bound) == ("node-0", START + 5)
    clock.advance(5)
    running = {"running": {"startedAt": "2026-03-01T12:00:08Z"}}
    status(registry, phase="Running", containerStatuses=container(**running))
    assert (run(registry).started, run(registry).phase) == (START + 7.75, "Running")
    clock.advance(5)
    ended = {
        "startedAt": "2026-03-01T12:00:08Z",
        "finishedAt": "2026-03-01T12:00:14Z",
        "exitCode": 7,
        "reason": "Error",
    }
    status(registry, phase="Failed", containerStatuses=container(terminated=ended))
    clock.advance(5)
    registry.delete(kinds.POD, "default", "p")
    last = run(registry)
    assert (last.started, last.ended) == (START + 7.75, START + 13.75)
    assert (last.phase, last.exit_code, last.reason, last.restarts) == ("Failed", 7, "Error", 1)
    assert not last.preempted


def test_times_that_are_not_reported_are_those_of_the_writes(registry: Registry, clock: StillClock) -> None:
    bound(registry)
    for phase in ("Running", "Succeeded"):
        clock.advance(2)
        status(registry, phase=phase)
    clock.advance(2)
    status(registry, message="again")
    assert (run(registry).started, run(registry).ended) == (START + 2, START + 4)
    assert run(registry).exit_code is None


def test_a_pod_that_is_removed_before_it_ends(registry: Registry, clock: StillClock) -> None:
    bound(registry, phase="Running")
    clock.advance(9)
    registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=0))
    assert (run(registry).phase, run(registry).ended) == ("Deleted", START + 9)


def test_pods_that_muster_ended_are_marked(registry: Registry) -> None:
    bound(registry, phase="Running")
    status(registry, conditions=[{"type": PREEMPTED, "status": "True"}])
    registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=0))
    assert run(registry).preempted


def test_the_first_container_that_failed_gives_the_code(registry: Registry) -> None:
    bound(registry)
    states = [
        {"name": "late", "state": {"terminated": {"exitCode": 2, "finishedAt": "2026-03-01T12:00:05Z"}}},
        {"name": "early", "state": {"terminated": {"exitCode": 9, "finishedAt": "2026-03-01T12:00:03Z"}}},
        {"name": "good", "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-03-01T12:00:01Z"}}},
    ]
    status(registry, phase="Failed", containerStatuses=states)
    assert run(registry).exit_code == 9


def test_runs_of_one_job(registry: Registry, clock: StillClock) -> None:
    for name, labels in (("b", LABELS), ("a", LABELS), ("other", {}), ("c", {JOB_NAME: "single"})):
        clock.advance(1)
        registry.create(kinds.POD, "default", pod(name, labels=labels))
    find = registry.history.runs
    assert [r.name for r in find(job="train")] == ["b", "a"]
    assert [r.name for r in find(job="uid-1", namespace="default")] == ["b", "a"]
    assert [r.name for r in find(job="single")] == ["c"]
    assert [r.name for r in find(job="other")] == ["other"]
    assert find(job="train", namespace="kube-system") == []


def test_a_pod_of_the_same_name_is_another_run(registry: Registry, clock: StillClock) -> None:
    for _ in range(2):
        registry.create(kinds.POD, "default", pod())
        registry.delete(kinds.POD, "default", "p")
        clock.advance(1)
    assert len({r.uid for r in registry.history.runs(job="p")}) == 2


def test_the_oldest_ended_runs_are_forgotten(registry: Registry, clock: StillClock) -> None:
    registry.history._bound = 10
    registry.create(kinds.POD, "default", pod("still-there"))
    for number in range(50):
        clock.advance(1)
        registry.create(kinds.POD, "default", pod(f"p{number}"))
        registry.delete(kinds.POD, "default", f"p{number}")
    runs = registry.history.runs()
    assert len(runs) <= 20
    assert runs[0].name == "still-there"
    assert runs[-1].name == "p49"


def test_history_can_be_read_when_no_process_hosts_the_cluster(tmp_path: Any) -> None:
    registry = Registry(Store(tmp_path / "s"))
    registry.create(kinds.POD, "default", pod(labels=LABELS))
    registry.delete(kinds.POD, "default", "p")
    registry.store.close()
    reader = Registry(Store.open_read_only(tmp_path / "s"))
    assert [r.phase for r in reader.history.runs(job="train")] == ["Deleted"]
    reader.store.close()


def test_a_history_of_an_earlier_muster_is_read_and_written_on(tmp_path: Any) -> None:
    registry = Registry(Store(tmp_path / "s"))
    registry.create(kinds.POD, "default", pod("before", labels=LABELS))
    for column in ("job_global_index", "pod_group"):
        registry.store.execute(f"ALTER TABLE pod_runs DROP COLUMN {column}")
    registry.store.close()
    reader = Registry(Store.open_read_only(tmp_path / "s"))
    assert [(r.name, r.pod_group) for r in reader.history.runs(job="before")] == [("before", "")]
    reader.store.close()
    registry = Registry(Store(tmp_path / "s"))
    registry.create(kinds.POD, "default", pod("since", labels=LABELS))
    indices = {r.name: r.job_global_index for r in registry.history.runs()}
    assert indices == {"before": None, "since": 1}
    registry.store.close()
