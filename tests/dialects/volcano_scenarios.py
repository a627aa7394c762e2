"""Scenarios of Volcano's own end-to-end suite, in Volcano's objects, with the outcome that it states.

A `Site` is a cluster on a virtual clock: muster's scheduler decides, its decisions are carried out at once,
and the site settles when no gang moves any more. It makes of a job what Volcano's controller makes: a
PodGroup with the job's minimum, and its pods, which are made again when they are evicted. `SCENARIOS` is a
table: what happens, and how many pods of each job run then. docs/reference/dialects/volcano.md lists the
rows, and where Volcano does otherwise.

Source: volcano-sh/volcano, test/e2e/{schedulingbase,schedulingaction}, of which only the facts are taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from muster.api.base import Object
from muster.api.times import written
from muster.app.snapshot import Snapshot
from muster.runtime.mirror import WATCHED
from muster.workloads.snapshot import Objects, typed

#: Seconds since the epoch at which a site begins.
START: Final = 1_800_000_000
#: Cycles after which a site that has not settled moves pods back and forth.
MOST: Final = 20


@dataclass(slots=True)
class Job:
    """A job of Volcano; its pods ask for one CPU each unless `cpu` says so."""

    name: str
    replicas: int
    #: minAvailable
    minimum: int
    queue: str = "default"
    priority: str = ""
    cpu: str = "1"
    #: of its pods, by task; the tasks' own minima
    tasks: dict[str, tuple[int, int]] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    selector: dict[str, str] = field(default_factory=dict)


class Site:
    """A cluster of nodes with `cpus` each."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._now = START
        self._settings = [_node(f"n-{number}", each) for number, each in enumerate(cpus)]
        for name, value in (("low", 10), ("middle", 50), ("high", 100)):
            self._settings.append(_priority_class(name, value))
        self._groups: dict[str, Object] = {}
        self._pods: dict[str, Object] = {}
        self._jobs: dict[str, Job] = {}
        self.evicted = 0

    def queue(self, name: str, **spec: object) -> None:
        self._settings.append(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"weight": 1, **spec},
                "status": {"state": "Open"},
            }
        )

    def submit(self, job: Job) -> None:
        self._jobs[job.name] = job
        spec: Object = {"minMember": job.minimum, "queue": job.queue}
        if job.priority:
            spec["priorityClassName"] = job.priority
        if job.tasks:
            spec["minTaskMember"] = {name: least for name, (_, least) in job.tasks.items()}
        self._groups[job.name] = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": job.name,
                "namespace": "ns",
                "annotations": job.annotations,
                "creationTimestamp": self._time(),
            },
            "spec": spec,
        }
        counts = {name: count for name, (count, _) in job.tasks.items()} or {"t": job.replicas}
        for task, count in counts.items():
            for number in range(count):
                self._make(job, f"{job.name}-{task}-{number}", task)
        self.settle()

    def delete(self, name: str) -> None:
        del self._groups[name], self._jobs[name]
        for pod in [pod for pod in self._pods if pod.rpartition("-")[0].rpartition("-")[0] == name]:
            del self._pods[pod]
        self.settle()

    def settle(self) -> None:
        for _ in range(MOST):
            self._now += 60
            if not self._cycle():
                return
        raise AssertionError("pods move back and forth")

    def running(self) -> dict[str, int]:
        """Pods on nodes, by job."""
        found = dict.fromkeys(self._jobs, 0)
        for pod in self._pods.values():
            found[pod["metadata"]["labels"]["job"]] += "nodeName" in pod["spec"]
        return found

    def _cycle(self) -> bool:
        """Decides once, and carries the decisions out; whether anything has moved."""
        objects = [*self._settings, *self._groups.values(), *self._pods.values()]
        found = Snapshot(typed(objects, WATCHED), now=float(self._now)).plan(Objects())
        moved = False
        for decision in found.decisions:
            for victim in decision.victims:
                moved = True
                self.evicted += 1
                name = victim.partition("/")[2]
                pod = self._pods.pop(name)
                labels = pod["metadata"]["labels"]
                self._make(self._jobs[labels["job"]], name, labels["task"])
        for decision in found.decisions if not moved else ():
            for name, node in decision.assignments.items():
                moved = True
                placed = self._pods[name.partition("/")[2]]
                placed["spec"]["nodeName"] = node
                placed["status"] = {"phase": "Running", "startTime": self._time()}
        return moved

    def _make(self, job: Job, name: str, task: str) -> None:
        resources = {"requests": {"cpu": job.cpu}} if job.cpu else {}
        spec: Object = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
        if job.priority:
            spec["priorityClassName"] = job.priority
        if job.selector:
            spec["nodeSelector"] = job.selector
        self._pods[name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"{name}-{self._now}",
                "creationTimestamp": self._time(),
                "labels": {"job": job.name, "task": task},
                "annotations": {"scheduling.k8s.io/group-name": job.name, "volcano.sh/task-spec": task},
                "ownerReferences": [
                    {
                        "apiVersion": "batch.volcano.sh/v1alpha1",
                        "kind": "Job",
                        "name": job.name,
                        "uid": job.name,
                        "controller": True,
                    }
                ],
            },
            "spec": spec,
            "status": {"phase": "Pending"},
        }

    def _time(self) -> str:
        return written(datetime.fromtimestamp(self._now, UTC))


