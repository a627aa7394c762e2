"""In another queue: one that allows it what it wants, and then it fits."""

from collections.abc import Iterator

from muster.core.decisions import Remedy
from muster.core.remedies.question import NOW, Question


def other_queue(question: Question) -> Iterator[Remedy]:
    """At most one: the first by name. Not for gangs that have begun: they are charged where they are."""
    if question.state.begun or not question.fits(question.want, anywhere=True):
        return
    for name in question.admission.elsewhere(question.state):
        yield Remedy(f"in queue {name}", NOW)
        return
