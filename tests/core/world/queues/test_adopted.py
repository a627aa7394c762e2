"""Queues of another scheduler: they count as far as they make no queue of muster unusable."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.events import QueueChanged
from muster.core.words.gang import PodSet, Queue
from muster.core.world.queues import Queues
from tests.core.words import gang, shape

NAMES = ("a", "aa", "b", "default", "team", "team-a")


def queues(*, adopted: bool) -> st.SearchStrategy[list[Queue]]:
    amount = st.sampled_from([(), (("cpu", 1),), (("cpu", 3),)])
    queue = st.builds(
        Queue,
        st.sampled_from(NAMES),
        parent=st.sampled_from(["root", "nowhere", *NAMES]),
        weight=st.integers(0, 2),
        guarantee=amount,
        deserved=st.none() | amount,
        capability=amount,
        namespaces=st.just(()) if adopted else st.sampled_from([(), ("ml",)]),
        fault=st.sampled_from(["", "", "", "unread"]),
        adopted=st.just(adopted),
    )
    return st.lists(queue, max_size=6, unique_by=lambda each: each.name)


def world(rules: list[Queue]) -> Queues:
    core = Scheduler()
    for each in rules:
        core.apply(QueueChanged(each))
    return core.world.queues


def barred(found: Queues, queue: str) -> str | None:
    asked = gang("g", PodSet("main", shape(cpu=1), 1, 1), minimum=1)
    return found.barred(replace(asked, queue=queue))


@given(queues(adopted=False), queues(adopted=True))
@example([], [Queue("default", fault="unread", adopted=True)])
@example([], [Queue("default", "nowhere", adopted=True)])
@example([], [Queue("a", "default", adopted=True)])
@example(
    [Queue("team", capability=(("cpu", 1),)), Queue("team-a", "team", guarantee=(("cpu", 1),))],
    [Queue("aa", "team", guarantee=(("cpu", 1),), adopted=True)],
)
@example(
    [Queue("a", "default", guarantee=(("cpu", 3),))],
    [Queue("default", capability=(("cpu", 1),), adopted=True)],
)
@example([Queue("a", "b")], [Queue("b", adopted=True)])
@example(
    [Queue("team", namespaces=("ml",)), Queue("team-a", "team")], [Queue("default", "team", adopted=True)]
)
def test_adopted_queues_bar_nothing_that_was_not_barred(own: list[Queue], adopted: list[Queue]) -> None:
    mine = {each.name for each in own}
    before = world(own)
    after = world([*own, *(each for each in adopted if each.name not in mine)])
    for name in {*mine, "default"}:
        was, now = before.find(name), after.find(name)
        assert was is not None
        assert now is not None
        assert bool(now.fault) == bool(was.fault), "whatever is adopted"
        if barred(before, name) is None:
            assert barred(after, name) is None


def test_an_adopted_default_sets_the_rules_of_default_if_it_is_valid() -> None:
    account = world([Queue("default", weight=3, capability=(("cpu", 3),), adopted=True)]).find("default")
    assert account is not None
    assert (account.rules.weight, account.caps, account.refused) == (3, {"cpu": 3}, "")


def test_an_adopted_default_that_is_faulty_does_not_count_and_the_reason_is_known() -> None:
    account = world([Queue("default", weight=0, capability=(("cpu", 3),), adopted=True)]).find("default")
    assert account is not None
    assert (account.fault, account.caps) == ("", {})
    assert account.refused == "its weight is 0; write 1 or more"


@pytest.mark.parametrize("parent", ["default", "team-a"])
def test_an_adopted_queue_below_one_that_takes_gangs_is_itself_at_fault(parent: str) -> None:
    found = world([Queue("team"), Queue("team-a", "team"), Queue("x", parent, adopted=True)])
    assert (barred(found, "x") or "").startswith(f"queue x: its parent {parent} is a queue for gangs")


def test_adopted_queues_have_adopted_parents_or_those_with_queues_below() -> None:
    found = world(
        [
            Queue("team"),
            Queue("team-a", "team"),
            Queue("x", "team", adopted=True),
            Queue("dept", adopted=True),
            Queue("y", "dept", adopted=True),
        ]
    )
    assert [barred(found, name) for name in ("x", "y", "team-a", "default")] == [None] * 4
