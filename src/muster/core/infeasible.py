"""The infeasible cache: demands that did not fit, each with the versions of what its answer depends on.

While free room only shrinks, a demand that did not fit still does not fit. So a demand is tried once, however
many gangs have it and however many cycles pass, and the answer is kept for the explanation. An entry is valid
as long as its versions have not changed; it need not be removed. All entries depend on what may give room:
resource use that ends, capacity, layers, exclusive domains. Some depend on more:

- If affinity or spread matters, a pod that starts can help. Such an entry also depends on starts in earlier
  cycles, and on events between cycles.
- If a search found nothing without a proof, the entry depends on events between cycles.
- If a search was postponed, it is made in the next cycle. Until then gangs of other namespaces are tried, as
  a search may be granted to them.

An entry can also say that there are no victims for a demand of a queue. It is valid up to a priority, and
depends on the versions that the search for victims names.
"""

from collections.abc import Hashable
from typing import Final, NamedTuple

from muster.core.demand import Demand
from muster.core.placement import Fit, Infeasible
from muster.core.words.gang import Gang
from muster.core.world import World

#: The answer, or None if the demand is known not to fit without one; `Nodes.room`; the counts of the table
#: that it rests on besides, with zeros for the others; and the namespaces for which a search was postponed.
_Entry = tuple[Infeasible | None, int, tuple[int, int, int], frozenset[str]]


class _Spared(NamedTuple):
    """No victims were found for a gang of this priority, as of these versions."""

    priority: int
    as_of: Hashable


#: Failed searches for victims that are kept before the entries that are no longer valid are dropped.
_KEPT: Final = 1024


class InfeasibleDemands:
    def __init__(self, world: World, fit: Fit) -> None:
        self._nodes, self._fit, self._log = world.nodes, fit, world.log
        self._room = world.nodes.room
        self._known: dict[Demand, _Entry] = {}
        #: by demand and queue
        self._spared: dict[tuple[Demand, str], _Spared] = {}
        #: how often nodes, or what they have free, had changed between two cycles; how often gangs had
        #: started that may help others by affinity or spread; how often searches had been postponed to the
        #: next cycle
        self._changes = self._arrivals = self._postponed = 0
        #: `Nodes.room` at the start of the last cycle, and `Nodes.revision` at its end
        self._begun = self._ended = -1
        #: the nodes have changed since the last cycle, or room was given back within that cycle
        self.changed = True
        #: all entries from before this cycle still count
        self.unchanged = False
        #: a gang has started in this cycle that may help others by affinity or spread
        self.helped = False

    def begin(self) -> None:
        """Begin a cycle."""
        room = self._room.value
        changed, postponed = self._ended != self._nodes.revision, self._fit.exact.budget.behind
        self.changed = changed or room != self._begun
        self.unchanged = not (self.changed or postponed or self.helped)
        self._begun = room
        self._changes += changed
        self._arrivals += self.helped
        self._postponed += postponed
        self.helped = False
        if self._known and not self.unchanged:  # what no longer counts would only take memory
            kept = [each for each in self._known.items() if each[1][1] == room]
            self._known = {demand: entry for demand, entry in kept if self.known(demand)} if kept else {}

    def end(self, *, started: bool) -> None:
        """End the cycle. `started`: some gang has been assigned places."""
        self._ended = self._nodes.revision
        self.helped |= started and any(demand.helped_by_arrivals for demand in self._known)

    def may_fit(self, demand: Demand) -> bool:
        return demand not in self

    def __contains__(self, demand: Demand) -> bool:
        entry = self._known.get(demand)
        if (
            entry is not None
            and entry[1] == self._room.value
            and (entry[2] == _NOTHING or self.known(demand))
        ):
            return True
        answer = self._fit.refutes(demand)
        if answer is not None:
            self._write(demand, answer, entry, "")
        return answer is not None

    def refuses(self, namespace: str, demand: Demand) -> bool:
        """Whether a gang of this namespace is not tried: it does not fit, or its search is made later."""
        if demand not in self:
            return False
        answer, _, _, namespaces = self._known[demand]
        return answer is None or not answer.postponed or namespace in namespaces

    def known(self, demand: Demand) -> bool:
        """Whether the table says that a demand does not fit."""
        entry = self._known.get(demand)
        if entry is None or entry[1] != self._room.value:
            return False
        answer, _, besides, _ = entry
        return besides == _NOTHING or besides == self._besides(demand, answer)

    def note(self, demand: Demand, answer: Infeasible | None, namespace: str) -> None:
        """Note that a demand does not fit, as tried for a gang of this namespace.

        A trial that is undone forgets what was noted in it.
        """
        before = self._known.get(demand)
        if before is None or before[0] is not answer or not self.known(demand):
            self._write(demand, answer, before, namespace)

    def _write(
        self, demand: Demand, answer: Infeasible | None, before: _Entry | None, namespace: str
    ) -> None:
        if self._log.depth:
            self._log.push(self._put, demand, before)
        namespaces = frozenset[str]()
        if answer is not None and answer.postponed:
            others = before[3] if before is not None and self.known(demand) else namespaces
            namespaces = others | {namespace}
        self._known[demand] = answer, self._room.value, self._besides(demand, answer), namespaces

    def _put(self, demand: Demand, entry: _Entry | None) -> None:
        if entry is None:
            self._known.pop(demand, None)
        else:
            self._known[demand] = entry

    def answer(self, demand: Demand) -> Infeasible | None:
        """The last answer about a demand, even if room has been given back within this cycle."""
        known = self._known.get(demand)
        return None if known is None else known[0]

    def spares_all(self, gang: Gang, demand: Demand, as_of: Hashable) -> bool:
        """Whether no victims were found for this demand of its queue, at this priority or a higher one."""
        known = self._spared.get((demand, gang.queue))
        return known is not None and known.as_of == as_of and gang.priority <= known.priority

    def note_spared(self, gang: Gang, demand: Demand, as_of: Hashable) -> None:
        """Note that there are no victims. `as_of`: the versions of all that decides about victims."""
        if len(self._spared) >= _KEPT:
            self._spared = {key: known for key, known in self._spared.items() if known.as_of == as_of}
        self._spared[demand, gang.queue] = _Spared(gang.priority, as_of)

    def _besides(self, demand: Demand, answer: Infeasible | None) -> tuple[int, int, int]:
        """What such an entry rests on besides room, as it is now."""
        open_ = answer is not None and answer.open
        if not (demand.helped_by_arrivals or open_):
            return _NOTHING
        postponed = answer is not None and answer.postponed
        return (
            self._changes * (demand.helped_by_arrivals or open_),
            self._arrivals * demand.helped_by_arrivals,
            self._postponed * postponed,
        )


_NOTHING: Final = (0, 0, 0)
