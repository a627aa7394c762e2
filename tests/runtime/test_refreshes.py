"""What gangs that wait cost the API server while capacity changes, and the figures in their reasons."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Object
from muster.api.scheduling import POD_GROUP_LABEL
from muster.core.words.gang import GangId
from muster.runtime.commit.refreshes import BURST, RATE, Refresh, Refreshes
from tests.runtime.test_few_writes import running
from tests.runtime.test_loop import Cluster

#: Writes a second that all gangs that wait may cost together.
MOST = 5.0
GANGS, SECONDS = 40, 40


def pod(name: str, cpu: str, labels: Object | None = None, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [container], **spec}}


@pytest.mark.looptime
@pytest.mark.parametrize("groups", [True, False], ids=["gangs", "gangs of one"])
async def test_figures_that_change_all_the_time_cost_five_writes_a_second(groups: bool) -> None:
    """And each gang has its first reason at once, and what is told is true in the end."""
    cluster = Cluster()
    async with running(cluster) as written:
        for node in range(4):  # of 4 CPUs
            cluster.create(kinds.POD, pod(f"base-{node}", "2", nodeName=f"node-{node}"))
        for gang in range(GANGS):
            labels = {}
            if groups:
                labels = {POD_GROUP_LABEL[kinds.POD_GROUP_X.group]: f"g-{gang}"}
                spec = {"metadata": {"name": f"g-{gang}"}, "spec": {"minMember": 1}}
                cluster.create(kinds.POD_GROUP_X, spec)
            cluster.create(kinds.POD, pod(f"g-{gang}-0", "3", labels))
        await asyncio.sleep(3)
        told = await reasons(cluster, groups)
        assert len(told) == GANGS, "the first reason is written at once"
        await asyncio.sleep(3)  # the conditions of the pods, once
        counted = written.total()
        for second in range(SECONDS):
            for part in range(2):  # a pod of another scheduler comes and goes
                name = f"other-{second}-{part}"
                cluster.create(kinds.POD, pod(name, f"{1 + (second + part) % 2}", nodeName="node-0"))
                await asyncio.sleep(0.25)
                await cluster.client.delete(kinds.POD, "default", name, grace_period=0)
                await asyncio.sleep(0.25)
        cost = written.total() - counted
        assert cost <= SECONDS * MOST
        before = await reasons(cluster, groups)
        cluster.create(kinds.POD, pod("last", "1", nodeName="node-1"))
        await asyncio.sleep(GANGS / RATE + 11)
        after = await reasons(cluster, groups)
        assert before != after
        assert len(set(after.values())) == 1, "all know the last figures"


async def reasons(cluster: Cluster, groups: bool) -> dict[str, str]:
    """What each gang that waits says, by its name."""
    if groups:
        records = await cluster.all(kinds.GANG)
        return {each.metadata.name: each.status.reason.message for each in records if each.status.reason}
    pods = [each for each in await cluster.all(kinds.POD) if not each.spec.node_name]
    return {each.metadata.name: one.message for each in pods for one in each.status.conditions}


WANTS = st.lists(
    st.tuples(st.floats(0, 3), st.sampled_from("abcdefgh"), st.sampled_from(list(Refresh))), max_size=200
)


@given(WANTS)
def test_turns_keep_to_the_rate_and_reasons_come_first(wants: list[tuple[float, str, Refresh]]) -> None:
    refreshes, now, granted = Refreshes(), 1000.0, list[tuple[float, str]]()
    waiting: dict[str, Refresh] = {}
    for pause, gang, refresh in wants:
        now += pause
        refreshes.want(GangId(gang), refresh)
        if waiting.get(gang) is not Refresh.REASON:
            waiting[gang] = refresh
        for turn in refreshes.due(now):
            urgent = Refresh.REASON in waiting.values()
            assert (waiting.pop(turn) is Refresh.REASON) == urgent
            granted.append((now, turn))
            assert refreshes.take(turn)
            assert not refreshes.take(turn), "one turn is one write"
        for start, _ in granted:
            some = sum(start <= at for at, _ in granted)
            assert some <= BURST + RATE * (now - start) + 1e-3
    while (at := refreshes.next()) is not None:
        assert at >= now
        now = at
        turns = list(refreshes.due(now))
        assert turns, "a timer that is due has a turn"
        for turn in turns:
            del waiting[turn]
    assert waiting == {}, "each has its turn"
