"""The status of a pod, as a pure function of what its containers have done.

Source: kubernetes pkg/kubelet/kubelet_pods.go (getPhase) and pkg/kubelet/status/generate.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from muster.api.base import Condition, Object
from muster.api.core_v1 import Container, ContainerState, ContainerStatus, Pod, Terminated, Waiting
from muster.api.times import after
from muster.names import PREEMPTED


@dataclass(slots=True)
class Observed:
    """The agent's knowledge of one container of a pod."""

    spec: Container
    init: bool = False
    state: ContainerState = field(default_factory=lambda: ContainerState(waiting=Waiting("PodInitializing")))
    last_state: ContainerState = field(default_factory=ContainerState)
    restart_count: int = 0
    ready: bool = False
    started: bool = False

    @property
    def sidecar(self) -> bool:
        """Whether this is an init container that runs beside the others (KEP-753)."""
        return self.init and self.spec.restart_policy == "Always"

    @property
    def exit_code(self) -> int | None:
        ended = self.state.terminated
        return None if ended is None else ended.exit_code


@dataclass(frozen=True, slots=True)
class Override:
    """The agent's decision about the whole pod, which overrides what its containers say."""

    reason: str = ""
    message: str = ""
    #: whether the pod ends as Failed, whatever the exit codes of its containers
    failed: bool = False
    #: whether muster itself decided to end the pod, which is no failure of the user's
    spared: bool = False
    #: seconds that the pod has to end, if not its own grace period
    grace: float | None = None


#: The pod has exceeded its `activeDeadlineSeconds`; the kubelet's words.
TOO_LONG: Final = Override(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", failed=True
)


def deadline(pod: Pod, started: datetime) -> datetime | None:
    """The time at which the pod has to end; None without one."""
    seconds = pod.spec.active_deadline_seconds
    return None if seconds is None else after(started, seconds)


def phase(pod: Pod, containers: Sequence[Observed], override: Override = Override()) -> str:
    """Pending, Running, Succeeded or Failed."""
    if override.failed:
        return "Failed"
    policy = pod.spec.restart_policy
    inits = [c for c in containers if c.init and not c.sidecar]
    mains = [c for c in containers if not c.init]
    if any(c.exit_code not in (None, 0) for c in inits) and policy == "Never":
        return "Failed"
    if any(c.exit_code != 0 for c in inits) or all(_not_started(c) for c in mains):
        return "Pending"
    codes = [c.exit_code for c in mains]
    if any(code is None for code in codes) or policy == "Always":
        return "Running"
    if all(code == 0 for code in codes):
        return "Succeeded"
    return "Running" if policy == "OnFailure" else "Failed"


def _not_started(container: Observed) -> bool:
    return container.state.waiting is not None and container.last_state.terminated is None


def document(
    pod: Pod,
    containers: Sequence[Observed],
    now: datetime,
    start_time: datetime,
    override: Override = Override(),
    *,
    over: bool = True,
) -> Object:
    """The status to write; conditions of other writers are kept from `pod`.

    The phase is not terminal until the pod is `over`: otherwise its resources would be free too early.
    """
    current = phase(pod, containers, override)
    if current in ("Succeeded", "Failed") and not over:
        current = "Running"
    mains = [c for c in containers if not c.init]
    sidecars = [c for c in containers if c.sidecar]
    done = current in ("Succeeded", "Failed")
    initialised = all(c.exit_code == 0 for c in containers if c.init and not c.sidecar) and all(
        c.started or done for c in sidecars
    )
    unready = [c.spec.name for c in (*sidecars, *mains) if not c.ready]
    why = "PodCompleted" if current == "Succeeded" else "PodFailed" if current == "Failed" else ""
    not_ready = (False, why or "ContainersNotReady", f"not ready: {', '.join(unready)}")
    ready = (True, "", "") if not unready and not done else not_ready
    own = {
        "Initialized": (True, "", "") if initialised else (False, "ContainersNotInitialized", ""),
        "ContainersReady": ready,
        "Ready": ready,
    }
    if override.spared:
        own[PREEMPTED] = (True, "EndedByMuster", override.message)
        own["DisruptionTarget"] = (True, "TerminationByKubelet", override.message)
    conditions = _conditions(pod, own, now)
    body: Object = {
        "phase": current,
        "startTime": msgspec.to_builtins(start_time),
        "hostIP": pod.status.host_ip or "127.0.0.1",
        "conditions": msgspec.to_builtins(conditions),
        "containerStatuses": [_container(c) for c in mains],
    }
    if (
        current == "Failed" or pod.status.reason or pod.status.message
    ):  # a merge patch keeps what it omits, and removes nulls
        body["reason"] = override.reason or None if current == "Failed" else None
        body["message"] = override.message or None if current == "Failed" else None
    inits = [_container(c) for c in containers if c.init]
    if inits:
        body["initContainerStatuses"] = inits
    return body


def _conditions(pod: Pod, own: Mapping[str, tuple[bool, str, str]], now: datetime) -> list[Condition]:
    result = [c for c in pod.status.conditions if c.type not in own]
    before = {c.type: c for c in pod.status.conditions}
    for type_, (holds, reason, message) in own.items():
        status, old = "True" if holds else "False", before.get(type_)
        since = old.last_transition_time if old is not None and old.status == status else now
        result.append(
            Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=since)
        )
    return result


def _container(container: Observed) -> Object:
    """A container's status with all fields: the official client requires them even if they are zero."""
    return {
        "name": container.spec.name,
        "image": container.spec.image,
        "imageID": "",
        "ready": container.ready,
        "started": container.started,
        "restartCount": container.restart_count,
        "state": _state(container.state),
        "lastState": _state(container.last_state),
    }


def _state(state: ContainerState) -> Object:
    result: Object = msgspec.to_builtins(state)
    if state.terminated is not None:
        result["terminated"]["exitCode"] = state.terminated.exit_code
    return result


def restored(pod: Pod) -> list[Observed]:
    """The containers of a pod as its status describes them, init containers first."""

    def one(spec: Container, statuses: Iterable[ContainerStatus], init: bool) -> Observed:
        told = next((s for s in statuses if s.name == spec.name), None)
        if told is None:
            return Observed(spec, init)
        return Observed(
            spec, init, told.state, told.last_state, told.restart_count, told.ready, bool(told.started)
        )

    inits = [one(c, pod.status.init_container_statuses, True) for c in pod.spec.init_containers]
    return inits + [one(c, pod.status.container_statuses, False) for c in pod.spec.containers]


def ended(code: int, reason: str, message: str, started: datetime | None, now: datetime) -> ContainerState:
    """The state of a container that has ended."""
    return ContainerState(
        terminated=Terminated(
            exit_code=code, reason=reason, message=message, started_at=started, finished_at=now
        )
    )
