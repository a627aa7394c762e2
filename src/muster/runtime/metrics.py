"""The scheduler's metrics. Their labels are bounded: queues that exist, phases, reason codes, resources.

Decisions and outcomes are counted when the scheduler records them (`journal.Recorder`). The present state is
read from the mirror and the core when Prometheus asks. docs/reference/daemons.md lists every metric.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np
import prometheus_client as prometheus
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from muster.api.base import AnyKind, revision
from muster.api.kinds import GANG, POD
from muster.api.muster_v1alpha1 import Gang
from muster.core.cycle import Scheduler
from muster.core.demand import Demand
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Decision, Evict
from muster.core.words.devices import DEVICE_CLASS
from muster.core.words.events import Event
from muster.core.words.gang import GangId
from muster.core.world.nodes import UNLIMITED
from muster.journal import Mark
from muster.kube.informers import Informers
from muster.names import GPU, GPU_SHARE
from muster.runtime.starts import Decisions, Outcome, Start
from muster.runtime.watched import WatchedMirror
from muster.translate.group import Group
from muster.translate.status import Phase

#: Most queues and resources that are told apart; what exceeds this is summed as `OTHER`.
MOST: Final = 200
OTHER: Final = "other"
#: Buckets in seconds.
SHORT: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
COMMITS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
WAITS: Final = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 604_800.0)


#: Kinds whose watches are measured.
_WRITTEN: Final[tuple[AnyKind, ...]] = (GANG, POD)


class Metrics:
    """Counts what is recorded: give it, and `decisions` before it, the scheduler's records."""

    def __init__(self, registry: CollectorRegistry, decisions: Decisions, informers: Informers) -> None:
        self._informers = informers
        self.cycles = prometheus.Histogram(
            "muster_decision_seconds", "Time of one scheduling cycle.", buckets=SHORT, registry=registry
        )
        self._decided = prometheus.Counter(
            "muster_decisions", "Decisions of the scheduler.", ["decision"], registry=registry
        )
        self._commits = prometheus.Histogram(
            "muster_commit_seconds",
            "Time from the decision to start a gang until all its assigned places are filled.",
            buckets=COMMITS,
            registry=registry,
        )
        self._starts = prometheus.Counter(
            "muster_plans", "Starts of gangs by their outcome.", ["outcome"], registry=registry
        )
        for outcome in Outcome:
            self._starts.labels(outcome.value)
        self._waits = prometheus.Histogram(
            "muster_wait_seconds",
            "Time from the submission or last preemption of a gang to the decision to start it.",
            ["queue"],
            buckets=WAITS,
            registry=registry,
        )
        self._evicted = prometheus.Counter(
            "muster_evicted_gangs",
            "Gangs evicted for others, as a whole or in part.",
            ["kind"],
            registry=registry,
        )
        for kind in ("preemption", "reclaim"):
            self._evicted.labels(kind)
        self._lost = prometheus.Counter(
            "muster_lost_resource_seconds",
            "Work that evictions lost and that has to be done again.",
            registry=registry,
        )
        self._queues: set[str] = set()
        decisions.on_start.append(self._started)
        decisions.on_end.append(self._ended)
        self._lag = prometheus.Histogram(
            "muster_watch_lag_seconds",
            "Time from the API server's answer to a write until the watch shows it.",
            ["kind"],
            buckets=SHORT,
            registry=registry,
        )
        self._written: dict[AnyKind, tuple[int, float]] = {}
        for written in _WRITTEN:
            informers[written].subscribe(lambda old, new: None, partial(self._shown, written))

    def write(self, at: float, what: Event | Decision | Mark) -> None:
        if isinstance(what, Decision):
            self._decided.labels(type(what).__name__.lower()).inc()
            if isinstance(what, Evict):
                for victim in what.victims:
                    self._evicted.labels("reclaim" if victim.reclaimed else "preemption").inc()
                self._lost.inc(max(what.work_lost, 0.0))

    def wrote(self, kind: AnyKind, written: int) -> None:
        """Notes a write that the API server has just answered; of each kind one at a time is followed."""
        if written and kind in _WRITTEN:
            self._written.setdefault(kind, (written, time.monotonic()))
            self._shown(kind, self._informers[kind].resource_version)  # the watch may have been quicker

    def _shown(self, kind: AnyKind, resource_version: str) -> None:
        if kind in self._written:
            written, since = self._written[kind]
            if revision(resource_version) >= written:
                del self._written[kind]
                self._lag.labels(kind.plural).observe(time.monotonic() - since)

    def _started(self, start: Start) -> None:
        if start.waited is not None:
            if len(self._queues) < MOST:
                self._queues.add(start.queue)
            queue = start.queue if start.queue in self._queues else OTHER
            self._waits.labels(queue).observe(start.waited)

    def _ended(self, start: Start, at: float, outcome: Outcome) -> None:
        self._starts.labels(outcome.value).inc()
        if outcome is Outcome.BOUND:
            self._commits.observe(at - start.at)


