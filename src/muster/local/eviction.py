"""Eviction: a deletion that disruption budgets may forbid.

What a budget allows is computed when it is asked for, from the pods that it selects; nothing has to keep
its status true. A percentage is of the pods that the selector matches now.

Source: kubernetes, pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption/disruption.go.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from muster.api.base import LabelSelector, Object
from muster.api.fields import convert
from muster.kube.errors import BadRequest, ServerError, TooManyRequests
from muster.local.deletion import DeleteOptions
from muster.local.metadata import time_text
from muster.local.selectors import matches_labels

DISRUPTION_TARGET: Final = "DisruptionTarget"


def options(name: str, eviction: Object) -> DeleteOptions:
    if not isinstance(eviction, dict) or (eviction.get("metadata") or {}).get("name", name) != name:
        raise BadRequest(f"the Eviction is not for {name!r}")
    given = eviction.get("deleteOptions") or {}
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        grace_period=given.get("gracePeriodSeconds"),
        propagation=given.get("propagationPolicy"),
    )


def needs_budget(pod: Object) -> bool:
    """Pods that do not run, or are leaving anyway, disrupt nothing."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in (
        "Pending",
        "Succeeded",
        "Failed",
    )


def check(pod: Object, budgets: Iterable[Object], pods: Iterable[Object]) -> None:
    """Raises `TooManyRequests` where a budget forbids it. All are of one namespace."""
    labels = pod["metadata"].get("labels") or {}
    selecting = [budget for budget in budgets if matches_labels(_selector(budget), labels)]
    if not selecting:
        return
    if len(selecting) > 1:
        raise ServerError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    budget = selecting[0]
    selector = _selector(budget)
    counted = [
        other
        for other in pods
        if other["status"].get("phase") not in ("Succeeded", "Failed")
        and matches_labels(selector, other["metadata"].get("labels") or {})
    ]
    healthy = sum(_healthy(other) for other in counted)
    wanted = _wanted(budget["spec"], len(counted))
    always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    if not _healthy(pod) and (always or healthy >= wanted):
        return
    if healthy - 1 < wanted:
        name = budget["metadata"]["name"]
        raise TooManyRequests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={
                "causes": [
                    {
                        "reason": "DisruptionBudget",
                        "message": f"The disruption budget {name} needs {wanted} healthy pods "
                        f"and has {healthy} currently",
                    }
                ]
            },
        )


def disrupted(pod: Object, now: datetime) -> Object:
    """The pod with the condition that says who ends it, unless somebody has said so before."""
    conditions = pod["status"].get("conditions") or []
    if any(c["type"] == DISRUPTION_TARGET and c["status"] == "True" for c in conditions):
        return pod
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": time_text(now),
    }
    others = [c for c in conditions if c["type"] != DISRUPTION_TARGET]
    return {**pod, "status": {**pod["status"], "conditions": [*others, condition]}}


def _selector(budget: Object) -> LabelSelector:
    return convert(budget["spec"].get("selector") or {}, LabelSelector)


def _healthy(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ()
    )


def _wanted(spec: Object, total: int) -> int:
    """How many healthy pods the budget asks for."""
    if "maxUnavailable" in spec:
        return max(0, total - _amount(spec["maxUnavailable"], total))
    return _amount(spec.get("minAvailable", 1), total)


def _amount(value: int | str, total: int) -> int:
    """A number, or a percentage rounded up."""
    return math.ceil(int(value[:-1]) * total / 100) if isinstance(value, str) else value
