"""Reads from a pod that it has failed on its node before it got going, and how.

A node may be at fault if it rejects a pod, if a container cannot be started, or if one fails within seconds.
What of this counts is a setting. A pod that is being deleted or was disrupted says nothing about its node.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.api.base import controller_of, is_true
from muster.api.core_v1 import Pod
from muster.api.times import seconds
from muster.core.words.events import StartFailed
from muster.core.words.gang import NodeName
from muster.translate.pods import containers, rejected

#: Reasons of a container that the node could not start, by containerd, CRI-O and Docker.
_START_ERRORS: Final = ("StartError", "ContainerCannotRun", "RunContainerError", "CreateContainerError")
_DISRUPTED: Final = "DisruptionTarget"
#: Most characters of a node's message.
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Counted:
    """Which failures count: rejections, start errors, and containers that fail within so many seconds."""

    rejections: bool = True
    start_errors: bool = True
    exits_within: float = 0.0


def start_failed(pod: Pod, counted: Counted, origin: str, now: float) -> StartFailed | None:
    """Returns the failure of a pod; None if it did not fail at its start. `origin`: as in the event.

    `now`: the time of a failure that has none, or one that is still to come by a clock that is ahead.
    """
    if pod.status.phase != "Failed" or not pod.spec.node_name:
        return None
    if pod.metadata.deletion_timestamp is not None or is_true(pod.status.conditions, _DISRUPTED):
        return None
    if (found := _failure(pod, counted)) is None:
        return None
    at, why = found
    node, meta = pod.spec.node_name, pod.metadata
    told = f"{node} failed pod {meta.name} at its start: {why[:_LONGEST]}"
    return StartFailed(NodeName(node), origin, meta.namespace, min(seconds(at), now) if at else now, told)


def origin_of(pod: Pod) -> str:
    """Returns what has made a pod that is a gang of its own, and others like it; "" if nothing has."""
    owner = controller_of(pod)
    return "" if owner is None else f"{owner.kind} {pod.metadata.namespace}/{owner.name}"


def _failure(pod: Pod, counted: Counted) -> tuple[datetime | None, str] | None:
    """Returns when and how the pod failed, if that counts."""
    status = pod.status
    if rejected(pod):
        why = status.message if status.reason in status.message else f"{status.reason}: {status.message}"
        return (status.start_time, why) if counted.rejections else None
    for container in containers(pod):
        ended = container.state.terminated
        if ended is None or not ended.exit_code:
            continue
        if ended.reason in _START_ERRORS:
            why = f"{ended.reason}: {ended.message}".rstrip(": ")
            return (ended.finished_at, why) if counted.start_errors else None
        if ended.started_at is not None and ended.finished_at is not None:
            ran = (ended.finished_at - ended.started_at).total_seconds()
            if ran < counted.exits_within:
                return ended.finished_at, f"exit code {ended.exit_code} after {ran:.1f} s"
    return None
