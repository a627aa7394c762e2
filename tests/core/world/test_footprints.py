"""What pods see of each other is kept in a log with a bound."""

import tracemalloc

import numpy as np

from muster.core.words.events import Footprint
from muster.core.words.gang import PodTerm
from muster.core.world.footprints import BOUND, Footprints, Matching
from muster.core.world.nodes import Nodes
from tests.core.words import node


def test_an_array_in_the_log_counts_as_all_of_its_columns() -> None:
    nodes = Nodes()
    for i in range(1000):
        nodes.change(node(f"n{i:04}"))
    nodes.settle()
    footprints, pod_footprint = Footprints(nodes), Footprint("ns", (("app", "a"),))
    everywhere = Matching((PodTerm("host", (), None),))
    footprints.count(everywhere)
    tracemalloc.start()
    try:
        for _ in range(5 * BOUND // 1000):
            large = np.arange(3000)  # of which a part is noted
            footprints.note(large[:1000], np.ones(3000, np.int64)[:1000], pod_footprint)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < BOUND * 40  # eight bytes for a column and for its count, and the account by name
    assert footprints.count(everywhere).tolist() == [5 * BOUND // 1000] * 1000
