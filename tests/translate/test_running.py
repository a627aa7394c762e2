"""What people say about the run of a job, on its object and on its pods."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster import names
from muster.api import groups
from muster.api.base import Object, ObjectMeta, Resource
from muster.api.groups import Dialect
from muster.core.words.gang import Code, Gang, GangId, Gate
from muster.translate.identity import GroupKey
from muster.translate.running import SILENT, checkpointed_at, marked, reported, run
from tests.translate.cluster import child, grouped, job, jobset, pod, pod_group, pod_spec, read, time, world

GANG = Gang(GangId("ns/g"), (), 1, 0.0)


def meta(**marks: str) -> ObjectMeta:
    keys = {
        key.lower(): getattr(names, key)
        for key in (
            "PREEMPTIBLE",
            "MIN_RUN_TIME",
            "RESTART_COST",
            "CHECKPOINT",
            "CHECKPOINT_GRACE",
            "RUN_TIME",
        )
    }
    return ObjectMeta(name="g", annotations={keys[key]: text for key, text in marks.items()})


def said(own: ObjectMeta, *pods: ObjectMeta) -> Gang:
    return marked(GANG, run(own), [run(pod) for pod in pods])


def test_silence_changes_nothing() -> None:
    assert run(ObjectMeta(name="g")) is SILENT
    assert said(ObjectMeta(name="g"), ObjectMeta(name="p")) is GANG


def test_annotations_of_the_job_object_apply_to_its_gang() -> None:
    gang = said(meta(preemptible="false", min_run_time="1h", restart_cost="5m", checkpoint="30m"))
    assert (gang.preemptible, gang.min_run_time, gang.restart_cost) == (False, 3600.0, 300.0)
    assert (gang.checkpoint_every, gang.checkpointed) == (1800.0, None)


def test_a_checkpoint_is_an_interval_or_a_time() -> None:
    assert said(meta(checkpoint="2026-01-01T00:00:00Z")).checkpointed == 1767225600.0
    assert said(meta(checkpoint="2026-01-01T01:00:00+01:00")).checkpointed == 1767225600.0
    both = said(meta(checkpoint="2026-01-01T00:00:00Z"), meta(checkpoint="30m"))
    assert (both.checkpoint_every, both.checkpointed) == (None, 1767225600.0)


def test_a_grace_period_is_bounded() -> None:
    assert said(meta(checkpoint_grace="5m")).checkpoint_grace == 300.0
    assert said(meta(checkpoint_grace="9h")).checkpoint_grace == 600.0
    assert said(meta(checkpoint_grace="1m"), meta(checkpoint_grace="2m")).checkpoint_grace == 60.0


def test_of_what_pods_report_the_oldest_counts_unless_the_job_says_later() -> None:
    assert reported(GANG, []) is GANG
    assert reported(GANG, [5.0, 3.0]).checkpointed == 3.0
    own = replace(GANG, checkpointed=4.0)
    assert reported(own, [5.0, 3.0]) is own
    assert reported(own, [5.0, 6.0]).checkpointed == 5.0


@pytest.mark.parametrize(
    ("text", "at"), [("30m", None), ("1970-01-01T00:00:05Z", 5.0), ("often", None), ("9" * 9999, None)]
)
def test_a_pod_reports_a_time(text: str, at: float | None) -> None:
    assert checkpointed_at(ObjectMeta(name="p", annotations={names.CHECKPOINT: text})) == at


TIMES = {
    "nothing is known": (GANG, None, 0.0),
    "since it was bound": (GANG, 100.0, 900.0),
    "bound in the future": (GANG, 2000.0, 0.0),
    "an interval": (replace(GANG, checkpoint_every=400.0), 100.0, 100.0),
    "a time": (replace(GANG, checkpointed=700.0), 100.0, 300.0),
    "a time before it was bound": (replace(GANG, checkpointed=50.0), 100.0, 900.0),
    "a time outweighs an interval": (replace(GANG, checkpointed=300.0, checkpoint_every=400.0), 100.0, 700.0),
    "a restart costs": (replace(GANG, restart_cost=5.0), 100.0, 905.0),
}


@pytest.mark.parametrize(("gang", "since", "lost"), TIMES.values(), ids=TIMES)
def test_the_work_that_an_eviction_loses(gang: Gang, since: float | None, lost: float) -> None:
    assert gang.time_lost(since, 1000.0) == lost


def test_a_label_says_it_as_well() -> None:
    labelled = ObjectMeta(name="g", labels={names.PREEMPTIBLE: "false"})
    assert not said(labelled).preemptible


@pytest.mark.parametrize(
    ("pods", "preemptible"),
    [([meta(preemptible="false"), meta()], False), ([meta(preemptible="true"), meta()], True)],
)
def test_of_pods_the_most_careful_counts(pods: Sequence[ObjectMeta], preemptible: bool) -> None:
    assert said(meta(), *pods).preemptible == preemptible
    gang = said(meta(restart_cost="1m"), meta(min_run_time="5m"), meta(min_run_time="10m", restart_cost="1h"))
    assert (gang.min_run_time, gang.restart_cost) == (600.0, 60.0)


def test_the_object_beats_its_pods() -> None:
    assert said(meta(preemptible="true"), meta(preemptible="false")).preemptible


DISABLED = {"scheduling.koordinator.sh/disable-preemptible": "true"}
QUOTA = {"quota.scheduling.koordinator.sh/preemptible": "false"}


@pytest.mark.parametrize(
    ("labels", "preemptible"),
    [
        (DISABLED, False),
        (QUOTA, False),
        (dict.fromkeys(DISABLED, "false"), True),
        (dict.fromkeys(QUOTA, "true"), True),
    ],
)
def test_pods_that_koordinator_never_preempts_are_no_victims(
    labels: dict[str, str], preemptible: bool
) -> None:
    """One of them is enough, whatever its group says, and whatever else it says itself."""
    one = ObjectMeta(name="p", labels=labels)
    assert said(ObjectMeta(name="g"), one, ObjectMeta(name="q")).preemptible is preemptible
    assert said(meta(preemptible="true"), one).preemptible is preemptible
    broken = ObjectMeta(name="p", labels=labels, annotations={names.CHECKPOINT: "often"})
    assert said(ObjectMeta(name="g"), broken).preemptible is preemptible
    spec = {"metadata": {"labels": labels}, "spec": pod_spec()}
    templated = job(gang="true", template=spec, parallelism=1)
    for key, objects in (
        (GroupKey(groups.POD, "ns", "a"), [pod(labels=labels)]),
        (GroupKey(groups.JOB, "ns", "j"), [templated]),
        (GroupKey(groups.JOBSET, "ns", "s"), [jobset(jobs={"w": {"template": spec}})]),
    ):
        group = read(key, world(*objects))
        assert group is not None
        assert group.gang.preemptible is preemptible


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"preemptible": "no"}, f'{names.PREEMPTIBLE} is \'no\'; write "true" or "false"'),
        ({"min_run_time": "soon"}, f"{names.MIN_RUN_TIME}: 'soon' is not a duration"),
        ({"run_time": "a while"}, f"{names.RUN_TIME}: 'a while' is not a duration"),
        ({"restart_cost": ""}, f"{names.RESTART_COST}: '' is not a duration"),
        ({"checkpoint": "often"}, f"{names.CHECKPOINT} is 'often'; write an interval (30m), or when"),
    ],
)
def test_a_running_annotation_that_cannot_be_read_gates_the_gang(marks: dict[str, str], message: str) -> None:
    gate = said(meta(**marks)).gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert gate.message.startswith(message)


def test_an_invalid_gang_stays_what_it_was() -> None:
    gang = Gang(GangId("ns/g"), (), 1, 0.0, gate=Gate(Code.INVALID, "no such queue"))
    assert marked(gang, run(meta(preemptible="no")), []).gate == gang.gate


def test_the_run_time_is_an_estimate_and_the_longest_of_several_counts() -> None:
    gang = said(meta(run_time="4h"), meta(run_time="9h"))
    assert (gang.estimate, gang.limit) == (4 * 3600.0, None)
    assert said(meta(), meta(run_time="1h"), meta(run_time="2h"), meta()).estimate == 2 * 3600.0


# How long it may last


def limit(dialect: Dialect, name: str, *objects: Resource) -> float | None:
    found = read(GroupKey(dialect, "ns", name), world(*objects))
    assert found is not None
    return found.gang.limit


def test_a_job_has_its_own_limit() -> None:
    assert limit(groups.JOB, "j", job(gang="true", activeDeadlineSeconds=60)) == 60
    assert limit(groups.JOB, "j", job(gang="true")) is None


def test_of_a_jobset_the_longest_of_its_jobs_or_what_is_left_of_its_deadline() -> None:
    both: dict[str, Object] = {"a": {"activeDeadlineSeconds": 60}, "b": {"activeDeadlineSeconds": 90}}
    assert limit(groups.JOBSET, "s", jobset(jobs=both)) == 90
    assert limit(groups.JOBSET, "s", jobset(jobs=both | {"c": {}})) is None
    assert limit(groups.JOBSET, "s", jobset(jobs=both, annotations={names.DEADLINE: "1m"})) == 60
    assert limit(groups.JOBSET, "s", jobset(jobs=both, labels={names.DEADLINE: "1m"})) == 60
    used = {names.DEADLINE: "1h", names.TIME_USED: "600.5"}
    assert limit(groups.JOBSET, "s", jobset(annotations=used)) == 2999.5
    assert limit(groups.JOBSET, "s", jobset(annotations={names.DEADLINE: "1m", names.TIME_USED: "90"})) == 0


def test_the_clock_of_a_deadline_runs_over_restarts() -> None:
    parent = jobset(annotations={names.DEADLINE: "1h", names.RUNNING_SINCE: time()})
    assert limit(groups.JOBSET, "s", parent) == 3600
    again = child(parent)
    assert limit(groups.JOBSET, "s", parent, again, pod(owner=again, node="n", created=600)) == 3000


def test_pods_of_a_group_have_limits_of_their_own() -> None:
    """The kubelet ends each. A controller would put another in its place."""
    short, long = (pod_spec(activeDeadlineSeconds=seconds) for seconds in (60, 90))
    two = [grouped("a", spec=short), grouped("b", spec=long)]
    assert limit(groups.POD_GROUP, "g", pod_group(), *two) == 90
    assert limit(groups.POD_GROUP, "g", pod_group(), *two, grouped("c")) is None
    owner = job()
    assert limit(groups.POD_GROUP, "g", pod_group(), owner, grouped("a", spec=short, owner=owner)) is None
    assert limit(groups.POD, "a", pod(spec=short)) == 60
