"""What queues are entitled to, reckoned naively: water poured step by step, in fractions.

The core divides whole units by a closed form (`muster.core.world.queues.account`) and keeps sums up to date.
Here everything is computed from the rules and from what gangs use and want. The two differ by rounding, by
less than one unit per level of the tree (`slack`).

Queues that contradict each other are known by their parents only: a parent that is not there, or a cycle.
Guarantees and caps are expected to agree.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from muster.core.words.gang import Amounts, Queue
from muster.names import GPU, GPU_SHARE

#: Levels of the trees that are drawn.
DEPTH: Final = 2
#: By queue and resource.
Sums = Mapping[str, Mapping[str, int]]
Entitled = dict[str, dict[str, Fraction]]


class Tree:
    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.rules = {"default": Queue("default"), **queues}

    def sound(self, queue: str) -> bool:
        """Whether the queue and all its ancestors exist, up to the root."""
        seen: set[str] = set()
        while queue != "root":
            if queue in seen or queue not in self.rules:
                return False
            seen.add(queue)
            queue = self.rules[queue].parent
        return True

    def path(self, queue: str) -> list[str]:
        """The queue and all above it but the root. One at fault is by itself."""
        if not self.sound(queue):
            return [queue] if queue in self.rules else []
        found = []
        while queue != "root":
            found.append(queue)
            queue = self.rules[queue].parent
        return found

    def below(self, queue: str) -> list[str]:
        """The queues right below it."""
        return sorted(q for q, rules in self.rules.items() if rules.parent == queue and self.sound(q))

    def may_start(self, queue: str, namespace: str) -> bool:
        """Gangs of this namespace may name it."""
        if not self.sound(queue) or self.below(queue):
            return False
        allowed = [self.rules[above].namespaces for above in self.path(queue)]
        return all(not some or namespace in some for some in allowed)

    def parting(self, queue: str, other: str) -> tuple[list[str], list[str]]:
        """The paths of two queues up to where they meet."""
        mine, theirs = self.path(queue), self.path(other)
        return [q for q in mine if q not in theirs], [q for q in theirs if q not in mine]

    def entitled(self, there: Mapping[str, int], used: Sums, wanted: Sums) -> Entitled:
        """By queue and resource; `used` includes what is used below, `wanted` is each queue's own."""
        found: Entitled = {"root": {resource: Fraction(amount) for resource, amount in there.items()}}
        self._divide("root", found, used, wanted)
        return found

    def _divide(self, parent: str, found: Entitled, used: Sums, wanted: Sums) -> None:
        children = self.below(parent)
        for child in children:
            found[child] = {}
        for resource, whole in found[parent].items():
            pool = whole
            if parent != "root":
                below = sum(used[c].get(resource, 0) for c in children)
                pool = max(whole - (used[parent].get(resource, 0) - below), Fraction(below))
            asked = {c: self._asked(c, resource, used, wanted) for c in children}
            borrowed = parent != "root" and used[parent].get(resource, 0) > whole
            for child, share in self._shares(pool, resource, asked, borrowed).items():
                found[child][resource] = share
        for child in children:
            self._divide(child, found, used, wanted)

    def _asked(self, queue: str, resource: str, used: Sums, wanted: Sums) -> int:
        """What it uses and waits for, below it too, as far as caps let it."""
        using = used[queue].get(resource, 0)
        asked = using + wanted[queue].get(resource, 0)
        for child in self.below(queue):
            asked += self._asked(child, resource, used, wanted) - used[child].get(resource, 0)
        return max(min(asked, self._cap(queue, resource, asked)), using)

    def _cap(self, queue: str, resource: str, otherwise: int) -> int:
        return counted(self.rules[queue].capability).get(resource, otherwise)

    def _shares(
        self, pool: Fraction, resource: str, asked: Mapping[str, int], borrowed: bool
    ) -> dict[str, Fraction]:
        kept, promised, limits = {}, {}, {}
        for queue in asked:
            rules = self.rules[queue]
            guarantee = counted(rules.guarantee).get(resource, 0)
            kept[queue] = min(guarantee, self._cap(queue, resource, guarantee))
            deserved = counted(rules.deserved or ()).get(resource)
            if deserved is None:
                most = min(asked[queue], self._cap(queue, resource, asked[queue]))
                limits[queue] = max(most - kept[queue], 0)
            else:
                promised[queue] = max(min(deserved, self._cap(queue, resource, deserved)) - kept[queue], 0)
        first = poured(pool, kept, kept)
        pool -= sum(first.values())
        second = poured(pool, promised, promised)
        pool -= sum(second.values())
        third = poured(pool, limits, {queue: self.rules[queue].weight for queue in limits})
        shares = {queue: first[queue] + second.get(queue, 0) + third.get(queue, 0) for queue in asked}
        pool -= sum(third.values())
        widths = {queue: counted(self.rules[queue].deserved or ()).get(resource, 0) for queue in asked}
        for width in (widths, {q: self.rules[q].weight for q in asked if not widths[q]}) if borrowed else ():
            wide = [queue for queue in width if width[queue]]
            caps = {queue: min(asked[queue], self._cap(queue, resource, asked[queue])) for queue in wide}
            more = {queue: max(caps[queue] - shares[queue], Fraction(0)) for queue in wide}
            last = poured(pool, more, width)
            pool -= sum(last.values())
            for queue, share in last.items():
                shares[queue] += share
        return shares


def poured(
    pool: Fraction, limits: Mapping[str, int] | Mapping[str, Fraction], widths: Mapping[str, int]
) -> dict[str, Fraction]:
    """Water rises in all vessels at once; whichever is full is left out."""
    shares = {name: Fraction(0) for name in limits}
    while pool > 0:
        open_ = [name for name in limits if shares[name] < limits[name]]
        if not open_:
            break
        rise = min((limits[name] - shares[name]) / widths[name] for name in open_)
        rise = min(rise, pool / sum(widths[name] for name in open_))
        for name in open_:
            shares[name] += rise * widths[name]
            pool -= rise * widths[name]
    return shares


def slack(resource: str) -> int:
    """How far from its entitlement a queue may be by rounding alone."""
    return DEPTH - 1 if resource == "pods" else DEPTH


def counted(amounts: Amounts | Iterable[tuple[str, int]]) -> Counter[str]:
    """By resource; GPUs and shares of them in thousandths."""
    sums: Counter[str] = Counter()
    for resource, amount in amounts:
        sums[GPU_SHARE if resource == GPU else resource] += 1000 * amount if resource == GPU else amount
    return sums
