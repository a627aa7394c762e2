"""The scheduler's metrics, on the embedded store with the real core, in virtual time."""

import asyncio
from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry

from muster.api import kinds
from muster.core.cycle import Scheduler
from muster.core.words.decisions import Evict, Victim
from muster.core.words.devices import (
    DEVICE_CLASS,
    DeviceId,
    DeviceKind,
    DeviceKindChanged,
    DevicesChanged,
    KindId,
)
from muster.core.words.gang import GangId
from muster.journal import Tee
from muster.kube.informers import Informers
from muster.runtime.leader import Term
from muster.runtime.loop import run
from muster.runtime.metrics import MOST, ClusterState, Metrics
from muster.runtime.starts import Decisions, Outcome, Start
from muster.runtime.watched import WatchedMirror
from tests.runtime.test_loop import Cluster, pod

pytestmark = pytest.mark.looptime


def samples(registry: CollectorRegistry, name: str) -> Mapping[tuple[str, ...], float]:
    """The values of a metric by its labels, in order of their names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


async def test_gangs_queues_and_nodes_are_as_they_are_at_the_moment_of_the_scrape() -> None:
    cluster = Cluster()
    cluster.node("a", cpu=4)
    cluster.node("b", cpu=4)
    for name, size, cpu in (("runs", 2, "3"), ("waits", 1, "2")):
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
        for index in range(size):
            label = {"scheduling.x-k8s.io/pod-group": name}
            cluster.create(kinds.POD, pod(f"{name}-{index}", cpu, labels=label))
    cluster.create(kinds.POD, pod("alone", "0"))
    informers, registry, decisions = Informers(cluster.client), CollectorRegistry(), Decisions()
    mirror = WatchedMirror(informers)
    metrics = Metrics(registry, decisions, informers)
    core = Scheduler()
    registry.register(ClusterState(mirror, core, decisions, informers))
    recorder = Tee((decisions, metrics))
    parts = (
        informers.run(),
        run(
            cluster.client,
            informers,
            cluster.clock,
            Term(1, sole=True),
            scheduler=core,
            journal=recorder,
            timed=metrics.cycles.observe,
            mirror=mirror,
        ),
    )
    tasks = [asyncio.create_task(part) for part in parts]

    async def bound() -> bool:
        return len(await cluster.bound()) == 3

    await cluster.until(bound)
    await asyncio.sleep(5)
    core.apply(DeviceKindChanged(KindId(0), DeviceKind(frozenset({f"{DEVICE_CLASS}gpu"}))))
    core.apply(DevicesChanged("a", ((DeviceId("driver/pool/gpu"), KindId(0)),)))
    # labels in order of their names: phase, queue, reason
    assert samples(registry, "muster_gangs") == {
        ("Standing", "default", ""): 2,
        ("Waiting", "default", "Fragmented"): 1,
    }
    assert samples(registry, "muster_pods") == {
        ("Bound", "default", ""): 3,
        ("Waiting", "default", "Fragmented"): 1,
    }
    assert samples(registry, "muster_used")["cpu",] == 6
    assert samples(registry, "muster_capacity")["cpu",] == 8
    assert (f"{DEVICE_CLASS}gpu",) not in samples(registry, "muster_capacity"), "what is used is unknown"
    assert samples(registry, "muster_utilisation_ratio")["cpu",] == 0.75
    assert samples(registry, "muster_fragmentation_ratio")["cpu",] == 0.25
    assert samples(registry, "muster_nodes") == {("Ready",): 2, ("Cordoned",): 0, ("NotReady",): 0}
    assert samples(registry, "muster_queue_used")["default", "cpu"] == 6
    assert samples(registry, "muster_plans_total")["bound",] == 2
    assert samples(registry, "muster_commit_seconds_count")[()] == 2
    assert samples(registry, "muster_wait_seconds_count")["default",] == 2
    assert samples(registry, "muster_decisions_total")["assign",] == 2
    assert samples(registry, "muster_decision_seconds_count")[()] > 0
    assert samples(registry, "muster_watched_objects")["pods",] == 4
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    cluster.store.close()


async def test_work_lost_to_evictions_is_counted_and_labels_are_bounded() -> None:
    registry, decisions = CollectorRegistry(), Decisions()
    cluster = Cluster()
    metrics = Metrics(registry, decisions, Informers(cluster.client))
    victims = (Victim(GangId("a")), Victim(GangId("b"), reclaimed=True))
    metrics.write(1.0, Evict(victims, GangId("c"), work_lost=12.5))
    assert samples(registry, "muster_evicted_gangs_total") == {("preemption",): 1, ("reclaim",): 1}
    assert samples(registry, "muster_lost_resource_seconds_total")[()] == 12.5
    for number in range(MOST + 50):
        start = Start("1-1", GangId("g"), f"q{number}", 0.0, 1.0, 1, 1, (), set())
        decisions.on_start[0](start)
        decisions.on_end[0](start, 2.0, Outcome.FAILED)
    waits = samples(registry, "muster_wait_seconds_count")
    assert (len(waits), waits["other",]) == (MOST + 1, 50)
    assert samples(registry, "muster_plans_total")["failed",] == MOST + 50
    cluster.store.close()


async def test_the_lag_of_a_watch_is_the_time_from_the_answer_until_it_shows_the_write() -> None:
    registry, cluster = CollectorRegistry(), Cluster()
    informers = Informers(cluster.client)
    metrics = Metrics(registry, Decisions(), informers)
    watching = asyncio.create_task(informers.run())
    await informers.synced([kinds.POD])
    made = await cluster.client.create(kinds.POD, "default", pod("p"))
    metrics.wrote(kinds.POD, int(made.metadata.resource_version))
    metrics.wrote(kinds.NODE, 10**9)

    async def shown() -> bool:
        return samples(registry, "muster_watch_lag_seconds_count").get(("pods",)) == 1

    await cluster.until(shown)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    cluster.store.close()
