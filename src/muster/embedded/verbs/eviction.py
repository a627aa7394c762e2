"""Eviction: a deletion that disruption budgets may forbid.

The disruptions that a budget allows are computed for each eviction, from the pods that the budget selects, so
no controller has to keep its status up to date. A percentage is of the pods that the selector matches now.

Source: kubernetes, pkg/registry/core/pod/storage/eviction.go and pkg/controller/disruption/disruption.go.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from muster.api.base import LabelSelector, Object, ObjectMeta, Struct
from muster.api.fields import InvalidObject, convert
from muster.api.scheduling import PodDisruptionBudgetSpec, healthy_required
from muster.api.selectors import matches
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.metadata import time_text
from muster.embedded.verbs.options import Options
from muster.kube.errors import BadRequest, ServerError, TooManyRequests

DISRUPTION_TARGET: Final = "DisruptionTarget"


class _Eviction(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    delete_options: Options | None = None


def options(name: str, obj: Object) -> tuple[DeleteOptions, bool]:
    """The delete options in an Eviction of the pod `name`, and whether it is a dry run."""
    try:
        eviction = convert(obj, _Eviction)
    except InvalidObject as error:
        raise BadRequest(f"the body is not an Eviction: {error}") from None
    if eviction.metadata.name not in ("", name):
        raise BadRequest(f"the Eviction is for {eviction.metadata.name!r}, not for {name!r}")
    given = eviction.delete_options or Options()
    return given.meant(), given.is_dry


def needs_budget(pod: Object) -> bool:
    """Whether budgets apply to the pod: not if it does not run yet, has ended, or is being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in (
        "Pending",
        "Succeeded",
        "Failed",
    )


def check(pod: Object, budgets: Iterable[Object], pods: Iterable[Object]) -> None:
    """Raises `TooManyRequests` if a budget forbids to evict `pod`. All objects are of one namespace."""
    labels = pod["metadata"].get("labels") or {}
    selecting = [budget for budget in budgets if matches(_selector(budget), labels)]
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
        and matches(selector, other["metadata"].get("labels") or {})
    ]
    healthy = sum(_healthy(other) for other in counted)
    spec = budget.get("spec") or {}
    try:
        wanted = healthy_required(convert(spec, PodDisruptionBudgetSpec), len(counted))
    except ValueError:  # as in a real cluster, a budget that cannot be computed allows no disruption
        wanted = len(counted) + 1
    always = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
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
    """The pod with the condition DisruptionTarget, unless the pod has it already."""
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
    return convert((budget.get("spec") or {}).get("selector") or {}, LabelSelector)


def _healthy(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ()
    )
