"""What the status of a group follows from: the group, its pods, and the counts of these."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from muster.api.base import AnyKind, Condition
from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.api.muster_v1alpha1 import Gang


@dataclass(frozen=True, slots=True)
class Observed:
    dialect: Dialect
    group: Any  # an object of the dialect's kind
    pods: tuple[Pod, ...]
    #: the record of its gang, in dialects whose status says why it waits
    gang: Gang | None = None
    #: the kind of the group of the same name that describes the gang instead
    instead: AnyKind | None = None
    #: the values of `spec.schedulerName` whose pods muster schedules; None = all
    schedulers: frozenset[str] | None = None

    @property
    def scheduled(self) -> tuple[Pod, ...]:
        """Its pods that muster schedules."""
        names = self.schedulers
        return tuple(pod for pod in self.pods if names is None or pod.spec.scheduler_name in names)

    @property
    def least(self) -> int:
        """How many of its pods must run together."""
        assert self.dialect.asked is not None, "a group that pods name says what it asks for"
        return max(self.dialect.asked(self.group).minimum, 1)

    @property
    def total(self) -> bool:
        """Whether quota is held for all of its pods."""
        assert self.dialect.asked is not None, "a group that pods name says what it asks for"
        return bool(self.dialect.asked(self.group).total)


def same_reason(old: Condition, new: Condition) -> bool:
    """Whether two states of a condition differ at most in the figures of their message: `code: text`.

    The figures of a reason change with the capacity of the cluster; the Gang has those of now.
    """
    codes = (each.message.partition(": ")[0] for each in (old, new))
    return (old.status, old.reason) == (new.status, new.reason) and len({*codes}) == 1


@dataclass(frozen=True, slots=True)
class Counts:
    pods: int
    #: pods on a node that have not failed
    scheduled: int
    running: int
    succeeded: int
    failed: int

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> "Counts":
        phases = [(pod.status.phase, bool(pod.spec.node_name)) for pod in pods]
        return cls(
            pods=len(phases),
            scheduled=sum(bound and phase != "Failed" for phase, bound in phases),
            running=sum(phase == "Running" for phase, _ in phases),
            succeeded=sum(phase == "Succeeded" for phase, _ in phases),
            failed=sum(phase == "Failed" for phase, _ in phases),
        )
