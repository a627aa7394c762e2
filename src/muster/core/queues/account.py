"""One queue of the tree, and what is charged to it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.core.gang import Amounts, Queue
from muster.core.queues.amounts import counted

ROOT: Final = "root"
DEFAULT: Final = "default"


@dataclass(slots=True, eq=False)
class Account:
    """One queue of the tree. `used` counts all below it; other sums are its own gangs'."""

    rules: Queue
    parent: "Account | None" = None
    children: list["Account"] = field(default_factory=list)
    #: itself and those above it, without the root; of a faulty queue only itself
    path: tuple["Account", ...] = ()
    fault: str = ""
    used: dict[str, int] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    #: what all below it use and wait for, as far as caps let them, and what it is entitled to for that
    asked: dict[str, int] = field(default_factory=dict)
    entitled: dict[str, int] = field(default_factory=dict)
    #: gangs at or below it that have begun; its own that wait for their minimum
    standing: int = 0
    waiting: int = 0
    #: what is there still of those who leave, and how many gangs, besides what comes for it
    lingering: dict[str, int] = field(default_factory=dict)
    lingering_gangs: int = 0
    #: what its gangs use by namespace, if its order is fair
    by_namespace: dict[str, dict[str, int]] = field(default_factory=dict)
    #: it, or a queue above it, may not have more than some amount or number of gangs
    capped: bool = False
    #: it has the cluster to itself, and no rules about amounts: it is entitled to whatever it asks for
    free: bool = False
    #: number of the last start that carried it over its entitlement
    carried_over: int = -1
    #: the rules' amounts, to be looked up
    caps: dict[str, int] = field(init=False)
    kept: dict[str, int] = field(init=False)
    deserved: dict[str, int] = field(init=False)
    #: there are no such amounts
    unruled: bool = field(init=False)

    def __post_init__(self) -> None:
        self.caps, self.kept = dict(counted(self.rules.capability)), dict(counted(self.rules.guarantee))
        self.deserved = dict(counted(self.rules.deserved or ()))
        self.unruled = not (self.caps or self.kept or self.deserved)

    @property
    def name(self) -> str:
        return self.rules.name

    def there(self, resource: str) -> int:
        """What counts against its hard cap."""
        return self.used.get(resource, 0) + self.lingering.get(resource, 0)

    @property
    def gangs(self) -> int:
        """How many count against the most that it may have."""
        return self.standing + self.lingering_gangs

    def above(self) -> "Iterator[Account]":
        """Those above it, without the root."""
        parent = self.parent
        while parent is not None and parent.parent is not None:
            yield parent
            parent = parent.parent

    def share(self, more: Amounts = ()) -> float:
        """max over resources of (used + more) / entitled; what is used without being entitled to is infinite.

        Equal fractions are equal numbers: IEEE division rounds correctly on every machine.
        """
        used = self.used
        if more:
            used = {**used, **{r: used.get(r, 0) + amount for r, amount in more}}
        return self._share(used)

    def share_of(self, namespace: str) -> float:
        """The same of what one namespace uses: its dominant share. Only in a queue of order fair."""
        return self._share(self.by_namespace.get(namespace, {}))

    def _share(self, used: Mapping[str, int]) -> float:
        share = 0.0
        for resource, amount in used.items():
            if amount > 0:
                whole = self.entitled.get(resource, 0)
                share = max(share, amount / whole if whole else float("inf"))
        return share
