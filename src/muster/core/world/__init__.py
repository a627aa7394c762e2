"""The world: everything that is known of the cluster, each fact with one owner.

`handlers.apply` records an event in it. `settle` begins a cycle: for each gang that was touched, it updates
what the gang lacks, what its queue and its quotas are charged, when it ends, and when it needs attention
again. A cycle then reads the world and charges its decisions to it (`started`, `evicted`, `account`). A
gang that starts is accounted for at once, because the next gang's turn depends on what its queue uses then.
A gang whose only news are pods that were promised lacks and uses the same as before; only its end and its
quotas are updated.

Holds end here, too. A place that a pod has left is held for its replacement for a while. A place that was
promised with the start and not filled is held as long, counted from when its gang stands.

What the scheduler concludes from the world (whose turn it is, where a gang fits, which gangs are victims)
belongs to the packages above. They read the gangs that `settle` says have changed, and compare version
counters.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, Final

from muster.core.words.decisions import Release
from muster.core.words.events import PodsBound
from muster.core.words.gang import Gang, GangId, NodeName, Place, PodId
from muster.core.world.budgets import Budgets
from muster.core.world.completions import Completions
from muster.core.world.eligibility import Eligibility
from muster.core.world.exclusive_domains import ExclusiveDomains
from muster.core.world.failed_starts import ANYWHERE, FailedStarts
from muster.core.world.gangs import Gangs, GangState, give_back, stands, unwanted
from muster.core.world.lacking import Demands
from muster.core.world.ledger import Choose, Ledger
from muster.core.world.nodes import Nodes
from muster.core.world.pending_evictions import PendingEvictions
from muster.core.world.queues import Queues
from muster.core.world.quotas import Quotas
from muster.core.world.topology import Topology
from muster.core.world.trial import Trial, UndoLog


class World:
    """What is known of the cluster: each fact has one owner, listed here."""

    def __init__(
        self,
        hold: float,
        nodes: Nodes,
        eligibility: Eligibility,
        device: Choose,
        duration: Callable[[Gang], float],
    ) -> None:
        """Empty, but for `nodes`. `hold`: as in `Config`; `device` and `duration`: as in `Ledger` and
        `Completions`.
        """
        self.hold, self.nodes, self.eligibility = hold, nodes, eligibility
        self.gangs, self.pods = Gangs(), dict[PodId, PodsBound]()
        self.log = UndoLog()
        self.ledger = Ledger(nodes, device, self.log)
        self.topology = Topology(nodes)
        self.exclusive_domains = ExclusiveDomains(nodes, self.topology, self.gangs, self.pods, self.log)
        self.queues = Queues(nodes, eligibility, self.log, self.topology)
        self.quotas, self.budgets = Quotas(self.log), Budgets()
        self.pending_evictions = PendingEvictions(
            self.ledger, self.exclusive_domains, self.pods, self.gangs, self.log
        )
        self.completions = Completions(self.gangs, self.pods, self.ledger, self.pending_evictions, duration)
        self.failed_starts = FailedStarts()
        self.demands = Demands(self.ledger.footprints, self.failed_starts, nodes.claims)
        #: resources that some node has as devices, as of the last cycle
        self.as_devices: frozenset[str] = frozenset()
        #: gangs by the origin that they share
        self.siblings: dict[str, set[GangId]] = {}
        #: by resource that no node gives out though the cluster has it, what to say to who lacks it
        self.hints: dict[str, str] = {}
        #: nodes that may have less room than is promised there: they changed, or unplanned pods were bound
        #: there
        self.unexpected: set[NodeName] = set()
        #: nodes that were removed since the last cycle
        self.removed: set[NodeName] = set()
        #: `AntiAffinity.as_of` up to which gangs know the anti-affinity that keeps them off nodes
        self.carried = 0
        #: time of the last cycle, or of a dry run
        self.now = 0.0
        #: how often a gang was accounted for, or got promised pods, ever
        self.accounted = 0

    def trial(self) -> Trial:
        """Begin a trial: what is changed in it can be undone (`trial.py`)."""
        return self.log.trial()

    def settle(self, now: float) -> tuple[set[GangId], list[Release], list[GangState]]:
        """Begin a cycle: update what follows from the events, and release holds that end now.

        Returns gangs whose hold has just run out, a Release per gang that loses promises, and gangs whose
        accounts have changed.
        """
        self.nodes.settle()
        if removed := self.removed:
            some = (state.id for state in self.gangs.values() if not state.nodes.keys().isdisjoint(removed))
            self.gangs.touched.update(some)
            removed.clear()
        if self.as_devices != (as_devices := self.nodes.claims.resources):
            self.as_devices = as_devices  # pods that request one need devices of it, or no longer
            self.gangs.touched.update(self.gangs)
        if self.failed_starts.active:
            self._keep_off(now)
        lapsed, releases = self._release(now)
        if self.pending_evictions.deleted:
            self.pending_evictions.settle_deleted(now)
        self._touch_concerned()
        if self.exclusive_domains.holders and self.exclusive_domains.outdated():
            self.gangs.touched.update(self.exclusive_domains.holders)
        return lapsed, releases, self.account()

    def _keep_off(self, now: float) -> None:
        """Update which nodes pods keep off because pods have failed there."""
        origins, nodes = self.failed_starts.settle(now, len(self.nodes.facts))
        if nodes:
            self.nodes.set_apart(self.failed_starts.avoided, self.failed_starts.last)
        for origin in origins:
            mine = self.siblings.get(origin, {GangId(origin)})
            self.gangs.touched.update(mine & self.gangs.keys())

    def end_forsaken(self) -> bool:
        """End pending evictions whose beneficiary gave up. Returns whether there were any."""
        if not self.pending_evictions:
            return False
        over = self.pending_evictions.end_forsaken()
        self.gangs.touched |= over & self.gangs.keys()
        return bool(over)

    def _release(self, now: float) -> tuple[set[GangId], list[Release]]:
        """Release holds that end now. Return gangs whose hold has just run out, and a Release per gang."""
        self.now = now
        lapsed: set[GangId] = set()
        releases = []
        crowded_out = self._crowded_out() if self.unexpected else {}
        gangs, timed = self.gangs, self.gangs.timed
        if crowded_out:
            gangs.touched |= crowded_out.keys()
        due = [gang for gang, time in timed.items() if time <= now] if timed else ()
        for gang in sorted(gangs.touched.union(gangs.kept, due)):
            state = gangs[gang]
            if state.holds:
                if stands(state):
                    # Unlimited holds of a completed start last `hold` seconds from now.
                    for place, promise in state.holds.items():
                        if promise.announced and promise.until is None:
                            state.holds[place] = promise._replace(until=now + self.hold)
                run_out = [p for p, h in state.holds.items() if h.until is not None and h.until <= now]
                if run_out:
                    lapsed.add(gang)
                    state.lapsed.update(run_out)
                places = {*run_out, *crowded_out.get(gang, ())}
                if gang in gangs.touched:  # of a gang that only got promised pods, all holds are wanted
                    origin = state.gang.origin if state.gang is not None else ""
                    off = self.failed_starts.of_origin.get(origin or gang, ANYWHERE)
                    places |= unwanted(state, self.nodes.facts, off.avoided)
                announced = give_back(state, places, self.ledger)
                if announced:
                    releases.append(Release(gang, frozenset(announced)))
                if run_out or announced:
                    self.gangs.touched.add(gang)
            if state.back_off is not None and state.back_off.until <= now:
                state.back_off = None
                self.gangs.touched.add(gang)
            if state.avoided:
                for node in [node for node, until in state.avoided.items() if until <= now]:
                    del state.avoided[node]
                    self.gangs.touched.add(gang)
        return lapsed, releases

    def _crowded_out(self) -> dict[GangId, list[Place]]:
        """Return promised places whose nodes no longer have room for them: other schedulers filled the nodes.

        The gangs that are last in the order lose their places first. A node with a pending eviction is
        checked when the eviction is over, because victims and promises are charged there together.
        """
        evicting = {node for eviction in self.pending_evictions.values() for node in eviction.shared}
        unexpected, self.unexpected = self.unexpected, evicting & self.unexpected
        found: dict[GangId, list[Place]] = {}
        for node in sorted(unexpected - evicting):
            over = self.nodes.overdrawn(node)
            holders = [s for s in self.gangs.values() if s.holds and node in s.nodes] if over else []
            for state in sorted(holders, key=lambda state: state.rank, reverse=True):
                for place, promise in sorted(state.holds.items(), reverse=True):
                    if not (promise.announced and promise.node == node and over):
                        continue
                    takes = {resource: amount for resource, _, amount in self.nodes.asked(promise.requests)}
                    if takes.keys().isdisjoint(over) and promise.device is None:
                        continue
                    found.setdefault(state.id, []).append(place)
                    over = {resource: most - takes.get(resource, 0) for resource, most in over.items()}
                    over = {resource: most for resource, most in over.items() if most > 0}
        return found

    def _touch_concerned(self) -> None:
        """Touch gangs that new anti-affinity of other pods keeps off nodes: their demands have changed."""
        carried = self.ledger.footprints.carried.as_of
        if carried != self.carried:
            self.carried = carried
            for state in self.gangs.values():
                if self.demands.newly_concerned(state):
                    self.gangs.touched.add(state.id)
                state.carried = carried

    def account(self) -> list[GangState]:
        """Update the accounts of all gangs that have changed, and return these gangs."""
        self.nodes.settle()
        gangs, touched, kept = self.gangs, self.gangs.touched, self.gangs.kept
        if self.pending_evictions or self.pending_evictions.over:
            touched |= self.pending_evictions.settle(touched, kept) & gangs.keys()
        if not (touched or kept):
            return []
        changed = [*map(gangs.__getitem__, touched | kept)]
        for state in changed:
            gang = state.id
            if gang not in touched:  # it has been accounted for, or only promised pods have been bound
                self.completions.note(state)
                if self.quotas or gang in self.quotas.kept:
                    self.quotas.settle(state, self.exclusive_domains.surcharges.get(gang))
            else:
                self.account_for(state)
            if state.explanation is not None and not state.lacks:
                state.explanation = None
            if (deadline := state.deadline) is not None:
                gangs.timed[gang] = deadline
            else:
                gangs.timed.pop(gang, None)
            if state.gang is None and state.forgettable:
                del gangs[gang]
                gangs.timed.pop(gang, None)
        touched.clear()
        kept.clear()
        self._report_terminating()
        return changed

    def started(self, state: GangState, *, whole: bool) -> None:
        """Account for a gang that got places in this cycle; `whole`: all that it lacked."""
        self.account_for(state, satisfied=whole)
        settled = state.demand is None and not self.pending_evictions
        (self.gangs.kept if settled else self.gangs.touched).add(state.id)

    def evicted(self, gangs: Iterable[GangId]) -> None:
        """Account for gangs that have lost some or all of their places in this cycle."""
        for gang in gangs:
            self.gangs.touched.add(gang)
            self.account_for(self.gangs[gang])
        self._report_terminating()

    def account_for(self, state: GangState, *, satisfied: bool = False) -> None:
        """Update what a gang lacks (nothing, if `satisfied`), when it ends, and what its queue uses."""
        self.accounted += 1
        if not state.begun:
            state.bound = state.assigned = None
        elif state.started is None and (state.pods or state.holds):
            state.assigned = self.now  # this cycle starts it, or its start is unknown
        self.completions.note(state)
        if (state.gang is not None and state.gang.exclusive) or state.id in self.exclusive_domains.holders:
            self.exclusive_domains.settle(state)
        if satisfied:
            state.demand, state.vacant = None, ()
        else:
            self.demands.settle(state)
        leaving = self.pending_evictions.of(state) if self.pending_evictions.leaving else None
        surcharge = self.exclusive_domains.surcharges.get(state.id)
        self.queues.settle(state, leaving, surcharge)
        if self.quotas or state.id in self.quotas.kept:
            self.quotas.settle(state, surcharge)

    def save(self, state: GangState) -> None:
        """Let the trial that has begun, if any, restore this gang and its accounts if it is undone."""
        if not self.log.depth:
            return
        values = {name: getattr(state, name) for name in _FIELDS}
        marked = [(gangs, state.id in gangs) for gangs in (self.gangs.touched, self.gangs.kept)]
        self.log.push(self._restore, state, values, marked)
        for name, value in values.items():
            if isinstance(value, dict | set):
                setattr(state, name, value.copy())

    def _restore(
        self,
        state: GangState,
        values: dict[str, Any],  # Any: a state's fields
        marked: Sequence[tuple[set[GangId], bool]],
    ) -> None:
        if state.stamp != values["stamp"]:  # what was cached for it meanwhile is wrong
            values["stamp"] = state.stamp + 1
        _set(state, values)
        self.account_for(state)
        _set(state, values)
        for gangs, was in marked:
            (gangs.add if was else gangs.discard)(state.id)

    def _report_terminating(self) -> None:
        """Report to the queues what leaving pods still use."""
        if self.pending_evictions or self.queues.terminating:
            self.queues.terminate(tuple(self.pending_evictions.usage()))


def _set(state: GangState, values: dict[str, Any]) -> None:  # Any: a state's fields
    for name, value in values.items():
        setattr(state, name, value)


_FIELDS: Final = tuple(field.name for field in fields(GangState))
