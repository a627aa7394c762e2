"""One queue of the tree: what is charged to it, and what it may still use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.core.words.amounts import Usage
from muster.core.words.gang import Queue
from muster.core.words.wording import bare, show

ROOT: Final = "root"
DEFAULT: Final = "default"


@dataclass(slots=True, eq=False)
class Account:
    """One queue of the tree. `used` includes the queues below it; other sums cover its own gangs only."""

    rules: Queue
    parent: "Account | None" = None
    children: list["Account"] = field(default_factory=list)
    #: the queue and the queues above it, without the root; of a faulty queue only itself
    path: tuple["Account", ...] = ()
    fault: str = ""
    used: Usage = field(default_factory=Usage)
    wanted: Usage = field(default_factory=Usage)
    #: what it and all queues below it use and wait for, as far as caps allow; the entitlement that follows
    asked: Usage = field(default_factory=Usage)
    entitled: Mapping[str, int] = field(default_factory=dict)
    #: the entitlement, of the resources of which it is not entitled to all that the cluster has
    limits: Mapping[str, int] = field(default_factory=dict)
    #: started gangs at or below it; its own gangs that wait for their minimum
    standing: int = 0
    waiting: int = 0
    #: what terminating pods still use, and how many gangs, beyond the charge of the gangs that replace them
    terminating: Usage = field(default_factory=Usage)
    terminating_gangs: int = 0
    #: what its gangs use, by namespace; filled only if its order is fair
    by_namespace: dict[str, Usage] = field(default_factory=dict)
    #: it has the cluster to itself, and no limits: it is entitled to whatever it asks for
    free: bool = False
    #: number of the last start that carried it over its entitlement; -1: none has
    last_borrowed: int = -1
    #: the rules' amounts; `caps` limit only the resources that they name
    caps: Mapping[str, int] = field(init=False)
    guaranteed: Usage = field(init=False)
    deserved: Usage = field(init=False)

    def __post_init__(self) -> None:
        rules = self.rules
        self.caps, self.guaranteed = dict(Usage.of(rules.capability)), Usage.of(rules.guarantee)
        self.deserved = Usage.of(rules.deserved or ())

    @property
    def unlimited(self) -> bool:
        """Whether its rules limit neither amounts nor the number of gangs."""
        return not (self.caps or self.guaranteed or self.deserved) and self.rules.max_gangs is None

    @property
    def name(self) -> str:
        return self.rules.name

    def above(self) -> "Iterator[Account]":
        """Yield the queues above it, without the root."""
        parent = self.parent
        while parent is not None and parent.parent is not None:
            yield parent
            parent = parent.parent

    def share(self, used: Mapping[str, int]) -> float:
        """Return the maximum over resources of used / entitled; use without entitlement is infinite.

        Equal fractions are equal numbers: IEEE division rounds correctly on every machine.
        """
        share = 0.0
        for resource, amount in used.items():
            if amount > 0:
                whole = self.entitled.get(resource, 0)
                share = max(share, amount / whole if whole else float("inf"))
        return share

    # Entitlement, of this one queue

    def exceeds(self, asked: Mapping[str, int]) -> bool:
        """Whether so much more would carry this queue over its entitlement."""
        used, limits = self.used, self.limits
        return any(r in limits and used.get(r, 0) + amount > limits[r] for r, amount in asked.items())

    def surplus(self) -> Usage:
        """Return by how much the queue is over its entitlement."""
        limits = self.limits
        return Usage(
            {r: used - limits[r] for r, used in self.used.items() if r in limits and used > limits[r]}
        )

    # Limits, of this queue and of the queues above it

    def room(self, *, borrow: bool) -> dict[str, int]:
        """Return how much more the queue may use of each resource that is limited; may be negative.

        `borrow`: only caps limit the queue, its entitlement does not.
        """
        room: dict[str, int] = {}
        for above in self.path:
            left = [(resource, cap - above.used_below_cap(resource)) for resource, cap in above.caps.items()]
            if not borrow:
                left += [(r, limit - above.used.get(r, 0)) for r, limit in above.limits.items()]
            for resource, amount in left:
                room[resource] = min(room.get(resource, amount), amount)
        return room

    def over_caps(self, asked: Mapping[str, int]) -> "Iterator[tuple[Account, str, int]]":
        """Yield the hard caps that so much more would exceed: the queue, the resource, the excess."""
        for above in self.path:
            for resource, amount in asked.items() if above.caps else ():
                cap = above.caps.get(resource)
                if cap is not None and amount > 0:
                    excess = above.used_below_cap(resource) + amount - cap
                    if excess > 0:
                        yield above, resource, excess

    def over_max_gangs(self) -> "Iterator[tuple[Account, int]]":
        """Yield the queues that may have no more gangs, each with its excess if one more started."""
        for above in self.path:
            most = above.rules.max_gangs
            if most is not None and above.gangs >= most:
                yield above, above.gangs + 1 - most

    def cap_exceeded(self, asked: Mapping[str, int], *, new: bool) -> str | None:
        """Say which hard cap so much more, and if `new` one more gang, would exceed; None: none."""
        for above, _ in self.over_max_gangs() if new else ():
            most = above.rules.max_gangs
            return f"queue {above.name} has maxGangs {most}, and {above.gangs} started already"
        for above, resource, excess in self.over_caps(asked):
            cap, used = above.caps[resource], above.used_below_cap(resource)
            return (
                f"queue {above.name} uses {bare(resource, used)} of its {show(resource, cap)}; "
                f"{bare(resource, cap + excess - used)} more would be {bare(resource, cap + excess)}"
            )
        return None

    def share_exceeded(self, asked: Mapping[str, int], everything: Mapping[str, int]) -> str | None:
        """Say which queue so much more would carry over its entitlement; None: none.

        `everything`: what the cluster has.
        """
        for above in self.path:
            for resource, amount in asked.items():
                limit, used = above.limits.get(resource), above.used.get(resource, 0)
                if limit is not None and used + amount > limit:
                    return (
                        f"queue {above.name} is entitled to {bare(resource, limit)} of "
                        f"{show(resource, everything[resource])} and uses {bare(resource, used)}; "
                        f"{bare(resource, amount)} more would be {bare(resource, used + amount)}"
                    )
        return None

    @property
    def awaits_terminating(self) -> bool:
        """Whether usage of terminating pods still counts against its hard caps."""
        return any(above.terminating or above.terminating_gangs for above in self.path)

    def used_below_cap(self, resource: str) -> int:
        """Return what counts against the queue's hard cap of a resource."""
        return self.used.get(resource, 0) + self.terminating.get(resource, 0)

    @property
    def gangs(self) -> int:
        """How many gangs count against `maxGangs`."""
        return self.standing + self.terminating_gangs
