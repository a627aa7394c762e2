"""The order of the gangs that may pass a waiting gang: queue order, or the shortest first.

Only gangs that stay within their queue's entitlement are reordered among themselves. A gang that has begun,
or would carry its queue over the entitlement, keeps its position.
"""

from collections.abc import Callable, Iterable, Iterator

from muster.core.demand import Demand
from muster.core.queueing.admission import Admission, Full, refusal
from muster.core.queueing.attempts import Standing, Turn
from muster.core.reservations import Reservations
from muster.core.words.gang import Gang, GangId
from muster.core.world.queues import Queues


def shortest_first(
    turns: Iterable[Turn],
    reservations: Reservations,
    queues: Queues,
    admission: Admission,
    duration: Callable[[Gang], float],
) -> Iterator[Turn]:
    """The same turns; once a gang waits for its reservation, the others follow by rising duration."""
    passing: list[Turn] = []
    for turn in turns:
        if reservations.made and turn.standing is Standing.WITHIN:
            passing.append(turn)
            continue
        yield from _by_duration(passing, queues, admission, duration)
        passing.clear()
        yield turn
    yield from _by_duration(passing, queues, admission, duration)


def _by_duration(
    turns: Iterable[Turn], queues: Queues, admission: Admission, duration: Callable[[Gang], float]
) -> Iterator[Turn]:
    """The turns by rising duration. Once a gang has started, what each may have is computed again."""
    moves = queues.moves

    def key(turn: Turn) -> tuple[float, tuple[int, float, GangId]]:
        assert turn.state.gang is not None
        return duration(turn.state.gang), turn.state.rank

    for turn in sorted(turns, key=key):
        state = turn.state
        if queues.moves == moves:
            yield turn
            continue
        assert state.gang is not None
        account = queues.find(state.gang.queue)
        answer = admission.within(state, account) if account is not None else None
        state.refusal = refusal(answer)
        if isinstance(answer, Demand | Full):
            yield turn._replace(offer=admission.offer(state, answer))
