"""What a gang leaves when it ends: all that it uses, once, whatever a trial has lifted of it already."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Victim
from muster.core.words.gang import GangId, PodSet
from muster.core.world.trial import Trial
from tests.core.words import assigns, bind, gang, node, scheduler, shape

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
    devices = [[*made.nodes.devices.used(name)] for name in made.nodes.names]
    return made.nodes.used.tolist(), devices


@given(st.sets(st.integers(0, 6)), st.booleans())
def test_what_is_lifted_is_not_given_back_again(some: set[int], whole: bool) -> None:
    made, runs = running()
    state, before = made.gangs[runs], amounts(made)
    pods = frozenset(sorted(state.pods)[i] for i in some)
    outer = made.ledger.trial()
    if whole or pods:
        made.world.pending_evictions.lift_victims([Victim(runs, frozenset() if whole else pods)])
    inner = made.ledger.trial()
    made.ends.give([state])
    assert not np.any(made.nodes.used)
    assert not any(made.nodes.devices.used(name) for name in made.nodes.names)
    inner.undo()
    inner = made.ledger.trial()
    used = made.nodes.used.copy()
    made.ends.leave(state, used)
    assert not used.any()
    inner.undo()
    outer.undo()
    assert amounts(made) == before


def test_a_lift_ends_when_its_trial_is_kept_or_not() -> None:
    made, runs = running()
    outer = made.ledger.trial()
    for end in (Trial.undo, Trial.keep):
        inner = made.ledger.trial()
        made.world.pending_evictions.lift_victims([Victim(runs)])
        assert runs in made.ledger.lifted
        end(inner)
        assert runs not in made.ledger.lifted
    outer.undo()
