"""Sums by domain follow the changes, and equal fresh ones."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.placement.packing import Pack
from muster.core.placement.slots import Slots
from muster.core.placement.topology.candidates import Totals
from muster.core.words.gang import Layer
from muster.core.world.eligibility import Eligibility
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Nodes
from muster.core.world.topology import Topology
from tests.core.words import GPU, node, shape
from tests.tiers import examples

SHAPES = [shape(gpu=1), shape(gpu=3, cpu=1000), shape(share=300)]

#: (column, GPUs, share) charged between two readings, and a node whose label and GPUs change
charges = st.lists(
    st.tuples(st.integers(0, 39), st.integers(0, 3), st.sampled_from([0, 200, 700])), max_size=40
)
relabelled = st.one_of(st.none(), st.tuples(st.integers(0, 44), st.sampled_from("abc"), st.integers(0, 8)))


@given(st.lists(st.tuples(charges, relabelled, st.booleans()), min_size=1, max_size=4))
@settings(max_examples=examples(60), deadline=None)
def test_kept_sums_equal_fresh_ones(
    rounds: list[tuple[list[tuple[int, int, int]], tuple[int, str, int] | None, bool]],
) -> None:
    nodes = Nodes()
    for i in range(40):
        nodes.change(node(f"n{i:02}", gpu=i % 9, cpu=1000 * (i % 5), labels={"rack": str(i // 6)}))
    nodes.settle()
    ledger, slots, topology = Ledger(nodes), Slots(Pack(nodes, Eligibility(nodes))), Topology(nodes)
    topology.change((Layer("Rack", ("rack",)),))
    totals = Totals(nodes, topology)
    for charged, changed, read_keys in rounds:
        for column, gpu, share in charged:
            ledger.take(nodes.names[column], shape(gpu=gpu, share=share).requests)
        if changed is not None:
            number, rack, gpu = changed
            nodes.change(node(f"n{number:02}", gpu=gpu, labels={"rack": rack}))
            nodes.settle()
        topology.refresh()
        fresh = Slots(Pack(nodes, Eligibility(nodes)))
        for of in SHAPES:
            vector, computed = slots.room(of), fresh.of(of)
            assert totals.slots(vector).tolist() == topology.sums(computed.slots).tolist()
            if read_keys:  # they may have been left behind for several rounds
                assert slots.of(of).key.tolist() == computed.key.tolist()
        free = np.maximum(nodes.free(nodes.row(GPU)), 0)
        assert totals.free(nodes.row(GPU)).tolist() == topology.sums(free).tolist()
        assert topology.totals(0, totals.free(nodes.row(GPU))).tolist() == [free.sum()]
