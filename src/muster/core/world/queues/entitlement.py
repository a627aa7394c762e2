"""How much of its parent's entitlement each queue is entitled to, per resource, from the root down.

The rule (docs/queues.md): a queue with a `deserved` amount is entitled to that. The others are entitled to
their guarantee, and divide the rest by weight. This is water filling: the vessels are as wide as the weights
and as high as each queue can use, so that what one queue leaves is divided among the others. The result is
the weighted max-min fair division; Volcano's `proportion` does the same in floating point, and in rounds.

Amounts and shares are integers. What weights do not divide evenly is given by largest remainder, ties to
the smallest name (Hamilton's method). So the division is exact, does not depend on the order of its
input, and never gives away more than there is. If a cluster shrinks below what has been promised,
guarantees are cut last, and promises of one kind are cut in proportion.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster.core.words.amounts import Sums, Usage
from muster.core.world.queues.account import Account


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


def entitle(root: Account) -> bool:
    """Divide the root's entitlement among the queues below it, by resource. False if nothing changed."""
    for child in root.children:
        _ask(child)
    return _divide_below(root, root.entitled)


def _ask(account: Account) -> Usage:
    """Return what a queue and the queues below it use and wait for, as far as their caps allow."""
    asked = account.asked = Usage(account.used)
    asked.add(account.wanted)
    for child in account.children:
        asked.add(_ask(child))
        asked.add(child.used, -1)
    for resource, cap in account.caps.items():
        asked[resource] = max(min(asked[resource], cap), account.used[resource])
    return asked


def _divide_below(parent: Account, everything: Mapping[str, int]) -> bool:
    """`everything`: what the cluster has."""
    amounts = parent.entitled if parent.parent is None else _left_to_children(parent)
    changed = False
    shares: dict[Account, dict[str, int]] = {child: {} for child in parent.children}
    for resource, amount in amounts.items():
        divided = divide(amount, {child.name: _terms(child, resource) for child in parent.children})
        for child, share in shares.items():
            share[resource] = divided[child.name]
    for child, share in shares.items():
        limits = {resource: n for resource, n in share.items() if n < everything[resource]}
        if (child.entitled, child.limits) != (share, limits):
            child.entitled, child.limits = share, limits
            changed = True
        if child.children:
            changed |= _divide_below(child, everything)
    return changed


def _left_to_children(parent: Account) -> dict[str, int]:
    """Return the part of a queue's entitlement that its own gangs do not use."""
    left = {}
    for resource, entitled in parent.entitled.items():
        own = parent.used[resource] - sum(child.used[resource] for child in parent.children)
        left[resource] = max(entitled - own, 0)
    return left


def _terms(account: Account, resource: str) -> Terms:
    return Terms(
        account.rules.weight,
        account.asked[resource],
        account.guaranteed[resource],
        account.deserved.get(resource),
        account.caps.get(resource),
    )


def divide(amount: int, queues: Mapping[str, Terms]) -> dict[str, int]:
    """Return the entitlement of each queue, by name; together at most `amount`, which is at least zero."""
    kept = {name: terms.capped(terms.guarantee) for name, terms in queues.items()}
    promised, asked = dict[str, int](), dict[str, int]()
    for name, terms in queues.items():
        if terms.deserved is not None:
            promised[name] = max(terms.capped(terms.deserved) - kept[name], 0)
        else:
            asked[name] = max(terms.capped(terms.asked) - kept[name], 0)
    weights = {name: terms.weight for name, terms in queues.items()}
    shares = Sums[str]()
    for limits, widths in ((kept, kept), (promised, promised), (asked, weights)):
        poured = pour(amount, limits, widths)
        amount -= sum(poured.values())
        shares.add(poured)
    return {name: shares[name] for name in queues}


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
