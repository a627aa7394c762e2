"""Reservations of gangs with claims: at a time at which the devices are there, not only their number."""

from dataclasses import replace

import pytest

from muster.core.cycle import Config, Scheduler
from muster.core.reservations import Backfill
from muster.core.words.decisions import Decision, Reserve
from muster.core.words.events import GangRemoved, GangSubmitted, PodsEnded
from muster.core.words.gang import GangId, NodeName
from tests.core.cycle.test_claims import KINDS, bind, claiming, devices, had
from tests.core.words import assigns, gang, node


def cluster(backfill: Backfill) -> Scheduler:
    """A node with two cliques of four devices; a gang has one of each, until 50 and 100."""
    made = Scheduler(Config(backfill=backfill))
    for event in (*KINDS, node("a", gpu=0), devices("a", 4, 4)):
        made.apply(event)
    for name, clique, limit in (("early", "deviceclass/large", 50.0), ("late", "small", 100.0)):
        of = claiming(1, "deviceclass/large") if clique != "small" else claiming(1)
        made.apply(GangSubmitted(replace(gang(name, of=of), limit=limit)))
        [assign] = assigns(made.decide(0.0))
        bind(made, assign, of)
    return made


def reserved(decisions: list[Decision]) -> list[float]:
    return [each.start for each in decisions if isinstance(each, Reserve)]


@pytest.mark.parametrize("backfill", [Backfill.EASY, Backfill.CONSERVATIVE])
def test_a_gang_is_promised_the_time_at_which_devices_of_one_value_are_free(backfill: Backfill) -> None:
    """Six devices are free now, four of them of one clique only from 50 on."""
    made = cluster(backfill)
    of = claiming(4, same=True)
    made.apply(GangSubmitted(replace(gang("head", of=of, submitted=1.0), limit=10.0)))
    assert reserved(made.decide(1.0)) == [50.0]
    made.apply(PodsEnded(tuple(made.world.gangs[GangId("early")].pods), 50.0))
    made.apply(GangRemoved(GangId("early")))
    [assign] = assigns(made.decide(50.0))
    assert [*assign.nodes.values()] == [NodeName("a")]
    assert len(had(assign)) == 4
