"""Queues of other schedulers in the mirror: which queue gangs wait in."""

import msgspec

from muster import names
from muster.api.elastic_quota import DEFAULT, NAME, NAMESPACES, ElasticQuota
from muster.api.kinds import ELASTIC_QUOTA, JOB, POD, POD_GROUP_SIGS
from muster.core.words.events import GangSubmitted, QueueChanged, QueueRemoved
from muster.core.words.gang import GangId
from muster.runtime.mirror import Mirror
from tests.translate import cluster


def quota(name: str, namespace: str, serves: str = "") -> ElasticQuota:
    annotations = {NAMESPACES: serves} if serves else {}
    meta = {"name": name, "namespace": namespace, "annotations": annotations}
    return msgspec.convert({"metadata": meta, "spec": {"max": {"cpu": 1}}}, ElasticQuota)


def queues(mirror: Mirror) -> dict[GangId, str]:
    """The queue of each gang that the core is told of."""
    events = mirror.drain(0.0).events
    return {event.gang.id: event.gang.queue for event in events if isinstance(event, GangSubmitted)}


def test_pods_name_their_quota_by_label() -> None:
    mirror, label = Mirror(), "pod-group.scheduling.sigs.k8s.io"
    mirror.change(POD, None, cluster.pod("a", labels={NAME: "team"}))
    mirror.change(POD, None, cluster.pod("b", labels={NAME: DEFAULT}))
    mirror.change(POD, None, cluster.pod("c", labels={NAME: "team", names.QUEUE: "own"}))
    mirror.change(JOB, None, cluster.job("j", gang="true", template={"metadata": {"labels": {NAME: "team"}}}))
    mirror.change(POD_GROUP_SIGS, None, cluster.pod_group())
    mirror.change(POD, None, cluster.pod("d", labels={NAME: "team", label: "g"}))
    assert queues(mirror) == {
        "ns/a": "team",
        "ns/b": "default",
        "ns/c": "own",
        "ns/j": "team",
        "ns/g": "team",
    }


def test_a_namespace_that_a_quota_serves_waits_in_it() -> None:
    mirror = Mirror()
    mirror.change(POD, None, cluster.pod("a"))
    mirror.change(POD, None, cluster.pod("b", labels={names.QUEUE: "own"}))
    mirror.change(JOB, None, cluster.job("j", gang="true"))
    assert queues(mirror) == {"ns/a": "default", "ns/b": "own", "ns/j": "default"}
    by_annotation, by_name = quota("team", "quotas", '["ns", "other"]'), quota("ns", "ns")
    mirror.change(ELASTIC_QUOTA, None, by_annotation)
    assert queues(mirror) == {"ns/a": "team", "ns/j": "team"}
    mirror.change(ELASTIC_QUOTA, None, by_name)
    assert queues(mirror) == {"ns/a": "ns", "ns/j": "ns"}, "that of its own name comes first"
    mirror.change(ELASTIC_QUOTA, by_name, None)
    mirror.change(ELASTIC_QUOTA, by_annotation, None)
    assert queues(mirror) == {"ns/a": "default", "ns/j": "default"}


def test_a_quota_of_a_tenant_takes_no_gangs_of_another_namespace() -> None:
    mirror = Mirror(adopts=frozenset({"koordinator/quotas"}))
    mirror.change(POD, None, cluster.pod("a"))
    mirror.drain(0.0)
    hostile = quota("ns", "tenant", '["ns"]')
    mirror.change(ELASTIC_QUOTA, None, hostile)
    mirror.change(ELASTIC_QUOTA, None, quota("ns", "ns"))
    mirror.change(ELASTIC_QUOTA, hostile, None)
    assert mirror.drain(0.0).events == []


def test_the_core_is_told_of_a_quota_and_that_it_is_gone() -> None:
    mirror, one = Mirror(), quota("team", "quotas")
    mirror.change(ELASTIC_QUOTA, None, one)
    (told,) = mirror.drain(0.0).events
    assert isinstance(told, QueueChanged)
    assert told.queue.name == "team"
    mirror.change(ELASTIC_QUOTA, one, one)
    assert mirror.drain(0.0).events == []
    mirror.change(ELASTIC_QUOTA, one, None)
    assert mirror.drain(0.0).events == [QueueRemoved("team")]
