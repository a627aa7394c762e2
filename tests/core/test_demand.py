"""Turns of searches: in order of arrival, and the same whenever unused objects are freed."""

import gc

from muster.core.demand import Demand, Part, SearchBudget, cut
from muster.names import GPU_SHARE
from tests.core.words import shape


def demand(gpu: int) -> Demand:
    return Demand((Part("main", shape(gpu=gpu), 1, 1),), 1)


def test_each_demand_that_goes_on_asking_is_searched() -> None:
    budget, demands = SearchBudget(2), [demand(i) for i in range(1, 8)]
    turns: list[int] = []
    for _ in range(4):
        budget.next_cycle()
        turns += [i for i, each in enumerate(demands) if budget.take(each)]
    assert turns == [0, 1, 2, 3, 4, 5, 0, 6]


def test_a_demand_that_asks_no_longer_gives_up_its_turn() -> None:
    budget, demands = SearchBudget(1), [demand(i) for i in range(1, 5)]
    budget.next_cycle()
    assert [budget.take(each) for each in demands] == [True, False, False, False]
    budget.next_cycle()
    assert [budget.take(each) for each in demands[2:]] == [False, False]  # the turn of demands[1]
    budget.next_cycle()
    assert [budget.take(each) for each in demands[2:]] == [True, False]
    budget.next_cycle()
    budget.next_cycle()
    assert not budget.behind


def test_the_search_budget_goes_to_a_demand_that_asked_in_the_last_cycle() -> None:
    budget, demands = SearchBudget(1), [demand(i) for i in range(1, 5)]
    budget.next_cycle()
    assert [budget.take(each) for each in demands] == [True, False, False, False]
    budget.next_cycle()
    assert [budget.take(demands[i]) for i in (1, 3)] == [True, False]
    budget.next_cycle()
    assert budget.take(demands[3]), "demands[2] was before it, and has not asked"


def test_the_search_budget_does_not_depend_on_references_to_a_demand() -> None:
    def turns(kept: list[Demand]) -> list[bool]:
        """Three demands wait, of which nothing refers to two any longer, unless they are `kept`."""
        budget, last = SearchBudget(1), demand(9)
        budget.next_cycle()
        for passing in (demand(1), demand(2), demand(3)):
            budget.take(passing)
            kept.append(passing)
        answers = [budget.take(last)]
        if kept is dropped:
            kept.clear()
        del passing
        gc.collect()
        for _ in range(4):
            answers.append(budget.behind)
            budget.next_cycle()
            answers.append(budget.take(last))
        return answers

    dropped: list[Demand] = []
    assert turns([]) == turns(dropped)


def test_a_minimum_is_cut_to_the_smallest_pods_that_there_is_room_for() -> None:
    sharing = Part("sharing", shape(share=550, cpu=1000), 1, 0)
    whole = Part("whole", shape(gpu=2), 3, 1)
    demand = Demand((sharing, whole), 2)
    room = {GPU_SHARE: 3450, "cpu": 1000}
    parts = cut(demand, room, [part.usage for part in demand.parts])
    assert [(part.pod_set, part.count) for part in parts] == [("sharing", 1), ("whole", 1)]
