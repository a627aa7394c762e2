"""Executing effects: order, what goes together, and what counts as success."""

from datetime import timedelta

import pytest

from muster.api.kinds import EVENT, GANG, JOB, POD
from muster.effects import Absent, Create, Delete, Effect, Patch, RecordEvent, Requeue
from muster.effects.execute import Outcome, attempt, execute, execute_all
from muster.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, Unreachable
from tests.controllers.memory import START, Memory, MemoryClient

ABOUT = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "ns", "name": "j", "uid": "u"}


@pytest.fixture
def client() -> MemoryClient:
    return MemoryClient(Memory())


async def executed(client: MemoryClient, *effects: Effect) -> list[Outcome[Effect]]:
    """Raises the first error."""
    outcomes = await execute_all(effects, lambda effect: attempt(client, effect, START))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return outcomes


def pod(name: str) -> Create:
    return Create(POD, "ns", {"metadata": {"name": name}})


@pytest.mark.looptime
async def test_runs_go_together_and_in_order(client: MemoryClient) -> None:
    label = {"metadata": {"labels": {"x": "1"}}}
    effects: list[Effect] = [
        *(pod(f"p{n}") for n in range(3)),
        Patch(POD, "ns", "p0", label),
        Patch(POD, "ns", "p1", label),
        Patch(POD, "ns", "p0", {"metadata": {"labels": {"x": "2"}}}),  # after the first one of p0
        Delete(POD, "ns", "p2", "uid-3"),
    ]
    await executed(client, *effects)
    assert [operation for operation, _, _ in client.calls] == ["create"] * 3 + ["patch"] * 3 + ["delete"]
    assert client.most_under_way == 3
    assert client.memory.read(POD, "ns/p0").metadata.labels == {"x": "2"}


async def test_tells_the_revisions_of_writes(client: MemoryClient) -> None:
    client.memory.create(JOB, "ns", {"metadata": {"name": "j"}})
    outcomes = await executed(
        client, pod("a"), pod("b"), Patch(JOB, "ns", "j", {"spec": {"suspend": True}}), Requeue(START)
    )
    assert [outcome.revision for outcome in outcomes] == [2, 3, 4, 0]


async def test_an_object_that_is_gone_need_not_be_patched_or_deleted(client: MemoryClient) -> None:
    outcomes = await executed(
        client, Patch(POD, "ns", "p", {"spec": {}}), Delete(POD, "ns", "p", "u"), Absent(POD, "ns", "p", "u")
    )
    assert [outcome.revision for outcome in outcomes] == [0, 0, 0]


async def test_a_patch_may_need_its_object(client: MemoryClient) -> None:
    with pytest.raises(NotFound):
        await executed(client, Patch(POD, "ns", "p", {"spec": {}}, missing_ok=False))


async def test_a_patch_with_tests_applies_whatever_else_has_changed(
    client: MemoryClient,
) -> None:
    status = {"epoch": 3, "attempt": 1, "reason": {"code": "x"}, "bound": 2}
    made = {"metadata": {"name": "g"}, "spec": {"queue": "q"}, "status": status, "plan": {"epoch": 3}}
    client.memory.create(GANG, "ns", made)
    client.memory.patch(GANG, "ns", "g", {"status": {"running": 7}})
    body = {"plan": None, "status": {"reason": None, "phase": "Standing"}}
    tests = {"/status/epoch": 3, "/plan/epoch": 3}
    await executed(client, Patch(GANG, "ns", "g", body, tests=tests))
    after = client.memory.json(GANG, "ns/g")
    assert "plan" not in after
    assert after["spec"] == {"queue": "q"}
    assert after["status"] == {"epoch": 3, "attempt": 1, "bound": 2, "running": 7, "phase": "Standing"}
    for again in (body, {"status": {"phase": "Waiting"}}):
        with pytest.raises(Conflict, match="Gang g is not as it was seen"):
            await executed(client, Patch(GANG, "ns", "g", again, tests=tests))
    assert client.memory.json(GANG, "ns/g") == after


@pytest.mark.parametrize("error", [Invalid("a field is wrong"), Forbidden("no")])
async def test_a_patch_that_is_refused_is_no_conflict(client: MemoryClient, error: ApiError) -> None:
    client.fault = lambda operation, kind, name: error
    with pytest.raises(type(error)):
        await executed(client, Patch(POD, "ns", "p", {"spec": {}}, tests={"/spec/x": 1}))


