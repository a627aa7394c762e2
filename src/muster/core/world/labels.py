"""Requirements on labels, by Kubernetes' own rules, and the domains of a label.

NotIn and DoesNotExist hold where the label is absent; Gt and Lt compare integers and hold for nothing else.
No requirement at all is satisfied by everything.

The domains of a label, each all nodes with one value of it, are numbers that arrays can be indexed with.
Kubernetes' affinity, anti-affinity and spread count pods per domain of any label; a label that every node has
for itself, such as `kubernetes.io/hostname`, makes each node a domain. A label's numbering is built once and
then follows the log of changed nodes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.core.words.gang import Operator, Requirement
from muster.core.world.nodes import Bools, Ints, Longs, Nodes, recent


def satisfied(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy every requirement."""
    return all(holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def holds(requirement: Requirement, value: str | None) -> bool:
    """Whether a requirement holds for this value; None = there is no such label."""
    return _OPERATORS[requirement.operator](value, requirement.values)


def compares(sign: int, value: str | None, values: tuple[str, ...]) -> bool:
    """Whether `value` is above (`sign` 1) or below (-1) the one in `values`, both being integers."""
    if value is None or len(values) != 1:
        return False
    try:
        return sign * int(value) > sign * int(values[0])
    except ValueError:
        return False


_OPERATORS: Final[Mapping[Operator, Callable[[str | None, tuple[str, ...]], bool]]] = {
    Operator.IN: lambda value, values: value is not None and value in values,
    Operator.NOT_IN: lambda value, values: value is None or value not in values,
    Operator.EXISTS: lambda value, values: value is not None,
    Operator.DOES_NOT_EXIST: lambda value, values: value is None,
    Operator.GT: lambda value, values: compares(+1, value, values),
    Operator.LT: lambda value, values: compares(-1, value, values),
}


#: Labels whose domains are kept; the least recently used is dropped first.
_KEPT: Final = 64


@dataclass(slots=True)
class Domain:
    """The domains of one label: `index` is the number of each column's domain, -1 without the label.

    Numbers are below `count`.
    """

    key: str
    index: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    count: int = 0
    #: every domain is a single node
    single: bool = True
    numbers: dict[str, int] = field(default_factory=dict)
    position: int = -1

    def sums(self, count: Ints | Longs) -> Longs:
        """The sum over each domain of a number per column, int64."""
        inside = self.index >= 0
        return np.bincount(self.index[inside], weights=count[inside], minlength=self.count).astype(np.int64)

    def at(self, sums: Longs) -> Longs:
        """For each column the number of its domain, given one per domain; 0 for columns without a domain."""
        found: Longs = np.append(sums, np.int64(0))[self.index]
        return found

    def where(self, flags: Bools) -> Bools:
        """The columns in these domains."""
        found: Bools = np.append(flags, np.False_)[self.index]
        return found


class Domains:
    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        #: by label
        self._known: dict[str, Domain] = {}

    def of(self, key: str) -> Domain:
        """The domains of this label as of now. Read it, do not keep it."""
        nodes = self._nodes
        found = recent(self._known, key, Domain, _KEPT)
        if (changed := nodes.fact_changes.since(found.position)) is None:
            found.index, found.numbers, found.count = np.full(len(nodes), -1, np.int32), {}, 0
            changed = list(range(len(nodes)))
        for column in changed:
            fact = nodes.facts.get(nodes.names[column])
            value = None if fact is None else next((v for k, v in fact.labels if k == key), None)
            number = -1 if value is None else found.numbers.setdefault(value, len(found.numbers))
            found.index[column] = number
        if changed:
            found.count = len(found.numbers)
            found.single = bool((np.bincount(found.index + 1, minlength=1)[1:] <= 1).all())
        found.position = nodes.fact_changes.end
        return found
