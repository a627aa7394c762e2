"""Whether a gang could ever start on given nodes: the scheduler's own answer for empty nodes."""

from collections.abc import Iterable
from dataclasses import replace

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Explanation, Wait
from muster.core.words.events import Event, GangSubmitted
from muster.core.words.gang import Gang


def misfit(gang: Gang, events: Iterable[Event]) -> Explanation | None:
    """Why the minimum of this gang would not start if only these events had happened; None if it would.

    The gang's gate is ignored: it says that the gang is not complete yet, not that it is too large.
    """
    scheduler = Scheduler()
    for event in events:
        scheduler.apply(event)
    scheduler.apply(GangSubmitted(replace(gang, gate=None)))
    waits = [d for d in scheduler.decide(0.0) if isinstance(d, Wait)]
    return waits[0].explanation if waits else None
