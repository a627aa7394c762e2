"""`taken` returns the scheduler names that another muster of the cluster serves, with its Lease.

Two schedulers that serve one name would undo each other's decisions. Each release of the chart records in
its admission policies the Lease of its scheduler and the names that it serves. Admission policies are
cluster-scoped, and every scheduler watches them. If two releases serve one name, the release with the older
policies keeps it; the order in which they start does not matter. A scheduler outside a release has no
policies, so every release keeps its names from it.

A scheduler calls `taken` when it becomes the leader. Conflicts that the policies do not show (no policies,
or a release installed later) are resolved for each gang by its record (docs/decisions/0029).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from muster.api.base import Resource
from muster.names import LEASE, SCHEDULES

_FIRST: Final = datetime.min.replace(tzinfo=UTC)


def taken(names: Iterable[str], lease: str, policies: Iterable[Resource]) -> Mapping[str, str]:
    """Returns which of `names` another muster serves: by name, the Lease (`namespace/name`) of that muster.

    `lease`: that of the caller. If several other releases serve a name, the oldest one is returned.
    """
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
