"""What is known not to fit: wants that were tried in vain, until room is given.

As long as room is only taken, what did not fit does not fit. So a want is tried once, however many gangs have
it and however many cycles pass, and the verdict of the trial is kept for the explanation. Three things make
an answer void before room is given: where affinity or spread decides, a pod that comes can make room as
well; an open verdict says only that nothing was found; and a search that was put off has its turn.
"""

from collections.abc import Mapping

from muster.core.exact import Verdict
from muster.core.fit import Fit
from muster.core.ledger import Ledger
from muster.core.placement import Want


class Misfits:
    def __init__(self, ledger: Ledger, fit: Fit) -> None:
        self._ledger, self._nodes, self._fit = ledger, ledger.nodes, fit
        #: each with what was found out about it; None: no more than that
        self._verdicts: dict[Want, Verdict | None] = {}
        #: how much had been given then
        self._room = (-1, -1)
        #: `Nodes.revision` after the last cycle
        self._as_of = -1
        #: something has changed since the last cycle: on the nodes, or room was given within that cycle
        self.changed = True
        #: nothing that was found out before this cycle may be otherwise now
        self.stand = False
        #: somebody has come who may be company for those who waited for it
        self.company = False

    @property
    def verdicts(self) -> Mapping[Want, Verdict | None]:
        return self._verdicts

    def begin(self) -> None:
        """A new cycle: forget what may fit now."""
        room = (self._ledger.given, self._nodes.capacity_revision)
        changed, behind = self._as_of != self._nodes.revision, self._fit.exact.behind
        self.changed = changed or room != self._room
        self.stand = room == self._room and not (changed or behind or self.company)
        if room != self._room:
            self._verdicts.clear()
            self._room = room
        elif changed or behind or self.company:
            self._verdicts = {
                want: verdict
                for want, verdict in self._verdicts.items()
                if not (want.sociable and (changed or self.company))
                and not (changed and verdict is not None and verdict.open)
                and not (behind and verdict is not None and verdict.postponed)
            }
        self.company = False

    def end(self, *, started: bool) -> None:
        """The cycle is over. `started`: somebody has been assigned places."""
        self._as_of = self._nodes.revision
        self.company |= started and any(want.sociable for want in self._verdicts)

    def __contains__(self, want: Want) -> bool:
        if want not in self._verdicts:
            verdict = self._fit.refutes(want)
            if verdict is None:
                return False
            self._verdicts[want] = verdict
        return True

    def note(self, want: Want, verdict: Verdict | None) -> None:
        self._verdicts[want] = verdict

    def clear(self) -> None:
        """Whatever did not fit may fit now."""
        self._verdicts.clear()
        self._room = (-1, -1)
