"""The queues, a tree of accounts: what each uses, and what it is entitled to; `reclaim.py` compares two.

The rules are those of docs/concepts/queues.md. `settle` updates the sums by the difference that a changed
gang makes. A start therefore costs O(depth), and a cycle in which nothing happened costs nothing here.
`entitle` divides the capacity (`account.py`). Entitlements depend on what queues use and wait for together. A
start does not change that sum, so they are constant within one cycle.

A queue is *over* its entitlement if it uses more of some resource than it is entitled to, and the entitlement
is less than the cluster has.

*Terminating pods* count against hard caps until they are gone, and not against entitlements: what has been
taken is charged to the gang for which it was taken. Victims may free more than the beneficiary takes, so each
queue counts, for each beneficiary, the greater of what leaves and what arrives.

Volcano's `capacity` plugin (deserved, guarantee, reclaim by queue) and Kueue's hierarchical cohorts (least
common ancestor) have the same shape.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from math import inf
from typing import Final, NamedTuple, Protocol

import numpy as np

from muster.core.demand import Demand
from muster.core.words.amounts import Usage
from muster.core.words.gang import FOREIGN, Gang, GangId, Queue, QueueOrder, Shape
from muster.core.world.eligibility import Eligibility, Obstacle
from muster.core.world.gangs import GangState, given_up
from muster.core.world.nodes import Nodes
from muster.core.world.queues.account import DEFAULT, ROOT, Account, entitle, tree
from muster.core.world.queues.faults import faults_of
from muster.core.world.topology import Topology, named
from muster.core.world.trial import UndoLog
from muster.names import GPU_SHARE

_UNUSABLE: Final = np.uint16(Obstacle.CORDON | Obstacle.NOT_READY | Obstacle.GONE)


class _Charge(NamedTuple):
    """What one gang adds to its queue."""

    queue: str
    namespace: str
    used: Usage
    wanted: Usage
    stands: bool
    waits: bool


class Attain(Protocol):
    """What of a demand could run if nothing else ran (`placement/attainable.py`)."""

    @property
    def as_of(self) -> tuple[object, ...]: ...

    def of(self, demand: Demand) -> Usage: ...

    def by_pods(self, demand: Demand) -> bool: ...

    def never(self, state: GangState, demand: Demand) -> bool: ...

    def least(self, demand: Demand) -> Usage: ...


class _Asking(NamedTuple):
    """The gangs that wait for one demand, and what of it could run."""

    attainable: Usage
    gangs: dict[GangId, GangState]


class Terminating(NamedTuple):
    """What leaves for one gang, and what that gang is charged with."""

    queue: str
    held: Usage
    #: the beneficiary is one more gang of its queue
    new: bool
    #: by queue: what has not left yet, and how many gangs
    left: tuple[tuple[str, Usage, int], ...]


class Queues:
    def __init__(
        self, nodes: Nodes, eligibility: Eligibility, log: UndoLog, topology: Topology | None = None
    ) -> None:
        self._topology = topology
        self._nodes, self._eligibility, self._log = nodes, eligibility, log
        self._rules: dict[str, Queue] = {}
        self.accounts: dict[str, Account] = {}
        self.root = Account(Queue(ROOT))
        self._charges: dict[GangId, _Charge] = {}
        #: None: all of any demand could run
        self.attainable: Attain | None = None
        #: by demand, while shares are divided; each gang's demand; and `attainable.as_of` for these
        self._asking: dict[Demand, _Asking] = {}
        #: of these, the ones of which pods on nodes decide whether they could run
        self._by_pods: dict[Demand, None] = {}
        self._demands: dict[GangId, Demand] = {}
        self._attained_as_of: tuple[object, ...] = ()
        #: what counts as usage of terminating pods
        self.terminating: tuple[Terminating, ...] = ()
        #: number of starts so far that carried a queue over its entitlement
        self._borrowings = 0
        #: count changes of rules, of what queues use or wait for, and of what some queue is entitled to
        self.rules_version = self.usage_version = self.entitlement_version = 0
        #: by resource, the queues whose gangs wait for it; as of which changes
        self._most_wanted: dict[str, Sequence[Account]] = {}
        self._most_wanted_as_of = (-1, -1)
        self._built = self._entitled = self._undivided = False
        self._capacity_as_of = (-1, -1)
        #: columns that give no capacity but what is used there, and how much that was
        self._away, self._used_away = np.zeros(0, np.intp), Usage()

    @property
    def version(self) -> tuple[int, int, int]:
        """Changes whenever rules, usage or an entitlement does."""
        return self.rules_version, self.usage_version, self.entitlement_version

    # The tree

    def change(self, name: str, rules: Queue | None) -> bool:
        """Set a queue's rules; None: there is no such queue. Returns False if nothing changed."""
        if self._rules.get(name) == rules:
            return False
        if rules is not None:
            self._rules[name] = rules
        else:
            del self._rules[name]
        self._built = False
        return True

    def find(self, name: str) -> Account | None:
        """Return the account of a queue, None if there is no such queue."""
        if not self._built:
            self._build()
        return self.accounts.get(name)

    def path(self, name: str) -> tuple[Account, ...]:
        """Return the queue of this name and the queues above it; empty if there is no such queue."""
        account = self.find(name)
        return account.path if account is not None else ()

    def _build(self) -> None:
        """Rebuild the tree, and charge every gang to it."""
        last_borrowed = {name: account.last_borrowed for name, account in self.accounts.items()}
        rules = {DEFAULT: Queue(DEFAULT), **self._rules}
        faults = faults_of(rules) if self._rules else {}
        self.root, self.accounts = tree(rules, faults, last_borrowed)
        for account in self.accounts.values():
            account.free = self.root.children == [account] and account.unlimited
        self._undivided = any(a.free and a.rules.order is not QueueOrder.FAIR for a in self.accounts.values())
        self._built, self._entitled = True, False
        self.rules_version += 1
        self._capacity_as_of = (-1, -1)
        for charge in self._charges.values():
            self._charge(charge, 1)
        for each in self.terminating:
            self._charge_terminating(each)

    # Accounts

    def settle(self, state: GangState, leaving: Usage | None = None, surcharge: Usage | None = None) -> None:
        """Update what a gang adds to its queue: what it uses, and its `surcharge` for exclusive domains.

        `leaving`: the part of its usage that makes room for other gangs, which are charged with that room
        already. A gang that leaves with all of its usage no longer counts as started.
        """
        if not self._built:
            self._build()
        old, new = self._charges.get(state.id), self._charge_of(state, leaving, surcharge)
        if new == old:
            return
        if old is not None:
            self._charge(old, -1)
        if new is None:
            del self._charges[state.id]
        else:
            self._charges[state.id] = new
            self._charge(new, 1)

    def _charge_of(self, state: GangState, leaving: Usage | None, surcharge: Usage | None) -> _Charge | None:
        gang, used = state.gang, Usage.of(state.usage.items()) if state.usage else _NOTHING
        if leaving:
            used = used.minus(leaving)
        if surcharge and used:  # once all its pods leave, so does its domain
            used = used.plus(surcharge)
        if gang is None:
            self._wanted(state, None)
            return _Charge("", "", used, Usage(), False, False) if used else None
        if gang.queue == FOREIGN:
            return None
        demand, begun = state.demand, state.begun
        lacks = demand is not None and gang.gate is None and self.barred(gang) is None
        asks = lacks and (begun or self.closed(gang.queue) is None)
        wanted = self._wanted(state, demand if asks else None)
        stands = begun and bool(used or not leaving)
        return _Charge(gang.queue, gang.namespace, used, wanted, stands, lacks and state.waits)

    def _wanted(self, state: GangState, demand: Demand | None) -> Usage:
        """Return what a gang waits for, as far as it could ever run: shares are divided among that."""
        before = self._demands.get(state.id)
        if before is not None and before is not demand:
            del self._demands[state.id]
            asking = self._asking[before]
            del asking.gangs[state.id]
            if not asking.gangs:
                del self._asking[before]
                self._by_pods.pop(before, None)
        if demand is None or (state.back_off is not None and state.back_off.until == inf):
            return _NOTHING
        wanted = demand.most
        if self.attainable is not None and not self._undivided:
            found = self._asking.get(demand)
            if found is None:
                found = self._asking[demand] = _Asking(self.attainable.of(demand), {})
                if self.attainable.by_pods(demand):
                    self._by_pods[demand] = None
            found.gangs[state.id] = state
            self._demands[state.id] = demand
            wanted = found.attainable
            if wanted and self.attainable.never(state, demand):
                return _NOTHING
        assert state.gang is not None
        exclusive = demand.rules is not None and demand.rules.exclusive
        least = self.attainable.least(demand) if self.attainable is not None and exclusive else demand.least
        for above in self.path(state.gang.queue):
            if any(least.get(r, 0) > cap for r, cap in above.caps.items()):
                return _NOTHING
            if above.rules.max_gangs == 0 and not state.begun:
                return _NOTHING
        if wanted and state.holds and (held := given_up(state)):  # held places count as used already
            wanted = wanted.minus(held)
        return wanted

    def sharers(self, queue: str, demand: Demand, most: int) -> list[str]:
        """Return at most `most` queues that lower the share that a demand would exceed, as their gangs wait.

        Those that wait for most are first. What their gangs use lowers it, too, and does not count here.
        """
        account = self.find(queue)
        found = account.over_share(demand.least) if account is not None else None
        if found is None:
            return []
        above, resource = found
        others = (
            other for other in self._waiting_for(resource) if all(each is not above for each in other.path)
        )
        return [other.name for other in islice(others, most)]

    def _waiting_for(self, resource: str) -> Sequence[Account]:
        """Return the queues whose gangs wait for a resource, that which waits for most first."""
        if self._most_wanted_as_of != (now := (self.rules_version, self.usage_version)):
            self._most_wanted, self._most_wanted_as_of = {}, now
        if (found := self._most_wanted.get(resource)) is None:
            waiting = (each for each in self.accounts.values() if each.wanted.get(resource, 0) > 0)
            found = sorted(waiting, key=lambda each: (-each.wanted[resource], each.name))
            self._most_wanted[resource] = found
        return found

    def could_run(self, state: GangState, demand: Demand) -> bool:
        """Whether the minimum might run if nothing else did."""
        able = self.attainable
        return able is None or (bool(able.of(demand)) and not able.never(state, demand))

    def _attain(self) -> None:
        """Charge the gangs of demands of which another part could run, now that nodes or layers changed."""
        if self.attainable is None or self._undivided:
            return
        changed = self._attained_as_of != (as_of := self.attainable.as_of)
        self._attained_as_of = as_of
        for demand in [*(self._asking if changed else self._by_pods)]:
            before, gangs = self._asking[demand]
            found, exclusive = self.attainable.of(demand), demand.rules is not None and demand.rules.exclusive
            by_pods = demand in self._by_pods
            if changed and self.attainable.by_pods(demand):
                self._by_pods[demand] = None
            elif changed:
                self._by_pods.pop(demand, None)
            if found == before and not exclusive and not (by_pods or demand in self._by_pods):
                continue
            self._asking[demand] = _Asking(found, gangs)
            for state in [*gangs.values()]:
                old = self._charges[state.id]
                new = old._replace(wanted=self._wanted(state, demand))
                if new != old:
                    self._charge(old, -1)
                    self._charges[state.id] = new
                    self._charge(new, 1)

    def _charge(self, charge: _Charge, sign: int) -> None:
        queue, namespace, used, wanted, stands, waits = charge
        account = self.accounts.get(queue)
        if account is not None:
            account.waiting += sign * waits
            if wanted:
                account.wanted.add(wanted, sign)
        if used or stands:  # a gang that only waits adds nothing here
            for above in account.path if account is not None else ():
                above.standing += sign * stands
                above.used.add(used, sign)
            self.root.used.add(used, sign)
            if used and account is not None and account.rules.order is QueueOrder.FAIR:
                account.charge_namespace(namespace, used, sign)
        self.usage_version += 1
        self._entitled = False

    def give(self, queue: str, usage: Usage) -> None:
        """Free this, as if gangs of this queue had stopped using it; a trial restores it."""
        if queue == FOREIGN:
            return
        for above in (*self.path(queue), self.root):
            above.used.add(usage, -1)
            self._log.push(above.used.add, usage)

    def terminate(self, terminating: tuple[Terminating, ...]) -> None:
        """Replace what counts as usage of terminating pods."""
        if terminating == self.terminating:
            return
        self._log.push(self.terminate, self.terminating)
        self.terminating = terminating
        self.usage_version += 1
        for account in self.accounts.values():
            account.terminating, account.terminating_gangs = Usage(), 0
        for each in terminating:
            self._charge_terminating(each)

    def _charge_terminating(self, each: Terminating) -> None:
        """Charge the queues with what has not left yet beyond what arrives for it."""
        left: dict[Account, Usage] = {}
        gangs: Counter[Account] = Counter()
        for queue, usage, number in each.left:
            for above in self.path(queue):
                left.setdefault(above, Usage()).add(usage)
                gangs[above] += number
        mine = self.path(each.queue)
        for account, usage in left.items():
            account.terminating.add(usage.minus(each.held) if account in mine else usage)
            account.terminating_gangs += max(gangs[account] - (each.new and account in mine), 0)

    # Entitlement

    @property
    def undivided(self) -> bool:
        """Whether one queue may use the whole cluster: its entitlement then is only reported."""
        return self._built and self._undivided

    def entitle(self) -> None:
        """Divide the capacity among the queues, if anything has changed since the last division.

        What runs on nodes that take no pods counts as use, so it counts as capacity, too.
        """
        if not self._built:
            self._build()
        self._attain()
        nodes = self._nodes
        as_of = (nodes.layout, nodes.capacity_revision)
        changed = self._capacity_as_of != as_of
        if changed:
            usable = self._eligibility.of(_ANY).obstacles & _UNUSABLE == 0
            self._capacity_as_of, self._away = as_of, np.flatnonzero(~usable)
        away = nodes.used_off(self._away) if len(self._away) or nodes.elsewhere else _NOTHING
        if changed or away != self._used_away:
            self._used_away, self._entitled = away, False
            self.root.entitled = self._usable().plus(away)
        if not self._entitled:
            self.entitlement_version += entitle(self.root)
            self._entitled = True

    def _usable(self) -> Usage:
        """Return the capacity of ready, uncordoned nodes, by resource."""
        nodes, usable = self._nodes, np.ones(len(self._nodes), np.bool_)
        usable[self._away] = False
        sums = {r: int(nodes.capacity(row)[usable].sum(dtype=np.int64)) for r, row in nodes.resources.items()}
        sums.pop(GPU_SHARE, None)  # the devices account for shares
        return Usage.of(sums.items())

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
                return f"queue {above.name} does not allow namespace {min(others)}"
            if users and gang.user and gang.user not in users:
                return f"queue {above.name} does not allow user {gang.user}"
            highest = above.rules.max_exclusive_layer
            if gang.exclusive and highest and (why := self._too_high(gang.exclusive, highest)):
                return f"queue {above.name} {why}"
        return None

    def _too_high(self, asked: str, highest: str) -> str:
        """Say why a gang may not have a domain of a layer exclusively; "" if it may."""
        names = self._topology.names if self._topology is not None else []
        if (limit := named(highest, names)) is None:
            return f"allows exclusive domains up to the layer {highest}, which does not exist"
        found = named(asked, names)
        if found is None or names.index(found) >= names.index(limit):
            return ""
        below = " or ".join(names[names.index(limit) :])
        return f"allows no {found} to be exclusive; write {below}"

    def closed(self, name: str) -> str | None:
        """Return the queue, this one or one above it, that is closed to new gangs; None: none is."""
        return next((above.name for above in self.path(name) if above.rules.closed), None)

    def borrowed(self, account: Account, taken: Iterable[str]) -> None:
        """Record which of these queues are over their entitlement by a start that took these resources.

        Next time the queues beside them go first.
        """
        none, over = dict.fromkeys(taken, 0), list[Account]()
        for above in account.path:
            entitled = above.entitled_after(none)
            if any(r in entitled and above.used.get(r, 0) > entitled[r] for r in none):
                over.append(above)
        self._log.push(self._undo_borrowed, [(above, above.last_borrowed) for above in over])
        for above in over:
            above.last_borrowed = self._borrowings
        self._borrowings += 1

    def _undo_borrowed(self, before: list[tuple[Account, int]]) -> None:
        self._borrowings -= 1
        for above, last_borrowed in before:
            above.last_borrowed = last_borrowed


def _are(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"are {shown}" if len(names) > 1 else f"is only {shown}"


_ANY: Final = Shape(())
_NOTHING: Final = Usage()
#: At most so many queues are listed when the named one does not exist.
_NAMED: Final = 10