def _node(name: str, cpus: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "allocatable": {"cpu": str(cpus), "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _priority_class(name: str, value: int) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens on a cluster of four nodes with two CPUs each."""

    sort: str
    name: str
    steps: Callable[[Site], None]
    #: pods that run then, by job
    running: dict[str, int]
    #: pods that muster evicts for it
    evicted: int = 0
    #: what Volcano does otherwise
    differs: str = ""


def _jobs(*jobs: Job, queues: Sequence[tuple[str, dict[str, object]]] = ()) -> Callable[[Site], None]:
    def steps(site: Site) -> None:
        for name, spec in queues:
            site.queue(name, **spec)
        for job in jobs:
            site.submit(job)

    return steps


def _freed(site: Site) -> None:
    site.submit(Job("first", 5, 1))
    site.submit(Job("gang", 5, 5))
    assert site.running() == {"first": 5, "gang": 0}
    site.delete("first")


Q: Final[list[tuple[str, dict[str, object]]]] = [("q1", {}), ("q2", {})]
SCENARIOS: Final = (
    Scenario(
        "gang",
        "a job starts with its minimum, and with more if there is room",
        _jobs(Job("a", 8, 2)),
        {"a": 8},
    ),
    Scenario(
        "gang", "a job that needs more than is free waits whole, and starts once it fits", _freed, {"gang": 5}
    ),
    Scenario(
        "gang",
        "a second job of a full cluster waits",
        _jobs(Job("a", 8, 8), Job("b", 8, 8)),
        {"a": 8, "b": 0},
    ),
    Scenario(
        "gang",
        "jobs that need two pods each share what three ask for",
        _jobs(Job("a", 4, 2), Job("b", 4, 2), Job("c", 4, 2)),
        {"a": 4, "b": 4, "c": 0},
    ),
    Scenario("gang", "pods without requests are part of the gang", _jobs(Job("a", 8, 8, cpu="")), {"a": 8}),
    Scenario(
        "gang",
        "the minima of tasks count",
        _jobs(Job("full", 5, 5), Job("a", 0, 3, tasks={"ps": (1, 1), "worker": (4, 2)})),
        {"full": 5, "a": 3},
    ),
    Scenario(
        "share",
        "queues of equal weight get equal parts",
        _jobs(Job("a", 8, 1, "q1"), Job("b", 4, 4, "q2"), queues=Q),
        {"a": 4, "b": 4},
        evicted=4,
    ),
    Scenario(
        "share",
        "queues of weights 3 and 1 get parts of 3 and 1",
        _jobs(Job("a", 8, 1, "q1"), Job("b", 2, 2, "q2"), queues=[("q1", {"weight": 3}), ("q2", {})]),
        {"a": 6, "b": 2},
        evicted=2,
    ),
    Scenario(
        "share",
        "pods above a job's minimum take what is free, and evict nothing",
        _jobs(Job("a", 8, 1, "q1"), Job("b", 8, 1, "q2"), queues=Q),
        {"a": 7, "b": 1},
        evicted=1,
        differs="Volcano evicts for such pods, too, up to the share of their queue; its suite skips this row",
    ),
    Scenario(
        "share",
        "a queue gets no more than its capability",
        _jobs(Job("a", 8, 1, "q1"), queues=[("q1", {"capability": {"cpu": "3"}})]),
        {"a": 3},
    ),
    Scenario(
        "preempt",
        "nothing is evicted while there is room",
        _jobs(Job("low", 1, 1, priority="low"), Job("high", 1, 1, priority="high")),
        {"low": 1, "high": 1},
    ),
    Scenario(
        "preempt",
        "a job of a higher priority gets its minimum from one of a lower",
        _jobs(Job("low", 8, 1, priority="low"), Job("high", 4, 4, priority="high")),
        {"low": 4, "high": 4},
        evicted=4,
    ),
    Scenario(
        "preempt",
        "priorities count within a queue",
        _jobs(
            Job("a", 4, 1, "q1", "low"), Job("b", 4, 1, "q2", "low"), Job("c", 4, 4, "q1", "high"), queues=Q
        ),
        {"a": 0, "b": 4, "c": 4},
        evicted=4,
    ),
    Scenario(
        "preempt",
        "nothing is evicted for a job that would not fit even then",
        _jobs(
            Job("a", 1, 1, "q1", "low"), Job("b", 4, 4, "q2", "low"), Job("c", 8, 8, "q1", "high"), queues=Q
        ),
        {"a": 1, "b": 4, "c": 0},
    ),
    Scenario(
        "preempt",
        "of three priorities the highest gets all that it needs",
        _jobs(
            Job("low", 8, 1, priority="low"),
            Job("middle", 4, 4, priority="middle"),
            Job("high", 8, 8, priority="high"),
        ),
        {"low": 0, "middle": 0, "high": 8},
        evicted=12,
        differs="Volcano's suite skips this row, whose outcome it does not reach",
    ),
    Scenario(
        "preempt",
        "equal priorities evict nothing",
        _jobs(Job("a", 8, 8), Job("b", 8, 8)),
        {"a": 8, "b": 0},
    ),
    Scenario(
        "preempt",
        '`volcano.sh/preemptable: "false"` is never evicted',
        _jobs(
            Job("low", 8, 1, priority="low", annotations={"volcano.sh/preemptable": "false"}),
            Job("high", 4, 4, priority="high"),
        ),
        {"low": 8, "high": 0},
    ),
    Scenario(
        "reclaim",
        "nothing is reclaimed while there is room",
        _jobs(Job("a", 1, 1), Job("b", 1, 1, "q1"), Job("c", 1, 1, "q2"), queues=Q),
        {"a": 1, "b": 1, "c": 1},
    ),
    Scenario(
        "reclaim",
        "a queue that is above its share reclaims nothing",
        _jobs(Job("a", 4, 4, "q1"), Job("b", 4, 4, "q2"), Job("c", 1, 1, "q2"), queues=Q),
        {"a": 4, "b": 4, "c": 0},
    ),
    Scenario(
        "reclaim",
        "nothing is reclaimed for pods that no node suits",
        _jobs(Job("a", 8, 1, "q1"), Job("b", 1, 1, "q2", selector={"node": "none"}), queues=Q),
        {"a": 8, "b": 0},
    ),
    Scenario(
        "reclaim",
        "nothing is reclaimed for a pod that is larger than any node",
        _jobs(Job("a", 8, 1, "q1"), Job("b", 1, 1, "q2", cpu="4"), queues=Q),
        {"a": 8, "b": 0},
    ),
    Scenario(
        "reclaim",
        "nothing is reclaimed from a queue with reclaimable: false",
        _jobs(
            Job("a", 8, 1, "q1"),
            Job("b", 1, 1, "q2"),
            queues=[("q1", {"reclaimable": False}), ("q2", {})],
        ),
        {"a": 8, "b": 0},
    ),
    Scenario(
        "reclaim",
        "each of two new queues gets its share from those above theirs",
        _jobs(
            Job("a", 4, 1, "q1", "low"),
            Job("b", 4, 1, "q2", "low"),
            Job("c", 2, 2, "q3", "high"),
            Job("d", 2, 2, "q4", "high"),
            queues=[*Q, ("q3", {}), ("q4", {})],
        ),
        {"a": 2, "b": 2, "c": 2, "d": 2},
        evicted=4,
    ),
    Scenario(
        "reclaim",
        "the guarantee of a queue is kept",
        _jobs(
            Job("a", 8, 1, "q1"),
            Job("b", 1, 1, "q2"),
            Job("c", 1, 1, "q2"),
            queues=[("q1", {"guarantee": {"resource": {"cpu": "6"}}}), ("q2", {})],
        ),
        {"a": 7, "b": 1, "c": 0},
        evicted=1,
        differs="weights divide what guarantees leave; Volcano's divide everything, so q1 would keep 6",
    ),
)
