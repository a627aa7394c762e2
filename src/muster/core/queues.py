"""The queues: a tree of accounts. What each uses, what it is entitled to, and who may take from whom.

A gang is charged whole to its queue and to every queue above it: what its pods and holds use, and what it
waits for. Sums are kept up to date by the differences that touched gangs make (`settle`), so a start
costs O(depth), and a cycle in which nothing happened costs nothing here.

*Entitlement* (`entitle`) is divided from the root down, per resource (`entitlement.py`): the root is
entitled to what ready, uncordoned nodes have, each queue to its part of its parent's. It depends on what
queues use and wait for together, which a start does not change; so within one cycle it stands still.

A queue is *over* its entitlement where it uses more than that of some resource, and the entitlement is less
than all there is. A queue that is entitled to the whole cluster cannot be over: if it lacks something,
capacity is what it lacks.

Queues that contradict themselves or each other (`fault`) take no part: their gangs are not started, and
everything else goes on. The queue `default` is always there.

Whole GPUs and shares of GPUs are one account, in thousandths (`counted`): everything here is keyed by
`muster.dev/gpu-share` where nodes and pods say `nvidia.com/gpu`. Amounts may come in either form.

For a search for victims (reclaim, preemption) three calls are made to be combined, on accounts that are
charged and discharged speculatively like the ledger:

    queues.shift(queue, amounts, -1)                    # as if these amounts were freed; +1 undoes it
    queues.may_reclaim(mine, demand, theirs, freed)     # may `mine` take `freed` from `theirs`, as it stands?
    queues.exceeded(mine, demand)                       # None: nothing would be over its entitlement

In `may_reclaim` the two queues are compared where their paths part. The claimant must stay within its
entitlement from its own queue up to there; the victim's must be over theirs, be reclaimable, and keep
their guarantees when the amounts are gone. A queue may end up below its entitlement, because gangs are
not cut in two, but only one that is over it may be touched: what has been taken so far has to be
shifted first. Within one queue nothing is reclaimed: that is preemption, by priority.

Source of the rules: docs/queues.md. Volcano's `capacity` plugin (deserved, guarantee, reclaim by queue) and
Kueue's hierarchical cohorts (least common ancestor) have the same shape.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from muster.core.eligibility import Eligibility, Obstacle
from muster.core.entitlement import Terms, divide
from muster.core.explain.amounts import bare, show
from muster.core.gang import Amounts, Gang, GangId, Queue, QueueOrder, Shape
from muster.core.gangs import GangState
from muster.core.nodes import PODS, Nodes
from muster.core.placement import Want
from muster.names import GPU, GPU_SHARE

ROOT: Final = "root"
DEFAULT: Final = "default"

_UNUSABLE: Final = np.uint8(Obstacle.CORDON | Obstacle.NOT_READY | Obstacle.GONE)


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
    entitled: dict[str, int] = field(default_factory=dict)
    #: gangs at or below it that have begun; its own that wait for their minimum
    standing: int = 0
    waiting: int = 0
    #: what its gangs use by namespace, if its order is fair
    by_namespace: dict[str, dict[str, int]] = field(default_factory=dict)
    #: number of the last start that carried it over its entitlement
    carried_over: int = -1
    #: counts changes of what the checks of its gangs depend on
    version: int = 0
    #: the rules' amounts, to be looked up
    caps: dict[str, int] = field(init=False)
    kept: dict[str, int] = field(init=False)
    deserved: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.caps, self.kept = dict(counted(self.rules.capability)), dict(counted(self.rules.guarantee))
        self.deserved = dict(counted(self.rules.deserved or ()))

    @property
    def name(self) -> str:
        return self.rules.name

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


class _Charge(NamedTuple):
    """What one gang adds to its queue."""

    queue: str
    namespace: str
    used: Amounts
    wanted: Amounts
    stands: bool
    waits: bool


class Queues:
    def __init__(self, nodes: Nodes, eligibility: Eligibility) -> None:
        self._nodes, self._eligibility = nodes, eligibility
        self._rules: dict[str, Queue] = {}
        self.accounts: dict[str, Account] = {}
        self.root = Account(Queue(ROOT))
        self._charges: dict[GangId, _Charge] = {}
        self._demands: WeakKeyDictionary[Want, tuple[Amounts, Amounts]] = WeakKeyDictionary()
        #: starts that carried a queue over its entitlement, so far
        self._overshoots = 0
        #: count changes of use, and divisions of what there is
        self.moves = self.divisions = 0
        #: counts changes of rules
        self.plantings = 0
        self._planted = self._entitled = False
        self._capacity_as_of = (-1, -1)

    # The tree

    def change(self, rules: Queue) -> bool:
        """Take a queue's rules in. False if nothing changed."""
        if self._rules.get(rules.name) == rules:
            return False
        self._rules[rules.name] = rules
        self._planted = False
        return True

    def remove(self, name: str) -> bool:
        if self._rules.pop(name, None) is None:
            return False
        self._planted = False
        return True

    def find(self, name: str) -> Account | None:
        """The account of a queue, None if there is no such queue."""
        if not self._planted:
            self._plant()
        return self.accounts.get(name)

    def _plant(self) -> None:
        """Build the tree anew, and charge every gang to it."""
        before = self.accounts
        rules = {DEFAULT: Queue(DEFAULT), **self._rules}
        faults = faults_of(rules)
        self.root = Account(Queue(ROOT))
        self.accounts = {
            name: Account(
                rules[name], fault=faults.get(name, ""), carried_over=old.carried_over if old else -1
            )
            for name in sorted(rules)
            for old in [before.get(name)]
        }
        for account in self.accounts.values():
            if not account.fault:
                parent = account.rules.parent
                account.parent = self.root if parent == ROOT else self.accounts[parent]
                account.parent.children.append(account)
        for account in self.accounts.values():
            account.path = (account, *_above(account))
        self._planted, self._entitled = True, False
        self.plantings += 1
        self._capacity_as_of = (-1, -1)
        for charge in self._charges.values():
            self._charge(charge, 1)

    # Accounts

    def settle(self, state: GangState, leaving: Amounts = ()) -> None:
        """Bring what a gang adds to its queue up to date.

        `leaving`: what it uses that makes room for others, who are charged with that room already.
        """
        if not self._planted:
            self._plant()
        old, new = self._charges.get(state.id), self._charge_of(state, leaving)
        if new == old:
            return
        if old is not None:
            self._charge(old, -1)
        if new is None:
            del self._charges[state.id]
        else:
            self._charges[state.id] = new
            self._charge(new, 1)

    def _charge_of(self, state: GangState, leaving: Amounts) -> _Charge | None:
        gang, gone = state.gang, dict(leaving)
        left = [(r, n - gone.get(r, 0)) for r, n in state.usage.items()] if gone else state.usage.items()
        used = counted(tuple([(r, n) for r, n in left if n > 0]))
        if gang is None:
            return _Charge("", "", used, (), False, False) if used else None
        asks = gang.gate is None and state.want is not None and self.barred(gang) is None
        wanted = self.demand(state.want)[1] if asks and state.want is not None else ()
        return _Charge(gang.queue, gang.namespace, used, wanted, state.begun, asks and state.waits)

    def _charge(self, charge: _Charge, sign: int) -> None:
        account = self.accounts.get(charge.queue)
        if account is not None:
            account.waiting += sign * charge.waits
            _add(account.wanted, charge.wanted, sign)
            if account.rules.order is QueueOrder.FAIR:
                _add(account.by_namespace.setdefault(charge.namespace, {}), charge.used, sign)
            for above in account.path:
                above.standing += sign * charge.stands
                _add(above.used, charge.used, sign)
                above.version += 1
        _add(self.root.used, charge.used, sign)
        self.moves += 1
        self._entitled = False

    def shift(self, queue: str, amounts: Amounts, sign: int) -> None:
        """Charge (1) or free (-1) amounts as if gangs of this queue had begun or ended to use them."""
        account, amounts = self.find(queue), counted(amounts)
        for above in account.path if account is not None else ():
            _add(above.used, amounts, sign)
            above.version += 1
        _add(self.root.used, amounts, sign)

    def demand(self, want: Want) -> tuple[Amounts, Amounts]:
        """What the minimum of a want takes at least, and what all of it takes; `pods` included."""
        known = self._demands.get(want)
        if known is None:
            known = self._demands[want] = (_least(want), _most(want))
        return known

    # Entitlement

    def entitle(self) -> None:
        """Divide what there is among the queues, if anything has changed since."""
        if not self._planted:
            self._plant()
        as_of = (self._nodes.layout, self._nodes.capacity_revision)
        if self._capacity_as_of != as_of:
            self._capacity_as_of, self._entitled = as_of, False
            self.root.entitled = self._usable()
        if not self._entitled:
            self._divide(self.root, _Asked())
            self._entitled = True
            self.divisions += 1

    def _usable(self) -> dict[str, int]:
        """What ready, uncordoned nodes have, by resource."""
        usable = self._eligibility.of(_ANY).obstacles & _UNUSABLE == 0
        nodes = self._nodes
        sums = {r: int(nodes.capacity(row)[usable].sum(dtype=np.int64)) for r, row in nodes.resources.items()}
        sums.pop(GPU_SHARE, None)  # what is free of it is read off the devices
        return dict(counted(tuple(sums.items())))

    def _divide(self, parent: Account, asked: "_Asked") -> None:
        shares = {child.name: dict[str, int]() for child in parent.children}
        below = [child.used for child in parent.children]
        claims = [(child, asked.of(child)) for child in parent.children]
        for resource, entitled in parent.entitled.items():
            own = 0
            if parent is not self.root:
                own = parent.used.get(resource, 0) - sum(used.get(resource, 0) for used in below)
            terms = {child.name: _terms(child, resource, claim) for child, claim in claims}
            for name, share in divide(max(entitled - own, 0), terms).items():
                shares[name][resource] = share
        for child in parent.children:
            if child.entitled != shares[child.name]:
                child.entitled = shares[child.name]
            child.version += 1
            if child.children:
                self._divide(child, asked)

    # What a queue may do

    def barred(self, gang: Gang) -> str | None:
        """Why gangs like this one can never start in the queue that it names, as the rules are now."""
        account = self.find(gang.queue)
        if account is None:
            names = [name for name, other in self.accounts.items() if not (other.children or other.fault)]
            return f"there is no queue {gang.queue}; there {_are(names)}"
        if account.fault:
            return f"queue {gang.queue}: {account.fault}"
        if account.children:
            below = ", ".join(child.name for child in account.children)
            return f"queue {gang.queue} has queues below it; name one of them: {below}"
        for above in account.path:
            allowed, users = above.rules.namespaces, above.rules.users
            if allowed and gang.namespace not in allowed:
                return f"queue {above.name} allows only {_only('namespace', allowed)}, not {gang.namespace}"
            if users and gang.user and gang.user not in users:
                return f"queue {above.name} allows only {_only('user', users)}, not {gang.user}"
        return None

    def closed(self, account: Account) -> Account | None:
        """The queue, this one or one above it, that takes in nothing new."""
        return next((above for above in account.path if above.rules.closed), None)

    def full(self, account: Account) -> str | None:
        """Why the queue may have no more gangs."""
        for above in account.path:
            most = above.rules.max_gangs
            if most is not None and above.standing >= most:
                return f"queue {above.name} has {above.standing} gangs started; it may have {most}"
        return None

    def above_capability(self, account: Account, demand: Amounts) -> str | None:
        """Where the demand would exceed a hard cap."""
        for above in account.path:
            for resource, amount in counted(demand) if above.caps else ():
                cap, used = above.caps.get(resource), above.used.get(resource, 0)
                if cap is not None and used + amount > cap:
                    return (
                        f"queue {above.name} uses {bare(resource, used)} of its {show(resource, cap)}; "
                        f"{bare(resource, amount)} more would be {bare(resource, used + amount)}"
                    )
        return None

    def exceeded(self, account: Account, demand: Amounts) -> str | None:
        """Where the demand would carry a queue over its entitlement."""
        everything = self.root.entitled
        for above in account.path:
            used, entitled = above.used, above.entitled
            for resource, amount in counted(demand):
                limit, now = entitled.get(resource, 0), used.get(resource, 0)
                if now + amount > limit < everything.get(resource, 0):
                    return (
                        f"queue {above.name} is entitled to {bare(resource, limit)} of "
                        f"{show(resource, everything[resource])} and uses {bare(resource, now)}; "
                        f"{bare(resource, amount)} more would be {bare(resource, now + amount)}"
                    )
        return None

    def room(self, account: Account, *, borrow: bool) -> dict[str, int]:
        """How much more the queue may use, of the resources in which it is limited; may be negative.

        `borrow`: its entitlement does not count, only caps do.
        """
        room: dict[str, int] = {}
        everything = self.root.entitled
        for above in account.path:
            limits = dict(above.caps)
            if not borrow:
                for resource, entitled in above.entitled.items():
                    if entitled < everything.get(resource, 0):
                        limits[resource] = min(limits.get(resource, entitled), entitled)
            for resource, limit in limits.items():
                left = limit - above.used.get(resource, 0)
                room[resource] = min(room.get(resource, left), left)
        return room

    def overshot(self, account: Account) -> None:
        """A gang has started that carried its queue over: the next time others come first."""
        for above in account.path:
            above.carried_over = self._overshoots
        self._overshoots += 1

    # Who may take from whom

    def surplus(self, account: Account) -> dict[str, int]:
        """By how much a queue is over its entitlement, by resource."""
        everything = self.root.entitled
        over = {
            resource: used - account.entitled.get(resource, 0)
            for resource, used in account.used.items()
            if account.entitled.get(resource, 0) < everything.get(resource, 0)
        }
        return {resource: amount for resource, amount in over.items() if amount > 0}

    def may_reclaim(self, claimant: str, demand: Amounts, victim: str, freed: Amounts) -> bool:
        """Whether a gang of one queue may have what a gang of another uses (see above).

        `demand`: what the claimant needs in all; `freed`: what the victim would give now.
        """
        mine, theirs = self.find(claimant), self.find(victim)
        if mine is None or mine.fault or theirs is mine:
            return False
        if theirs is None or theirs.fault:
            return False  # nobody can say what it is entitled to
        shared = set(mine.path) & set(theirs.path)
        demand, freed = counted(demand), counted(freed)
        asked = dict(demand)
        for account in mine.path:
            if account in shared:
                break
            if self._exceeds(account, demand):
                return False
        for account in theirs.path:
            if account in shared:
                break
            surplus = self.surplus(account)
            if not account.rules.reclaimable or not any(asked.get(r) and r in surplus for r, _ in freed):
                return False
            if any(account.used.get(r, 0) - amount < account.kept.get(r, 0) for r, amount in freed):
                return False
        return True

    def _exceeds(self, account: Account, demand: Amounts) -> bool:
        """Whether the demand would carry this one queue over its entitlement."""
        everything = self.root.entitled
        return any(
            account.used.get(r, 0) + amount > account.entitled.get(r, 0) < everything.get(r, 0)
            for r, amount in demand
        )


