"""The queues, a tree of accounts: what each uses, what it is entitled to, and from which it may reclaim.

A gang is charged whole to its queue and to every queue above it: what its pods and holds use, and what it
waits for. `settle` updates the sums by the difference that a changed gang makes. A start therefore costs
O(depth), and a cycle in which nothing happened costs nothing here.

*Entitlement* (`entitle`) is divided from the root down, per resource (`entitlement.py`). The root is
entitled to what ready, uncordoned nodes have, each queue to its part of its parent's entitlement. It depends
on what queues use and wait for together. A start does not change that sum, so entitlements are constant
within one cycle.

A queue is *over* its entitlement if it uses more of some resource than it is entitled to, and the entitlement
is less than the cluster has. A queue entitled to the whole cluster can never exceed its share: if it lacks
something, it lacks capacity.

Queues that contradict themselves or each other (`fault`) take no part: their gangs are not started, and the
other queues are served as usual. The queue `default` always exists.

Whole GPUs and shares of GPUs are one account, in thousandths (`counted`). Every sum here has the key
`muster.dev/gpu-share` where nodes and pods say `nvidia.com/gpu`. Amounts may be passed in either form.

A search for victims (reclaim, preemption) combines three calls, on accounts that are charged and discharged
speculatively like the ledger:

    queues.shift(queue, amounts, -1)                    # as if these amounts were freed; +1 undoes it
    queues.may_reclaim(mine, demand, theirs, freed)     # may `mine` take `freed` from `theirs`, as it stands?
    queues.exceeded(mine, demand)                       # None: nothing would be over its entitlement

`may_reclaim` compares the two queues where their paths part. The claimant's queues, from its own up to there,
must stay within their entitlement. The victim's queues must be over theirs, be reclaimable, and keep their
guarantees once the amounts are gone. A queue may end up below its entitlement, because gangs are not cut in
two, but a gang may be taken only from a queue that is over it; the caller must therefore shift first what it
has taken so far. Nothing is reclaimed within one queue: that is preemption, by priority.

Source of the rules: docs/queues.md. Volcano's `capacity` plugin (deserved, guarantee, reclaim by queue) and
Kueue's hierarchical cohorts (least common ancestor) have the same shape.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from muster.core.demand import Demand
from muster.core.demand.totals import least, most
from muster.core.words.amounts import add, counted
from muster.core.words.gang import Amounts, Gang, GangId, Queue, QueueOrder, Shape
from muster.core.words.wording import bare, show
from muster.core.world.eligibility import Eligibility, Obstacle
from muster.core.world.gangs import GangState, given_up
from muster.core.world.nodes import Nodes
from muster.core.world.queues.account import DEFAULT, ROOT, Account
from muster.core.world.queues.entitlement import entitle
from muster.core.world.queues.faults import faults_of
from muster.core.world.queues.terminating import Leaving, linger
from muster.core.world.trial import UndoLog
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
    def __init__(self, nodes: Nodes, eligibility: Eligibility, log: UndoLog) -> None:
        self._nodes, self._eligibility, self._log = nodes, eligibility, log
        self._rules: dict[str, Queue] = {}
        self.accounts: dict[str, Account] = {}
        self.root = Account(Queue(ROOT))
        self._charges: dict[GangId, _Charge] = {}
        self._leaving: tuple[Leaving, ...] = ()
        #: depends on the demand alone, so an entry may be dropped at any time
        self._amounts_of: WeakKeyDictionary[Demand, tuple[Amounts, Amounts]] = WeakKeyDictionary()
        #: number of starts so far that carried a queue over its entitlement
        self._borrowings = 0
        #: count changes of use, and divisions of what there is
        self.usage_version = self.division_version = 0
        #: count changes of rules, and of what some queue is entitled to
        self.rules_version = self.entitlement_version = 0
        self._planted = self._entitled = self._undivided = False
        self._capacity_as_of = (-1, -1)

    # The tree

    def change(self, rules: Queue) -> bool:
        """Add or replace a queue's rules. Returns False if nothing changed."""
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
        """Return the account of a queue, None if there is no such queue."""
        if not self._planted:
            self._plant()
        return self.accounts.get(name)

    def path(self, name: str) -> tuple[Account, ...]:
        """Return the queue of this name and the queues above it; empty if there is no such queue."""
        account = self.find(name)
        return account.path if account is not None else ()

    def _plant(self) -> None:
        """Rebuild the tree, and charge every gang to it."""
        before = self.accounts
        rules = {DEFAULT: Queue(DEFAULT), **self._rules}
        faults = faults_of(rules)
        self.root = Account(Queue(ROOT))
        self.accounts = {
            name: Account(
                rules[name], fault=faults.get(name, ""), last_borrowed=old.last_borrowed if old else -1
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
        self.rules_version += 1
        self._capacity_as_of = (-1, -1)
        for charge in self._charges.values():
            self._charge(charge, 1)
        for leaving in self._leaving:
            linger(leaving, self.path)

    # Accounts

    def settle(self, state: GangState, leaving: Amounts = ()) -> None:
        """Update what a gang adds to its queue.

        `leaving`: the part of its usage that makes room for other gangs, which are charged with that room
        already. A gang that leaves with all of its usage no longer counts as started.
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
        lacks = gang.gate is None and state.demand is not None and self.barred(gang) is None
        asks = lacks and (state.begun or not any(above.rules.closed for above in self.path(gang.queue)))
        wanted = self.amounts(state.demand)[1] if asks and state.demand is not None else ()
        if wanted and state.holds and (held := given_up(state)):  # held places count as used already
            wanted = tuple([(r, n - held.get(r, 0)) for r, n in wanted if n > held.get(r, 0)])
        stands = state.begun and bool(used or not leaving)
        return _Charge(gang.queue, gang.namespace, used, wanted, stands, lacks and state.waits)

    def _charge(self, charge: _Charge, sign: int) -> None:
        account = self.accounts.get(charge.queue)
        if account is not None:
            account.waiting += sign * charge.waits
            add(account.wanted, charge.wanted, sign)
        if charge.used or charge.stands:  # a gang that only waits adds nothing here
            for above in account.path if account is not None else ():
                above.standing += sign * charge.stands
                add(above.used, charge.used, sign)
            add(self.root.used, charge.used, sign)
            if account is not None and account.rules.order is QueueOrder.FAIR:
                add(account.by_namespace.setdefault(charge.namespace, {}), charge.used, sign)
        self.usage_version += 1
        self._entitled = False

    def linger(self, leaving: tuple[Leaving, ...]) -> None:
        """Replace what counts as usage of terminating pods (`terminating.py`)."""
        if leaving == self._leaving:
            return
        self._leaving = leaving
        self.usage_version += 1
        for account in self.accounts.values():
            account.terminating, account.terminating_gangs = {}, 0
        for each in leaving:
            linger(each, self.path)

    def shift(self, queue: str, amounts: Amounts, sign: int) -> None:
        """Charge (1) or free (-1) amounts as if gangs of this queue had started or stopped using them."""
        amounts = counted(amounts)
        for above in self.path(queue):
            add(above.used, amounts, sign)
        add(self.root.used, amounts, sign)

    def amounts(self, demand: Demand) -> tuple[Amounts, Amounts]:
        """Return what a demand's minimum takes at least, and what the whole want takes; `pods` included."""
        known = self._amounts_of.get(demand)
        if known is None:
            known = self._amounts_of[demand] = (least(demand), most(demand))
        return known

    def asked(self, state: GangState, demand: Demand) -> Amounts:
        """Return what the minimum takes, less what the gang already uses and gives up for it."""
        least, held = self.amounts(demand)[0], given_up(state)
        return tuple((r, amount - held.get(r, 0)) for r, amount in least) if held else least

    # Entitlement

    @property
    def undivided(self) -> bool:
        """Whether one queue may use the whole cluster: its entitlement then is only reported."""
        return self._planted and self._undivided

    def entitle(self) -> None:
        """Divide the usable capacity among the queues, if anything has changed since the last division."""
        if not self._planted:
            self._plant()
        as_of = (self._nodes.layout, self._nodes.capacity_revision)
        if self._capacity_as_of != as_of:
            self._capacity_as_of, self._entitled = as_of, False
            self.root.entitled = self._usable()
        if not self._entitled:
            self.entitlement_version += entitle(self.root)
            self._entitled = True
            self.division_version += 1

    def _usable(self) -> dict[str, int]:
        """Return the capacity of ready, uncordoned nodes, by resource."""
        usable = self._eligibility.of(_ANY).obstacles & _UNUSABLE == 0
        nodes = self._nodes
        sums = {r: int(nodes.capacity(row)[usable].sum(dtype=np.int64)) for r, row in nodes.resources.items()}
        sums.pop(GPU_SHARE, None)  # the devices account for shares
        return dict(counted(tuple(sums.items())))

    # What a queue may do

    def barred(self, gang: Gang) -> str | None:
        """Return why a gang can never start in the queue it names under the current rules; None if it can."""
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
        """Return the queue, this one or one above it, that is closed to new gangs; None if none is."""
        for above in account.path:
            if above.rules.closed:
                return above
        return None

    def full(self, account: Account) -> str | None:
        """Return why the queue may have no more gangs; None if it may."""
        crowded = next((above for above, _ in self.crowds(account)), None)
        if crowded is None:
            return None
        most = crowded.rules.max_gangs
        return f"queue {crowded.name} has maxGangs {most}, and {crowded.gangs} started already"

    def crowds(self, account: Account) -> Iterator[tuple[Account, int]]:
        """Yield the queues that may have no more gangs, each with its excess if one more started."""
        for above in account.path:
            most = above.rules.max_gangs
            if most is not None and above.gangs >= most:
                yield above, above.gangs + 1 - most

    def above_capability(self, account: Account, asked: Amounts) -> str | None:
        """Say which hard cap the demand would exceed; None if it exceeds none."""
        first = next(self.excess(account, asked), None)
        if first is None:
            return None
        above, resource, excess = first
        cap, used = above.caps[resource], above.there(resource)
        return (
            f"queue {above.name} uses {bare(resource, used)} of its {show(resource, cap)}; "
            f"{bare(resource, cap + excess - used)} more would be {bare(resource, cap + excess)}"
        )

    def over_capability(self, account: Account, asked: Amounts) -> dict[str, int]:
        """Return by how much the demand would exceed the hard caps, for each resource that exceeds one."""
        over: dict[str, int] = {}
        for _, resource, amount in self.excess(account, asked):
            over[resource] = max(over.get(resource, 0), amount)
        return over

    def excess(self, account: Account, asked: Amounts) -> Iterator[tuple[Account, str, int]]:
        """Yield the hard caps that the demand would exceed: the queue, the resource, the excess."""
        for above in account.path:
            for resource, amount in counted(asked) if above.caps else ():
                cap = above.caps.get(resource)
                if amount > 0 and cap is not None and (excess := above.there(resource) + amount - cap) > 0:
                    yield above, resource, excess

    def exceeded(self, account: Account, asked: Amounts) -> str | None:
        """Say which queue the demand would carry over its entitlement; None if it carries none."""
        everything = self.root.entitled
        for above in account.path:
            used, entitled = above.used, above.entitled
            for resource, amount in counted(asked):
                limit, now = entitled.get(resource, 0), used.get(resource, 0)
                if now + amount > limit < everything.get(resource, 0):
                    return (
                        f"queue {above.name} is entitled to {bare(resource, limit)} of "
                        f"{show(resource, everything[resource])} and uses {bare(resource, now)}; "
                        f"{bare(resource, amount)} more would be {bare(resource, now + amount)}"
                    )
        return None

    def room(self, account: Account, *, borrow: bool) -> dict[str, int]:
        """Return how much more the queue may use of each resource that is limited; may be negative.

        `borrow`: only caps limit the queue, its entitlement does not.
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
        """Whether usage of terminating pods still counts against hard caps of the queue."""
        return any(above.terminating or above.terminating_gangs for above in account.path)

    def borrowed(self, account: Account) -> None:
        """Record that a start carried the queue over its entitlement: next time other queues go first."""
        self._log.push(self._undo_borrowed, [(above, above.last_borrowed) for above in account.path])
        for above in account.path:
            above.last_borrowed = self._borrowings
        self._borrowings += 1

    def _undo_borrowed(self, before: list[tuple[Account, int]]) -> None:
        self._borrowings -= 1
        for above, last_borrowed in before:
            above.last_borrowed = last_borrowed

    # Which queue may reclaim from which

    def surplus(self, account: Account) -> dict[str, int]:
        """Return by how much a queue is over its entitlement, by resource."""
        everything = self.root.entitled
        over = {
            resource: used - account.entitled.get(resource, 0)
            for resource, used in account.used.items()
            if account.entitled.get(resource, 0) < everything.get(resource, 0)
        }
        return {resource: amount for resource, amount in over.items() if amount > 0}

    def may_reclaim(self, claimant: str, asked: Amounts, victim: str, freed: Amounts) -> bool:
        """Whether a gang of one queue may reclaim what a gang of another uses (see the module).

        `asked`: all that the claimant needs; `freed`: what the victim would free now.
        """
        mine, theirs = self.find(claimant), self.find(victim)
        if mine is None or mine.fault or theirs is mine:
            return False
        if theirs is None or theirs.fault:
            return False  # its entitlement is unknown
        shared = set(mine.path) & set(theirs.path)
        asked, freed = counted(asked), counted(freed)
        wanted = dict(asked)
        for account in mine.path:
            if account in shared:
                break
            if self.exceeds(account, asked):
                return False
        for account in theirs.path:
            if account in shared:
                break
            surplus = self.surplus(account)
            if not account.rules.reclaimable or not any(wanted.get(r) and r in surplus for r, _ in freed):
                return False
            if any(account.used.get(r, 0) - amount < account.guaranteed.get(r, 0) for r, amount in freed):
                return False
        return True

    def exceeds(self, account: Account, asked: Amounts) -> bool:
        """Whether the demand would carry this one queue over its entitlement."""
        everything = self.root.entitled
        return any(
            account.used.get(r, 0) + amount > account.entitled.get(r, 0) < everything.get(r, 0)
            for r, amount in asked
        )


def _only(what: str, names: tuple[str, ...]) -> str:
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _are(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"are {shown}" if len(names) > 1 else f"is only {shown}"


_ANY: Final = Shape(())
#: At most so many queues are listed when the named one does not exist.
_NAMED: Final = 10
