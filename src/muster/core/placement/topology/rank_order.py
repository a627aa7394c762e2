"""Assigns a gang's pods to its nodes in rank order, so that pods of neighbouring ranks are near each other.

Once it is decided how many pods each node takes, pods of equal shape can exchange their nodes. The pods are
sorted in the gang's order (its ranks; else pod set after pod set), the nodes in the order of the tree, and
the pods are assigned in sequence: neighbours share a node, else a block, else a spine. (In koordinator the
index only decides which pod is scheduled first.)
"""

from collections.abc import Hashable, Mapping
from functools import partial

import numpy as np

from muster.core.demand import Request
from muster.core.words.gang import Place, places
from muster.core.world.nodes import UNLIMITED, Columns


def in_rank_order(placed: Mapping[Place, int], request: Request, position: Columns) -> dict[Place, int]:
    """Return the same columns, assigned to the places so that the gang's order follows that of the tree.

    Pods of equal shape may exchange nodes across pod sets; pods that kept their preferred node do not.
    """
    arranged = {p: c for p, c in placed.items() if request.preferred.get(p) == c}
    by_set: dict[str, list[tuple[Place, int]]] = {part.pod_set: [] for part in request.demand.parts}
    for place, column in placed.items():
        if place not in arranged:
            by_set[place.pod_set].append((place, column))
    alike: dict[Hashable, list[int]] = {}
    parts = request.demand.parts
    for p, part in enumerate(parts):
        alike.setdefault((part.shape, p if part.constrained else -1), []).append(p)
    for members in alike.values():
        pods: list[Place] = []
        columns: list[int] = []
        for p in members:
            found = by_set[parts[p].pod_set]
            columns += [column for _, column in found]
            if request.ranks.get(parts[p].pod_set):
                free = places(parts[p].pod_set, request.vacant[p])
                ranked = sorted(
                    (place for place in free if place not in arranged), key=partial(_rank, request)
                )
                pods += ranked[: len(found)]
            else:
                pods += [place for place, _ in found]
        if request.ranks:
            pods.sort(key=partial(_rank, request))
        order = np.argsort(position[columns], kind="stable")
        arranged.update(zip(pods, np.array(columns)[order].tolist(), strict=True))
    return arranged


def _rank(request: Request, place: Place) -> int:
    """Return a place's rank. Places without or of equal rank keep the order of pod sets and indices."""
    ranks = request.ranks.get(place.pod_set, ())
    return ranks[place.index] if place.index < len(ranks) else UNLIMITED
