"""What is known not to fit: demands that were tried in vain, each with the versions that its answer rests on.

While free room only shrinks, a demand that did not fit does not fit. So a demand is tried once, however many
gangs have it and however many cycles pass, and the answer is kept for the explanation. An entry counts as
long as the versions are the same, and nobody has to remove it. All entries rest on what may give room: use of
resources that ends, capacity, layers, exclusive domains. Some rest on more:

- Where affinity or spread decides, a pod that starts can help: such an entry also rests on starts in earlier
  cycles, and on what happened between cycles.
- A verdict that only says that nothing was found rests on what happened between cycles.
- A search that was postponed is made in the next cycle.
"""

from typing import NamedTuple

from muster.core.demand import Demand
from muster.core.placement import Fit, Infeasible
from muster.core.world import World


class _Entry(NamedTuple):
    #: None: known not to fit, without a verdict
    verdict: Infeasible | None
    #: versions of what may give room
    room: tuple[int, ...]
    #: as of these counts of the table
    changes: int
    arrivals: int
    postponed: int


class InfeasibleDemands:
    def __init__(self, world: World, fit: Fit) -> None:
        self._ledger, self._nodes, self._fit = world.ledger, world.nodes, fit
        self._topology, self._exclusive = world.topology, world.exclusive_domains
        self._known: dict[Demand, _Entry] = {}
        #: how often nodes, or what they have free, had changed between two cycles
        self._changes = 0
        #: how often gangs had started that may help others by affinity or spread
        self._arrivals = 0
        #: how often searches had been postponed to the next cycle
        self._postponed = 0
        #: `_room` at the start of the last cycle, and `Nodes.revision` at its end
        self._begun: tuple[int, ...] = ()
        self._ended = -1
        #: the nodes have changed since the last cycle, or room was given back within that cycle
        self.changed = True
        #: all entries from before this cycle still count
        self.unchanged = False
        #: a gang has started in this cycle that may help others by affinity or spread
        self.helped = False

    def begin(self) -> None:
        """Begin a cycle."""
        room = self._room
        changed, postponed = self._ended != self._nodes.revision, self._fit.exact.behind
        self.changed = changed or room != self._begun
        self.unchanged = not (self.changed or postponed or self.helped)
        self._begun = room
        self._changes += changed
        self._arrivals += self.helped
        self._postponed += postponed
        self.helped = False
        if not self.unchanged:  # what no longer counts would only take memory
            self._known = {
                demand: known for demand, known in self._known.items() if self._counts(demand, known)
            }

    def end(self, *, started: bool) -> None:
        """End the cycle. `started`: some gang has been assigned places."""
        self._ended = self._nodes.revision
        self.helped |= started and any(demand.sociable for demand in self._known)

    def known(self, demand: Demand) -> bool:
        """Whether the table says that a demand does not fit."""
        known = self._known.get(demand)
        return known is not None and self._counts(demand, known)

    def __contains__(self, demand: Demand) -> bool:
        if self.known(demand):
            return True
        verdict = self._fit.refutes(demand)
        if verdict is not None:
            self.note(demand, verdict)
        return verdict is not None

    def note(self, demand: Demand, verdict: Infeasible | None) -> None:
        self._known[demand] = _Entry(verdict, self._room, self._changes, self._arrivals, self._postponed)

    def verdict(self, demand: Demand) -> Infeasible | None:
        """The last verdict about a demand, even if room has been given back within this cycle."""
        known = self._known.get(demand)
        return None if known is None else known.verdict

    @property
    def _room(self) -> tuple[int, ...]:
        """Versions of what may give room to a demand."""
        return (
            self._ledger.given,
            self._nodes.capacity_revision,
            self._topology.changes,
            self._exclusive.released,
        )

    def _counts(self, demand: Demand, known: _Entry) -> bool:
        verdict, room, changes, arrivals, postponed = known
        if room != self._room:
            return False
        if demand.sociable and (changes, arrivals) != (self._changes, self._arrivals):
            return False
        if verdict is None:
            return True
        return not (
            (verdict.open and changes != self._changes)
            or (verdict.postponed and postponed != self._postponed)
        )
