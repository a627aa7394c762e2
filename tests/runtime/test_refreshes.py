"""What gangs that wait cost the API server while capacity changes, and the figures in their reasons."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import groups, kinds
from muster.api.base import Object
from muster.core.words.gang import GangId
from muster.names import QUEUE
from muster.runtime.budget import BURST, RATE, WriteBudget, Writer
from muster.runtime.commit.refreshes import Refresh, Refreshes
from tests.runtime.test_few_writes import running
from tests.runtime.test_loop import Cluster
from tests.tiers import FULL

#: Writes a second that all gangs that wait may cost together.
MOST = 5.0
GANGS, SECONDS = 40, 40 if FULL else 12


def pod(name: str, cpu: str, labels: Object | None = None, **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [container], **spec}}


@pytest.mark.looptime
@pytest.mark.parametrize("grouped", [True, False], ids=["gangs", "gangs of one"])
async def test_figures_that_change_all_the_time_cost_five_writes_a_second(grouped: bool) -> None:
    """And each gang has its first reason at once, and what is told is true in the end."""
    cluster = Cluster()
    async with running(cluster) as written:
        for node in range(4):  # of 4 CPUs
            cluster.create(kinds.POD, pod(f"base-{node}", "2", nodeName=f"node-{node}"))
        for gang in range(GANGS):
            labels = {}
            if grouped:
                labels = {groups.POD_GROUP.label: f"g-{gang}"}
                spec = {"metadata": {"name": f"g-{gang}"}, "spec": {"minMember": 1}}
                cluster.create(kinds.POD_GROUP_X, spec)
            cluster.create(kinds.POD, pod(f"g-{gang}-0", "3", labels))
        await asyncio.sleep(3)
        told = await reasons(cluster, grouped)
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
        before = await reasons(cluster, grouped)
        cluster.create(kinds.POD, pod("last", "1", nodeName="node-1"))
        await asyncio.sleep(GANGS / RATE + 11)
        after = await reasons(cluster, grouped)
        assert before != after
        assert len(set(after.values())) == 1, "all know the last figures"


async def reasons(cluster: Cluster, grouped: bool) -> dict[str, str]:
    """What each gang that waits says, by its name."""
    if grouped:
        records = await cluster.all(kinds.GANG)
        return {each.metadata.name: each.status.reason.message for each in records if each.status.reason}
    pods = [each for each in await cluster.all(kinds.POD) if not each.spec.node_name]
    return {each.metadata.name: one.message for each in pods for one in each.status.conditions}


@pytest.mark.looptime
async def test_all_that_is_told_of_gangs_that_wait_shares_one_budget() -> None:
    """Gangs, conditions of their pods, Events, queues: the first at once, then each has its turns."""
    cluster = Cluster()
    cluster.create(kinds.QUEUE, {"metadata": {"name": "q"}, "spec": {}})
    async with running(cluster, telling=1) as written:
        for node in range(4):
            cluster.create(kinds.POD, pod(f"base-{node}", "2", nodeName=f"node-{node}"))
        for gang in range(GANGS):
            labels = {groups.POD_GROUP.label: f"g-{gang}", QUEUE: "q"}
            cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": f"g-{gang}"}, "spec": {"minMember": 1}})
            cluster.create(kinds.POD, pod(f"g-{gang}-0", "3", labels))
        await asyncio.sleep(8)
        assert len(await reasons(cluster, True)) == GANGS
        assert len(await reasons(cluster, False)) == GANGS
        assert len(await cluster.all(kinds.EVENT)) == GANGS, "the first of each is told at once"
        before = written.copy()
        for turn in range(12):  # gangs wait for something else every few seconds
            closed = {"spec": {"closed": turn % 2 == 0}}
            cluster.registry.patch(kinds.QUEUE, "", "q", closed)
            await asyncio.sleep(4)
        cost = written - before
        assert cost.total() <= 48 * MOST
        refreshed = ("patch gangs", "patch pods/status", "patch queues/status", "create events")
        assert all(cost[kind] for kind in refreshed), cost
        codes = {each.status.reason.code for each in await cluster.all(kinds.GANG)}
        assert len(codes) == 2, "there are more changes than writes"
        await asyncio.sleep(4 * GANGS / RATE)
        codes = {each.status.reason.code for each in await cluster.all(kinds.GANG)}
        assert codes == {"Fragmented"}, "the last is told in the end"


@pytest.mark.looptime
async def test_the_first_reason_of_a_gang_that_has_a_record_takes_no_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gang that stands gets a reason once it has more pods than there is room for."""
    monkeypatch.setattr("muster.runtime.budget.BURST", 0.0)  # so no refresh is ever granted
    cluster = Cluster()
    async with running(cluster, nodes=2):
        cluster.create(kinds.POD, pod("base", "3", nodeName="node-1"))
        cluster.create(kinds.POD_GROUP_X, {"metadata": {"name": "g"}, "spec": {"minMember": 1}})
        labels = {groups.POD_GROUP.label: "g"}
        cluster.create(kinds.POD, pod("g-0", "3", labels))
        await asyncio.sleep(8)
        (gang,) = await cluster.all(kinds.GANG)
        assert (gang.status.phase, gang.status.reason) == ("Standing", None)
        cluster.create(kinds.POD, pod("g-1", "3", labels))
        await asyncio.sleep(3)
        (gang,) = await cluster.all(kinds.GANG)
        assert gang.status.phase == "Standing"
        assert (first := gang.status.reason) is not None
        cluster.create(kinds.POD, pod("last", "1", nodeName="node-1"))
        await asyncio.sleep(8)
        (gang,) = await cluster.all(kinds.GANG)
        assert gang.status.reason == first, "other figures wait for a turn"


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from(list(Writer))), max_size=300))
def test_writers_that_ask_get_their_turns_within_the_rate(asked: list[tuple[float, Writer]]) -> None:
    budget, now, granted = WriteBudget(), 1000.0, list[float]()
    for pause, writer in asked:
        now += pause
        if budget.take(writer, now):
            granted.append(now)
        else:
            assert budget.next(writer) > now
        for start in granted:
            assert sum(start <= at for at in granted) <= BURST + RATE * (now - start) + 1e-3
    for writer in Writer:  # whatever has been asked for, nobody waits for ever
        assert budget.take(writer, max(now, budget.next(writer)) + 1e-3)


