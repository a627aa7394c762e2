"""Accounting: what follows from the facts is updated once per cycle, for the gangs that were touched.

For each gang this is what it lacks, what its queue and its quotas are charged, when it ends, and when it
needs attention again. A gang that starts is accounted for at once, within
the cycle, because the next gang's turn depends on what its queue uses then. A gang whose only news are pods
that were promised lacks and uses the same as before; only its end and its quotas are updated.

Holds end here, too. A place that a pod has left is held for its replacement for a while. A place that was
promised with the start and not filled is held as long, counted from when its gang stands.
"""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final

from muster.core.words.decisions import Release
from muster.core.words.gang import GangId
from muster.core.world.gangs import GangState, give_back, stands, unwanted
from muster.core.world.state import State


class Accounting:
    def __init__(self, hold: float, world: State) -> None:
        """`hold`: as in `Config`."""
        self._hold, self._ledger, self._gangs, self._log = hold, world.ledger, world.gangs, world.log
        self._exclusive, self._demands, self._completions = (
            world.exclusive_domains,
            world.demands,
            world.completions,
        )
        self._queues, self._quotas, self._pending_evictions = (
            world.queues,
            world.quotas,
            world.pending_evictions,
        )
        #: time of the last cycle, or of a dry run
        self.now = 0.0
        #: how often a gang was accounted for, ever
        self.accounted = 0
        #: touched gangs that have been accounted for and have not changed since
        self._accounted: set[GangId] = set()
        #: `Footprints.carried` up to which gangs know the anti-affinity that keeps them off nodes
        self._carried = 0

    def release(self, now: float) -> tuple[set[GangId], list[Release]]:
        """Release holds that end now. Return gangs whose hold has just run out, and a Release per gang."""
        self.now = now
        lapsed: set[GangId] = set()
        releases = []
        due = (gang for gang, time in self._gangs.timed.items() if time <= now)
        for gang in sorted(self._gangs.touched.union(self._gangs.kept, due)):
            state = self._gangs[gang]
            if state.holds:
                if stands(state):
                    self._limit_holds(state, now)
                run_out = [p for p, h in state.holds.items() if h.until is not None and h.until <= now]
                if run_out:
                    lapsed.add(gang)
                    state.lapsed.update(run_out)
                announced = give_back(
                    state, {*run_out, *unwanted(state, self._ledger.nodes.facts)}, self._ledger
                )
                if announced:
                    releases.append(Release(gang, frozenset(announced)))
                if run_out or announced:
                    self._gangs.touched.add(gang)
            if state.back_off is not None and state.back_off.until <= now:
                state.back_off = None
                self._gangs.touched.add(gang)
            for node in [node for node, until in state.avoided.items() if until <= now]:
                del state.avoided[node]
                self._gangs.touched.add(gang)
        return lapsed, releases

    def touch_concerned(self) -> None:
        """Touch gangs that new anti-affinity of other pods keeps off nodes: their demands have changed."""
        carried = self._ledger.footprints.carried
        if carried != self._carried:
            self._carried = carried
            for state in self._gangs.values():
                if self._demands.newly_concerned(state):
                    self._gangs.touched.add(state.id)
                state.carried = carried

    def settle(self) -> list[GangState]:
        """Update the accounts of all gangs that have changed, and return these gangs."""
        gangs, touched, kept = self._gangs, self._gangs.touched, self._gangs.kept
        touched |= self._pending_evictions.settle(touched, kept) & gangs.keys()
        changed = [gangs[gang] for gang in touched | kept]
        for state in changed:
            gang = state.id
            if gang not in touched:
                self._account_for_pods(state)
            elif gang not in self._accounted:
                self.account(state)
            if not state.lacks:
                state.explanation = None
            if (deadline := state.deadline) is not None:
                gangs.timed[gang] = deadline
            else:
                gangs.timed.pop(gang, None)
            if state.forgettable:
                del gangs[gang]
                gangs.timed.pop(gang, None)
        touched.clear()
        kept.clear()
        self._accounted.clear()
        if changed:
            self._report_terminating()
        return changed

    def started(self, state: GangState, *, whole: bool) -> None:
        """Account for a gang that got places in this cycle; `whole`: all that it lacked."""
        self._gangs.touched.add(state.id)
        self.account(state, satisfied=whole)
        if state.demand is None and not self._pending_evictions:
            self._accounted.add(state.id)

    def evicted(self, gangs: Iterable[GangId]) -> None:
        """Account for gangs that have lost some or all of their places in this cycle."""
        for gang in gangs:
            self._gangs.touched.add(gang)
            self._accounted.discard(gang)
            self.account(self._gangs[gang])
        self._report_terminating()

    def account(self, state: GangState, *, satisfied: bool = False) -> None:
        """Update what a gang lacks (nothing, if `satisfied`), when it ends, and what its queue uses."""
        self.accounted += 1
        if not state.begun:
            state.bound = state.assigned = None
        elif state.started is None and (state.pods or state.holds):
            state.assigned = self.now  # this cycle starts it, or its start is unknown
        self._completions.note(state)
        self._exclusive.settle(state)
        if satisfied:
            state.demand, state.vacant = None, ()
        else:
            self._demands.settle(state)
        self._queues.settle(state, self._pending_evictions.of(state))
        self._quotas.settle(state)

    def save(self, state: GangState) -> None:
        """Let the trial that has begun restore this gang and its accounts, if it is undone."""
        values = {name: getattr(state, name) for name in _FIELDS}
        self._log.push(self._restore, state, values)
        for name, value in values.items():
            if isinstance(value, dict | set):
                setattr(state, name, value.copy())

    def _restore(self, state: GangState, values: dict[str, Any]) -> None:  # Any: a state's fields
        if state.stamp != values["stamp"]:  # what was cached for it meanwhile is wrong
            values["stamp"] = state.stamp + 1
        _set(state, values)
        self.account(state)
        _set(state, values)

    def _report_terminating(self) -> None:
        """Report to the queues what leaving pods still use."""
        self._queues.terminating(tuple(self._pending_evictions.usage()))

    def _account_for_pods(self, state: GangState) -> None:
        """Account for a gang of which only promised pods have been bound."""
        self.accounted += 1
        self._completions.note(state)
        self._quotas.settle(state)

    def _limit_holds(self, state: GangState, now: float) -> None:
        """End the unlimited holds of a completed start: they last `hold` seconds from now."""
        for place, promise in state.holds.items():
            if promise.announced and promise.until is None:
                state.holds[place] = promise._replace(until=now + self._hold)


def _set(state: GangState, values: dict[str, Any]) -> None:  # Any: a state's fields
    for name, value in values.items():
        setattr(state, name, value)


_FIELDS: Final = tuple(field.name for field in fields(GangState))
