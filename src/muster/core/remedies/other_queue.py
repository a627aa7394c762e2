"""In another queue: one that allows it what it wants, and then it fits."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from muster.core.decisions import Remedy
from muster.core.remedies.question import NOW, Question

#: Queues that are tried.
TRIED: Final = 3


def other_queue(question: Question) -> Iterator[Remedy]:
    """At most one: the first by name. Not for gangs that have begun: they are charged where they are."""
    if question.state.begun or not question.has_room():
        return
    for name in islice(question.admission.elsewhere(question.state), TRIED):
        if question.starts(replace(question.gang, queue=name)):
            yield Remedy(f"in queue {name}", NOW)
            return
