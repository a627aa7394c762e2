"""How much of a parent's entitlement each of its queues is entitled to, of one resource.

The rule (docs/queues.md): a queue with a `deserved` amount is entitled to that. The others are entitled to
their guarantee, and divide what is left by weight: like water that is poured into vessels as wide as
the weights and as high as each queue can use it, so that what one leaves goes to the others. It is the
weighted max-min fair division; Volcano's `proportion` does the same in floating point, and in rounds.

Amounts are integers, and so are shares: what weights do not divide evenly goes by largest remainder, ties to
the smallest name (Hamilton's method). So the division is exact, does not depend on the order of its
input, and never gives away more than there is. If a cluster shrinks below what has been promised,
guarantees are cut last: promises of one kind are cut in proportion.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Terms(NamedTuple):
    """What one queue may claim of one resource."""

    weight: int
    #: what it uses and waits for
    asked: int
    guarantee: int = 0
    #: None: computed
    deserved: int | None = None
    #: None: no cap
    capability: int | None = None

    def capped(self, amount: int) -> int:
        return amount if self.capability is None else min(amount, self.capability)


def divide(amount: int, queues: Mapping[str, Terms]) -> dict[str, int]:
    """The entitlement of each queue, by name; together at most `amount`, which is at least zero."""
    if len(queues) == 1:
        ((name, only),) = queues.items()
        wanted = only.asked if only.deserved is None else only.deserved
        return {name: min(amount, only.capped(max(only.guarantee, wanted)))}
    kept = {name: terms.capped(terms.guarantee) for name, terms in queues.items()}
    promised = {
        name: max(terms.capped(terms.deserved) - kept[name], 0)
        for name, terms in queues.items()
        if terms.deserved is not None
    }
    if sum(kept.values()) > amount:
        return pour(amount, kept, kept)
    pool = amount - sum(kept.values())
    if sum(promised.values()) > pool:
        return _sum(kept, pour(pool, promised, promised))
    pool -= sum(promised.values())
    others = {name: terms for name, terms in queues.items() if terms.deserved is None}
    limits = {name: max(terms.capped(terms.asked) - kept[name], 0) for name, terms in others.items()}
    weights = {name: terms.weight for name, terms in others.items()}
    return _sum(kept, promised, pour(pool, limits, weights))


def pour(pool: int, limits: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, int]:
    """Divide a pool by weight, none above its limit: the weighted max-min fair shares, in whole numbers."""
    shares = dict.fromkeys(limits, 0)
    thirsty = [name for name, limit in limits.items() if limit > 0]
    while thirsty:
        total = sum(weights[name] for name in thirsty)
        full = {name for name in thirsty if limits[name] * total <= pool * weights[name]}
        if not full:
            break
        for name in full:
            shares[name] = limits[name]
            pool -= limits[name]
        thirsty = [name for name in thirsty if name not in full]
    if thirsty:
        total = sum(weights[name] for name in thirsty)
        for name in thirsty:
            shares[name] = pool * weights[name] // total
        left = pool - sum(shares[name] for name in thirsty)
        by_remainder = sorted(thirsty, key=lambda name: (-(pool * weights[name] % total), name))
        for name in by_remainder[:left]:
            shares[name] += 1
    return shares


def _sum(*parts: Mapping[str, int]) -> dict[str, int]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names}
