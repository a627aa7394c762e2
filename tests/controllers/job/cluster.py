"""A cluster in miniature for tests of the Job controller: one Job, its pods, and caches that lag.

It keeps JSON and applies effects as an API server would (preconditions, finalizers, graceful deletion),
plays the nodes through `run`, `end` and `vanish`, and keeps a ledger of what each pod really came to, so
that the controller's counts can be held against the truth.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.api.batch_v1 import COMPLETION_INDEX, TRACKING_FINALIZER, Job
from muster.api.core_v1 import Pod
from muster.controllers.job import JobObserved, reconcile
from muster.effects import Create, Delete, Effect, Patch, RecordEvent, Requeue

START = datetime(2030, 1, 1, tzinfo=UTC)


class Refused(Exception):
    """A 409."""


class Crash(Exception):
    """The controller stops here."""


def job_object(spec: Object | None = None, **metadata: Any) -> Object:  # Any: JSON
    """A Job as the API server has it after defaulting."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "uid": "job-uid", **metadata},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template, **(spec or {})},
        "status": {},
    }


@dataclass
class Cluster:
    job: Object
    now: datetime = START
    pods: dict[str, Object] = field(default_factory=dict)  # by name
    #: what became of each pod: succeeded, failed, or "" while it can be said; by uid
    ledger: dict[str, str] = field(default_factory=dict)
    #: uids that the controller let go before they ended
    let_go: set[str] = field(default_factory=set)
    #: uids that were deleted while they ran: they fail by that, unless they end well unnoticed
    deleted_early: set[str] = field(default_factory=set)
    indexes: dict[str, int] = field(default_factory=dict)  # by uid
    events: list[str] = field(default_factory=list)
    requeue: datetime | None = None
    revision: int = 0
    made: int = 0
    #: pods that a quota allows at a time; None: any number
    room: int | None = None
    #: past states that a lagging cache may still show, (revision, state)
    job_history: list[tuple[int, Object]] = field(default_factory=list)
    pod_history: list[tuple[int, list[Object]]] = field(default_factory=list)
    #: how far the caches have come, and how far they must before the next reconcile
    job_seen: int = 0
    pods_seen: int = 0

    def __post_init__(self) -> None:
        self._job_changed()
        self._pods_changed()
        self.catch_up()

    # what the controller does

    def reconcile(self, crash_after: int | None = None) -> list[Effect]:
        """One round on what the caches show; stops after that many writes, by `Crash` or by a conflict."""
        effects = reconcile(self.observed(), self.now)
        self.requeue = None
        done = 0
        refused: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Create) and self.room is not None and len(self.active()) >= self.room:
                assert effect.refused is not None
                refused = refused or [*effect.refused("exceeded quota")]
                continue
            if isinstance(effect, Requeue):
                self.requeue = effect.at
                continue
            if crash_after is not None and done >= crash_after:
                raise Crash
            self._apply(effect)
            done += 1
        for effect in refused:  # as the driver: what the first says
            self._apply(effect)
        return effects

    def observed(self) -> JobObserved:
        job = [state for revision, state in self.job_history if revision <= self.job_seen][-1]
        pods = [state for revision, state in self.pod_history if revision <= self.pods_seen][-1]
        return JobObserved(msgspec.convert(job, Job), [msgspec.convert(pod, Pod) for pod in pods])

    def settle(self, rounds: int = 20) -> None:
        """Fresh rounds until nothing is asked for any more."""
        for _ in range(rounds):
            self.catch_up()
            try:
                effects = self.reconcile()
            except Refused:
                continue
            if all(isinstance(effect, Requeue) for effect in effects):
                return
        raise AssertionError(f"still asks for {effects}")

    def catch_up(self) -> None:
        self.job_seen = self.pods_seen = self.revision
        self.job_history, self.pod_history = self.job_history[-1:], self.pod_history[-1:]

    def _apply(self, effect: Effect) -> None:
        """As the driver: own writes are seen before the next reconcile."""
        match effect:
            case Patch(kinds.JOB, _, _, body):
                assert isinstance(body, dict)
                self._check(self.job, body["metadata"])
                self.job["status"] = _merge(self.job["status"], body["status"])
                for uid in (self.status.get("uncountedTerminatedPods") or {}).get("failed") or []:
                    if uid in self.deleted_early:
                        self.ledger[uid] = "failed"
                self._job_changed()
                self.job_seen = self.revision
            case Patch(kinds.POD, _, name, body):
                assert isinstance(body, dict)
                if name in self.pods:
                    self._check(self.pods[name], body["metadata"])
                    self._finalizers(self._pod(name), body["metadata"]["finalizers"])
                    self.pods_seen = self.revision
            case Create(_, _, body):
                if body["metadata"]["name"] not in self.pods:
                    self._create(copy.deepcopy(body))
                self.pods_seen = self.revision
            case Delete(kinds.JOB):
                self.job["metadata"]["deletionTimestamp"] = _text(self.now)
                self._job_changed()
            case Delete(_, _, name, uid):
                if name in self.pods and self.pods[name]["metadata"]["uid"] == uid:
                    self.delete(name)
            case RecordEvent(_, _, reason):
                self.events.append(reason)
            case _:
                raise AssertionError(effect)

    def _check(self, current: Object, wanted: Object) -> None:
        meta = current["metadata"]
        if wanted["uid"] != meta["uid"]:
            raise Refused
        if wanted.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            raise Refused

    def _create(self, body: Object) -> None:
        self.made += 1
        uid = f"pod-{self.made}"
        body["metadata"] |= {"uid": uid, "creationTimestamp": _text(self.now)}
        body["status"] = {"phase": "Pending"}
        self.pods[body["metadata"]["name"]] = body
        self.ledger[uid] = ""
        self.indexes[uid] = int(body["metadata"]["annotations"].get(COMPLETION_INDEX, -1))
        self._changed(body)

    def _finalizers(self, pod: Object, finalizers: list[str]) -> None:
        meta = pod["metadata"]
        had = TRACKING_FINALIZER in meta["finalizers"]
        if had and TRACKING_FINALIZER not in finalizers and not self.ledger[meta["uid"]]:
            self.let_go.add(meta["uid"])
        meta["finalizers"] = finalizers
        self._changed(pod)

    # what nodes and people do

    def run(self, name: str) -> None:
        pod = self._pod(name)
        pod["spec"]["nodeName"] = "node"
        pod["status"] |= {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self._changed(pod)

    def end(
        self,
        name: str,
        exit_code: int = 0,
        conditions: Iterable[str] = (),
    ) -> None:
        """The pod's container exits."""
        pod = self._pod(name)
        phase = "Failed" if exit_code else "Succeeded"
        pod["spec"]["nodeName"] = "node"
        ended = {"exitCode": exit_code, "finishedAt": _text(self.now)}
        pod["status"] = {
            "phase": phase,
            "conditions": [{"type": type_, "status": "True"} for type_ in conditions],
            "containerStatuses": [{"name": "main", "state": {"terminated": ended}}],
        }
        meta = pod["metadata"]
        uid = meta["uid"]
        listed = (self.status.get("uncountedTerminatedPods") or {}).get("failed") or []
        unnoticed = (
            uid in self.deleted_early and TRACKING_FINALIZER in meta["finalizers"] and uid not in listed
        )
        if uid not in self.let_go and (not self.ledger[uid] or unnoticed):
            self.ledger[uid] = phase.lower()
        self._changed(pod)

    def delete(self, name: str) -> None:
        """A user deletes the pod. Bound pods run on until `end`."""
        pod = self._pod(name)
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            return
        meta |= {"deletionTimestamp": _text(self.now), "deletionGracePeriodSeconds": 0}
        only_ended = self.job["spec"].get("podReplacementPolicy") == "Failed"
        bound = bool(pod["spec"].get("nodeName"))
        uid = meta["uid"]
        if uid not in self.let_go and not self.ledger[uid] and not (bound and only_ended):
            self.ledger[uid] = "failed"
            if bound:
                self.deleted_early.add(uid)
        self._changed(pod)

    def set_job(self, **spec: Any) -> None:  # Any: JSON
        self.job["spec"] |= spec
        self._job_changed()

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def restart_containers(self, name: str, restarts: int) -> None:
        pod = self._pod(name)
        pod["status"]["containerStatuses"] = [{"name": "main", "restartCount": restarts}]
        self._changed(pod)

    def _pod(self, name: str) -> Object:
        """The pod to change: a copy in its place, since caches may still show the old one."""
        pod = self.pods[name]
        self.pods[name] = {**pod, **{part: dict(pod[part]) for part in ("metadata", "spec", "status")}}
        return self.pods[name]

    def _changed(self, pod: Object) -> None:
        meta = pod["metadata"]
        self.revision += 1
        meta["resourceVersion"] = str(self.revision)
        at_rest = not pod["spec"].get("nodeName") or pod["status"]["phase"] in ("Succeeded", "Failed")
        if "deletionTimestamp" in meta and not meta["finalizers"] and at_rest:
            del self.pods[meta["name"]]
        self._pods_changed()

    def _pods_changed(self) -> None:
        self.pod_history.append((self.revision, list(self.pods.values())))

    def _job_changed(self) -> None:
        self.revision += 1
        self.job["metadata"]["resourceVersion"] = str(self.revision)
        self.job_history.append((self.revision, copy.deepcopy(self.job)))

    # what tests ask

    @property
    def status(self) -> Object:
        status: Object = self.job["status"]
        return status

    def active(self) -> list[str]:
        """Names of pods that may be running and are not on their way out."""
        return [
            name
            for name, pod in self.pods.items()
            if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
        ]

    def terminating(self) -> list[str]:
        """Names of pods that run although they are being deleted."""
        return [
            name
            for name, pod in self.pods.items()
            if pod["status"]["phase"] in ("Pending", "Running")
            and pod["spec"].get("nodeName")
            and "deletionTimestamp" in pod["metadata"]
        ]

    def index(self, name: str) -> int:
        return self.indexes[self.pods[name]["metadata"]["uid"]]

    @property
    def completed(self) -> set[int]:
        """Indexes of which a pod succeeded."""
        return {self.indexes[uid] for uid, came_to in self.ledger.items() if came_to == "succeeded"}

    def of_index(self, index: int) -> str:
        """The active pod of an index."""
        (name,) = [name for name in self.active() if self.index(name) == index]
        return name

    def condition(self, type_: str) -> Object | None:
        conditions = self.status.get("conditions", [])
        return next((c for c in conditions if c["type"] == type_ and c["status"] == "True"), None)

    def reason(self, type_: str) -> str | None:
        found = self.condition(type_)
        return found["reason"] if found else None

    def counts(self) -> tuple[int, int, int]:
        """(active, succeeded, failed) as the status says."""
        status = self.status
        return status.get("active", 0), status.get("succeeded", 0), status.get("failed", 0)


def _merge(old: Object, patch: Object) -> Object:
    merged = dict(old)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merge(merged.get(key) or {}, value)
        else:
            merged[key] = copy.deepcopy(value)
    return merged


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