def test_a_writer_that_asks_all_the_time_leaves_the_others_their_turns() -> None:
    budget, now, got = WriteBudget(), 0.0, dict.fromkeys(Writer, 0)
    for _ in range(4000):
        now += 0.01
        while budget.take(Writer.GANGS, now):
            got[Writer.GANGS] += 1
        for other in (Writer.CONDITIONS, Writer.EVENTS):
            got[other] += budget.take(other, now)
    assert sum(got.values()) <= BURST + RATE * 40 + 1
    turns = [got[writer] for writer in (Writer.GANGS, Writer.CONDITIONS, Writer.EVENTS)]
    assert min(turns) >= (RATE * 40) // 3 - 1


WANTS = st.lists(
    st.tuples(st.floats(0, 3), st.sampled_from("abcdefgh"), st.sampled_from(list(Refresh))), max_size=200
)


@given(WANTS)
def test_turns_keep_to_the_rate_and_reasons_come_first(wants: list[tuple[float, str, Refresh]]) -> None:
    refreshes, now, granted = Refreshes(WriteBudget()), 1000.0, list[tuple[float, str]]()
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


@given(st.integers(1, 200), st.lists(st.sampled_from("abc"), max_size=5))
def test_gangs_of_one_namespace_hold_up_no_other_however_many_and_however_urgent(
    many: int, others: list[str]
) -> None:
    refreshes, now, turns = Refreshes(WriteBudget()), 1000.0, list[str]()
    for number in range(many):
        refreshes.want(GangId(f"loud/{number}/stage"), Refresh.REASON)
    for other in others:
        refreshes.want(GangId(f"{other}/gang"), Refresh.FIGURES)
    while (at := refreshes.next()) is not None:
        now = max(now, at)
        turns += [gang.partition("/")[0] for gang in refreshes.due(now)]
    assert len(turns) == many + len({*others})
    for other in {*others}:
        assert turns.index(other) <= len({*others})


def test_a_gang_that_is_gone_waits_no_longer() -> None:
    refreshes = Refreshes(WriteBudget())
    for name in ("a/x", "a/y"):
        refreshes.want(GangId(name), Refresh.FIGURES)
    refreshes.forget(GangId("a/x"))
    assert refreshes.next() is not None
    refreshes.forget(GangId("a/y"))
    assert refreshes.next() is None
