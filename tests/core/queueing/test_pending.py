"""Which gang is next: heads that no longer fit block nobody, and a fair queue serves the least namespace."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.queueing.pending import Cursor, Head
from muster.core.words.events import GangRemoved, GangSubmitted, PodsEnded, QueueChanged
from muster.core.words.gang import GangId, Queue, QueueOrder
from muster.core.world.queues import account as accounts
from muster.core.world.queues.account import Account
from tests.core.words import GPU, assigns, bind, gang, node, started
from tests.tiers import examples


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("parents", [{}, {"x": "p"}, {"x": "p", "y": "q"}, {"x": "p", "y": "p", "z": "p"}])
def test_a_gang_behind_one_that_can_no_longer_fit_starts(explain: bool, parents: dict[str, str]) -> None:
    made = Scheduler(Config(explain=explain))
    made.apply(node("n", gpu=12))
    for name in set(parents.values()):
        made.apply(QueueChanged(Queue(name, deserved=((GPU, 1),))))
    for name in "xyz":
        made.apply(QueueChanged(Queue(name, parents.get(name, "root"), deserved=((GPU, 1),))))
    for queue, name, count, priority in [
        ("x", "huge", 11, 5),
        ("x", "behind", 3, 0),
        ("y", "other", 9, 0),
        ("z", "first", 2, 0),
    ]:
        made.apply(GangSubmitted(replace(gang(name, count=count, priority=priority), queue=queue)))
    assert started(made.decide(0.0)) == ["first", "behind"]
    assert made.world.gangs[GangId("huge")].demand is not None


@settings(max_examples=examples(60), deadline=None)
@given(
    rounds=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("vwxyz"), st.integers(1, 4), st.integers(0, 2)), max_size=12),
            st.integers(0, 6),
        ),
        min_size=1,
        max_size=4,
    ),
    others=st.integers(0, 2),
    moves=st.sampled_from([1, 3, 1000]),
)
def test_the_next_namespace_of_a_fair_queue_is_the_one_with_the_least_share(
    rounds: list[tuple[list[tuple[str, int, int]], int]], others: int, moves: int
) -> None:
    next_heap = Cursor._next

    def checked(self: Cursor) -> list[Head]:
        """As a search over all namespaces has it."""
        used, share = self.account.by_namespace, self.account.share
        waiting = [(share(used.get(name, {})), name) for name, heap in self._heaps.items() if heap]
        least = self._heaps[min(waiting)[1]] if waiting else []
        found = next_heap(self)
        assert found == least
        assert not least or found is least
        return found

    made, running, number = Scheduler(), list[GangId](), 0
    made.apply(node("n", gpu=24))
    made.apply(QueueChanged(Queue("fair", order=QueueOrder.FAIR)))
    for other in range(others):
        made.apply(QueueChanged(Queue(f"other-{other}", order=QueueOrder.FAIR)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cursor, "_next", checked)
        patch.setattr(accounts, "_MOVES", moves)
        for now, (gangs, ended) in enumerate(rounds):
            for namespace, count, priority in gangs:
                one = gang(f"g{number}", count=count, priority=priority, submitted=float(now))
                queue = f"other-{number % 3}" if number % 3 < others else "fair"
                made.apply(GangSubmitted(replace(one, queue=queue, namespace=namespace)))
                number += 1
            for assign in assigns(made.decide(float(now))):
                bind(made, assign)
                running.append(assign.gang)
            for gang_id in running[:ended]:
                made.apply(PodsEnded(tuple(made.world.gangs[gang_id].pods), float(now)))
                made.apply(GangRemoved(gang_id))
            del running[:ended]
            fair = made.world.queues.find("fair")
            assert fair is not None
            assert all(fair.by_namespace.values()), "a namespace that uses nothing is kept"


def test_a_fair_queue_costs_a_share_per_namespace_and_per_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size, shares, share = 60, list[object](), Account.share
    made = Scheduler(Config(explain=False))
    made.apply(node("n", gpu=size // 2))
    made.apply(QueueChanged(Queue("fair", order=QueueOrder.FAIR)))
    for i in range(size):
        one = replace(gang(f"g{i}", count=1), queue="fair", namespace=f"ns{i}")
        made.apply(GangSubmitted(one))

    def counted(self: Account, used: Mapping[str, int]) -> float:
        shares.append(used)
        return share(self, used)

    monkeypatch.setattr(Account, "share", counted)
    assert len(started(made.decide(0.0))) == size // 2
    assert size <= len(shares) <= 4 * size, "not a search over all namespaces for each gang"
