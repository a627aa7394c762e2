"""Whatever one object holds, the scheduler goes on, and a gang that it is nothing to starts."""

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Kind, Resource
from muster.api.core_v1 import Pod
from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Decision, Wait
from muster.core.words.events import PodsBound
from muster.core.words.gang import Code, GangId, Place, PodId
from muster.kube.decode import decode
from muster.runtime import mirror
from muster.runtime.mirror import WATCHED, Mirror
from muster.translate import dialects
from muster.translate.disclosure import Disclosure
from muster.translate.job import Reader
from muster.translate.pods import pod_bound
from muster.translate.status import explained, gang_record
from tests.objects import CLUSTER, PLAIN_SPEC, TIME, meta
from tests.spoiled import Choose, spoiled, with_times
from tests.tiers import examples

Bad = tuple[Kind[Any], Any]  # Any: an object of the kind, as JSON

WATCHED_CLUSTER: Final[list[Bad]] = [(kind, body) for kind, body in CLUSTER if kind in WATCHED]
#: A pod and the only node that it can use, in a namespace that the others have nothing to do with.
GOOD: Final[list[Bad]] = [
    (kinds.NODE, {
        "metadata": meta("good", "", labels={"good": "yes"}),
        "spec": {"taints": [{"key": "good", "value": "yes", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "1", "pods": "1"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }),
    (kinds.POD, {
        "metadata": meta("good", "elsewhere", labels={}),
        "spec": {
            **PLAIN_SPEC,
            "nodeSelector": {"good": "yes"},
            "tolerations": [{"key": "good", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
        },
    }),
]  # fmt: skip


class Watched:
    """A mirror and a core, told of objects as a reflector tells them."""

    def __init__(self, schedulers: frozenset[str] | None = None, *, whole: bool = False) -> None:
        self.mirror = Mirror(schedulers, whole=whole)
        self.core = Scheduler()
        self.now = 1_800_000_000.0
        self._items: dict[tuple[Kind[Any], str], Resource] = {}

    def put(self, kind: Kind[Any], body: Any) -> None:
        try:
            found = decode(kind, json.dumps(body).encode())
        except msgspec.DecodeError:
            return  # it is no object of anybody
        old = self._items.get((kind, found.key))
        self._items[kind, found.key] = found
        self.mirror.change(kind, old, found)

    def drop_all(self) -> None:
        for (kind, _), item in reversed(self._items.items()):
            self.mirror.change(kind, item, None)

    def cycle(self) -> list[Decision]:
        self.now += 100
        for event in self.mirror.drain(self.now).events:
            self.core.apply(event)
        decisions = list(self.core.decide(self.now))
        for decision in decisions:
            if isinstance(decision, Wait):
                told = explained(decision.explanation, Disclosure(self.mirror.names))
                json.dumps(told)
        for group in self.mirror.groups.values():
            json.dumps(gang_record(group))
        return decisions


def survives(choose: Choose, times: int, *, whole: bool) -> None:
    """A cluster of which one object is spoiled at `times` places, then mended, then gone."""
    watched = Watched(choose([None, frozenset({"muster"})]), whole=whole)
    bad = choose(range(len(WATCHED_CLUSTER)))
    kind, valid = WATCHED_CLUSTER[bad]
    body = spoiled(valid, choose, times=times)
    for other, (each, found) in enumerate(WATCHED_CLUSTER):
        watched.put(each, body if other == bad else found)
    for each, found in GOOD:
        watched.put(each, found)
    started = [d.gang for d in watched.cycle() if isinstance(d, Assign)]
    assert GangId("elsewhere/good") in started
    watched.cycle()
    watched.put(kind, valid)
    watched.cycle()
    watched.put(kind, body)
    watched.cycle()
    watched.drop_all()
    watched.cycle()
    assert not watched.mirror.groups


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), times=st.integers(1, 3), whole=st.booleans())
def test_one_bad_object_harms_its_own_gang_at_most(data: st.DataObject, times: int, whole: bool) -> None:
    """Without the boundary: each reader knows by itself what to say of whatever it finds."""

    def choose(values: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dialects, "UNREADABLE", ())
        survives(choose, times, whole=whole)


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("boundary", [True, False])
def test_absurd_times_harm_their_own_gangs_at_most(data: st.DataObject, boundary: bool) -> None:
    """In every field and mark that is a time, of every object of a namespace at once."""

    def choose(values: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    marks = {"muster.dev/checkpoint": TIME, "muster.dev/running-since": TIME}
    with pytest.MonkeyPatch.context() as patched:
        if not boundary:
            patched.setattr(dialects, "UNREADABLE", ())
        watched = Watched()
        for kind, valid in WATCHED_CLUSTER:
            annotations = {**valid["metadata"].get("annotations", {}), **marks}
            metadata = {**valid["metadata"], "annotations": annotations}
            if choose([False, True, False]):
                metadata["deletionTimestamp"] = TIME
                metadata["deletionGracePeriodSeconds"] = choose([0, -(2**63), 2**63 - 1])
            watched.put(kind, with_times({**valid, "metadata": metadata}, TIME, choose))
        for kind, body in GOOD:
            watched.put(kind, body)
        assert GangId("elsewhere/good") in [d.gang for d in watched.cycle() if isinstance(d, Assign)]
        watched.cycle()


def test_the_cluster_that_is_spoiled_is_valid() -> None:
    watched = Watched()
    for kind, body in [*WATCHED_CLUSTER, *GOOD]:
        watched.put(kind, body)
    waits = {d.gang: d.explanation for d in watched.cycle() if isinstance(d, Wait)}
    invalid = {gang for gang, explanation in waits.items() if explanation.code is Code.INVALID}
    assert invalid == {"ns/p"}, "its pod asks for what is not supported, and all others for what is"
    assert {"ns/job", "ns/set", "ns/x", "ns/k", "ns/staged/a", "ns/staged/b"} < waits.keys()


TOPOLOGY = "gang.scheduling.koordinator.sh/network-topology-spec"
DESCRIBED = {"gang.scheduling.koordinator.sh/name": "bad"}
MINIMUM = "gang.scheduling.koordinator.sh/min-available"


def gather(*multiples: int) -> str:
    return json.dumps({"gatherStrategy": [{"layer": "node", "podCountMultiple": each} for each in multiples]})


def annotated(**annotations: str) -> Bad:
    return kinds.POD, {"metadata": meta("bad", annotations=annotations), "spec": PLAIN_SPEC}


def job(**spec: Any) -> Bad:
    labels = {"muster.dev/gang": "true"}
    return kinds.JOB, {
        "metadata": meta("bad", labels=labels),
        "spec": {"template": {"spec": PLAIN_SPEC}, **spec},
    }


def jobset(jobs: Any) -> Bad:
    return kinds.JOBSET, {
        "metadata": meta("bad", labels={"muster.dev/gang": "true"}),
        "spec": {"replicatedJobs": jobs},
    }


INT32 = "Expected `int` <= 2147483647"
REFUSED = [
    (annotated(**{TOPOLOGY: gather(10**19)}), f"{TOPOLOGY}: {INT32} - at `$.gatherStrategy[0]"),
    (annotated(**{TOPOLOGY: gather(3_000_017)}), "gatherStrategy[0].podCountMultiple is 3000017"),
    (
        annotated(**{TOPOLOGY: gather(101, 103, 107)}),
        "[2].podCountMultiple is 107, which, with those before it, only gangs of 1113121 pods",
    ),
    (annotated(**{TOPOLOGY: "[" * 5000}), TOPOLOGY),
    (annotated(**DESCRIBED, **{MINIMUM: "9" * 5000}), "min-available is '99999"),
    (annotated(**{"muster.dev/gpu-share": "000000001" + "9" * 5000}), "gpu-share is '00000000199999"),
    (job(parallelism=2**40), f"spec.parallelism: {INT32}, got 1099511627776"),
    (job(parallelism=60_000), "60000 pods at once; muster plans at most 50000"),
    (job(template={"spec": {"containers": 5}}), "spec.template.spec.containers: Expected `array`, got `int`"),
    (jobset([{"name": "w", "template": {"spec": {"parallelism": "2"}}}]), "spec.parallelism: Expected `int`"),
    (jobset("none"), 'spec.replicatedJobs: Expected `array`, got `str`, got "none"'),
    (jobset([{"name": "w", "replicas": 10**19}]), f"{INT32}, got 10000000000000000000"),
]


@pytest.mark.parametrize(("bad", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_errors_name_the_field_and_its_value(bad: Bad, told: str) -> None:
    watched = Watched()
    for kind, body in [*GOOD, bad]:
        watched.put(kind, body)
    decisions = watched.cycle()
    assert [d.gang for d in decisions if isinstance(d, Assign)] == ["elsewhere/good"]
    [wait] = [d for d in decisions if isinstance(d, Wait)]
    assert (wait.gang, wait.explanation.code) == ("ns/bad", Code.INVALID)
    assert told in wait.explanation.message


@pytest.mark.parametrize("index", ["9" * 5000, "²", "-1", "4294967296", ""])
def test_a_completion_index_that_is_none_does_not_count(index: str) -> None:
    watched = Watched()
    [job] = [body for kind, body in WATCHED_CLUSTER if body["metadata"]["name"] == "job"]
    pod = {
        "metadata": meta(
            "job-0",
            owner=("batch/v1", "Job", "job"),
            annotations={"batch.kubernetes.io/job-completion-index": index},
        ),
        "spec": PLAIN_SPEC,
    }
    for kind, body in [*GOOD, (kinds.JOB, job), (kinds.POD, pod)]:
        watched.put(kind, body)
    assert [d.gang for d in watched.cycle() if isinstance(d, Assign)] == ["elsewhere/good"]
    group = watched.mirror.groups[GangId("ns/job")]
    assert group.members[PodId("uid-job-0")].place == Place("main", 0)


def test_an_unexpected_error_of_a_reader_harms_its_own_gang_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(*_: Any) -> None:
        raise OverflowError("int too large")

    monkeypatch.setattr(Reader, "read", read)
    watched = Watched()
    for kind, body in [*WATCHED_CLUSTER, *GOOD]:
        watched.put(kind, body)
    decisions = watched.cycle()
    assert "elsewhere/good" in [d.gang for d in decisions if isinstance(d, Assign)]
    [wait] = [d for d in decisions if isinstance(d, Wait) and d.gang == "ns/job"]
    assert wait.explanation.code is Code.INVALID
    assert wait.explanation.message == "cannot be read: OverflowError: int too large"
    assert watched.core.world.nodes.used.sum() > 0, "its pod on n0 is charged"
    assert "job ns/job cannot be read" in caplog.messages


def test_a_pod_that_cannot_be_charged_is_set_aside_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def charge(pod: Pod, *rest: Any) -> PodsBound:
        if pod.metadata.name == "job-0":
            raise OverflowError("int too large")
        return pod_bound(pod, *rest)

    monkeypatch.setattr(mirror, "pod_bound", charge)
    watched = Watched()
    for kind, body in [*WATCHED_CLUSTER, *GOOD]:
        watched.put(kind, body)
    assert "elsewhere/good" in [d.gang for d in watched.cycle() if isinstance(d, Assign)]
    assert "uid-job-0 cannot be read, and is set aside" in caplog.messages
    assert watched.core.world.nodes.used.sum() > 0, "another pod of the same node is charged"
