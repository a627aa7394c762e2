"""Remedy "in another queue": a queue that admits the gang's demand, in which it then starts."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from muster.core.explain.remedies.question import NOW, Question
from muster.core.words.decisions import Remedy

#: Queues that are tried.
TRIED: Final = 3


def other_queue(question: Question) -> Iterator[Remedy]:
    """Yield at most one remedy: the first queue by name. None for started gangs: they are charged already."""
    if question.state.begun or not question.has_room():
        return
    others = sorted(question.case.world.queues.accounts.keys() - {question.gang.queue})
    allowing = (name for name in others if question.admission.allows(question.state, question.demand, name))
    for name in islice(allowing, TRIED):
        if question.starts(replace(question.gang, queue=name)):
            yield Remedy(f"in queue {name}", NOW)
            return
