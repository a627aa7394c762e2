import numpy as np
import pytest

from muster.core.words.events import Footprint
from muster.core.words.gang import NodeName, Operator, PodTerm, Requirement
from muster.core.world.footprints import Matching
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.nodes import Nodes
from tests.core.words import GPU, amounts, node, shape


def made() -> tuple[Nodes, Ledger]:
    nodes = Nodes()
    for name in "abc":
        nodes.change(node(name))
    nodes.settle()
    return nodes, Ledger(nodes)


def free(nodes: Nodes) -> list[int]:
    return [int(amount) for amount in nodes.free(nodes.resources[GPU])]


def test_rollback_undoes_all_since_its_mark_and_nothing_before() -> None:
    nodes, ledger = made()
    two = nodes.row_amounts(amounts({GPU: 2}))
    outer = ledger.log.trial()
    ledger.take(NodeName("a"), amounts({GPU: 1}))
    inner = ledger.log.trial()
    ledger.take_at(np.array([0, 2]), two, np.array([1, 3]))
    ledger.give(Charged(NodeName("a"), amounts({GPU: 1})))
    assert free(nodes) == [6, 8, 2]
    inner.undo()
    assert free(nodes) == [7, 8, 8]
    outer.undo()
    assert free(nodes) == [8, 8, 8]


def test_an_inner_commit_is_undone_by_the_outer_rollback() -> None:
    nodes, ledger = made()
    outer = ledger.log.trial()
    inner = ledger.log.trial()
    ledger.take(NodeName("b"), amounts({GPU: 4}))
    inner.keep()
    assert free(nodes) == [8, 4, 8]
    outer.undo()
    assert free(nodes) == [8, 8, 8]


def test_a_rollback_leaves_no_trace_of_what_was_carried() -> None:
    _, ledger = made()
    alike = PodTerm("rack", (Requirement("app", Operator.IN, ("x",)),), ("ns",))
    lone, other = Footprint("ns", pod_anti_affinity=(alike,)), Footprint("ns", (("app", "x"),))
    before = ledger.footprints.carried, ledger.footprints.carried.as_of
    tried = ledger.log.trial()
    ledger.take(NodeName("a"), (), footprint=lone)
    ledger.take(NodeName("b"), (), footprint=lone)
    assert ledger.footprints.carried.selecting(other) == {alike}
    carried = ledger.footprints.carried.as_of
    tried.undo()
    assert (ledger.footprints.carried, ledger.footprints.carried.as_of) == before
    assert ledger.footprints.carried.selecting(other) == set()
    ledger.take(NodeName("a"), (), footprint=lone)
    assert ledger.footprints.carried.selecting(other) == {alike}
    assert ledger.footprints.carried.as_of not in (before[1], carried)


def test_a_kept_trial_lasts() -> None:
    nodes, ledger = made()
    tried = ledger.log.trial()
    ledger.take(NodeName("b"), amounts({GPU: 4}))
    tried.keep()
    later = ledger.log.trial()
    later.undo()
    assert free(nodes) == [8, 4, 8]


@pytest.mark.parametrize("gives", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_capacity_freed_in_a_trial_is_seen_in_it_and_lasts_if_the_trial_is_kept(
    gives: bool, kept: bool
) -> None:
    _, ledger = made()
    ledger.take(NodeName("a"), amounts({GPU: 4}))
    before = ledger.nodes.room.value
    outer = ledger.log.trial()
    inner = ledger.log.trial()
    if gives:
        ledger.give(Charged(NodeName("a"), amounts({GPU: 4})))
    ledger.take(NodeName("b"), amounts({GPU: 4}))
    inner.keep()
    within = ledger.nodes.room.value
    assert (within != before) is gives
    if kept:
        outer.keep()
        assert ledger.nodes.room.value == within
    else:
        outer.undo()
        assert ledger.nodes.room.value == before
    ledger.give(Charged(NodeName("a"), amounts({GPU: 1})))
    assert ledger.nodes.room.value not in (before, within)


def test_an_error_undoes_all_trials_around_it() -> None:
    nodes, ledger = made()

    def fails() -> None:
        with ledger.log.trial():
            ledger.log.trial()
            ledger.take(NodeName("b"), amounts({GPU: 4}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert free(nodes) == [8, 8, 8]
    assert not ledger.log.depth


def test_each_pod_of_a_gang_that_is_renamed_counts() -> None:
    nodes, ledger = made()
    old, new = Footprint("ns", (("app", "old"),)), Footprint("ns", (("app", "new"),))
    ledger.take_at(0, nodes.row_amounts(()), 3, old)
    before = ledger.nodes.room.value
    ledger.rename(NodeName("a"), old, new, 2)
    assert [_seen(ledger, app) for app in ("old", "new")] == [[1, 0, 0], [2, 0, 0]]
    assert ledger.nodes.room.value > before
    ledger.rename(NodeName("a"), old, new)
    assert [_seen(ledger, app) for app in ("old", "new")] == [[0, 0, 0], [3, 0, 0]]


def _seen(ledger: Ledger, app: str) -> list[int]:
    term = PodTerm("host", (Requirement("app", Operator.IN, (app,)),), ("ns",))
    return [int(n) for n in ledger.footprints.count(Matching((term,)))]


def test_shares_that_are_taken_go_on_their_reserved_devices_in_order_and_then_where_they_fit_best() -> None:
    _, ledger = made()
    on, share = NodeName("a"), shape(share=300).requests
    with ledger.on({(on, 300): [5, 2]}):
        assert [ledger.take(on, share) for _ in range(3)] == [5, 2, 2]
        assert ledger.take(NodeName("b"), share) == 0, "of another node none is reserved"
