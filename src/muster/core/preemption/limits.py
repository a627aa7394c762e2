"""The limits that a set of victims must keep as a whole.

- *Budgets*: of the pods that a PodDisruptionBudget selects, no more than it allows. A pod may be selected by
  several, and pods that are leaving already count.
- *Reclaim*: what another queue uses may be taken only while that queue is over its entitlement, from the
  first unit to the last: the units before the last one must not have brought it down already. The smallest
  gangs are taken first, which is the order that allows most. A queue is brought down by surplus,
  unit by unit, or by the rest of whole gangs, which may leave it below its entitlement.

A set that keeps these limits still does when victims are spared. The opposite holds for

- *quota*: what the victims free below the hard caps of the preemptor's queues, which must be enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from muster.core.preemption.candidates import EvictionUnit
from muster.core.preemption.eviction_units import UnitTable
from muster.core.words.amounts import Usage
from muster.core.world import World
from muster.core.world.nodes import Bools, Longs
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account

#: Whether a set of victims keeps the limits.
Limits = Callable[[Bools], bool]


@dataclass(frozen=True, slots=True)
class Quota:
    """What has to be freed below hard caps."""

    #: by cap, what is missing below it
    lacking: Longs
    #: caps × units: what each frees of it
    freed: Longs


def limits(table: UnitTable, queue: str, asked: Usage, world: World) -> Limits:
    """The limits for a preemptor of this queue, which takes at least `asked`."""
    checks: list[Limits] = []
    if world.budgets:
        left = world.budgets.left(world.pods, world.pending_evictions.leaving)
        names = sorted(left)
        needs = _needs(table, names, world)
        if needs.any():
            most = np.array([left[name] for name in names], np.int64)
            checks.append(lambda taken: bool((needs[taken].sum(axis=0) <= np.maximum(most, 0)).all()))
    others = np.array([candidate.gang.queue != queue for candidate in table.candidates], np.bool_)
    if others.any():
        foreign: Bools = others[table.gang]
        checks.append(lambda taken: _may_reclaim(table, taken & foreign, queue, asked, world.queues))
    return lambda taken: all(check(taken) for check in checks)


def caps(table: UnitTable, queue: str, asked: Usage, new: bool, queues: Queues) -> Quota:
    """What must be freed for a preemptor of this queue that takes `asked`; `new`: it is one more gang."""
    lacking: list[int] = []
    freed: list[Longs] = []
    account = queues.find(queue)
    paths = [queues.path(candidate.gang.queue) for candidate in table.candidates]

    def lack(amount: int, above: Account, frees: Callable[[EvictionUnit], int]) -> None:
        below = np.array([above in path for path in paths], np.bool_)[table.gang]
        lacking.append(amount)
        freed.append(np.where(below, np.array([frees(unit) for unit in table.units], np.int64), 0))

    if account is not None:
        for above, gangs in account.over_max_gangs() if new else ():
            lack(gangs, above, lambda unit: int(unit.core))
        for above, resource, amount in account.over_caps(asked):
            lack(amount, above, partial(_freed, resource))
    return Quota(np.array(lacking, np.int64), np.array(freed, np.int64).reshape(len(freed), len(table)))


def _freed(resource: str, unit: EvictionUnit) -> int:
    return unit.freed[resource]


def _needs(table: UnitTable, names: Sequence[tuple[str, str]], world: World) -> Longs:
    """Units × budgets: how many pods of the unit the budget selects."""
    needs = np.zeros((len(table), len(names)), np.int64)
    number = {name: i for i, name in enumerate(names)}
    for unit, one in enumerate(table.units):
        for pod in one.pods:
            for name in world.budgets.of(world.pods[pod]):
                needs[unit, number[name]] += 1
    return needs


def _may_reclaim(table: UnitTable, taken: Bools, queue: str, asked: Usage, queues: Queues) -> bool:
    """Whether each of these units may be reclaimed once those before it are gone."""
    spared = table.kept(taken & ~table.core)
    units = np.flatnonzero(spared | (taken & table.core)).tolist()
    sizes = np.bincount(table.gang[taken], table.pods[taken], len(table.candidates))
    shifted: list[tuple[str, Usage]] = []
    allowed = True
    for unit in sorted(units, key=lambda unit: (sizes[table.gang[unit]], unit)):
        theirs, freed = table.candidates[table.gang[unit]].gang.queue, table.units[unit].freed
        if table.core[unit]:  # with all that could not be spared
            rest = np.flatnonzero(taken & ~spared & (table.gang == table.gang[unit]))
            freed = Usage()
            for one in rest:
                freed.add(table.units[one].freed)
        if not queues.may_reclaim(queue, asked, theirs, freed):
            allowed = False
            break
        queues.shift(theirs, freed, -1)
        shifted.append((theirs, freed))
    for theirs, freed in shifted:
        queues.shift(theirs, freed, 1)
    return allowed
