"""What a gang leaves when it ends: all that it uses, once, whatever a trial has lifted of it already."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.reservations import Backfill
from muster.core.words.decisions import Decision, Evict, Victim
from muster.core.words.events import PodsEnded
from muster.core.words.gang import GangId, PodId, PodSet
from muster.core.world.completions import Completions
from muster.core.world.gangs import GangState
from muster.core.world.trial import Trial
from tests.core.cycle.test_incremental import Story
from tests.core.words import assigns, bind, gang, node, pod, scheduler, shape
from tests.tiers import examples

#: Pods that share GPUs, pods that have some to themselves, and places that are held without a pod.
SETS = (
    PodSet("shares", shape(share=400), 3, 0),
    PodSet("wholes", shape(gpu=1), 4, 0),
    PodSet("cpus", shape(cpu=1000), 2, 0),
)


def running() -> tuple[Scheduler, GangId]:
    """Of `runs`, every place but two has its pod."""
    made = scheduler([node("a", gpu=4), node("b", gpu=4)], gang("runs", *SETS, minimum=0))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign, sorted(assign.nodes)[1:-1])
    return made, assign.gang


def amounts(made: Scheduler) -> tuple[list[list[int]], list[list[int]]]:
    devices = [[*made.world.nodes.devices.used(name)] for name in made.world.nodes.names]
    return made.world.nodes.used.tolist(), devices


@given(st.sets(st.integers(0, 6)), st.booleans())
def test_what_is_lifted_is_not_given_back_again(some: set[int], whole: bool) -> None:
    made, runs = running()
    state, before = made.world.gangs[runs], amounts(made)
    pods = frozenset(sorted(state.pods)[i] for i in some)
    outer = made.world.ledger.log.trial()
    if whole or pods:
        made.world.pending_evictions.lift_victims([Victim(runs, frozenset() if whole else pods)])
    inner = made.world.ledger.log.trial()
    made.world.completions.give([state])
    assert not np.any(made.world.nodes.used)
    assert not any(made.world.nodes.devices.used(name) for name in made.world.nodes.names)
    inner.undo()
    inner = made.world.ledger.log.trial()
    used = made.world.nodes.used.copy()
    made.world.completions.leave(state, used)
    assert not used.any()
    inner.undo()
    outer.undo()
    assert amounts(made) == before


def test_a_lift_ends_when_its_trial_is_kept_or_not() -> None:
    made, runs = running()
    outer = made.world.ledger.log.trial()
    for end in (Trial.undo, Trial.keep):
        inner = made.world.ledger.log.trial()
        made.world.pending_evictions.lift_victims([Victim(runs)])
        assert runs in made.world.ledger.lifted
        end(inner)
        assert runs not in made.world.ledger.lifted
    outer.undo()


class SlowlyLeaving(Story):
    """As a `Story`, but the pods of victims leave one by one, some cycles later."""

    def __init__(self, seed: int, config: Config) -> None:
        super().__init__(seed, config)
        self.leaving: list[PodId] = []

    def obey(self, decision: Decision) -> None:
        if not isinstance(decision, Evict):
            super().obey(decision)
            return
        for victim in decision.victims:
            places = self.running.get(victim.gang, [])
            gone = victim.pods or {pod(victim.gang, place) for place in places}
            self.running[victim.gang] = [p for p in places if pod(victim.gang, p) not in gone]
            self.leaving += sorted(gone)

    def step(self) -> None:
        while self.leaving and self.random.random() < 0.4:
            self.tell(PodsEnded((self.leaving.pop(0),), self.now))
        super().step()


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]))
@example(7, Backfill.EASY)
@example(9, Backfill.CONSERVATIVE)
def test_gangs_leave_no_more_than_is_charged_while_victims_are_leaving(seed: int, backfill: Backfill) -> None:
    give = Completions.give

    def checked(ends: Completions, states: Iterable[GangState]) -> None:
        give(ends, states)
        assert (ends._nodes.used >= 0).all()

    story = SlowlyLeaving(seed, Config(explain=False, backfill=backfill, drain_after=9.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Completions, "give", checked)
        for _ in range(20):
            story.step()
            for core in (story.core, story.watchful, story.telling):
                trial, used = core.world.ledger.log.trial(), core.world.nodes.used.copy()
                ending = [state for _, state in core.world.completions.after(story.now)]
                for state in ending:
                    core.world.completions.leave(state, used)
                assert (used >= 0).all()
                trial.undo()
                trial = core.world.ledger.log.trial()
                core.world.completions.give(ending)
                trial.undo()
