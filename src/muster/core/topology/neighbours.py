"""Who sits next to whom: a gang's pods in their own order, laid along the tree.

Once it is settled which nodes take how many pods, pods of equal shape can change places with each other.
They stand in the gang's order (its ranks; else pod set after pod set), the nodes in that of the tree, and the
one is laid along the other: neighbours share a node, else a block, else a spine. (In koordinator the index
only says who is served first.)
"""

from collections.abc import Hashable, Mapping
from functools import partial

import numpy as np

from muster.core.gang import Place, places
from muster.core.nodes import UNLIMITED, Columns
from muster.core.placement import Claim


def arrange(placed: Mapping[Place, int], claim: Claim, position: Columns) -> dict[Place, int]:
    """The same columns, with the gang's order laid along that of the tree.

    Pods that are alike change places with each other, whichever pod set they are of; those that kept a node
    of their own do not.
    """
    arranged = {p: c for p, c in placed.items() if claim.preferred.get(p) == c}
    by_set: dict[str, list[tuple[Place, int]]] = {part.pod_set: [] for part in claim.want.parts}
    for place, column in placed.items():
        if place not in arranged:
            by_set[place.pod_set].append((place, column))
    alike: dict[Hashable, list[int]] = {}
    parts = claim.want.parts
    for p, part in enumerate(parts):
        alike.setdefault((part.shape, p if part.constrained else -1), []).append(p)
    for members in alike.values():
        pods: list[Place] = []
        columns: list[int] = []
        for p in members:
            found = by_set[parts[p].pod_set]
            columns += [column for _, column in found]
            if claim.ranks.get(parts[p].pod_set):
                free = places(parts[p].pod_set, claim.vacant[p])
                ranked = sorted((place for place in free if place not in arranged), key=partial(_rank, claim))
                pods += ranked[: len(found)]
            else:
                pods += [place for place, _ in found]
        if claim.ranks:
            pods.sort(key=partial(_rank, claim))
        order = np.argsort(position[columns], kind="stable")
        arranged.update(zip(pods, np.array(columns)[order].tolist(), strict=True))
    return arranged


def _rank(claim: Claim, place: Place) -> int:
    """Of places without a rank, and of equal ones, the order stays that of the pod sets and their indices."""
    ranks = claim.ranks.get(place.pod_set, ())
    return ranks[place.index] if place.index < len(ranks) else UNLIMITED
