"""What people say about the run of a job, on its object and on its pods."""

from collections.abc import Sequence

import pytest

from muster import names
from muster.api.base import ObjectMeta
from muster.core.gang import Code, Gang, GangId, Gate
from muster.translate.running import SILENT, marked, run

GANG = Gang(GangId("ns/g"), (), 1, 0.0)


def meta(**marks: str) -> ObjectMeta:
    keys = {
        key.lower(): getattr(names, key)
        for key in ("PREEMPTIBLE", "MIN_RUN_TIME", "RESTART_COST", "CHECKPOINT")
    }
    return ObjectMeta(name="g", annotations={keys[key]: text for key, text in marks.items()})


def said(own: ObjectMeta, *pods: ObjectMeta) -> Gang:
    return marked(GANG, run(own), [run(pod) for pod in pods])


def test_silence_changes_nothing() -> None:
    assert run(ObjectMeta(name="g")) is SILENT
    assert said(ObjectMeta(name="g"), ObjectMeta(name="p")) is GANG


def test_what_the_object_says() -> None:
    gang = said(meta(preemptible="false", min_run_time="1h", restart_cost="5m", checkpoint="30m"))
    assert (gang.preemptible, gang.min_run_time, gang.restart_cost) == (False, 3600.0, 300.0)
    assert (gang.checkpoint_every, gang.checkpointed) == (1800.0, None)


def test_a_checkpoint_is_an_interval_or_a_time() -> None:
    assert said(meta(checkpoint="2026-01-01T00:00:00Z")).checkpointed == 1767225600.0
    assert said(meta(checkpoint="2026-01-01T01:00:00+01:00")).checkpointed == 1767225600.0
    both = said(meta(checkpoint="2026-01-01T00:00:00Z"), meta(checkpoint="30m"))
    assert (both.checkpoint_every, both.checkpointed) == (None, 1767225600.0)


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


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"preemptible": "no"}, f'{names.PREEMPTIBLE} is \'no\'; write "true" or "false"'),
        ({"min_run_time": "soon"}, f"{names.MIN_RUN_TIME}: 'soon' is not a duration"),
        ({"restart_cost": ""}, f"{names.RESTART_COST}: '' is not a duration"),
        ({"checkpoint": "often"}, f"{names.CHECKPOINT} is 'often'; write an interval (30m), or when"),
    ],
)
def test_what_cannot_be_read_is_refused(marks: dict[str, str], message: str) -> None:
    gate = said(meta(**marks)).gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert gate.message.startswith(message)


def test_an_invalid_gang_stays_what_it_was() -> None:
    gang = Gang(GangId("ns/g"), (), 1, 0.0, gate=Gate(Code.INVALID, "no such queue"))
    assert marked(gang, run(meta(preemptible="no")), []).gate == gang.gate
