"""PodDisruptionBudgets: how many of the pods that each selects may be disrupted now.

The number of the disruption controller (`status.disruptionsAllowed`) is used if it exists. If no controller
keeps the status up to date (the embedded cluster has none), muster counts the existing pods by the same
rules: a certain number of the pods that the selector matches must stay healthy. A budget that cannot be read
allows no disruption.

Source: kubernetes, pkg/controller/disruption/disruption.go.
"""

from collections.abc import Iterable

from muster.api.base import is_true
from muster.api.core_v1 import Pod
from muster.api.scheduling import PodDisruptionBudget, healthy_required
from muster.core.words.events import BudgetChanged
from muster.core.words.gang import Requirement
from muster.core.world.labels import satisfied
from muster.translate.surroundings import requirements


def budget_changed(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> BudgetChanged | None:
    """Returns what the budget allows now; None if it selects nothing. `pods`: all of its namespace."""
    if budget.spec.selector is None:
        return None
    meta = budget.metadata
    try:
        where = requirements(budget.spec.selector)
        allowed = (
            budget.status.disruptions_allowed if counts_itself(budget) else _allowed(budget, where, pods)
        )
    except ValueError:
        where, allowed = (), 0
    return BudgetChanged(meta.namespace, meta.name, where, max(allowed, 0))


def counts_itself(budget: PodDisruptionBudget) -> bool:
    """Whether a controller keeps the budget's status up to date."""
    return budget.status.observed_generation > 0


def _allowed(budget: PodDisruptionBudget, where: tuple[Requirement, ...], pods: Iterable[Pod]) -> int:
    counted = [pod for pod in pods if not pod.terminal and satisfied(where, pod.metadata.labels)]
    healthy = sum(
        pod.metadata.deletion_timestamp is None and is_true(pod.status.conditions, "Ready") for pod in counted
    )
    return healthy - healthy_required(budget.spec, len(counted))
