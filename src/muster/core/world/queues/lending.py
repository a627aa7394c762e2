"""What other queues can reclaim from a gang: an estimate before it starts, for the risk of preemption.

A queue's entitlement depends on what all queues request. It is least while every queue requests the whole
cluster. What a gang uses beyond that is borrowed, and the queues that share with its queue may reclaim it
(docs/concepts/preemption.md). The queue `default` counts only if it is the gang's own, or if it is declared.
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster.core.words.amounts import Usage, bare, show
from muster.core.words.gang import Gang, Queue
from muster.core.world.queues.account import DEFAULT, Account, entitle, tree
from muster.core.world.queues.faults import faults_of
from muster.names import GPU_SHARE


class Borrowed(NamedTuple):
    """What a gang would borrow, as a message, and the queues that may reclaim it."""

    message: str
    reclaimers: tuple[str, ...]


def borrowed(gang: Gang, rules: Mapping[str, Queue], capacity: Mapping[str, int]) -> Borrowed | None:
    """Returns what the gang would borrow while every queue requests the whole cluster.

    None: no queue could reclaim anything.

    `capacity`: of the cluster, in the core's units (milli-CPU, bytes, pieces).
    """
    if gang.queue == DEFAULT:
        rules = {DEFAULT: Queue(DEFAULT), **rules}
    root, accounts = tree(rules, faults_of(rules))
    account = accounts.get(gang.queue)
    if account is None or account.fault or account.children or not root.children:
        return None
    root.entitled = Usage.of(capacity.items())
    for other in accounts.values():
        if not other.fault and not other.children:
            other.wanted = Usage(root.entitled)
    entitle(root)
    asked = Usage()
    for pod_set in gang.pod_sets:
        asked.add(Usage.of_pod(pod_set.shape.requests), pod_set.count)
    found, over = set[str](), None
    for above in account.path:
        beyond = sorted(r for r, amount in asked.items() if amount > above.limits.get(r, amount))
        protects = above.rules.protect_borrowed and not gang.preemptible
        if not beyond or protects or not above.rules.reclaimable:
            break
        others = above.parent.children if above.parent is not None else []
        found |= {
            other.name
            for other in others
            if other is not above and any(other.entitled.get(resource) for resource in beyond)
        }
        over = over or (above, GPU_SHARE if GPU_SHARE in beyond else beyond[0])
    return _told(*over, asked, tuple(sorted(found))) if over is not None and found else None


def _told(account: Account, resource: str, asked: Usage, reclaimers: tuple[str, ...]) -> Borrowed:
    """Says by how much the gang alone exceeds the queue's least entitlement."""
    least = show(resource, account.limits[resource])
    message = (
        f"queue {account.name} is entitled to {least} if all queues use their shares, and the gang requests "
        f"{bare(resource, asked[resource])}"
    )
    return Borrowed(message, reclaimers)
