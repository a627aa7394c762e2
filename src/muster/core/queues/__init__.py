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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from muster.core.eligibility import Eligibility, Obstacle
from muster.core.gang import Amounts, Gang, GangId, Queue, QueueOrder, Shape
from muster.core.gangs import GangState
from muster.core.nodes import Nodes
from muster.core.placement import Want
from muster.core.queues.account import DEFAULT, ROOT, Account
from muster.core.queues.amounts import add, counted
from muster.core.queues.demand import given_up, least, most
from muster.core.queues.entitlement import entitle
from muster.core.queues.faults import faults_of
from muster.core.queues.lingering import Leaving, linger
from muster.core.wording import bare, show
from muster.names import GPU_SHARE

_UNUSABLE: Final = np.uint8(Obstacle.CORDON | Obstacle.NOT_READY | Obstacle.GONE)


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
        self._leaving: tuple[Leaving, ...] = ()
        #: follows from the want alone, so it does not matter when an entry goes
        self._demands: WeakKeyDictionary[Want, tuple[Amounts, Amounts]] = WeakKeyDictionary()
        #: starts that carried a queue over its entitlement, so far
        self._overshoots = 0
        #: count changes of use, and divisions of what there is
        self.moves = self.divisions = 0
        #: count changes of rules, and of what some queue is entitled to
        self.plantings = self.rulings = 0
        self._planted = self._entitled = self._undivided = False
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

    def path(self, name: str) -> tuple[Account, ...]:
        """A queue, if there is one of this name, and those above it."""
        account = self.find(name)
        return account.path if account is not None else ()

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
            account.path = (account, *account.above())
            account.capped = any(above.caps or above.rules.max_gangs is not None for above in account.path)
            account.free = self.root.children == [account] and account.unruled and not account.capped
        self._undivided = any(a.free and a.rules.order is not QueueOrder.FAIR for a in self.accounts.values())
        self._planted, self._entitled = True, False
        self.plantings += 1
        self._capacity_as_of = (-1, -1)
        for charge in self._charges.values():
            self._charge(charge, 1)
        for leaving in self._leaving:
            linger(leaving, self.path)

    # Accounts

    def settle(self, state: GangState, leaving: Amounts = ()) -> None:
        """Bring what a gang adds to its queue up to date.

        `leaving`: what it uses that makes room for others, who are charged with that room already. Who
        leaves with all of it stands no longer.
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
        gang, used = state.gang, tuple(state.usage.items())
        if leaving:
            gone = dict(leaving)
            used = tuple([(r, n - gone.get(r, 0)) for r, n in used if n > gone.get(r, 0)])
        used = counted(used)
        if gang is None:
            return _Charge("", "", used, (), False, False) if used else None
        lacks = gang.gate is None and state.want is not None and self.barred(gang) is None
        asks = lacks and (state.begun or not any(above.rules.closed for above in self.path(gang.queue)))
        wanted = self.demand(state.want)[1] if asks and state.want is not None else ()
        if wanted and state.holds and (held := given_up(state)):  # what it uses of it already counts once
            wanted = tuple([(r, n - held.get(r, 0)) for r, n in wanted if n > held.get(r, 0)])
        stands = state.begun and bool(used or not leaving)
        return _Charge(gang.queue, gang.namespace, used, wanted, stands, lacks and state.waits)

    def _charge(self, charge: _Charge, sign: int) -> None:
        account = self.accounts.get(charge.queue)
        if account is not None:
            account.waiting += sign * charge.waits
            add(account.wanted, charge.wanted, sign)
        if charge.used or charge.stands:  # who waits for all of it does not
            for above in account.path if account is not None else ():
                above.standing += sign * charge.stands
                add(above.used, charge.used, sign)
            add(self.root.used, charge.used, sign)
            if account is not None and account.rules.order is QueueOrder.FAIR:
                add(account.by_namespace.setdefault(charge.namespace, {}), charge.used, sign)
        self.moves += 1
        self._entitled = False

    def linger(self, leaving: tuple[Leaving, ...]) -> None:
        """All that is on its way out, and there still (`lingering.py`)."""
        if leaving == self._leaving:
            return
        self._leaving = leaving
        self.moves += 1
        for account in self.accounts.values():
            account.lingering, account.lingering_gangs = {}, 0
        for each in leaving:
            linger(each, self.path)

    def shift(self, queue: str, amounts: Amounts, sign: int) -> None:
        """Charge (1) or free (-1) amounts as if gangs of this queue had begun or ended to use them."""
        amounts = counted(amounts)
        for above in self.path(queue):
            add(above.used, amounts, sign)
        add(self.root.used, amounts, sign)

    def demand(self, want: Want) -> tuple[Amounts, Amounts]:
        """What the minimum of a want takes at least, and what all of it takes; `pods` included."""
        known = self._demands.get(want)
        if known is None:
            known = self._demands[want] = (least(want), most(want))
        return known

    def asked(self, state: GangState, want: Want) -> Amounts:
        """What the minimum takes besides what the gang uses already, and gives up for it."""
        least, held = self.demand(want)[0], given_up(state)
        return tuple((r, amount - held.get(r, 0)) for r, amount in least) if held else least

    # Entitlement

    @property
    def undivided(self) -> bool:
        """One queue may have whatever there is: what it is entitled to decides nothing, and is only told."""
        return self._planted and self._undivided

    def entitle(self) -> None:
        """Divide what there is among the queues, if anything has changed since."""
        if not self._planted:
            self._plant()
        as_of = (self._nodes.layout, self._nodes.capacity_revision)
        if self._capacity_as_of != as_of:
            self._capacity_as_of, self._entitled = as_of, False
            self.root.entitled = self._usable()
        if not self._entitled:
            self.rulings += entitle(self.root)
            self._entitled = True
            self.divisions += 1

    def _usable(self) -> dict[str, int]:
        """What ready, uncordoned nodes have, by resource."""
        usable = self._eligibility.of(_ANY).obstacles & _UNUSABLE == 0
        nodes = self._nodes
        sums = {r: int(nodes.capacity(row)[usable].sum(dtype=np.int64)) for r, row in nodes.resources.items()}
        sums.pop(GPU_SHARE, None)  # what is free of it is read off the devices
        return dict(counted(tuple(sums.items())))

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
            if allowed and (others := gang.namespaces.difference(allowed)):
                return f"queue {above.name} allows only {_only('namespace', allowed)}, not {min(others)}"
            if users and gang.user and gang.user not in users:
                return f"queue {above.name} allows only {_only('user', users)}, not {gang.user}"
        return None

    def closed(self, account: Account) -> Account | None:
        """The queue, this one or one above it, that takes in nothing new."""
        for above in account.path:
            if above.rules.closed:
                return above
        return None

    def full(self, account: Account) -> str | None:
        """Why the queue may have no more gangs."""
        crowded = next((above for above, _ in self.crowds(account)), None)
        if crowded is None:
            return None
        most = crowded.rules.max_gangs
        return f"queue {crowded.name} has maxGangs {most}, and {crowded.gangs} started already"

    def crowds(self, account: Account) -> Iterator[tuple[Account, int]]:
        """The queues that may have no more gangs, and how many they would have too many with one more."""
        for above in account.path:
            most = above.rules.max_gangs
            if most is not None and above.gangs >= most:
                yield above, above.gangs + 1 - most

    def above_capability(self, account: Account, demand: Amounts) -> str | None:
        """Where the demand would exceed a hard cap."""
        first = next(self.excess(account, demand), None)
        if first is None:
            return None
        above, resource, excess = first
        cap, used = above.caps[resource], above.there(resource)
        return (
            f"queue {above.name} uses {bare(resource, used)} of its {show(resource, cap)}; "
            f"{bare(resource, cap + excess - used)} more would be {bare(resource, cap + excess)}"
        )

    def over_capability(self, account: Account, demand: Amounts) -> dict[str, int]:
        """By how much the demand would exceed the hard caps, of each resource that it would."""
        over: dict[str, int] = {}
        for _, resource, amount in self.excess(account, demand):
            over[resource] = max(over.get(resource, 0), amount)
        return over

    def excess(self, account: Account, demand: Amounts) -> Iterator[tuple[Account, str, int]]:
        """The hard caps that the demand would exceed: whose, of what, by how much."""
        for above in account.path:
            for resource, amount in counted(demand) if above.caps else ():
                cap = above.caps.get(resource)
                if amount > 0 and cap is not None and (excess := above.there(resource) + amount - cap) > 0:
                    yield above, resource, excess

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
            left = {resource: cap - above.there(resource) for resource, cap in above.caps.items()}
            for resource, entitled in above.entitled.items() if not borrow else ():
                if entitled < everything.get(resource, 0):
                    own = entitled - above.used.get(resource, 0)
                    left[resource] = min(left.get(resource, own), own)
            for resource, amount in left.items():
                room[resource] = min(room.get(resource, amount), amount)
        return room

    def lingers(self, account: Account) -> bool:
        """Whether somebody has not gone yet below hard caps of the queue."""
        return any(above.lingering or above.lingering_gangs for above in account.path)

    def overshot(self, account: Account) -> None:
        """A gang has started that carried its queue over: the next time others come first."""
        for above in account.path:
            above.carried_over = self._overshoots
        self._overshoots += 1

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Forget afterwards which queues overshot in here. What is charged is for the caller to take back."""
        before = {account: account.carried_over for account in self.accounts.values()}
        overshoots = self._overshoots
        try:
            yield
        finally:
            self._overshoots = overshoots
            for account, carried_over in before.items():
                account.carried_over = carried_over

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
            if self.exceeds(account, demand):
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

    def exceeds(self, account: Account, demand: Amounts) -> bool:
        """Whether the demand would carry this one queue over its entitlement."""
        everything = self.root.entitled
        return any(
            account.used.get(r, 0) + amount > account.entitled.get(r, 0) < everything.get(r, 0)
            for r, amount in demand
        )


def _only(what: str, names: tuple[str, ...]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _are(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"are {shown}" if len(names) > 1 else f"is only {shown}"


_ANY: Final = Shape(())
#: Queues listed where one is not there.
_NAMED: Final = 10