async def test_absent_stops_what_follows(client: MemoryClient) -> None:
    client.memory.create(POD, "ns", {"metadata": {"name": "p"}})
    with pytest.raises(Conflict):
        await executed(client, Absent(POD, "ns", "p", "uid-1"), Delete(POD, "ns", "p", "uid-1"))
    assert len(client.memory.all(POD)) == 1
    with pytest.raises(Conflict, match="Pod p exists"):
        await executed(client, Absent(POD, "ns", "p", ""), Delete(POD, "ns", "p", "uid-1"))
    await executed(client, Absent(POD, "ns", "another", ""))
    await executed(client, Absent(POD, "ns", "p", "another"), Delete(POD, "ns", "p", "uid-1"))
    assert client.memory.all(POD) == []


async def test_of_a_refused_run_all_are_tried_and_nothing_after_it(client: MemoryClient) -> None:
    client.fault = lambda operation, kind, name: Forbidden("no more") if name in ("p1", "p2") else None
    effects: list[Effect] = [*(pod(f"p{n}") for n in range(4)), Delete(POD, "ns", "p0", "uid-1")]
    outcomes = await execute_all(effects, lambda effect: attempt(client, effect, START))
    assert [pod.metadata.name for pod in client.memory.all(POD)] == ["p0", "p3"]
    assert [outcome.error is not None for outcome in outcomes] == [False, True, True, False]


async def test_an_event_that_cannot_be_recorded_stops_nothing(
    client: MemoryClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.fault = lambda operation, kind, name: Unreachable("down") if kind is EVENT else None
    await executed(client, RecordEvent(ABOUT, "Normal", "Done", "done"), pod("p"))
    assert len(client.memory.all(POD)) == 1
    assert "event Done about j not recorded: down" in caplog.text


async def test_an_event_that_is_recorded_once_stays_one_event(client: MemoryClient) -> None:
    for hours in range(3):
        for once in ("a", "b"):
            event = RecordEvent(ABOUT, "Normal", "Skipped", "skipped", once)
            await execute(client, event, START + timedelta(hours=hours))
    assert len(client.memory.all(EVENT)) == 2


async def test_events_of_one_moment_are_one_if_they_say_the_same(client: MemoryClient) -> None:
    same = RecordEvent(ABOUT, "Normal", "Done", "done")
    await executed(client, same, same, RecordEvent(ABOUT, "Normal", "Done", "x" * 2000))
    assert [len(event.message) for event in client.memory.all(EVENT) if event.message != "done"] == [1024]
    assert len(client.memory.all(EVENT)) == 2


@pytest.mark.parametrize("error", [Forbidden, NotFound])
async def test_an_object_created_at_best_effort_may_be_forbidden(
    client: MemoryClient, error: type[Forbidden | NotFound]
) -> None:
    client.fault = lambda operation, kind, name: error("is being terminated") if name == "p" else None
    wanted = Create(POD, "ns", {"metadata": {"name": "p"}}, best_effort=True)
    assert [each.revision for each in await executed(client, wanted)] == [0]
    with pytest.raises(error):
        await executed(client, pod("p"))


def used_by(*uids: str) -> Create:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid} for uid in uids]
    return Create(POD, "ns", {"metadata": {"name": "p", "ownerReferences": owners}})


def owners(client: MemoryClient) -> list[str]:
    return [each.uid for each in client.memory.read(POD, "ns/p").metadata.owner_references]


async def test_an_object_that_exists_gets_the_new_owner_too(client: MemoryClient) -> None:
    await executed(client, used_by("a"), used_by("b"), used_by("a"), used_by("b"))
    assert owners(client) == ["a", "b"]
    assert [operation for operation, _, _ in client.calls].count("patch") == 1


async def test_an_object_without_owners_stays_without(client: MemoryClient) -> None:
    await executed(client, pod("p"), used_by("a"))
    assert owners(client) == []


async def test_an_object_that_is_being_deleted_gets_no_more_owners(client: MemoryClient) -> None:
    await executed(client, used_by("a"))
    client.memory.patch(POD, "ns", "p", {"metadata": {"finalizers": ["example.com/slow"]}})
    client.memory.delete(POD, "ns", "p")
    with pytest.raises(Conflict, match="being deleted"):
        await executed(client, used_by("b"))


async def test_two_owners_that_are_added_at_the_same_time_are_both_kept(client: MemoryClient) -> None:
    """The second write was decided on what the first one has changed: it is refused, and tried again."""
    await executed(client, used_by("a"))

    def first(operation: str, kind: object, name: str) -> None:
        if operation == "patch" and owners(client) == ["a"]:
            more = used_by("a", "b").body["metadata"]["ownerReferences"]
            client.memory.patch(POD, "ns", "p", {"metadata": {"ownerReferences": more}})

    client.fault = first
    with pytest.raises(Conflict):
        await executed(client, used_by("c"))
    await executed(client, used_by("c"))
    assert owners(client) == ["a", "b", "c"]
