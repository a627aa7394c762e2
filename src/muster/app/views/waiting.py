"""Why a job waits, from the conditions of its pods and the status of its gangs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from muster.api.base import Condition, condition
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang
from muster.app.views.pods import statuses
from muster.core.words.gang import Code

_CODES: Final = frozenset(code.value for code in Code)


def waits_for(pods: Iterable[Pod], gangs: Sequence[Gang]) -> tuple[str, str] | None:
    """Why the first waiting gang waits; for independent pods, the reason that most of them share."""
    for gang in gangs:
        if gang.status.reason and gang.status.reason.code:
            return gang.status.reason.code, gang.status.reason.message
    reasons: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        scheduled = condition(pod.status.conditions, "PodScheduled")
        if not pod.spec.node_name and scheduled is not None and scheduled.status == "False":
            reasons[_said(scheduled)] += 1
        elif (held := _held_back(pod)) is not None:
            reasons[held] += 1
    if not reasons:
        return None
    (code, message), count = max(reasons.items(), key=lambda item: (item[1], item[0]))
    total = sum(reasons.values())
    return code, message if total == 1 else f"{count} of {total} waiting pods: {message}"


def _said(scheduled: Condition) -> tuple[str, str]:
    """The reason: muster's own code if the message begins with one, else Kubernetes' single code."""
    code, _, message = scheduled.message.partition(": ")
    return (code, message) if code in _CODES else (scheduled.reason, scheduled.message)


def _held_back(pod: Pod) -> tuple[str, str] | None:
    """Why a container of a bound pod has not started, or does not restart."""
    for status in statuses(pod):
        waiting = status.state.waiting
        if waiting is not None and waiting.message:
            last = status.last_state.terminated
            return waiting.reason, ": ".join(filter(None, [waiting.message, last.message if last else ""]))
    return None
