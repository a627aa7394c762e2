"""Remedy "when a gang ends": the smallest gang holding the lacking resource whose end would be enough.

Only gangs that use enough of the lacking resource to make up for the shortage qualify, and if a ResourceQuota
is full only those that are charged to it. A few of them are tried, smallest first.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from muster.core.explain.remedies.question import LATER, Question
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Remedy
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Bools

#: Gangs whose end is tried.
TRIED: Final = 6


def blocker_ends(question: Question) -> Iterator[Remedy]:
    """Yield at most one remedy."""
    for other in _candidates(question)[:TRIED]:
        if question.has_room(without=other) and question.starts_without(other):
            yield Remedy(f"when {other.id} ends", LATER)
            return


def _candidates(question: Question) -> list[GangState]:
    """Return the gangs on usable nodes that use at least what is lacking in total, the smallest first."""
    case = question.case
    lacking: dict[str, int] = {}
    usable: Bools = np.zeros(len(case.world.nodes), np.bool_)
    for resource, row in case.world.nodes.resources.items():
        if demanded := case.at_least(row):
            nodes = case.usable(row)
            usable |= nodes
            lacking[resource] = max(demanded - case.free(row, nodes), 0)
    column = case.world.nodes.column
    found = [
        other
        for other in case.holds(PODS)
        if other is not question.state
        and all(other.usage.get(resource, 0) >= amount for resource, amount in lacking.items())
        and any(usable[column[node]] for node in other.nodes if node in column)
    ]
    if question.short_of_quota:
        found = [other for other in found if case.world.quotas.frees(other, question.state)]
    if not found:
        return []
    scarcest = max(lacking, key=lambda resource: (lacking[resource], resource))
    return sorted(found, key=lambda other: (other.usage.get(scarcest, 0), other.id))
