"""Demands that are known not to fit: wants that were tried in vain, until room is given back.

While free room only shrinks, a demand that did not fit does not fit. So a demand is tried once, however many
gangs have it and however many cycles pass, and the verdict of the trial is kept for the explanation. Three
kinds of verdict can become void before room is given back. Where affinity or spread decides, a pod that
starts can help. An open verdict says only that nothing was found. A postponed search is made later.
"""

from collections.abc import Mapping

from muster.core.demand import Demand
from muster.core.placement import Fit, Infeasible
from muster.core.world.ledger import Ledger


class Misfits:
    def __init__(self, ledger: Ledger, fit: Fit) -> None:
        self._ledger, self._nodes, self._fit = ledger, ledger.nodes, fit
        #: the verdict of each demand; None: known not to fit, without a verdict
        self._verdicts: dict[Demand, Infeasible | None] = {}
        #: `Ledger.given` and `Nodes.capacity_revision` as of the verdicts
        self._room = (-1, -1)
        #: `Nodes.revision` after the last cycle
        self._as_of = -1
        #: the nodes have changed since the last cycle, or room was given back within that cycle
        self.changed = True
        #: all verdicts from before this cycle are still valid
        self.stand = False
        #: a gang has started that may help others by affinity or spread
        self.company = False

    @property
    def verdicts(self) -> Mapping[Demand, Infeasible | None]:
        return self._verdicts

    def begin(self) -> None:
        """Start a new cycle: forget wants that may fit now."""
        room = (self._ledger.given, self._nodes.capacity_revision)
        changed, behind = self._as_of != self._nodes.revision, self._fit.exact.behind
        self.changed = changed or room != self._room
        self.stand = room == self._room and not (changed or behind or self.company)
        if room != self._room:
            self._verdicts.clear()
            self._room = room
        elif changed or behind or self.company:
            self._verdicts = {
                demand: verdict
                for demand, verdict in self._verdicts.items()
                if not (demand.sociable and (changed or self.company))
                and not (changed and verdict is not None and verdict.open)
                and not (behind and verdict is not None and verdict.postponed)
            }
        self.company = False

    def end(self, *, started: bool) -> None:
        """Finish the cycle. `started`: some gang has been assigned places."""
        self._as_of = self._nodes.revision
        self.company |= started and any(demand.sociable for demand in self._verdicts)

    def __contains__(self, demand: Demand) -> bool:
        if demand not in self._verdicts:
            verdict = self._fit.refutes(demand)
            if verdict is None:
                return False
            self._verdicts[demand] = verdict
        return True

    def note(self, demand: Demand, verdict: Infeasible | None) -> None:
        self._verdicts[demand] = verdict

    def clear(self) -> None:
        """Forget all demands: each of them may fit now."""
        self._verdicts.clear()
        self._room = (-1, -1)
