"""Muster writes what the schedulers of other projects write, field by field, but for what is listed."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from muster.api import groups, kinds
from muster.api.base import Object
from muster.api.groups import Dialect
from muster.runtime.reports.conditions import MISSING
from tests.runtime.test_few_writes import running
from tests.runtime.test_loop import Cluster
from tests.upstream.statuses import FILES, NAMESPACE, SCENARIOS, Scenario, World, called
from tests.upstream.statuses.differences import DIFFERENT

HERE: Final = Path(__file__).parent / "statuses"
RECORDED: Final = {dialect: json.loads((HERE / file).read_text()) for dialect, file in FILES.items()}
#: Seconds, in virtual time, after which muster has come to rest: it says after a minute what pods wait for.
_REST: Final = MISSING + 20.0


async def played(dialect: Dialect, scenario: Scenario) -> dict[str, Object]:
    """What is seen of a scenario on muster."""
    cluster = Cluster()

    async def rest(_: float) -> None:
        for _ in range(4):
            await asyncio.sleep(_REST / 4)
            for pod in await cluster.all(kinds.POD):
                if pod.metadata.deletion_timestamp is not None:
                    name = pod.metadata.name
                    await cluster.client.delete(kinds.POD, NAMESPACE, name, grace_period=0)

    async with running(cluster, nodes=0):
        world = World(cluster.client, dialect, "muster", rest)
        if dialect is groups.VOLCANO:
            for name in ("root", "default"):
                await world.queue(name)
        await scenario(world)
        return world.seen


def fields(seen: dict[str, Any]) -> Iterator[tuple[str, str]]:  # Any: JSON
    """By step and field, what is compared; "": there is none. Of pods how many of them say the same."""
    for step, found in seen.items():
        group = found["group"] or {}
        for name in ("phase", "scheduled", "running", "succeeded", "failed"):
            yield f"{step}/{name}", str(group.get(name, ""))
        told = {each["type"]: f"{each['status']} {each['reason']}" for each in group.get("conditions", ())}
        for type_ in ("Unschedulable", "Scheduled", "PodGroupInitiallyScheduled", "DisruptionTarget"):
            yield f"{step}/{type_}", told.get(type_, "")
        yield f"{step}/pods", "; ".join(sorted(map(_pod, found["pods"].values())))


def _pod(pod: dict[str, Any]) -> str:  # Any: JSON
    conditions = (f"{each['type']}={each['status']} {each['reason']}".strip() for each in pod["conditions"])
    nominated = ["nominated"] if pod.get("nominated") else []
    return " ".join([pod["phase"], "bound" if pod["bound"] else "unbound", *nominated, *conditions])


async def different(dialect: Dialect, name: str) -> dict[str, tuple[str, str]]:
    """By field, what upstream writes and what muster writes, where these differ."""
    theirs = dict(fields(RECORDED[dialect][name]))
    ours = dict(fields(await played(dialect, called(SCENARIOS[dialect])[name])))
    assert theirs.keys() == ours.keys()
    return {
        f"{dialect.name}/{name}/{field}": (theirs[field], ours[field])
        for field in theirs
        if theirs[field] != ours[field]
    }


CASES: Final = [
    pytest.param(dialect, name, id=f"{dialect.name} {name}")
    for dialect, scenarios in SCENARIOS.items()
    for name in called(scenarios)
]


@pytest.mark.looptime
@pytest.mark.parametrize(("dialect", "name"), CASES)
async def test_statuses_are_those_of_upstream_but_for_what_is_listed(dialect: Dialect, name: str) -> None:
    found = await different(dialect, name)
    assert {
        field: values
        for field, values in found.items()
        if not any(each.allows(field, *values) for each in DIFFERENT)
    } == {}


@pytest.mark.full
@pytest.mark.looptime
async def test_each_difference_that_is_listed_is_one() -> None:
    unseen = {*DIFFERENT}
    for case in CASES:
        dialect, name = case.values
        for field, values in (await different(dialect, name)).items():  # type: ignore[arg-type]
            unseen -= {each for each in DIFFERENT if each.allows(field, *values)}
    assert unseen == set()


def test_as_many_scenarios_were_recorded_as_are_played() -> None:
    for dialect, scenarios in SCENARIOS.items():
        assert RECORDED[dialect].keys() == called(scenarios).keys()
        assert len(scenarios) >= 12
