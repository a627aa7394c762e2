"""The same facts give the same decisions: in any order, in any process, under other names and scales."""

import os
import random
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config
from muster.core.words.decisions import Wait
from muster.core.words.events import GangSubmitted, QueueChanged
from muster.core.words.gang import GangId, Queue
from tests import processes
from tests.core.scenario import decide, digest, facts
from tests.core.words import assigns, gang, node, scheduler, shape, started
from tests.tiers import examples


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
@settings(max_examples=examples(25), deadline=None)
def test_the_order_of_facts_does_not_matter(seed: int, order: random.Random) -> None:
    told = facts(seed)
    shuffled = list(told)
    order.shuffle(shuffled)
    assert decide(shuffled) == decide(told)


@given(st.integers(0, 10_000), st.integers(2, 9))
@settings(max_examples=examples(25), deadline=None)
def test_scale_does_not_matter(seed: int, scale: int) -> None:
    assert assigns(decide(facts(seed, scale))) == assigns(decide(facts(seed)))


@given(st.integers(0, 10_000))
@settings(max_examples=examples(25), deadline=None)
def test_without_explanations_the_rest_is_the_same(seed: int) -> None:
    explained = [decision for decision in decide(facts(seed)) if not isinstance(decision, Wait)]
    assert decide(facts(seed), Config(explain=False)) == explained


@given(st.integers(0, 10_000))
@settings(max_examples=examples(25), deadline=None)
def test_names_in_the_same_order_do_not_matter(seed: int) -> None:
    renamed = [
        (assign.gang, {place: name.replace("other-", "n") for place, name in assign.nodes.items()})
        for assign in assigns(decide(facts(seed, prefix="other-")))
    ]
    assert renamed == [(a.gang, dict(a.nodes)) for a in assigns(decide(facts(seed)))]


@given(st.integers(0, 10_000))
@settings(max_examples=examples(25), deadline=None)
def test_nor_do_names_of_gangs(seed: int) -> None:
    renamed = [
        GangSubmitted(replace(fact.gang, id=GangId(f"other-{fact.gang.id}")))
        if isinstance(fact, GangSubmitted)
        else fact
        for fact in facts(seed)
    ]
    told = [(assign.gang.removeprefix("other-"), assign.nodes) for assign in assigns(decide(renamed))]
    assert told == [(assign.gang, assign.nodes) for assign in assigns(decide(facts(seed)))]


@given(st.integers(0, 10_000))
@settings(max_examples=examples(25), deadline=None)
def test_nor_does_a_gang_of_lower_rank(seed: int) -> None:
    gangs = [fact.gang for fact in facts(seed) if isinstance(fact, GangSubmitted)]
    last = max(gangs, key=lambda one: (-one.priority, one.submitted, one.id))
    fewer = [fact for fact in facts(seed) if fact != GangSubmitted(last)]
    others = [assign for assign in assigns(decide(facts(seed))) if assign.gang != last.id]
    assert assigns(decide(fewer)) == others


def test_neither_does_the_seed_of_hashes() -> None:
    program = "from tests.core.scenario import digest; print(digest(7))"
    with ExitStack() as ended:
        several = [
            ended.enter_context(
                processes.started(
                    [sys.executable, "-c", program],
                    env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for seed in ("1", "2")
        ]
        assert [process.communicate()[0].strip() for process in several] == [digest(7)] * 2


def test_nor_does_which_gang_asked_first_if_no_queue_lets_it_start() -> None:
    asked = scheduler([node("n", cpu=1)])
    for queue in ("b", "c", "a"):
        asked.apply(GangSubmitted(replace(gang(f"of-{queue}"), queue=queue)))
        asked.decide(0.0)
    asked.apply(QueueChanged(Queue("new")))  # the explanations name the queues again
    waits = [wait for wait in asked.decide(1.0) if isinstance(wait, Wait)]
    assert [wait.gang for wait in waits] == ["of-a", "of-b", "of-c"]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=6), st.integers(1, 4), st.integers(1, 12))
@settings(max_examples=examples(60), deadline=None)
def test_more_nodes_never_stop_a_gang_of_one_shape(free: list[int], gpu: int, count: int) -> None:
    nodes = [node(f"n{i}", gpu=g) for i, g in enumerate(free)]
    wanted = gang("x", count=count, of=shape(gpu=gpu))
    fewer = started(scheduler(nodes[:-1], wanted).decide(0.0))
    more = started(scheduler(nodes, wanted).decide(0.0))
    assert set(fewer) <= set(more)
    assert (more == [GangId("x")]) == (sum(g // gpu for g in free) >= count)
