from collections.abc import Iterable

import numpy as np
import pytest

from muster.core.cycle import Scheduler
from muster.core.words.amounts import PODS
from muster.core.words.decisions import Evict
from muster.core.words.events import (
    GangRemoved,
    GangSubmitted,
    NodeChanged,
    NodeRemoved,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import Gang, GangId, NodeName, Place, PodId, PodSet, Shape
from muster.core.world.gangs import Gangs, GangState
from muster.core.world.ledger import Charged, Ledger
from muster.core.world.nodes import LARGEST, UNLIMITED, Log, Nodes
from tests.core.words import GPU, amounts, assigns, bind, gang, node


def made(*facts: NodeChanged) -> tuple[Nodes, Ledger]:
    nodes = Nodes()
    for fact in facts:
        nodes.change(fact)
    nodes.settle()
    return nodes, Ledger(nodes)


def free(nodes: Nodes, resource: str) -> list[int]:
    return [int(amount) for amount in nodes.free(nodes.resources[resource])]


def test_columns_stand_in_order_of_name() -> None:
    nodes, _ = made(node("b", gpu=2), node("a", gpu=1))
    nodes.change(node("aa", gpu=3))
    nodes.settle()
    assert nodes.names == ["a", "aa", "b"]
    assert free(nodes, GPU) == [1, 3, 2]


def test_use_survives_the_move_of_columns() -> None:
    nodes, ledger = made(node("b"), node("c"))
    ledger.take(NodeName("b"), amounts({GPU: 3}))
    nodes.change(node("a"))
    nodes.settle()
    assert free(nodes, GPU) == [8, 5, 8]


def test_usage_of_an_unknown_node_counts_when_the_node_appears() -> None:
    nodes, ledger = made()
    ledger.take(NodeName("a"), amounts({GPU: 3, "fpga": 1}))
    nodes.change(node("a"))
    nodes.settle()
    assert free(nodes, GPU) == [5]
    assert nodes.overdrawn(NodeName("a")) == {"fpga": 1}


def test_usage_of_a_removed_node_counts_when_the_node_returns() -> None:
    nodes, ledger = made(node("a"), node("b"))
    ledger.take(NodeName("a"), amounts({GPU: 3}))
    nodes.remove(NodeName("a"))
    assert free(nodes, GPU) == [-1, 8]
    nodes.change(node("c"))
    nodes.settle()
    assert nodes.names == ["b", "c"]
    ledger.take(NodeName("a"), amounts({GPU: 2}))
    nodes.change(node("a"))
    nodes.settle()
    assert free(nodes, GPU) == [3, 8, 8]


def test_a_node_that_shrinks_below_its_use_has_no_room_and_recovers() -> None:
    nodes, ledger = made(node("a", gpu=8))
    ledger.take(NodeName("a"), amounts({GPU: 6}))
    nodes.change(node("a", gpu=4))
    assert free(nodes, GPU) == [-1]
    nodes.change(node("a", gpu=8))
    assert free(nodes, GPU) == [2]


def test_pods_are_implicit_and_unlimited_where_no_number_is_given() -> None:
    nodes, ledger = made(node("a", pods=2), node("b", pods=None))
    ledger.take(NodeName("a"), ())
    ledger.take(NodeName("b"), amounts({PODS: 5}))
    assert free(nodes, PODS) == [1, UNLIMITED - 1]


def test_absurd_amounts_do_not_overflow() -> None:
    nodes, ledger = made(NodeChanged(NodeName("a"), (("memory", 2**70),)))
    assert free(nodes, "memory") == [LARGEST]
    for _ in range(3):
        ledger.take(NodeName("a"), (("memory", 2**62),))
    assert free(nodes, "memory") == [-1]
    for _ in range(3):
        ledger.give(Charged(NodeName("a"), (("memory", 2**62),)))
    assert free(nodes, "memory") == [LARGEST]


def test_the_same_fact_again_is_no_change() -> None:
    nodes, _ = made(node("a"))
    revision = nodes.revision
    assert not nodes.change(node("a"))
    assert not nodes.remove(NodeName("b"))
    assert nodes.revision == revision


def test_a_reader_too_far_behind_has_to_start_over() -> None:
    log: Log[int] = Log()
    log.append(1)
    log.append(2)
    assert log.since(1) == [2]
    log.append(0, columns=Log.BOUND)
    assert log.since(1) is None
    assert log.since(log.end) == []


def test_an_array_counts_as_all_of_its_columns() -> None:
    nodes = Nodes()
    for i in range(1000):
        nodes.change(node(f"n{i:04}"))
    nodes.settle()
    row_amounts, every = nodes.row_amounts((("cpu", 1),)), np.arange(1000)
    begin = nodes.changes.end
    for _ in range(Log.BOUND // 1000):
        nodes.charge(every, row_amounts, np.ones(1000, np.int64))
    assert nodes.changes.since(begin) is not None
    nodes.charge(every, row_amounts, np.ones(1000, np.int64))
    assert nodes.changes.since(begin) is None


def test_a_log_keeps_no_larger_array_alive_than_it_tells_of() -> None:
    nodes = Nodes()
    for name in "abc":
        nodes.change(node(name))
    nodes.settle()
    large = np.arange(100_000)
    begin = nodes.changes.end
    nodes.charge(large[:2], nodes.row_amounts((("cpu", 1),)), np.ones(2, np.int64))
    (kept,) = nodes.changes.since(begin) or []
    assert not isinstance(kept, int)
    assert kept.tolist() == [0, 1]
    assert kept.base is None


def test_between_two_events_less_than_nothing_may_be_in_use() -> None:
    """A victim ends, and then its beneficiary goes, before what they have in common is put back."""

    def gang(name: str, cpus: int, priority: int) -> Gang:
        sets = (PodSet("main", Shape((("cpu", cpus),)), 1, 1),)
        return Gang(GangId(name), sets, 1, 0.0, priority=priority)

    core = Scheduler()
    core.apply(NodeChanged(NodeName("n"), (("cpu", 4),)))
    core.apply(GangSubmitted(gang("low", 4, 0)))
    core.apply(PodsBound({PodId("p"): Place("main", 0)}, NodeName("n"), (("cpu", 4),), GangId("low")))
    core.decide(1.0)
    core.apply(GangSubmitted(gang("high", 3, 5)))
    assert any(isinstance(decision, Evict) for decision in core.decide(2.0))
    for event in (GangRemoved(GangId("low")), PodsEnded((PodId("p"),), 3.0), GangRemoved(GangId("high"))):
        core.apply(event)
    core.decide(3.0)
    assert {core.world.nodes.used.item(row, 0) for row in core.world.nodes.resources.values()} == {0}


def test_less_than_nothing_may_be_in_use_on_several_nodes_at_once() -> None:
    """As it is where a reservation is looked for: a victim that leaves and its beneficiary have ended."""
    nodes, ledger = made(node("a", pods=None), node("b", pods=None))
    ledger.take_at(np.array([0, 1]), nodes.row_amounts(amounts({GPU: 1})), np.array([-2, -1]))
    assert free(nodes, PODS) == [UNLIMITED, UNLIMITED]
    assert free(nodes, GPU) == [10, 9]


def test_removed_nodes_cost_one_visit_to_the_gangs_per_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    made, visits = Scheduler(), list[int]()
    for name in "abc":
        made.apply(node(name, gpu=1))
        made.apply(GangSubmitted(gang(name, count=1)))
    for assign in assigns(made.decide(0.0)):
        bind(made, assign)
    gangs = type(made.world.gangs)
    values = gangs.values

    def counted(self: Gangs) -> Iterable[GangState]:
        visits.append(len(self))
        return values(self)

    monkeypatch.setattr(gangs, "values", counted, raising=False)
    for name in "abc":
        made.apply(NodeRemoved(NodeName(name)))
    assert visits == []
    made.decide(1.0)
    assert visits.count(3) == 1
