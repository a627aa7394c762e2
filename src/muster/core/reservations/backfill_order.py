"""The order of the gangs that may pass a waiting gang: queue order, or the shortest first.

Only gangs that stay within their queue's entitlement are reordered among themselves. A gang that has begun,
or would carry its queue over the entitlement, keeps its position.
"""

from collections.abc import Callable, Iterable, Iterator

from muster.core.queueing import Admission, Attempt, Tier
from muster.core.reservations import Reservations
from muster.core.words.gang import Gang, GangId
from muster.core.world.queues import Queues


def shortest_first(
    attempts: Iterable[Attempt],
    reservations: Reservations,
    queues: Queues,
    admission: Admission,
    duration: Callable[[Gang], float],
) -> Iterator[Attempt]:
    """The same attempts; once a gang waits for its reservation, the others follow by rising duration."""
    passing: list[Attempt] = []
    for attempt in attempts:
        if reservations.made and attempt.tier is Tier.WITHIN:
            passing.append(attempt)
            continue
        yield from _by_duration(passing, queues, admission, duration)
        passing.clear()
        yield attempt
    yield from _by_duration(passing, queues, admission, duration)


def _by_duration(
    attempts: Iterable[Attempt], queues: Queues, admission: Admission, duration: Callable[[Gang], float]
) -> Iterator[Attempt]:
    """The attempts by rising duration. Once a gang has started, what each may have is computed again."""
    moves = queues.usage_version

    def key(attempt: Attempt) -> tuple[float, tuple[int, float, GangId]]:
        assert attempt.state.gang is not None
        return duration(attempt.state.gang), attempt.state.rank

    for attempt in sorted(attempts, key=key):
        state = attempt.state
        if queues.usage_version == moves:
            yield attempt
            continue
        assert state.gang is not None
        account = queues.find(state.gang.queue)
        grant = admission.grant(state, account, Tier.WITHIN)
        state.refusal = grant.refusal if grant is not None else None
        if grant is not None and grant.demand is not None:
            yield admission.attempt(state, grant, Tier.WITHIN)
