"""One queue of the tree: what is charged to it, and what it is entitled to.

Entitlement (docs/concepts/queues.md) is water filling: the vessels are as wide as the weights and as high as
each queue can use, so that what one queue leaves is divided among the others. The result is the weighted
max-min fair division; Volcano's `proportion` does the same in floating point, and in rounds. Amounts and
shares are integers, and what weights do not divide evenly is given by largest remainder, ties to the smallest
name (Hamilton's method). So the division is exact, does not depend on the order of its input, and never gives
away more than there is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from muster.core.words.amounts import Usage, bare, show
from muster.core.words.gang import Queue

ROOT: Final = "root"
DEFAULT: Final = "default"
#: How long a list of moves may get in any case; after that, as long as the number of namespaces.
_MOVES: Final = 1000


@dataclass(slots=True, eq=False)
class Account:
    """One queue of the tree. `used` includes the queues below it; other sums cover its own gangs only."""

    rules: Queue
    parent: "Account | None" = None
    children: list["Account"] = field(default_factory=list)
    #: the queue and the queues above it, without the root; of a faulty queue only itself
    path: tuple["Account", ...] = ()
    fault: str = ""
    #: why the adopted queue of its name does not count
    refused: str = ""
    used: Usage = field(default_factory=Usage)
    wanted: Usage = field(default_factory=Usage)
    #: what it and all queues below it use and wait for, as far as caps allow; the entitlement that follows
    asked: Usage = field(default_factory=Usage)
    entitled: Mapping[str, int] = field(default_factory=dict)
    #: the entitlement, of the resources of which it is not entitled to all that the cluster has
    limits: Mapping[str, int] = field(default_factory=dict)
    #: what gangs of an inner queue itself use
    own: Usage = field(default_factory=Usage)
    #: how the queues below it divide a resource, and what each gets of an amount, while they ask the same
    divisions: dict[tuple[str, bool], "Division"] = field(default_factory=dict)
    divided: dict[tuple[str, int, bool], dict[str, int]] = field(default_factory=dict)
    #: started gangs at or below it; its own gangs that wait for their minimum
    standing: int = 0
    waiting: int = 0
    #: what terminating pods still use, and how many gangs, beyond the charge of the gangs that replace them
    terminating: Usage = field(default_factory=Usage)
    terminating_gangs: int = 0
    #: what its gangs use, by namespace; filled only if its order is fair
    by_namespace: dict[str, Usage] = field(default_factory=dict)
    #: the namespaces whose use has changed, in order; another list begins before this one gets long
    moves: list[str] = field(default_factory=list)
    #: it has the cluster to itself, and no limits: it is entitled to whatever it asks for
    free: bool = False
    #: number of the last start that carried it over its entitlement, as its parent divides; -1: none has
    last_borrowed: int = -1
    #: the rules' amounts; `caps` limit only the resources that they name
    caps: Mapping[str, int] = field(init=False)
    guaranteed: Usage = field(init=False)
    deserved: Usage = field(init=False)
    parts: Usage = field(init=False)

    def __post_init__(self) -> None:
        rules = self.rules
        self.caps, self.guaranteed = dict(Usage.of(rules.capability)), Usage.of(rules.guarantee)
        self.deserved, self.parts = Usage.of(rules.deserved or ()), Usage.of(rules.parts)

    @property
    def unlimited(self) -> bool:
        """Whether its rules limit neither amounts nor the number of gangs."""
        return not (self.caps or self.guaranteed or self.deserved) and self.rules.max_gangs is None

    @property
    def name(self) -> str:
        return self.rules.name

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

    def charge_namespace(self, namespace: str, used: Usage, sign: int) -> None:
        """Charge a namespace of a fair queue. A namespace that uses nothing is not kept."""
        mine = self.by_namespace.setdefault(namespace, Usage())
        mine.add(used, sign)
        if not mine:
            del self.by_namespace[namespace]
        if len(self.moves) >= max(len(self.by_namespace), _MOVES):
            self.moves = []
        self.moves.append(namespace)

    # Entitlement, of this one queue

    def exceeds(self, asked: Mapping[str, int]) -> bool:
        """Whether so much more would carry this queue over its entitlement."""
        used, limits = self.used, self.limits
        return any(r in limits and used.get(r, 0) + amount > limits[r] for r, amount in asked.items())

    def entitled_after(self, asked: Mapping[str, int]) -> Mapping[str, int]:
        """Return what the queue is entitled to once so much more runs in it or below it.

        That differs from what it is entitled to now if a queue above it then has borrowed more: the queues
        below that one divide what it has borrowed (`divide_below`).
        """
        parent = self.parent
        if parent is None or parent.parent is None:
            return self.entitled
        theirs, entitled, name = parent.entitled_after(asked), {**self.entitled}, self.rules.name
        for resource, more in asked.items():
            if resource in theirs:
                entitled[resource] = parent.divide_below(resource, theirs[resource], more)[name]
        return entitled

    def divide_below(self, resource: str, entitled: int, more: int = 0) -> Mapping[str, int]:
        """Return the entitlements of the queues below it if it is entitled to so much and uses `more`.

        A queue that uses more than its entitlement divides what it uses, without what its own gangs use. So
        what it has borrowed is divided as an entitlement would be.
        """
        used = self.used[resource] + more
        borrows = self.parent is not None and used > entitled
        amount = max((used if borrows else entitled) - self.own[resource], 0)
        if (divided := self.divided.get((resource, amount, borrows))) is None:
            if (division := self.divisions.get((resource, borrows))) is None:
                weights = _weights(self.children, resource)
                terms = {
                    child.name: _terms(child, resource, weight)
                    for child, weight in zip(self.children, weights, strict=True)
                }
                division = self.divisions[resource, borrows] = Division(terms, all_of_it=borrows)
            divided = self.divided[resource, amount, borrows] = division.of(amount)
        return divided

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

    def over_caps(
        self, asked: Mapping[str, int], *, new: bool = False
    ) -> "Iterator[tuple[Account, str, int]]":
        """Yield the hard caps that so much more would exceed: the queue, the resource, the excess.

        If one more gang starts (`new`), those of the number of gangs come first, as the resource "".
        """
        for above in self.path if new else ():
            most = above.rules.max_gangs
            if most is not None and above.gangs >= most:
                yield above, "", above.gangs + 1 - most
        for above in self.path:
            for resource, amount in asked.items() if above.caps else ():
                cap = above.caps.get(resource)
                if cap is not None and amount > 0:
                    excess = above.used_below_cap(resource) + amount - cap
                    if excess > 0:
                        yield above, resource, excess

    def cap_exceeded(self, asked: Mapping[str, int], *, new: bool) -> str | None:
        """Say which hard cap so much more, and if `new` one more gang, would exceed; None: none."""
        for above, resource, excess in self.over_caps(asked, new=new):
            if not resource:
                most = above.rules.max_gangs
                return f"queue {above.name} has maxGangs {most}, and {above.gangs} started already"
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
        found = self.over_share(asked)
        if found is None:
            return None
        above, resource = found
        limit, used, amount = above.limits[resource], above.used.get(resource, 0), asked[resource]
        return (
            f"queue {above.name} is entitled to {bare(resource, limit)} of "
            f"{show(resource, everything[resource])} and uses {bare(resource, used)}; "
            f"{bare(resource, amount)} more would be {bare(resource, used + amount)}"
        )

    def over_share(self, asked: Mapping[str, int]) -> "tuple[Account, str] | None":
        """Return the queue that so much more would carry over its entitlement, and of what; None: none."""
        for above in self.path:
            for resource, amount in asked.items():
                limit = above.limits.get(resource)
                if limit is not None and above.used.get(resource, 0) + amount > limit:
                    return above, resource
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


def tree(
    rules: Mapping[str, Queue], faults: Mapping[str, str], last_borrowed: Mapping[str, int] | None = None
) -> tuple[Account, dict[str, Account]]:
    """Return the root, and each queue's account by name, in order of name; a faulty one has no parent.

    In the place of a faulty `default` that is adopted there is the implicit one.
    """
    root, known = Account(Queue(ROOT)), last_borrowed or {}
    accounts = {
        name: Account(rules[name], fault=faults.get(name, ""), last_borrowed=known.get(name, -1))
        for name in sorted(rules)
    }
    if DEFAULT in faults and rules[DEFAULT].adopted:
        accounts[DEFAULT] = Account(
            Queue(DEFAULT), refused=faults[DEFAULT], last_borrowed=known.get(DEFAULT, -1)
        )
    for account in accounts.values():
        if not account.fault:
            name = account.rules.parent
            account.parent = root if name == ROOT else accounts[name]
            account.parent.children.append(account)
    for account in accounts.values():
        path = [account]
        while (parent := path[-1].parent) is not None and parent is not root:
            path.append(parent)
        account.path = tuple(path)
    return root, accounts


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
    asked, own = Usage(account.wanted), Usage(account.used)
    for child in account.children:
        asked.add(_ask(child))
        own.add(child.used, -1)
    asked.add(own)
    account.asked, account.own = asked, own
    for resource, cap in account.caps.items():
        asked[resource] = max(min(asked[resource], cap), account.used[resource])
    return asked


def _divide_below(parent: Account, everything: Mapping[str, int]) -> bool:
    """`everything`: what the cluster has."""
    parent.divisions.clear()
    parent.divided.clear()
    changed = False
    divided = {resource: parent.divide_below(resource, n) for resource, n in parent.entitled.items()}
    for child in parent.children:
        share = {resource: shares[child.name] for resource, shares in divided.items()}
        limits = {resource: n for resource, n in share.items() if n < everything[resource]}
        if (child.entitled, child.limits) != (share, limits):
            child.entitled, child.limits = share, limits
            changed = True
        if child.children:
            changed |= _divide_below(child, everything)
    return changed


def _weights(queues: Sequence[Account], resource: str) -> list[int]:
    """Return the weights of siblings: those that state parts divide what as many queues of weight 1 get."""
    parts = [queue.parts.get(resource) for queue in queues]
    stated = [part for part in parts if part is not None]
    whole, several = sum(stated) or 1, len(stated)
    return [
        queue.rules.weight * whole if part is None else several * part
        for queue, part in zip(queues, parts, strict=True)
    ]


def _terms(account: Account, resource: str, weight: int) -> Terms:
    return Terms(
        weight,
        account.asked[resource],
        account.guaranteed[resource],
        account.deserved.get(resource),
        account.caps.get(resource),
    )


class Division:
    """How some queues divide an amount of one resource, whatever it is: rounds, each served before the next.

    A round gives each queue up to its limit. Only the round that exhausts the amount has to be poured, so the
    rounds before it are summed up once for all amounts.
    """

    def __init__(self, queues: Mapping[str, Terms], *, all_of_it: bool = False) -> None:
        """`all_of_it`: what is left in the end is divided as well, among the queues that ask for more than
        they deserve, in proportion to what they deserve."""
        kept = {name: terms.capped(terms.guarantee) for name, terms in queues.items()}
        promised, asked = dict[str, int](), dict[str, int]()
        for name, terms in queues.items():
            if terms.deserved is not None:
                promised[name] = max(terms.capped(terms.deserved) - kept[name], 0)
            else:
                asked[name] = max(terms.capped(terms.asked) - kept[name], 0)
        weights = {name: terms.weight for name, terms in queues.items()}
        #: limits and widths
        self._rounds = [(kept, kept), (promised, promised), (asked, weights)]
        if all_of_it:
            had = {name: kept[name] + promised.get(name, 0) + asked.get(name, 0) for name in queues}
            more = {name: max(terms.capped(terms.asked) - had[name], 0) for name, terms in queues.items()}
            deserving = {name: terms.deserved for name, terms in queues.items() if terms.deserved}
            others = {name: weights[name] for name in queues if name not in deserving}
            for widths in (deserving, others):
                self._rounds.append(({name: more[name] for name in widths}, widths))
        #: what each queue has before each round, and what all limits of the round are together
        self._before, self._sums = [dict.fromkeys(queues, 0)], list[int]()
        for limits, _ in self._rounds:
            self._sums.append(sum(limits.values()))
            self._before.append({n: had + limits.get(n, 0) for n, had in self._before[-1].items()})

    def of(self, amount: int) -> dict[str, int]:
        """Return each queue's entitlement, by name; together at most `amount`, which is at least zero."""
        for (limits, widths), before, whole in zip(self._rounds, self._before, self._sums, strict=False):
            if amount < whole:
                poured = pour(amount, limits, widths)
                return {name: had + poured.get(name, 0) for name, had in before.items()}
            amount -= whole
        return self._before[-1]


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
