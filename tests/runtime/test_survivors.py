"""Pods that are left of a gang below its minimum, while their replacements come late.

A Job's controller waits up to six minutes before it replaces a pod that failed often, so replacements of
equally old pods need not come together.
"""

import pytest

from muster.api import kinds
from tests.runtime.model import Cluster, Kind, Making, Running


def names(cluster: Cluster) -> set[str]:
    return {pod.metadata.name for pod in cluster.server.all(kinds.POD) if pod.spec.node_name}


@pytest.mark.parametrize("kind", ["job", "free job"])
def test_they_run_on_however_long_a_replacement_takes(kind: Kind) -> None:
    cluster = Cluster()
    cluster.node("a", 3)
    cluster.gang("main", 3, kind)
    leader = Running(cluster, 1)
    leader.quiesce()
    first, *lost = sorted(names(cluster))
    cluster.making["main"] = Making(at_most=2)
    for name in lost:
        cluster.server.end(kinds.POD, f"default/{name}")
    leader.quiesce()
    assert first in names(cluster)
    assert not cluster.plans()
    cluster.making["main"] = Making()
    leader.quiesce()
    assert first in names(cluster)
    assert cluster.outcome("main", 3) == "whole"
    leader.stop()
