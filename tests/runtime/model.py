"""A cluster in miniature for crash tests: a server, controllers, nodes that end pods, and leaders.

A leader's life is a coroutine that gives way after each write and whenever it has nothing to do, so a test
stops it anywhere, lets others act, and lets it go on or not. Its mirror sees the server only when the test
lets it look. Time passes only when nothing else can happen.

After every single write the nodes are checked: never more pods than they have room for.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from muster.api import kinds, pod_claims
from muster.api.base import Object, controller_of
from muster.api.batch_v1 import COMPLETION_INDEX, Job
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang
from muster.api.resource_v1 import AllocatedDevice, ResourceClaim
from muster.core.words.devices import DeviceId
from muster.core.words.gang import GangId, PodId
from muster.effects.execute import Outcome, runs
from muster.kube.errors import AlreadyExists
from muster.kube.informers import Informers
from muster.names import ADMISSION, EPOCH, GANG, ON_PARTIAL, PLAN
from muster.runtime.commit.view import Limits
from muster.runtime.leader import LONGEST_SLEEP, Deposed, Leader, Term
from muster.runtime.mirror import WATCHED
from muster.runtime.plan_record import Plan, RecordedPod, RecreationPlan, VictimRef, found
from muster.runtime.watched import WatchedMirror
from muster.runtime.writes import Write
from muster.translate.disclosure import Disclosure
from muster.translate.pods import live
from tests.runtime.planner import RESOURCE, Planner
from tests.runtime.server import Pause, Server, ServerClient

T = TypeVar("T")

NAMESPACE = "default"
#: Seconds without any change after which nothing more is expected: more than any pause of the committer.
QUIET = 400.0
#: How a gang's pods come about: from a Job that muster may suspend, from one it may not, or from no
#: controller; those that no controller recreates may be recreated by muster, or not.
Kind = Literal["job", "free job", "bare", "remade"]


class Idle:
    """Awaited by a leader that has nothing to do."""

    def __await__(self) -> Generator["Idle", None, None]:
        yield self


class ServerClock:
    def __init__(self, server: Server) -> None:
        self._server = server
        self.now = server.now

    def monotonic(self) -> float:
        return self._server.time

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("a leader does not sleep of itself")


@dataclass
class Making:
    """What is wrong with a Job's controller."""

    at_most: int = 1_000_000  # pods at once
    twice: frozenset[int] = frozenset()  # indices it makes two pods of


