"""A leader whose container restarts: its next process takes the Lease at once, and nothing is left half done.

The Lease does not run out in between: the pod's uid in the identity proves that the earlier process is gone
(tests/runtime/test_election.py). But a request that it has sent may still be on its way, so the server may
make one more write of it after any write of its successor.
"""

import pytest

from muster.api import kinds
from tests.runtime.test_crashes import CASES, Case, check, of_two_leaders, writes_of

SMALL = [case for case in CASES if case.size <= 2 and case.home == "default"]


@pytest.mark.parametrize("case", of_two_leaders(SMALL))
def test_a_last_write_of_the_process_before_arrives_after_any_of_its_successor(case: Case) -> None:
    for i in range(writes_of(case) + 1):
        j, more = -1, True
        while more:
            cluster = case.cluster()
            first = case.leader(cluster, 2)
            first.quiesce(writes=i)
            planned = bool(cluster.plans())
            second = case.leader(cluster, 3)
            if j < 0:
                second.take_over()
            else:
                more = second.quiesce(writes=j)
            first.sees = False
            first.client.accepted.clear()
            first.go(writes=first.writes + 1)
            first.stop()
            if second.leads:
                evictions = [("patch", kinds.POD), ("delete", kinds.POD)]
                refused = [("bind", kinds.POD), ("patch", kinds.JOB), *(evictions if planned else [])]
                assert not [write for write in first.client.accepted if write[:2] in refused]
            second.quiesce()
            second.stop()
            check(case, cluster, 4)
            j += 1


@pytest.mark.parametrize("case", SMALL, ids=str)
@pytest.mark.parametrize("life", [1, 2])
def test_a_container_that_restarts_after_each_write_or_two_finishes(case: Case, life: int) -> None:
    """Each process fences, leads, makes so many writes, and is gone; no time passes between two of them."""
    cluster, epoch, more = case.cluster(), 2, True
    while more:
        leader = case.leader(cluster, epoch)
        leader.take_over()
        more = leader.quiesce(writes=leader.writes + life)
        leader.stop()
        epoch += 1
        assert epoch < 200, "it gets no further"
    check(case, cluster, epoch)
