"""Writes the status of CedarPolicies: whether they are valid, and what is wrong with those that are not."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from muster.api.base import Object
from muster.api.kinds import CEDAR_POLICY
from muster.api.muster_v1alpha1 import CedarPolicy
from muster.controllers.caches import Caches
from muster.controllers.driver import Controller, Watch, itself
from muster.effects import Effect, Patch


@dataclass(frozen=True, slots=True)
class Judged:
    """What a policy's text holds."""

    permits: int = 0
    forbids: int = 0
    errors: tuple[str, ...] = ()


#: Reads the text of a policy; pure.
Judge = Callable[[CedarPolicy], Judged]


@dataclass(frozen=True, slots=True)
class Observed:
    policy: CedarPolicy
    judged: Judged


def controller(judge: Judge) -> Controller[Observed]:
    """Returns the controller for the driver."""

    def observe(caches: Caches, key: str) -> Observed | None:
        policy = caches[CEDAR_POLICY].get(key)
        return None if policy is None else Observed(policy, judge(policy))

    return Controller("cedarpolicy", (Watch(CEDAR_POLICY, itself),), observe, reconcile)


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    policy, judged = observed.policy, observed.judged
    old = policy.status
    new: Object = {
        "phase": "Invalid" if judged.errors else "Valid",
        "permitCount": judged.permits,
        "forbidCount": judged.forbids,
        "validationErrors": list(judged.errors),
    }
    same: Object = {
        "phase": old.phase,
        "permitCount": old.permit_count,
        "forbidCount": old.forbid_count,
        "validationErrors": old.validation_errors,
    }
    if new == same:
        return []
    return [Patch(CEDAR_POLICY, "", policy.metadata.name, {"status": new}, "status")]
