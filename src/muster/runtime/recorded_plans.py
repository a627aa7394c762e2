"""The plans that Gangs and GangPlans record, by the Gang that they belong to.

Records that belong to another Lease are another scheduler's: their plans do not exist here. Records without a
Lease, as earlier versions wrote them, belong to any.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace

from muster.api.base import Resource
from muster.api.muster_v1alpha1 import Gang, GangPlan
from muster.runtime.plan_record import PlacementPlan, Plan, found

log = logging.getLogger(__name__)

#: Namespace and name of a Gang.
Record = tuple[str, str]


class RecordedPlans:
    """Holds the plans of this scheduler, which has this `lease`; "": of all schedulers."""

    def __init__(self, lease: str) -> None:
        self._lease = lease
        self._plans: dict[Record, dict[str, Plan]] = {}

    def __iter__(self) -> Iterator[Plan]:
        return (plan for plans in self._plans.values() for plan in plans.values())

    def of(self, record: Record) -> list[Plan]:
        return [*self._plans.get(record, {}).values()]

    def records(self) -> list[Record]:
        """Returns the Gangs that have plans, whether or not they exist."""
        return [*self._plans]

    def change(self, old: Resource | None, new: Resource | None) -> Iterator[Plan]:
        """Takes in a Gang or a GangPlan; yields the plan that it had, and the one that it has."""
        old, new = self._own(old), self._own(new)
        before = None
        if isinstance(old, (GangPlan, Gang)):
            record, name = _where(old)
            before = self._plans.get(record, {}).pop(name, None)
            if before is not None:
                if not self._plans[record]:
                    del self._plans[record]
                yield before
        if isinstance(new, (GangPlan, Gang)) and (plan := _decoded(new, old, before)) is not None:
            record, name = _where(new)
            self._plans.setdefault(record, {})[name] = plan
            yield plan

    def others(self, record: Resource | None) -> str:
        """Returns the Lease of the other scheduler that a Gang or a plan belongs to, if it does."""
        lease = record.spec.lease if self._lease and isinstance(record, (Gang, GangPlan)) else ""
        return lease if lease != self._lease else ""

    def _own(self, obj: Resource | None) -> Resource | None:
        return obj if not self.others(obj) else None


def _where(obj: GangPlan | Gang) -> tuple[Record, str]:
    """Returns the Gang that a plan belongs to, and the plan's own name among its plans."""
    meta = obj.metadata
    return (
        ((meta.namespace, meta.name), "")
        if isinstance(obj, Gang)
        else ((meta.namespace, obj.spec.gang), meta.name)
    )


def _decoded(obj: GangPlan | Gang, old: Resource | None, before: Plan | None) -> Plan | None:
    """Returns the plan in an object; `before` if it is still that of `old`."""
    if before is not None and isinstance(old, Gang) and isinstance(obj, Gang) and old.plan == obj.plan:
        return replace(before, held=obj)
    plan = found(obj)
    if isinstance(plan, PlacementPlan) and plan.unreadable:
        log.error("%s", plan.unreadable)
    return plan
