"""One queue of the tree, and what is charged to it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.core.words.amounts import counted
from muster.core.words.gang import Amounts, Queue

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
    used: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    #: what it and all queues below it use and wait for, as far as caps allow; the entitlement that follows
    asked: dict[str, int] = field(default_factory=dict)
    entitled: dict[str, int] = field(default_factory=dict)
    #: started gangs at or below it; its own gangs that wait for their minimum
    standing: int = 0
    waiting: int = 0
    #: what terminating pods still use, and how many gangs, beyond the charge of the gangs that replace them
    terminating: dict[str, int] = field(default_factory=dict)
    terminating_gangs: int = 0
    #: what its gangs use, by namespace; filled only if its order is fair
    by_namespace: dict[str, dict[str, int]] = field(default_factory=dict)
    #: it, or a queue above it, has a cap on some resource or on the number of gangs
    capped: bool = False
    #: it has the cluster to itself, and no rules about amounts: it is entitled to whatever it asks for
    free: bool = False
    #: number of the last start that carried it over its entitlement; -1: none has
    last_borrowed: int = -1
    #: the rules' amounts as mappings
    caps: dict[str, int] = field(init=False)
    guaranteed: dict[str, int] = field(init=False)
    deserved: dict[str, int] = field(init=False)
    #: the rules set no such amounts
    unruled: bool = field(init=False)

    def __post_init__(self) -> None:
        self.caps, self.guaranteed = dict(counted(self.rules.capability)), dict(counted(self.rules.guarantee))
        self.deserved = dict(counted(self.rules.deserved or ()))
        self.unruled = not (self.caps or self.guaranteed or self.deserved)

    @property
    def name(self) -> str:
        return self.rules.name

    def there(self, resource: str) -> int:
        """Return what counts against the queue's hard cap of a resource."""
        return self.used.get(resource, 0) + self.terminating.get(resource, 0)

    @property
    def gangs(self) -> int:
        """How many gangs count against `maxGangs`."""
        return self.standing + self.terminating_gangs

    def above(self) -> "Iterator[Account]":
        """Yield the queues above it, without the root."""
        parent = self.parent
        while parent is not None and parent.parent is not None:
            yield parent
            parent = parent.parent

    def share(self, more: Amounts = ()) -> float:
        """Return the maximum over resources of (used + more) / entitled; use without entitlement is infinite.

        Equal fractions are equal numbers: IEEE division rounds correctly on every machine.
        """
        used = self.used
        if more:
            used = {**used, **{r: used.get(r, 0) + amount for r, amount in more}}
        return self._share(used)

    def share_of(self, namespace: str) -> float:
        """Return one namespace's dominant share: `share` of what it uses. Only in a queue of order fair."""
        return self._share(self.by_namespace.get(namespace, {}))

    def _share(self, used: Mapping[str, int]) -> float:
        share = 0.0
        for resource, amount in used.items():
            if amount > 0:
                whole = self.entitled.get(resource, 0)
                share = max(share, amount / whole if whole else float("inf"))
        return share
