"""No write is repeated without a back-off, whatever it answers."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from muster.api import kinds
from muster.api.base import Object, Resource
from muster.core.words.gang import GangId
from muster.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unanswered,
    Unreachable,
)
from muster.runtime.commit.outcomes import commit_failed
from muster.runtime.commit.view import NEVER, Limits, RetryState
from muster.runtime.loop import PACE
from muster.runtime.plan_record import PlacementPlan, encode
from tests.runtime.model import Cluster, Running
from tests.runtime.server import AnyKind, ServerClient
from tests.tiers import sample

#: Seconds that are watched, and tries of one write in them. An attempt to start a gang writes three times to
#: its Gang; attempts pause for 1, 2, 4, 8 and 16 s, and then for 28 s: 27 of them.
SPAN, MOST = 600.0, 3 * 27

#: What a write may answer; None = success, without any effect.
ANSWERS: dict[str, Exception | None] = {
    "success": None,
    "conflict": Conflict("changed"),
    "not found": NotFound("gone"),
    "exists": AlreadyExists("there"),
    "forbidden": Forbidden("no right"),
    "invalid": Invalid("not so"),
    "webhook": ServerError("the webhook failed"),
    "busy": TooManyRequests("later"),
    "no answer": Unanswered("no answer"),
    "no server": Unreachable("nothing there"),
}
WRITES: list[tuple[str, AnyKind]] = [
    ("create", kinds.GANG),
    ("patch", kinds.GANG),
    ("create", kinds.GANG_PLAN),
    ("create", kinds.POD),
    ("delete", kinds.GANG_PLAN),
    ("patch", kinds.JOB),
    ("patch", kinds.POD),
    ("delete", kinds.POD),
    ("bind", kinds.POD),
]


@dataclass
class Stubborn(ServerClient):
    """Answers one sort of write always the same."""

    stubborn: tuple[str, AnyKind] | None = None
    answer: Exception | None = None
    refused: str = ""  # a pod that no node takes
    asked: Counter[tuple[str, AnyKind, str]] = field(default_factory=Counter)

    async def _do(self, verb: str, kind: AnyKind, key: str, write: Callable[[], Any]) -> Any:
        name = key.rpartition("-")[0] if kind is kinds.GANG_PLAN else key  # whatever the attempt
        self.asked[verb, kind, name] += 1
        tries = self.asked[verb, kind, name]
        assert tries <= MOST, f"{verb} {kind.kind} {key} is repeated without a back-off"
        if (verb, key) == ("bind", self.refused):
            raise Invalid("no node takes it")
        if (verb, kind) != self.stubborn:
            return await super()._do(verb, kind, key, write)
        if self.answer is not None:
            raise self.answer
        return self.server.read(kind, key) if verb == "patch" else Resource()


def play(cluster: Cluster, leader: Running, seconds: float) -> None:
    server = cluster.server
    end = server.time + seconds
    while server.time < end:
        leader.go()
        cluster.settle()
        leader.look()
        idle = 0.0 if leader.mirror.changed.is_set() else leader.leader.idle()
        server.time += max(idle, PACE)


def case(what: Literal["job", "bare", "remade"]) -> Cluster:
    """A gang that takes the nodes of a victim of this kind; or one whose pods are to be recreated."""
    cluster = Cluster()
    cluster.node("a", 2)
    if what != "remade":
        cluster.gang("victim", 2, what)
        first = Running(cluster, 1)
        cluster.settle()
        assert not first.quiesce()
        first.stop()
        cluster.preempts["default/main"] = "default/victim"
    cluster.gang("main", 2, "remade" if what == "remade" else "job")
    cluster.gang("alone", 1, "bare")
    cluster.server.watch = lambda: None  # what must hold after each write is shown elsewhere
    return cluster


@pytest.mark.parametrize("what", sample(["job", "remade", "bare"], 2))
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("stubborn", WRITES, ids=[f"{verb} {kind.kind}" for verb, kind in WRITES])
def test_a_write_that_always_answers_the_same(stubborn: tuple[str, AnyKind], answer: str, what: Any) -> None:
    cluster = case(what)
    client = Stubborn(cluster.server, stubborn=stubborn, answer=ANSWERS[answer])
    client.refused = "default/main-0" if what == "remade" else ""
    leader = Running(cluster, 2, wrap=lambda _: client)
    leader.leader.fencing.first = lambda now: []  # type: ignore[method-assign]  # fences have their own tests
    leader.take_over()
    play(cluster, leader, SPAN)
    leader.stop()


def damaged(name: str, gang: str, blob: str, epoch: int = 1) -> Object:
    spec = {"gang": gang, "epoch": epoch, "attempt": 1, "blob": blob}
    return {"metadata": {"name": name}, "spec": spec}


def blob(gang: str) -> str:
    body = encode(PlacementPlan(GangId(gang), "job-main", "default", 1, 1, {}))
    return str(body["spec"]["blob"])


PLANS = {
    "no blob": damaged("job-main-1", "job-main", ""),
    "a blob that is none": damaged("job-main-1", "job-main", "bm90IHpsaWI="),
    "another name than muster gives": damaged("x", "job-main", "bm90IHpsaWI="),
    "another name, and readable": damaged("x", "job-main", blob("default/main")),
    "another epoch": damaged("job-main-1", "job-main", blob("default/main"), 999_999),
    "of a gang that is not there": damaged("x", "job-gone", blob("default/gone")),
    "of one record, and another gang": damaged("x", "job-gone", blob("default/main")),
    "of no record": damaged("x", "", blob("default/main")),
    "of a gang of another namespace": damaged("x", "job-gone", blob("other/main")),
}


@pytest.mark.parametrize("found", [False, True], ids=["while it leads", "when it begins"])
@pytest.mark.parametrize("forged", PLANS.values(), ids=PLANS)
def test_a_damaged_plan_is_deleted_once(forged: Object, found: bool) -> None:
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.gang("main", 2, "job")
    cluster.settle()
    client = Stubborn(cluster.server)
    leader = Running(cluster, 1)
    leader.quiesce()
    leader.stop()
    cluster.server.watch = lambda: None  # which reads all plans
    if found:
        cluster.server.create(kinds.GANG_PLAN, "default", forged)
    leader = Running(cluster, 2, wrap=lambda _: client)
    leader.take_over()
    play(cluster, leader, 5.0)
    if not found:
        cluster.server.create(kinds.GANG_PLAN, "default", forged)
        leader.look()
    play(cluster, leader, 120.0)
    assert cluster.outcome("main", 2) == "whole"
    assert not cluster.server.all(kinds.GANG_PLAN)
    deleted = [asked for asked in client.asked.elements() if asked[:2] == ("delete", kinds.GANG_PLAN)]
    assert len(deleted) == 1
    made = client.asked.total()
    play(cluster, leader, SPAN)
    assert client.asked.total() == made, "nothing has changed, nothing is written"
    leader.stop()


@pytest.mark.parametrize(
    "forged",
    [{"blob": ""}, {"blob": "bm90IHpsaWI="}, {"blob": blob("default/main"), "epoch": 999_999}],
    ids=["no blob", "a blob that is none", "another epoch"],
)
@pytest.mark.parametrize("found", [False, True], ids=["while it leads", "when it begins"])
def test_a_damaged_plan_in_a_gang_is_removed_once(forged: Object, found: bool) -> None:
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.gang("main", 2, "job")
    cluster.settle()
    leader = Running(cluster, 1)
    leader.quiesce()
    leader.stop()
    if found:
        cluster.server.patch(kinds.GANG, "default/job-main", {"plan": forged})
    client = Stubborn(cluster.server)
    leader = Running(cluster, 2, wrap=lambda _: client)
    leader.take_over()
    play(cluster, leader, 5.0)
    if not found:
        cluster.server.patch(kinds.GANG, "default/job-main", {"plan": forged})
        leader.look()
    play(cluster, leader, 120.0)
    assert cluster.outcome("main", 2) == "whole"
    assert not cluster.plans()
    assert [asked for asked in client.accepted if asked[1] is kinds.GANG] == [
        ("patch", kinds.GANG, "default/job-main")
    ]
    leader.stop()


def test_a_plan_whose_gang_is_changed_is_deleted_once() -> None:
    """A plan is never patched by muster; anybody else may do it."""
    cluster = Cluster()
    cluster.node("a", 2)
    cluster.gang("main", 2, "job")
    cluster.settle()
    client = Stubborn(cluster.server, stubborn=("delete", kinds.GANG_PLAN), answer=Forbidden("not yet"))
    leader = Running(cluster, 2, wrap=lambda _: client, limits=Limits(held_plan=0))
    leader.take_over()
    play(cluster, leader, 30.0)
    (plan,) = cluster.server.all(kinds.GANG_PLAN)
    cluster.server.patch(kinds.GANG_PLAN, plan.key, {"spec": {"gang": "job-other"}})
    client.stubborn = None
    leader.look()
    play(cluster, leader, 60.0)
    assert not cluster.server.all(kinds.GANG_PLAN)
    made = client.asked.total()
    play(cluster, leader, SPAN)
    assert client.asked.total() == made
    leader.stop()


@pytest.mark.parametrize("attempts", [5, 10_000], ids=["waits for a change", "tries for ever"])
def test_a_gang_may_fail_any_number_of_times(attempts: int) -> None:
    """Each change of a node or of the gang ends its back-off, and so allows one more failure."""
    limits, state = Limits(attempts=attempts), RetryState()
    for failures in range(1, 3_000):
        state, _ = commit_failed(GangId("default/main"), state, "refused", 100.0, limits)
        assert state.failures == failures
        pause = limits.back_off[1] if failures > 10 else state.until - 100.0
        assert state.until == (NEVER if failures >= attempts else 100.0 + pause)