def counted(amounts: Amounts) -> Amounts:
    """The same with GPUs and shares of GPUs as one: thousandths."""
    gpus = 0
    for resource, amount in amounts:
        if resource == GPU:
            gpus += 1000 * amount
        elif resource == GPU_SHARE:
            gpus += amount
    if not gpus:
        return amounts
    others = [(r, amount) for r, amount in amounts if r not in (GPU, GPU_SHARE)]
    return tuple(sorted([*others, (GPU_SHARE, gpus)]))


def faults_of(rules: Mapping[str, Queue]) -> dict[str, str]:
    """What is wrong with queues, by name: a queue below a faulty one is faulty, too.

    Guarantees are kept in order of name: of several that are too much together, the last are at fault.
    """
    faults: dict[str, str] = {}
    for name in sorted(rules):
        if found := _fault(rules[name]) or _cycle(name, rules):
            faults[name] = found
    for name in sorted(rules):
        parent = rules[name].parent
        if name not in faults and parent != ROOT and parent not in rules:
            faults[name] = f"its parent {parent} does not exist"
    promised: dict[str, dict[str, int]] = {}
    for name in sorted(rules):
        parent = rules[name].parent
        if name in faults or parent == ROOT or parent not in rules:
            continue
        so_far = promised.setdefault(parent, {})
        limits = {**dict(counted(rules[parent].capability)), **dict(counted(rules[parent].guarantee))}
        for resource, amount in counted(rules[name].guarantee):
            if resource in limits and so_far.get(resource, 0) + amount > limits[resource]:
                kept = dict(counted(rules[parent].guarantee))
                what = "guarantee" if resource in kept else "capability"
                whole, others = bare(resource, limits[resource]), bare(resource, so_far.get(resource, 0))
                faults[name] = (
                    f"its guarantee of {show(resource, amount)} is more than is left of the {what} of its "
                    f"parent {parent}, {whole}, of which {others} are guaranteed to others below it"
                )
        if name not in faults:
            _add(so_far, counted(rules[name].guarantee), 1)
    for name in sorted(rules):
        if name not in faults:
            above = next((a for a in _ancestors(name, rules) if a in faults), None)
            if above is not None:
                faults[name] = f"{above}, above it, is invalid: {faults[above]}"
    return faults


