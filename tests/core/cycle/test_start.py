"""A placement step in a trial is taken back whole."""

from muster.core.words.decisions import Assign, Evict, Wait
from muster.core.words.events import GangSubmitted
from tests.core.words import assigns, bind, gang, node, scheduler, shape


def test_a_step_in_a_trial_takes_back_evictions_and_what_it_has_noted() -> None:
    made = scheduler([node("n", gpu=8)], gang("low", count=4, of=shape(gpu=2)))
    for assign in assigns(made.decide(0.0)):
        bind(made, assign)
    made.decide(1.0)
    made.apply(GangSubmitted(gang("high", count=2, of=shape(gpu=3), priority=1)))
    made.apply(GangSubmitted(gang("never", count=9, of=shape(gpu=3), priority=2)))
    made.settle()

    def facts() -> list[str]:
        states, pending = made.world.gangs.values(), made.world.pending_evictions
        found = [repr((each.holds, each.usage, each.nodes, each.demand)) for each in states]
        found += [repr((each.used, each.terminating)) for each in made.world.queues.accounts.values()]
        found += map(repr, (pending, pending.whole, pending.leaving, sorted(made.world.gangs.touched)))
        known = [each.demand is not None and made._infeasible.known(each.demand) for each in states]
        return [*found, repr(known), repr(made.world.nodes.used.tolist())]

    before = facts()
    with made.world.trial():
        tried = [each for turn in made._begin(2.0, set()) for each in made._placement.place(turn, 2.0)]
        assert [type(each) for each in tried] == [Evict, Assign, Wait]
        assert facts() != before
    assert facts() == before
    assert [each for each in made.decide(2.0) if isinstance(each, Evict | Assign)] == tried[:2]
