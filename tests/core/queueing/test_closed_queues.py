"""A closed queue takes in nothing new, and what waits there takes nothing from others."""

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.gang import Code
from muster.names import GPU_SHARE
from tests.core.queueing.test_queues import cluster, code, queue, started, submit


def entitled(made: Scheduler) -> dict[str, int]:
    made.settle()
    return {name: account.entitled[GPU_SHARE] // 1000 for name, account in made.world.queues.accounts.items()}


@pytest.mark.parametrize("above", [False, True])
def test_gangs_of_a_closed_queue_are_entitled_to_nothing(above: bool) -> None:
    made = cluster(
        queue("p", closed=above),
        queue("a", parent="p", closed=not above),
        queue("b"),
        submit("shut out", "a", 16),
        submit("big", "b", 16),
    )
    assert entitled(made) == {"default": 0, "p": 0, "a": 0, "b": 16}
    assert started(made) == {"big": 16}
    assert code(made, "shut out") is Code.QUEUE_CLOSED
    assert made.world.queues.accounts["a"].waiting == 1, "it waits all the same"


def test_a_started_gang_still_requests_its_missing_pods() -> None:
    made = cluster(queue("a"), queue("b"), submit("grows", "a", 12, minimum=2), submit("other", "b", 8))
    assert started(made) == {"grows": 8, "other": 8}
    made.apply(queue("a", closed=True))
    assert entitled(made) == {"default": 0, "a": 8, "b": 8}


def test_a_queue_that_opens_again_is_entitled_to_its_part() -> None:
    made = cluster(queue("a", closed=True), queue("b"), submit("one", "a", 8), submit("two", "b", 16))
    assert entitled(made) == {"default": 0, "a": 0, "b": 16}
    made.apply(queue("a"))
    assert entitled(made) == {"default": 0, "a": 8, "b": 8}
    made.apply(queue("a", closed=True))
    assert entitled(made) == {"default": 0, "a": 0, "b": 16}