def _fault(queue: Queue) -> str:
    """What is wrong with a queue on its own."""
    if queue.fault:
        return queue.fault
    if queue.name == ROOT:
        return "root is the name of what all queues are below; choose another"
    if queue.weight < 1:
        return f"its weight is {queue.weight}; write 1 or more"
    caps, kept = dict(counted(queue.capability)), dict(counted(queue.guarantee))
    deserved = counted(queue.deserved or ())
    for what, amounts in (("guarantee", counted(queue.guarantee)), ("deserved", deserved)):
        for resource, amount in amounts:
            if resource in caps and amount > caps[resource]:
                cap = show(resource, caps[resource])
                return f"its {what} of {bare(resource, amount)} is above its capability of {cap}"
    for resource, amount in deserved:
        if amount < kept.get(resource, 0):
            least = show(resource, kept[resource])
            return f"it deserves {bare(resource, amount)}, less than its guarantee of {least}"
    return ""


def _cycle(name: str, rules: Mapping[str, Queue]) -> str:
    seen = [name]
    for above in _ancestors(name, rules):
        seen.append(above)
        if above == name:
            return f"queues are in a cycle: {' is below '.join(seen)}"
    return ""


def _ancestors(name: str, rules: Mapping[str, Queue]) -> Iterator[str]:
    """The queues above one, each once; ends where the tree does, or where a cycle closes."""
    seen: set[str] = set()
    while name in rules and (name := rules[name].parent) != ROOT and name not in seen:
        seen.add(name)
        yield name