class Cluster:
    def __init__(
        self, objects: dict[Any, Object] | None = None, revision: int = 0, time: float = 0.0
    ) -> None:
        self.server = Server(time, dict(objects or {}), revision=revision)
        self.server.watch = self._check
        self.sizes: dict[str, int] = {}
        self.kept: dict[str, Object] = {}  # pods that must not get lost, as they were created
        self.whole: set[str] = set()  # gangs that have been whole since they last had no pod on a node
        self.making: dict[str, Making] = {}
        self.preempts: dict[str, str] = {}
        self.priorities: dict[str, int] = {}  # of a gang's pods
        self.homes: dict[str, str] = {}  # namespaces of gangs that have another
        self.slow_nodes = False  # pods on nodes do not end
        self.claiming: set[str] = set()  # gangs whose pods have a claim of a device each
        self.by_number: set[str] = set()  # those of them whose pods request the device by number
        self.schedulers: dict[str, str] = {}  # by gang, what schedules its pods
        self.admits: dict[
            tuple[str, int], Object
        ] = {}  # by gang and index, what admission sets in a Job's pod
        self.refuses: Counter[str] = Counter()  # how often the node of a pod of this name refuses it yet
        self.made = 0

    def copy(self) -> "Cluster":
        """As it is now, for another history: objects are replaced, never changed."""
        other = Cluster(self.server.objects, self.server.revision, self.server.time)
        other.server.typed = dict(self.server.typed)
        other.making, other.preempts, other.made = dict(self.making), dict(self.preempts), self.made
        other.priorities, other.homes = dict(self.priorities), dict(self.homes)
        other.sizes, other.whole, other.kept = dict(self.sizes), set(self.whole), dict(self.kept)
        other.refuses, other.schedulers = Counter(self.refuses), dict(self.schedulers)
        other.admits, other.claiming = dict(self.admits), set(self.claiming)
        other.by_number = set(self.by_number)
        return other

    def home(self, gang: str) -> str:
        """The gang's namespace."""
        return self.homes.get(gang, NAMESPACE)

    # -- what people create

    def node(self, name: str, room: int, **labels: str) -> None:
        status = {
            "allocatable": {"cpu": str(room)},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.server.create(kinds.NODE, "", {"metadata": {"name": name, "labels": labels}, "status": status})

    def devices(self, node: str, number: int) -> None:
        """Devices of a node, a class that all are of, and the template of the claims."""
        for kind, namespace, body in (
            (
                kinds.DEVICE_CLASS,
                "",
                {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": RESOURCE}},
            ),
            (kinds.RESOURCE_CLAIM_TEMPLATE, NAMESPACE, _TEMPLATE),
        ):
            with suppress(AlreadyExists):
                self.server.create(kind, namespace, body)
        spec = {
            "driver": "d",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": str(each)} for each in range(number)],
        }
        self.server.create(kinds.RESOURCE_SLICE, "", {"metadata": {"name": node}, "spec": spec})

    def gang(self, name: str, size: int, kind: Kind) -> None:
        self.sizes[name] = size
        if (priority := self.priorities.get(name)) is not None:
            klass = {"metadata": {"name": _CLASS.format(priority)}, "value": priority}
            self.server.create(kinds.PRIORITY_CLASS, "", klass)
        if kind in ("bare", "remade"):
            if size > 1:
                mark = {} if kind == "remade" else {ON_PARTIAL: "keep"}
                group = {"metadata": {"name": name, "annotations": mark}, "spec": {"minMember": size}}
                self.server.create(kinds.POD_GROUP_X, self.home(name), group)
            for i in range(size):
                label = {"scheduling.x-k8s.io/pod-group": name} if size > 1 else {}
                pod_name = f"{name}-{i}" if size > 1 else name
                self._pod({"name": pod_name, "labels": label})
                if kind == "remade":
                    self.kept[pod_name] = self.server.objects[kinds.POD, f"{NAMESPACE}/{pod_name}"]
            return
        marks = {GANG: "true"} | ({ADMISSION: "gang"} if kind == "job" else {})
        spec = {
            "parallelism": size,
            "completions": size,
            "completionMode": "Indexed",
            "suspend": kind == "job",
            "template": {"spec": self._pod_spec(name)},
        }
        self.server.create(
            kinds.JOB, self.home(name), {"metadata": {"name": name, "annotations": marks}, "spec": spec}
        )

    def cancel(self, name: str) -> None:
        """Its owner deletes all of it."""
        self.kept = {pod: body for pod, body in self.kept.items() if not pod.startswith(name)}
        for kind in (kinds.JOB, kinds.POD_GROUP_X, kinds.POD):
            for obj in self.server.all(kind):
                if obj.metadata.name.startswith(name):
                    self.server.delete(kind, obj.key)

    # -- what controllers and nodes do

    def settle(self) -> bool:
        """Controllers and nodes act until they have nothing to do; whether they did anything."""
        before = self.server.revision
        while self._controllers():
            pass
        return self.server.revision != before

    def _controllers(self) -> bool:
        before = self.server.revision
        pods: list[Pod] = self.server.all(kinds.POD)
        for job in self.server.all(kinds.JOB):
            self._job(job, [pod for pod in pods if _is_of(pod, job)])
        for pod in pods:
            if pod.metadata.deletion_timestamp and not self.slow_nodes:
                self.server.end(kinds.POD, pod.key)
            elif pod.spec.node_name and self.refuses[pod.metadata.name] and not pod.terminal:
                self.refuses[pod.metadata.name] -= 1
                self.server.patch(kinds.POD, pod.key, {"status": _REFUSED}, "status")
            elif pod.spec.resource_claims and not self._has_claim(pod):
                self._claim_of(pod)
        for claim in self.server.all(kinds.RESOURCE_CLAIM):
            self._free(claim)
        return self.server.revision != before

    def _job(self, job: Job, pods: list[Pod]) -> None:
        alive = [pod for pod in pods if live(pod)]
        if job.spec.suspend:
            for pod in alive:
                self.server.delete(kinds.POD, pod.key)
            return
        making = self.making.get(job.metadata.name, Making())
        have = Counter(pod.metadata.annotations[COMPLETION_INDEX] for pod in alive)
        room = making.at_most - len(alive)
        for index in range(job.spec.completions or 0):
            wanted = 1 + (index in making.twice)
            for _ in range(min(wanted - have[str(index)], room)):
                self._pod_of(job, index)
                room -= 1

    def _pod_of(self, job: Job, index: int) -> None:
        self.made += 1
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job.metadata.name,
            "uid": job.metadata.uid,
            "controller": True,
        }
        mark = {COMPLETION_INDEX: str(index)}
        name = f"{job.metadata.name}-{index}-{self.made}"
        self._pod({"name": name, "annotations": mark, "labels": mark, "ownerReferences": [owner]}, index)

    def _has_claim(self, pod: Pod) -> bool:
        names = pod_claims.names(pod).values()
        keys = [(kinds.RESOURCE_CLAIM, f"{pod.metadata.namespace}/{name}") for name in names]
        return bool(keys) and all(key in self.server.objects for key in keys)

    def _claim_of(self, pod: Pod) -> None:
        """As the claim controller makes a claim from a template, in two writes."""
        name = f"{pod.metadata.name}-gpu-{self.server.revision}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        meta = {"name": name, "ownerReferences": [{**owner, "controller": True}]}
        self.server.create(kinds.RESOURCE_CLAIM, pod.metadata.namespace, {"metadata": meta, "spec": _CLAIM})
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
        self.server.patch(kinds.POD, pod.key, {"status": status}, "status")

    def _free(self, claim: ResourceClaim) -> None:
        """As the claim controller frees a claim that no pod uses, and the garbage collector deletes it."""
        pods = {pod.metadata.uid for pod in self.server.all(kinds.POD) if not pod.terminal}
        reserved = msgspec.to_builtins(claim.status.reserved_for)
        rest = [each for each in reserved if each["uid"] in pods]
        owner = controller_of(claim)
        gone = owner is not None and owner.uid not in pods
        if rest != reserved or (gone and claim.status.allocation is not None):
            status = {"reservedFor": rest or None, **({} if rest else {"allocation": None})}
            self.server.patch(kinds.RESOURCE_CLAIM, claim.key, {"status": status}, "status")
        if gone and not rest:
            self.server.patch(kinds.RESOURCE_CLAIM, claim.key, {"metadata": {"finalizers": None}})
            self.server.delete(kinds.RESOURCE_CLAIM, claim.key)

    def _pod(self, metadata: Object, index: int = -1) -> None:
        gang = str(metadata["name"]).partition("-")[0]
        spec = self._pod_spec(gang) | self.admits.get((gang, index), {})
        self.server.create(kinds.POD, self.home(gang), {"metadata": metadata, "spec": spec})

    def _pod_spec(self, gang: str) -> Object:
        spec = {**_POD_SPEC}
        if gang in self.by_number:
            requests = {"cpu": "1", RESOURCE: "1"}
            spec["containers"] = [{"name": "main", "resources": {"requests": requests}}]
        elif gang in self.claiming:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
        if gang in self.schedulers:
            spec["schedulerName"] = self.schedulers[gang]
        if (priority := self.priorities.get(gang)) is None:
            return spec
        return {**spec, "priority": priority, "priorityClassName": _CLASS.format(priority)}

    # -- what must always hold, and what must hold in the end

    def _check(self) -> None:
        """After every single write."""
        self._check_nodes()
        self._check_kept()
        self._check_names()
        self._check_claims()
        for name, size in self.sizes.items():
            bound = self.bound(name)
            if bound >= size:
                self.whole.add(name)
            elif not bound:
                self.whole.discard(name)
            elif name not in self.whole:
                assert self._is_accounted_for(name), f"{bound} of {size} pods of {name} without a plan"

    def _is_accounted_for(self, name: str) -> bool:
        """Whether a gang that is not whole has a plan, is a victim, is suspended, or says so."""
        for plan in self.plans():
            if name in plan.gang or any(name in victim.gang for victim in _victims(plan)):
                return True
        job = self.server.objects.get((kinds.JOB, f"{self.home(name)}/{name}"))
        if job is not None and job["spec"].get("suspend"):
            return True
        record = self.record(name)
        return record is not None and record.status.phase == "Degraded"

    def _check_kept(self) -> None:
        """Each is there, as it was created but for its node, or it is on record."""
        recorded = {pod.name for plan in self.plans() for pod in _recorded(plan)}
        for name, created in self.kept.items():
            found = self.server.objects.get((kinds.POD, f"{NAMESPACE}/{name}"))
            if found is None:
                assert name in recorded, f"{name} is lost"
            else:
                assert found["metadata"]["labels"] == created["metadata"]["labels"]
                assert {**found["spec"], "nodeName": ""} == {**created["spec"], "nodeName": ""}

    def _check_names(self) -> None:
        """No object names a gang of another namespace but a GangPlan, which no user may read."""
        spaces = {NAMESPACE, *self.homes.values()}
        for (kind, key), obj in self.server.objects.items() if len(spaces) > 1 else ():
            if kind not in (kinds.NODE, kinds.GANG_PLAN):
                own = key.partition("/")[0]
                plan = found(self.server.read(kind, key)) if kind is kinds.GANG else None
                told = f"{json.dumps(obj)} {plan}"
                assert not [other for other in spaces - {own} if f"{other}/" in told], told

    def _check_claims(self) -> None:
        """No two claims of muster's have one device, and a pod on a node has its own, on that node.

        Another client may allocate a device in the same moment as muster; then no pod is bound with it.
        """
        of_pod: dict[str, list[str]] = {}
        held: Counter[str] = Counter()
        ours: Counter[str] = Counter()
        for claim in self.server.all(kinds.RESOURCE_CLAIM):
            devices = [f"{each.pool}/{each.device}" for each in _results(claim)]
            held.update(devices)
            ours.update(devices if PLAN in claim.metadata.annotations else ())
            for consumer in claim.status.reserved_for if devices else ():
                of_pod.setdefault(consumer.uid, []).extend(devices)
        assert max(ours.values(), default=0) <= 1, f"two claims have one device: {ours}"
        for pod in self.server.all(kinds.POD):
            by_number = pod.metadata.name.partition("-")[0] in self.by_number
            if (pod.spec.resource_claims or by_number) and pod.spec.node_name and not pod.terminal:
                assert bool(pod_claims.for_resources(pod)) == by_number, f"{pod.key} is told of no claim"
                (device,) = of_pod.get(pod.metadata.uid, [""])
                assert device.startswith(f"{pod.spec.node_name}/"), f"{pod.key} has {device!r}"
                assert held[device] == 1, f"{pod.key} is bound with {device}, which another claim has"

    def check_freed(self) -> None:
        """In the end: no pod without a node has devices, unless a plan is open."""
        bound = {pod.metadata.uid for pod in self.server.all(kinds.POD) if pod.spec.node_name}
        for claim in self.server.all(kinds.RESOURCE_CLAIM) if not self.plans() else ():
            if controller_of(claim) is not None and not bound & {
                each.uid for each in claim.status.reserved_for
            }:
                left = (
                    claim.status.allocation,
                    claim.metadata.finalizers,
                    claim.metadata.annotations.get(PLAN),
                )
                assert left == (None, [], None), f"{claim.key} is left: {left}"

    def _check_nodes(self) -> None:
        used: Counter[str] = Counter()
        for (kind, _), obj in self.server.objects.items():
            if kind is kinds.POD and (node := obj["spec"].get("nodeName")) and not _ended(obj):
                used[node] += _cpus(obj)
                self._check_selector(obj, node)
        for node, pods in used.items():
            found = self.server.objects.get((kinds.NODE, node))
            if found is not None:
                room = int(found["status"]["allocatable"]["cpu"])
                assert pods <= room, f"{pods} pods on {node}, which has room for {room}"

    def _check_selector(self, pod: Object, node: str) -> None:
        found = self.server.objects.get((kinds.NODE, node))
        wanted = pod["spec"].get("nodeSelector", {})
        if found is not None and wanted:
            has = found["metadata"].get("labels", {})
            name = pod["metadata"]["name"]
            assert wanted.items() <= has.items(), f"{name}, which wants {wanted}, is on {node}: {has}"

    def bound(self, name: str) -> int:
        """Live pods of this gang on nodes."""
        pods = [obj for (kind, _), obj in self.server.objects.items() if kind is kinds.POD]
        return sum(
            bool(pod["spec"].get("nodeName"))
            and "deletionTimestamp" not in pod["metadata"]
            and not _ended(pod)
            for pod in pods
            if pod["metadata"]["name"].startswith(name)
        )

    def plans(self) -> list[Plan]:
        """The open plans."""
        held = [*self.server.all(kinds.GANG_PLAN), *self.server.all(kinds.GANG)]
        return [plan for plan in map(found, held) if plan is not None]

    def record(self, name: str) -> Gang | None:
        for gang in self.server.all(kinds.GANG):
            if gang.metadata.name.endswith(f"-{name}"):
                found: Gang = gang
                return found
        return None

    def outcome(self, name: str, size: int) -> str:
        """whole, waiting or degraded; fails if it is anything else."""
        bound = self.bound(name)
        if bound >= size:
            return "whole"
        if not bound:
            return "waiting"
        record = self.record(name)
        phase = record.status.phase if record is not None else None
        reason = record.status.reason if record is not None else None
        assert phase == "Degraded", f"{name} is left with {bound} of {size} pods on nodes, and {phase!r}"
        assert reason is not None
        assert reason.message
        return "degraded"

    def dump(self) -> dict[Any, Any]:
        """All objects, without the parts that only say which leader looked last."""
        return {key: _plain(obj) for key, obj in self.server.objects.items()}


@dataclass
class Running:
    """A leader at work, driven write by write."""

    cluster: Cluster
    epoch: int
    client: ServerClient = field(init=False)
    informers: Informers = field(init=False)
    mirror: WatchedMirror = field(init=False)
    leader: Leader = field(init=False)
    writes: int = 0
    seen: int = 0
    #: the resourceVersion up to which it has seen everything
    version: int = 0
    sees: bool = True
    fresh: bool = True
    deposed: bool = False
    #: set once it has taken over
    leads: bool = False
    core: Any = None  # Any: Planner, or muster's own
    wrap: Callable[[ServerClient], ServerClient] = lambda client: client
    limits: Limits | None = None
    #: the latest resourceVersion of pods that a leader has seen that stopped in order
    pods_seen: float = float("inf")
    #: what it schedules, and its Lease; None: everything
    schedulers: frozenset[str] | None = None
    lease: str = ""
    #: looks and decides after each single write, while the other writes of the same gang are under way
    overlapping: bool = False

    def __post_init__(self) -> None:
        server = self.cluster.server
        self.client = self.wrap(ServerClient(server))
        clock = ServerClock(server)
        self.informers = Informers(self.client, clock)
        self.mirror = WatchedMirror(self.informers, self.schedulers, lease=self.lease)
        gangs = {f"{self.cluster.home(name)}/{name}" for name in self.cluster.claiming}
        core = self.core or Planner(
            dict(self.cluster.preempts),
            claiming=gangs,
            by_number={f"{self.cluster.home(name)}/{name}" for name in self.cluster.by_number},
            allocated=partial(_allocated, self.informers),
        )
        term = Term(self.epoch, seen=self.pods_seen, fresh=lambda: self.fresh)
        names = Disclosure(self.mirror.names)
        self.leader = Leader(self.client, clock, term, self.mirror, core, self.limits, names=names)
        self.leader.gather = _one_by_one
        for (kind, key), _ in list(server.objects.items()):
            self.informers[kind]._change(key, server.read(kind, key))
        self.seen, self.version = len(server.log), server.revision
        self._life: Coroutine[Any, Any, None] = _life(self)

    def take_over(self) -> None:
        """Until it leads, and has not done anything with it yet."""
        while not self.leads:
            self.go()

    def go(self, writes: int | None = None) -> bool:
        """Until it has nothing to do, or has made so many writes; whether it was stopped by that."""
        while not self.deposed:
            if writes is not None and self.writes >= writes:
                return True
            try:
                said = self._life.send(None)
            except Deposed:
                self.deposed = True
                break
            if isinstance(said, Pause):
                self.writes += 1
            else:
                self.look()
                break
        return False

    def look(self) -> None:
        log = self.cluster.server.log
        if self.sees:
            for kind, key, obj in log[self.seen :]:
                if kind in WATCHED:
                    self.informers[kind]._change(key, obj)
            self.seen, self.version = len(log), self.cluster.server.revision

    def stop(self) -> None:
        self._life.close()

    def quiesce(self, writes: int | None = None) -> bool:
        """All act until nothing changes any more; whether the leader was stopped by its number of writes."""
        server = self.cluster.server
        changed_at, revision = server.time, server.revision
        while True:
            if self.go(writes):
                return True
            self.cluster.settle()
            self.look()
            if server.revision != revision:
                changed_at, revision = server.time, server.revision
                assert self.writes < 600, "it does not come to rest"
            elif server.time - changed_at > QUIET:
                return False
            elif not self.mirror.changed.is_set():
                server.time += max(self.leader.idle(), 0.01)


async def _life(running: Running) -> None:
    leader = running.leader
    while (found := leader.fences()) or not leader.ready():
        for fence in found:
            leader.fenced(await leader.write(fence))
        await Idle()
    leader.adopt()
    running.leads = True
    await Idle()
    while True:
        if running.overlapping:
            await _overlap(running)
        else:
            for gang, writes in leader.turn():
                await _commit(running, gang, writes)
        await Idle()


async def _overlap(running: Running) -> None:
    """One write of each gang, another look and turn, one more write of each, until all are done."""
    commits: list[Coroutine[Any, Any, None]] = []
    try:
        while True:
            commits += [_commit(running, gang, writes) for gang, writes in running.leader.turn()]
            if not commits:
                return
            for commit in list(commits):
                try:
                    commit.send(None)
                except StopIteration:
                    commits.remove(commit)
                else:
                    await Pause()
            running.look()
    finally:
        for commit in commits:
            commit.close()


async def _commit(running: Running, gang: GangId, writes: Sequence[Write]) -> None:
    """As the loop does it, but what goes out together goes out in one particular order."""
    outcomes: list[Outcome[Write]] = []
    for run in runs(writes):
        outcomes += [await running.leader.write(write) for write in run]
        if any(outcome.error is not None for outcome in outcomes):
            break
    running.leader.done(gang, outcomes)


async def _one_by_one(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Without an event loop."""
    return [await call() for call in calls]


#: The name of the PriorityClass of this value.
_CLASS = "value-{}"
_POD_SPEC: Object = {
    "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    "unknown to muster": "must not get lost",
}
_CLAIM: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
_TEMPLATE: Object = {"metadata": {"name": "gpus"}, "spec": {"spec": _CLAIM}}
#: What the kubelet says of a pod for which its node has no room.
_REFUSED: Object = {
    "phase": "Failed",
    "reason": "OutOfcpu",
    "message": "Pod was rejected: Node didn't have enough resource: cpu",
}
#: Kinds that a mirror looks at; the server has no others.
assert {kinds.JOB, kinds.POD, kinds.NODE, kinds.GANG_PLAN} <= set(WATCHED)
assert QUIET > LONGEST_SLEEP


def _allocated(informers: Informers) -> Iterator[tuple[DeviceId, list[PodId]]]:
    for claim in informers[kinds.RESOURCE_CLAIM].items.values():
        for each in _results(claim):
            pods = [PodId(consumer.uid) for consumer in claim.status.reserved_for]
            yield DeviceId(f"{each.driver}/{each.pool}/{each.device}"), pods


def _results(claim: ResourceClaim) -> list[AllocatedDevice]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else []


def _cpus(pod: Object) -> int:
    return sum(int(one["resources"]["requests"]["cpu"]) for one in pod["spec"]["containers"])


def _ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _recorded(plan: Plan) -> tuple[RecordedPod, ...]:
    return plan.pods if isinstance(plan, RecreationPlan) else ()


def _victims(plan: Plan) -> tuple[VictimRef, ...]:
    return () if isinstance(plan, RecreationPlan) else plan.victims


def _is_of(pod: Pod, job: Job) -> bool:
    controller = controller_of(pod)
    return controller is not None and controller.uid == job.metadata.uid


def _plain(obj: Object) -> Object:
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    meta["annotations"] = {k: v for k, v in meta.get("annotations", {}).items() if k != EPOCH}
    return {**obj, "metadata": meta}