class ClusterState(Collector):
    """What the leader knows of gangs, queues and nodes at the moment of the scrape."""

    def __init__(
        self, mirror: WatchedMirror, core: Scheduler, decisions: Decisions, informers: Informers
    ) -> None:
        self._mirror, self._core, self._decisions = mirror, core, decisions
        self._informers = informers

    def collect(self) -> Iterator[Metric]:
        yield from self._gangs()
        yield from self._shares()
        yield from self._nodes()
        objects = GaugeMetricFamily("muster_watched_objects", "Objects in the mirror.", labels=["kind"])
        for kind, count in self._informers.counts():
            objects.add_metric([kind], count)
        yield objects

    def _gangs(self) -> Iterator[Metric]:
        gangs: Counter[tuple[str, str, str]] = Counter()
        pods: Counter[tuple[str, str, str]] = Counter()
        queues = self._bounded(self._core.world.queues.accounts)
        for group in self._mirror.groups.values():
            phase, reason = self._phase(group)
            queue = group.gang.queue
            queue = queue if queue in queues else OTHER
            gangs[queue, phase.value, reason] += 1
            members = group.members
            filled = len(members.filled)
            running = sum(pod.status.phase == "Running" for pod in members.filled.values())
            pods[queue, "Running", ""] += running
            pods[queue, "Bound", ""] += filled - running
            pods[queue, "Waiting", reason] += len(members) - filled
        for name, help_, counts in (
            ("muster_gangs", "Gangs by queue, phase and reason.", gangs),
            ("muster_pods", "Pods of gangs by queue, phase, and the gang's reason.", pods),
        ):
            family = GaugeMetricFamily(name, help_, labels=["queue", "phase", "reason"])
            for labels, count in sorted(counts.items()):
                if count:
                    family.add_metric(labels, count)
            yield family

    def _phase(self, group: Group) -> tuple[Phase, str]:
        """Returns the phase as the Gang record says; a gang of one has none."""
        gang: GangId = group.gang.id
        reason = self._decisions.reasons.get(gang)
        code = reason.value if reason is not None else ""
        if group.finished:
            return Phase.FINISHED, ""
        record = self._mirror.find(GANG, f"{group.namespace}/{group.record}")
        if isinstance(record, Gang) and (phase := Phase.of(record.status.phase)) is not None:
            return phase, code if phase in (Phase.WAITING, Phase.DEGRADED, Phase.NOMINATED) else ""
        if group.members.filled:
            return Phase.STANDING, ""
        return (Phase.STARTING, "") if gang in self._decisions.open else (Phase.WAITING, code)

    def _shares(self) -> Iterator[Metric]:
        labels = ["queue", "resource"]
        used = GaugeMetricFamily("muster_queue_used", "What a queue's gangs use.", labels=labels)
        entitled = GaugeMetricFamily("muster_queue_entitled", "What a queue is entitled to.", labels=labels)
        accounts = self._core.world.queues.accounts
        for name in self._bounded(accounts):
            for family, amounts in ((used, accounts[name].used), (entitled, accounts[name].entitled)):
                for resource in self._bounded(amounts):
                    amount = amounts.get(resource, 0)
                    if amount and (resource != PODS or amount < UNLIMITED):
                        family.add_metric([name, _name(resource)], _amount(resource, amount))
        yield used
        yield entitled

    def _nodes(self) -> Iterator[Metric]:
        facts = self._core.world.nodes.facts.values()
        states = Counter(
            "NotReady" if not fact.ready else "Cordoned" if fact.cordoned else "Ready" for fact in facts
        )
        nodes = GaugeMetricFamily("muster_nodes", "Nodes that muster may use.", labels=["state"])
        for state in ("Ready", "Cordoned", "NotReady"):
            nodes.add_metric([state], states[state])
        yield nodes
        families = {
            name: GaugeMetricFamily(f"muster_{name}", help_, labels=["resource"])
            for name, help_ in (
                ("capacity", "What ready, uncordoned nodes have."),
                ("used", "What pods and promised places use of it, those of other schedulers included."),
                ("utilisation_ratio", "Used of the capacity."),
                (
                    "fragmentation_ratio",
                    "Free of the capacity while a gang waits that asks for no more than is free in total.",
                ),
            )
        }
        totals = self._totals()
        asked = self._stranded({resource: whole - used for resource, (whole, used) in totals.items()})
        for resource, (whole, used) in totals.items():
            if whole and resource != GPU_SHARE:  # shares are of GPUs, which are counted
                families["capacity"].add_metric([resource], _amount(resource, whole))
                families["used"].add_metric([resource], _amount(resource, used))
                families["utilisation_ratio"].add_metric([resource], used / whole)
                stranded = (whole - used) / whole if resource in asked else 0.0
                families["fragmentation_ratio"].add_metric([resource], stranded)
        yield from families.values()

    def _totals(self) -> dict[str, tuple[int, int]]:
        """Returns for each resource what the usable nodes have, and what of it is used."""
        nodes = self._core.world.nodes
        usable = np.array(
            [
                (fact := nodes.facts.get(name)) is not None and fact.ready and not fact.cordoned
                for name in nodes.names
            ],
            np.bool_,
        )
        found = {}
        # pods of other schedulers hold devices that do not count as used yet
        for resource in self._bounded(name for name in nodes.resources if not name.startswith(DEVICE_CLASS)):
            row = nodes.resources[resource]
            capacity = nodes.capacity(row)
            limited = usable & (capacity < UNLIMITED) if resource == PODS else usable
            whole = int(capacity[limited].sum(dtype=np.int64))
            free = int(np.maximum(nodes.free(row)[limited], 0).sum(dtype=np.int64))
            found[resource] = whole, whole - free
        return found

    def _stranded(self, free: dict[str, int]) -> set[str]:
        """Returns the resources that some waiting gang asks for though enough is free in total."""
        demands: dict[Demand, None] = {
            state.demand: None
            for state in self._core.world.gangs.values()
            if state.demand is not None and state.waits
        }
        found: set[str] = set()
        for demand in demands:
            least = demand.least
            if all(amount <= free.get(resource, 0) or resource == PODS for resource, amount in least.items()):
                found.update(least)
        return found

    def _bounded(self, names: Iterable[str]) -> dict[str, None]:
        return dict.fromkeys(sorted(names)[:MOST])


def _name(resource: str) -> str:
    return GPU if resource == GPU_SHARE else resource


def _amount(resource: str, amount: int) -> float:
    """Returns cores, bytes, pieces, GPUs."""
    return amount / 1000 if resource in ("cpu", GPU_SHARE) else amount
