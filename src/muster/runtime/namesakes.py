"""Which scheduler names another muster on the cluster has: two that serve one name would undo each other.

Each release of the chart notes in its admission policies which Lease its scheduler has, and which names it
serves. These are objects of the whole cluster, which every scheduler watches anyway. Of two releases with one
name, the one whose policies are older keeps it, whichever starts first. A scheduler that no release has
installed has no policies, so it keeps no name from one that a release has.

This is found when a scheduler begins to lead. What happens beside that, with no policies at all or with a
release that comes later, is decided for each gang by its record (docs/decisions/0029).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from muster.api.base import Resource
from muster.names import LEASE, SCHEDULES

_FIRST: Final = datetime.min.replace(tzinfo=UTC)


def taken(names: Iterable[str], lease: str, policies: Iterable[Resource]) -> Mapping[str, str]:
    """Returns those of these scheduler names that another Lease (`namespace/name`) serves, with the Lease."""
    since: dict[str, datetime] = {}
    served: dict[str, set[str]] = {}
    for policy in policies:
        meta = policy.metadata
        if (whose := meta.annotations.get(LEASE, "")) and SCHEDULES in meta.annotations:
            made = meta.creation_timestamp or _FIRST
            since[whose] = min(since.get(whose, made), made)
            served.setdefault(whose, set()).update(meta.annotations[SCHEDULES].split(","))
    earlier = sorted((at, whose) for whose, at in since.items())
    if lease in since:
        earlier = earlier[: earlier.index((since[lease], lease))]
    return {name: whose for at, whose in reversed(earlier) for name in names if name in served[whose]}
