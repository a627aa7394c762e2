"""Writes the status of policies: whether a policy is valid, and otherwise what is wrong with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from muster.api.base import Kind, Object
from muster.api.muster_v1alpha1 import CedarPolicy, TrustPolicy
from muster.controllers.caches import Caches
from muster.controllers.driver import Controller, Signal, Watch, itself
from muster.effects import Effect, Patch

#: Most errors that a status lists.
_MOST: Final = 20
P = TypeVar("P", CedarPolicy, TrustPolicy)


@dataclass(frozen=True, slots=True)
class Judged:
    """What is wrong with a policy, and what it contains."""

    errors: tuple[str, ...] = ()
    #: further fields of the status
    counts: Object | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    policy: CedarPolicy | TrustPolicy
    judged: Judged


def controller(kind: Kind[P], judge: Callable[[P], Judged | None], *signals: Signal) -> Controller[Observed]:
    """Returns the controller of one kind of policies for the driver.

    `judge` reads a policy; it returns None while facts that it needs are not known yet.
    """

    def observe(caches: Caches, key: str) -> Observed | None:
        policy = caches[kind].get(key)
        judged = judge(policy) if policy is not None else None
        return Observed(policy, judged) if policy is not None and judged is not None else None

    def reconcile(observed: Observed, now: datetime) -> list[Effect]:
        policy, judged = observed.policy, observed.judged
        status: Object = {
            "phase": "Invalid" if judged.errors else "Valid",
            "validationErrors": _told(judged.errors),
            **(judged.counts or {}),
        }
        if msgspec.convert(status, type(policy.status)) == policy.status:
            return []
        return [Patch(kind, "", policy.metadata.name, {"status": status}, "status")]

    return Controller(kind.kind.lower(), (Watch(kind, itself),), observe, reconcile, signals=signals)


def _told(errors: Sequence[str]) -> list[str]:
    """Returns the first errors, and how many more there are."""
    more = [f"and {len(errors) - _MOST} more"] if len(errors) > _MOST else []
    return [*errors[:_MOST], *more]