def _above(account: Account) -> Iterator[Account]:
    parent = account.parent
    while parent is not None and parent.parent is not None:
        yield parent
        parent = parent.parent


class _Asked:
    """What queues use and wait for, as far as their caps let them; found once per division."""

    def __init__(self) -> None:
        self._known: dict[Account, dict[str, int]] = {}

    def of(self, account: Account) -> dict[str, int]:
        known = self._known.get(account)
        if known is None:
            known = dict(account.used)
            for resource, amount in account.wanted.items():
                known[resource] = known.get(resource, 0) + amount
            for child in account.children:
                used = child.used
                for resource, amount in self.of(child).items():
                    known[resource] = known.get(resource, 0) + amount - used.get(resource, 0)
            for resource, cap in account.caps.items():
                known[resource] = max(min(known.get(resource, 0), cap), account.used.get(resource, 0))
            self._known[account] = known
        return known


def _terms(account: Account, resource: str, asked: Mapping[str, int]) -> Terms:
    return Terms(
        account.rules.weight,
        asked.get(resource, 0),
        account.kept.get(resource, 0),
        account.deserved.get(resource),
        account.caps.get(resource),
    )


def _least(want: Want) -> Amounts:
    """Of each resource what the minimum takes, whichever places it is made of."""
    rest = want.need - sum(part.need for part in want.parts)
    least: dict[str, int] = {PODS: want.need}
    for part in want.parts:
        _add(least, tuple((r, part.need * q) for r, q in part.shape.requests if r != PODS), 1)
    if rest > 0:
        open_ = [dict(part.shape.requests) for part in want.parts if part.count > part.need]
        for resource in {r for requests in open_ for r in requests if r != PODS}:
            cheapest = min(requests.get(resource, 0) for requests in open_)
            least[resource] = least.get(resource, 0) + rest * cheapest
    return counted(tuple(sorted((r, amount) for r, amount in least.items() if amount)))


def _most(want: Want) -> Amounts:
    most: dict[str, int] = {PODS: sum(part.count for part in want.parts)}
    for part in want.parts:
        _add(most, tuple((r, part.count * q) for r, q in part.shape.requests if r != PODS), 1)
    return counted(tuple(sorted((r, amount) for r, amount in most.items() if amount)))


def _add(sums: dict[str, int], amounts: Amounts, sign: int) -> None:
    for resource, amount in amounts:
        total = sums.get(resource, 0) + sign * amount
        if total:
            sums[resource] = total
        else:
            sums.pop(resource, None)


def _only(what: str, names: tuple[str, ...]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _are(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"are {shown}" if len(names) > 1 else f"is only {shown}"


_ANY: Final = Shape(())
#: Queues listed where one is not there.
_NAMED: Final = 10
