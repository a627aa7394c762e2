"""LatticeJobs: each has a BatchJob of its name, and says what that one says."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object, owner
from muster.api.kinds import BATCH_JOB, CEDAR_POLICY, JOBSET, LATTICE_JOB
from muster.api.muster_v1alpha1 import BatchJobStatus
from muster.app.wiring.batch_jobs import Site, controllers
from muster.app.wiring.compile_queue import AtOnce
from muster.compiler import Facts
from muster.controllers import lattice_job
from muster.controllers.caches import Caches
from muster.controllers.driver import Controller
from muster.effects import Create, Effect, Patch, RecordEvent
from muster.effects.execute import execute
from muster.kube.errors import AlreadyExists
from tests.controllers.memory import START, Memory, MemoryClient
from tests.workloads.batch.jobs import TRAINING, small

FACTS = Facts()
KEY = "ml/job"
KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"


class Cluster:
    """A server in memory with one LatticeJob, and the controllers of LatticeJobs and BatchJobs."""

    def __init__(self, text: str | None = None, **metadata: Any) -> None:
        self.memory = Memory()
        self.said: list[RecordEvent] = []
        site = Site(lambda: FACTS, lambda: START, strict=True, compiler=AtOnce(), lattice_jobs=True)
        self.batch_job, *_, self.controller = controllers(site)
        spec = yaml.safe_load(text or small())["spec"]
        self.memory.create(LATTICE_JOB, "ml", {"metadata": {"name": "job", **metadata}, "spec": spec})

    def change(self, **fields: Any) -> None:
        """Replaces fields of the LatticeJob; the server counts that."""
        job = self.memory.json(LATTICE_JOB, KEY)
        generation = job["metadata"].get("generation", 0) + 1
        metadata = {**job["metadata"], **fields.pop("metadata", {}), "generation": generation}
        changes = {"metadata": metadata, **fields}
        patch: list[Object] = [
            {"op": "add", "path": f"/{key}", "value": each} for key, each in changes.items()
        ]
        self.memory.patch(LATTICE_JOB, "ml", "job", patch)

    def decided(self, controller: Controller[Any]) -> Sequence[Effect]:
        kinds = list(dict.fromkeys(watch.kind for watch in controller.watches))
        caches: Caches = self.memory.caches(kinds, controller.indexes)
        observed = controller.observe(caches, KEY)
        return [] if observed is None else controller.reconcile(observed, START)

    def convert(self) -> None:
        """Runs the controller of LatticeJobs until nothing changes."""
        for _ in range(5):
            effects = self.decided(self.controller)
            self.said += self.memory.apply(effects)
            if not effects:
                return
        raise AssertionError("the controller does not come to rest")

    def settle(self) -> None:
        """Runs both controllers until nothing changes."""
        for _ in range(10):
            before = self.memory.revision
            self.convert()
            self.memory.apply(self.decided(self.batch_job))
            if self.memory.revision == before:
                return
        raise AssertionError("the controllers do not come to rest")

    def say(self, **status: Any) -> None:
        """The controller of BatchJobs writes this status."""
        self.memory.patch(BATCH_JOB, "ml", "job", {"status": status}, "status")

    def permit(self) -> None:
        spec = {"policies": "permit (principal, action, resource);"}
        self.memory.create(CEDAR_POLICY, "", {"metadata": {"name": "all"}, "spec": spec})

    @property
    def status(self) -> BatchJobStatus:
        return self.memory.read(LATTICE_JOB, KEY).status

    @property
    def kept(self) -> Object:
        return self.memory.json(BATCH_JOB, KEY)


def test_the_batch_job_has_all_that_the_author_wrote_and_its_owner() -> None:
    noted = {"muster.dev/checkpoint": "5m", KUBECTL: "{}"}
    cluster = Cluster(TRAINING, labels={"team": "a"}, annotations=noted)
    cluster.convert()
    job, kept = cluster.memory.read(LATTICE_JOB, KEY), cluster.kept
    assert kept["spec"] == yaml.safe_load(TRAINING)["spec"]
    assert (kept["apiVersion"], kept["kind"]) == (BATCH_JOB.api_version, BATCH_JOB.kind)
    assert kept["metadata"]["labels"] == {"team": "a"}
    assert kept["metadata"]["annotations"] == {"muster.dev/checkpoint": "5m"}
    assert kept["metadata"]["ownerReferences"] == [owner(job, LATTICE_JOB)]


CHANGES: list[dict[str, Any]] = [
    {"spec": {"tasks": {"other": {"replicas": 2}}}},
    {"spec": {}},
    {"spec": {"a": None, "b": [None, {"c": None}]}},  # null is a value: a variable of null is empty text
    {"metadata": {"labels": {"b": "c"}}},
    {"metadata": {"annotations": {}}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_is_carried_over_whole(change: dict[str, Any]) -> None:
    cluster = Cluster(labels={"a": "b"}, annotations={"c": "d"})
    cluster.convert()
    cluster.change(**change)
    cluster.convert()
    job, kept = cluster.memory.json(LATTICE_JOB, KEY), cluster.kept
    assert kept["spec"] == job["spec"]
    for each in ("labels", "annotations"):
        assert kept["metadata"][each] == job["metadata"][each]


def test_true_is_not_one() -> None:
    cluster = Cluster()
    cluster.change(spec={"hostNetwork": 1})
    cluster.convert()
    cluster.change(spec={"hostNetwork": True})
    cluster.convert()
    assert cluster.kept["spec"]["hostNetwork"] is True


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
SPECS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@given(before=SPECS, after=SPECS)
def test_whatever_the_specs_are_the_last_one_is_carried_over(before: Object, after: Object) -> None:
    cluster = Cluster()
    cluster.change(spec=copy.deepcopy(before))
    cluster.convert()
    cluster.change(spec=copy.deepcopy(after))
    cluster.convert()
    assert repr(cluster.kept["spec"]) == repr(after)


def test_what_somebody_changes_in_the_batch_job_is_put_back() -> None:
    cluster = Cluster()
    cluster.convert()
    cluster.memory.patch(
        BATCH_JOB, "ml", "job", {"spec": {"queue": "theirs"}, "metadata": {"labels": {"a": "b"}}}
    )
    cluster.convert()
    assert "queue" not in cluster.kept["spec"]
    assert not cluster.kept["metadata"]["labels"]


def test_the_chapters_job_is_denied_with_all_findings_and_then_runs() -> None:
    cluster = Cluster(TRAINING)
    cluster.settle()
    said = [each.message for each in cluster.status.findings]
    assert len(said) == 7
    assert cluster.status == cluster.memory.read(BATCH_JOB, KEY).status
    [event] = cluster.said
    assert (event.type, event.reason, event.about["kind"]) == ("Warning", "Denied", "LatticeJob")
    cluster.permit()
    cluster.settle()
    assert cluster.status.findings == []
    cluster.memory.patch(JOBSET, "ml", "job", {"spec": {"suspend": False}})
    cluster.settle()
    assert cluster.status.phase == "Running"
    assert {each.type for each in cluster.said[1:]} == {"Normal"}
    assert cluster.said[-1].reason == "Running"


def test_a_spec_that_no_job_has_says_which_field_and_what_to_write() -> None:
    cluster = Cluster("spec: {tasks: {work: {replica: 3, workload: {containers: {app: {image: 5}}}}}}")
    cluster.settle()
    said = {each.field: each.message for each in cluster.status.findings}
    assert said["spec.tasks.work.replica"] == "unknown field; did you mean replicas?"
    assert cluster.said[-1].reason == "Denied"
    assert cluster.status.phase == "Pending"


@pytest.mark.parametrize("owners", [[], [{"controller": True}], [{"controller": False, "uid": "job's"}]])
def test_a_batch_job_of_somebody_else_is_left_alone(owners: list[Object]) -> None:
    cluster = Cluster()
    uid = cluster.memory.read(LATTICE_JOB, KEY).metadata.uid
    whole = [
        {
            "apiVersion": LATTICE_JOB.api_version,
            "kind": LATTICE_JOB.kind,
            "name": "job",
            "uid": "other",
            **each,
        }
        | ({"uid": uid} if each.get("uid") == "job's" else {})
        for each in owners
    ]
    theirs = {"metadata": {"name": "job", "ownerReferences": whole}, "spec": {"queue": "theirs"}}
    cluster.memory.create(BATCH_JOB, "ml", theirs)
    before = copy.deepcopy(cluster.kept)
    cluster.convert()
    assert cluster.kept == before
    assert cluster.status.message == (
        "BatchJob job exists, and this LatticeJob does not own it; delete one of the two"
    )
    assert (cluster.status.phase, [each.message for each in cluster.said]) == (
        "Pending",
        [cluster.status.message],
    )
    cluster.memory.delete(BATCH_JOB, "ml", "job")
    cluster.convert()
    assert cluster.kept["metadata"]["ownerReferences"][0]["uid"] == uid


async def test_a_batch_job_that_appears_meanwhile_is_not_taken_over() -> None:
    cluster = Cluster()
    [create] = cluster.decided(cluster.controller)
    assert isinstance(create, Create)
    cluster.memory.create(BATCH_JOB, "ml", {"metadata": {"name": "job"}, "spec": {}})
    with pytest.raises(AlreadyExists):
        await execute(MemoryClient(cluster.memory), create, START)


def test_a_change_is_for_the_batch_job_that_was_seen() -> None:
    cluster = Cluster()
    cluster.convert()
    cluster.change(spec={"queue": "a"})
    [patch] = cluster.decided(cluster.controller)
    assert isinstance(patch, Patch)
    uid = cluster.kept["metadata"]["uid"]
    assert patch.body[0] == {"op": "test", "path": "/metadata/uid", "value": uid}  # type: ignore[index]


@pytest.mark.parametrize(("decided", "seen"), [(1, 2), (2, 3)])
def test_the_generation_is_that_of_the_spec_that_was_decided_on(decided: int, seen: int) -> None:
    """The BatchJob's second generation is the LatticeJob's third: a status of the first is of before."""
    cluster = Cluster()
    cluster.convert()
    cluster.change()
    cluster.change()
    cluster.memory.patch(LATTICE_JOB, "ml", "job", {"status": {"observedGeneration": 2}}, "status")
    cluster.change()
    cluster.convert()
    cluster.memory.patch(LATTICE_JOB, "ml", "job", {"metadata": {"generation": 3}})
    cluster.memory.patch(BATCH_JOB, "ml", "job", {"metadata": {"generation": 2}})
    cluster.say(phase="Running", message="runs", observedGeneration=decided)
    cluster.convert()
    assert cluster.status.observed_generation == seen


def test_a_status_that_shrinks_leaves_nothing_behind() -> None:
    cluster = Cluster()
    cluster.convert()
    cluster.say(phase="Pending", cost={"hourlyCost": "1", "breakdown": {"cpu": "1"}}, risk="much")
    cluster.convert()
    assert cluster.status.cost is not None
    cluster.say(cost=None, risk="")
    cluster.convert()
    assert cluster.status == BatchJobStatus(phase="Pending")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_job_that_has_ended_stays_ended(phase: str) -> None:
    cluster = Cluster()
    cluster.convert()
    cluster.change(spec={"queue": "a"})  # while the job ended
    cluster.say(phase=phase, message="over")
    cluster.convert()
    assert cluster.status.phase == phase
    assert cluster.said[-1].type == ("Warning" if phase == "Failed" else "Normal")
    cluster.memory.delete(BATCH_JOB, "ml", "job")
    cluster.change(spec={"queue": "b"})
    cluster.convert()
    assert (BATCH_JOB, KEY) not in cluster.memory.objects


def test_a_batch_job_that_is_deleted_before_its_end_comes_back() -> None:
    cluster = Cluster()
    cluster.convert()
    cluster.memory.patch(BATCH_JOB, "ml", "job", {"metadata": {"finalizers": ["example.com/slow"]}})
    cluster.memory.delete(BATCH_JOB, "ml", "job")
    cluster.convert()
    assert "deletionTimestamp" in cluster.kept["metadata"]
    cluster.memory.patch(BATCH_JOB, "ml", "job", {"metadata": {"finalizers": None}})
    cluster.convert()
    assert "deletionTimestamp" not in cluster.kept["metadata"]


def test_a_lattice_job_that_is_being_deleted_makes_nothing() -> None:
    cluster = Cluster(finalizers=["example.com/slow"])
    cluster.memory.delete(LATTICE_JOB, "ml", "job")
    cluster.convert()
    assert (BATCH_JOB, KEY) not in cluster.memory.objects


def test_only_a_site_with_lattice_jobs_has_their_controller() -> None:
    for wanted in (False, True):
        site = Site(lambda: FACTS, lambda: START, strict=True, compiler=AtOnce(), lattice_jobs=wanted)
        names = [each.name for each in controllers(site)]
        assert (lattice_job.controller().name in names) is wanted
