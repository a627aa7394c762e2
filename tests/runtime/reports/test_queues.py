"""The status of Queue objects: what is written, and written again after an error."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import AnyKind, ObjectMeta, Resource
from muster.api.elastic_quota import ElasticQuota, ElasticQuotaSpec, ElasticQuotaStatus
from muster.api.muster_v1alpha1 import Queue, QueueStatus
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue
from muster.api.volcano_v1beta1 import QueueStatus as VolcanoStatus
from muster.core.cycle import Scheduler
from muster.core.words.events import GangSubmitted
from muster.core.words.gang import PodSet
from muster.effects import Patch
from muster.kube.errors import Conflict, NotFound, Unreachable
from muster.runtime.budget import WriteBudget
from muster.runtime.reports.queues import LONGEST_PAUSE, QueueReports
from muster.translate.adopted import QueueObjects
from muster.translate.queues import queue_changed
from tests.core.words import GPU, gang, node, shape
from tests.runtime.brief import status_in


class Cluster:
    """What a mirror shows of two queues, and the core beside it."""

    def __init__(self) -> None:
        self.core, self.now = Scheduler(), datetime(2026, 1, 1, tzinfo=UTC)
        self.shown = {name: Queue(metadata=ObjectMeta(name=name, uid=name)) for name in ("a", "b")}
        self.queues = QueueObjects()
        for queue in self.shown.values():
            self.queues.change(kinds.QUEUE, queue)
            self.core.apply(queue_changed(queue))
        self.core.decide(0.0)
        self.reports = QueueReports(self.core.world.queues, self, WriteBudget())

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.shown.get(key) if kind is kinds.QUEUE else None

    def due(self) -> list[str]:
        self.writes = {write.name: write for write in self.reports.due(self.now)}
        return sorted(self.writes)

    def answer(self, name: str, error: Exception | None = None) -> None:
        write: Patch = self.writes[name]
        if error is None:
            status = msgspec.convert(status_in(write), QueueStatus)
            self.shown[name] = msgspec.structs.replace(self.shown[name], status=status)
        self.reports.written(write, error)

    def wait(self) -> float:
        return self.reports.wait(self.now.timestamp())


def test_a_status_that_could_not_be_written_is_written_after_a_pause_though_nothing_changes() -> None:
    cluster, pauses = Cluster(), []
    assert cluster.due() == ["a", "b"]
    cluster.answer("a")
    for _ in range(9):
        cluster.answer("b", Unreachable("no server"))
        pauses.append(cluster.wait())
        cluster.now += timedelta(seconds=pauses[-1] - 0.001)
        assert cluster.due() == []
        cluster.now += timedelta(seconds=0.001)
        assert cluster.due() == ["b"], "and only that"
    assert pauses == pytest.approx([1, 2, 4, 8, 16, *[LONGEST_PAUSE] * 4])
    cluster.answer("b")
    cluster.now += timedelta(seconds=100)
    assert (cluster.due(), cluster.wait()) == ([], float("inf"))


def test_a_queue_that_is_gone_is_not_written_again() -> None:
    cluster = Cluster()
    assert cluster.due() == ["a", "b"]
    cluster.answer("a")
    cluster.answer("b", NotFound("gone"))
    del cluster.shown["b"]
    cluster.now += timedelta(seconds=100)
    assert (cluster.due(), cluster.wait()) == ([], float("inf"))


class OfVolcano:
    """What a mirror shows of one Queue of Volcano."""

    def __init__(self, state: str) -> None:
        self.core, self.now = Scheduler(), datetime(2026, 1, 1, tzinfo=UTC)
        meta = ObjectMeta(name="v", uid="v", resource_version="7")
        self.shown = VolcanoQueue(
            metadata=meta, status=VolcanoStatus(state=state, allocated={} if not state else {"cpu": "1"})
        )
        self.queues = QueueObjects()
        read = self.queues.change(kinds.QUEUE_VOLCANO, self.shown)[2]
        assert read is not None
        self.core.apply(queue_changed(read))
        self.core.decide(0.0)
        self.reports = QueueReports(self.core.world.queues, self, WriteBudget())

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.shown if (kind, key) == (kinds.QUEUE_VOLCANO, "v") else None

    def due(self) -> list[Patch]:
        self.now += timedelta(seconds=100)
        return [*self.reports.due(self.now)]


@pytest.mark.parametrize("state", ["Open", "Closed", "Closing", "Unknown"])
def test_what_others_wrote_of_a_queue_of_volcano_is_left_alone(state: str) -> None:
    """Volcano's own scheduler may run, too: only what muster has allocated there is muster's to write."""
    assert OfVolcano(state).due() == []


def test_what_muster_has_written_of_a_queue_of_volcano_is_taken_back() -> None:
    cluster = OfVolcano("")
    (write,) = cluster.due()
    cluster.reports.written(write, None)
    cluster.shown = msgspec.structs.replace(
        cluster.shown, status=VolcanoStatus(state="Open", allocated={"cpu": "1"})
    )
    cluster.core.apply(node("n", gpu=1))  # something has changed
    cluster.core.decide(200.0)
    (write,) = cluster.due()
    assert write.body == {"status": {"allocated": {"cpu": None}}}


def test_a_state_is_set_only_if_nobody_has_set_one_meanwhile() -> None:
    cluster = OfVolcano("")
    (write,) = cluster.due()
    assert write.body == {
        "metadata": {"resourceVersion": "7"},
        "status": {"state": "Open", "allocated": {}},
    }
    cluster.shown = msgspec.structs.replace(cluster.shown, status=VolcanoStatus(state="Closed"))
    cluster.reports.written(write, Conflict("changed"))
    assert cluster.due() == [], "it is Closed, and nothing is allocated"


class OfKoordinator:
    """What a mirror shows of one ElasticQuota, in which a gang runs."""

    def __init__(self, name: str, used: dict[str, str | int | float] | None = None) -> None:
        self.core, self.now = Scheduler(), datetime(2026, 1, 1, tzinfo=UTC)
        self.shown = ElasticQuota(
            metadata=ObjectMeta(name=name, namespace="quotas", uid="q"),
            spec=ElasticQuotaSpec(max={GPU: 4}),
            status=ElasticQuotaStatus(used=used or {}),
        )
        self.queues = QueueObjects()
        queue, _, read = self.queues.change(kinds.ELASTIC_QUOTA, self.shown)
        assert read is not None
        self.core.apply(queue_changed(read))
        self.core.apply(node("n", gpu=8, pods=None))
        self.queue = queue
        self.reports = QueueReports(self.core.world.queues, self, WriteBudget())

    def run(self, gpus: int) -> None:
        pods = PodSet("main", shape(gpu=1), gpus, gpus)
        self.core.apply(GangSubmitted(replace(gang("g", pods, minimum=gpus), queue=self.queue)))
        self.core.decide(0.0)

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.shown if (kind, key) == (kinds.ELASTIC_QUOTA, self.shown.key) else None

    def due(self) -> list[Patch]:
        self.now += timedelta(seconds=100)
        return [*self.reports.due(self.now)]


@pytest.mark.parametrize("name", ["team", "koordinator-default-quota"])
def test_an_elastic_quota_says_what_is_used_and_what_it_may_use(name: str) -> None:
    cluster = OfKoordinator(name)
    cluster.run(3)
    (write,) = cluster.due()
    assert (write.kind, write.namespace, write.name) == (kinds.ELASTIC_QUOTA, "quotas", name)
    assert write.subresource == "", "its status is none"
    body = write.body
    assert isinstance(body, dict)
    assert body["status"] == {"used": {GPU: "3", "pods": "3"}}
    annotations = body["metadata"]["annotations"]
    assert json.loads(annotations["quota.scheduling.koordinator.sh/request"])[GPU] == "3"
    assert json.loads(annotations["quota.scheduling.koordinator.sh/runtime"])[GPU] == "3"
    meta = msgspec.structs.replace(cluster.shown.metadata, annotations={**annotations, "other": "x"})
    cluster.shown = msgspec.structs.replace(
        cluster.shown, metadata=meta, status=ElasticQuotaStatus(used=body["status"]["used"])
    )
    cluster.reports.written(write, Unreachable("no answer"))
    assert cluster.due() == [], "it shows that"


def test_what_koordinator_counts_in_a_quota_without_gangs_of_muster_is_left_alone() -> None:
    cluster = OfKoordinator("team", {"cpu": "7"})
    cluster.core.decide(0.0)
    assert cluster.due() == []
