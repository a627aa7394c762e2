"""Claims of devices that others change while a gang starts, and starts that fail with devices allocated."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.api.resource_v1 import ResourceClaim
from muster.core.cycle import Scheduler
from muster.kube.errors import Forbidden, ServerError
from muster.names import PLAN
from muster.runtime.leader import ANSWERS
from tests.runtime.model import Cluster, Kind, Running
from tests.runtime.server import AnyKind, ServerClient

FOREIGN = "default/foreign"


@dataclass
class Start:
    """A gang of two pods with claims, on nodes with some devices, and another that needs a third device."""

    kind: Kind
    devices: tuple[int, int]
    cluster: Cluster = field(default_factory=Cluster)
    by_number: bool = False
    fault: Callable[[str, AnyKind, str], tuple[Exception, bool] | None] = lambda verb, kind, key: None

    def __post_init__(self) -> None:
        for node, number in zip(("a", "b"), self.devices, strict=True):
            self.cluster.node(node, 2)
            self.cluster.devices(node, number)
        self.cluster.node("c", 1)
        self.cluster.devices("c", 1)
        self.cluster.claiming |= {"main", "next"}
        self.cluster.by_number |= {"main"} if self.by_number else set()
        self.cluster.gang("main", 2, self.kind)
        self.cluster.settle()

    def leader(self, epoch: int = 2) -> Running:
        def wrap(client: ServerClient) -> ServerClient:
            return ServerClient(client.server, lambda *write: self.fault(*write))

        running = Running(self.cluster, epoch, wrap=wrap)
        running.core = running.leader._core
        return running

    def run(self, leader: Running, seconds: float) -> None:
        """All act for so long."""
        server = self.cluster.server
        until = server.time + seconds
        while server.time < until:
            revision = server.revision
            leader.go()
            self.cluster.settle()
            leader.look()
            if server.revision == revision and not leader.mirror.changed.is_set():
                server.time += min(max(leader.leader.idle(), 0.01), 1.0)

    def claims(self) -> list[ResourceClaim]:
        return [each for each in self.cluster.server.all(kinds.RESOURCE_CLAIM) if each.key != FOREIGN]

    def held(self) -> list[str]:
        """The devices that claims of gangs have, with the pool."""
        allocations = (each.status.allocation for each in self.claims())
        results = (each for one in allocations if one is not None for each in one.devices.results)
        return sorted(f"{each.pool}/{each.device}" for each in results)


def allocation(pool: str, device: str) -> Object:
    result = {"request": "gpu", "driver": "d", "pool": pool, "device": device}
    return {"devices": {"results": [result]}}


def take(start: Start) -> None:
    """Another scheduler gives another claim the first device of node a that is free."""
    held = start.held()
    free = next(str(each) for each in range(start.devices[0]) if f"a/{each}" not in held)
    server = start.cluster.server
    claim = {"metadata": {"name": "foreign"}, "spec": CLAIM}
    server.create(kinds.RESOURCE_CLAIM, "default", claim)
    server.patch(kinds.RESOURCE_CLAIM, FOREIGN, {"status": {"allocation": allocation("a", free)}}, "status")


CLAIM: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}


def writes_of(kind: Kind, devices: tuple[int, int]) -> int:
    running = Start(kind, devices).leader()
    running.quiesce()
    return running.writes


@pytest.mark.parametrize("kind", ["job", "bare"])
def test_a_gang_gets_another_device_if_its_own_is_taken_before_its_claim_is_written(kind: Kind) -> None:
    """After any write of the start: the other gang starts all the same."""
    for i in range(writes_of(kind, (2, 1)) + 1):
        start = Start(kind, (2, 1))
        leader = start.leader()
        leader.quiesce(writes=i)
        if "a/0" in start.held() and "a/1" in start.held():
            leader.stop()
            continue
        take(start)
        start.cluster.gang("next", 1, "bare")
        leader.quiesce()
        leader.stop()
        assert start.cluster.outcome("main", 2) == "whole"
        assert start.cluster.outcome("next", 1) in ("whole", "waiting")
        assert not start.cluster.plans()


@pytest.mark.parametrize("kind", ["job", "bare"])
def test_a_gang_whose_device_is_taken_waits_and_keeps_none_until_it_is_free_again(kind: Kind) -> None:
    for i in range(writes_of(kind, (1, 0)) + 1):
        start = Start(kind, (1, 0))
        leader = start.leader()
        leader.quiesce(writes=i)
        if "a/0" in start.held():
            leader.stop()
            continue
        take(start)
        leader.quiesce()
        assert start.cluster.outcome("main", 2) == "waiting"
        assert start.held() == []
        start.cluster.check_freed()
        start.cluster.server.delete(kinds.RESOURCE_CLAIM, FOREIGN)
        leader.quiesce()
        leader.stop()
        assert start.cluster.outcome("main", 2) == "whole"
        assert start.held() == ["a/0", "c/0"]


@pytest.mark.parametrize("kind", ["job", "bare"])
def test_a_claim_that_others_allocate_keeps_its_gang_waiting_and_is_left_alone(kind: Kind) -> None:
    """A client that is no scheduler of the pod gives its claim a device, and takes it back later."""
    for i in range(writes_of(kind, (1, 1)) + 1):
        start = Start(kind, (1, 1))
        leader = start.leader()
        leader.quiesce(writes=i)
        free = [each for each in start.claims() if each.status.allocation is None]
        if not free or start.cluster.bound("main"):
            leader.stop()
            continue
        server, key = start.cluster.server, free[-1].key
        server.patch(kinds.RESOURCE_CLAIM, key, {"metadata": {"annotations": {PLAN: None}}})
        server.patch(kinds.RESOURCE_CLAIM, key, {"status": {"allocation": allocation("z", "9")}}, "status")
        before = leader.writes
        start.run(leader, 300)
        if kind == "bare":  # a Job that is suspended loses its pods, and their claims
            assert start.cluster.bound("main") == 0
            assert start.held() == ["z/9"]
            assert leader.writes - before < 60
            server.patch(kinds.RESOURCE_CLAIM, key, {"status": {"allocation": None}}, "status")
            start.run(leader, 60)
        leader.stop()
        assert start.cluster.outcome("main", 2) == "whole"
        assert not start.cluster.plans()


@pytest.mark.parametrize("which", [0, -1])
@pytest.mark.parametrize("kind", ["job", "bare"])
def test_a_claim_that_is_deleted_is_made_again_and_allocated(kind: Kind, which: int) -> None:
    """One that has devices is freed first: until then its finalizer keeps it, and its devices."""
    held = 0
    for i in range(writes_of(kind, (1, 0)) + 1):
        start = Start(kind, (1, 0))
        leader = start.leader()
        leader.quiesce(writes=i)
        claims = start.claims()
        if not claims or start.cluster.bound("main"):
            leader.stop()
            continue
        held += bool(claims[which].metadata.finalizers)
        start.cluster.server.delete(kinds.RESOURCE_CLAIM, claims[which].key)
        start.run(leader, 300)
        leader.stop()
        assert start.cluster.outcome("main", 2) == "whole"
    assert held


@pytest.mark.parametrize("part", [None, "status"])
@pytest.mark.parametrize("kind", ["job", "bare"])
def test_a_refused_allocation_binds_nothing_and_is_retried(kind: Kind, part: str | None) -> None:
    """One of two claims is refused, as a whole or from its status on; the other one is freed meanwhile."""
    start = Start(kind, (1, 1))
    refuses = True

    def fault(verb: str, of: AnyKind, key: str) -> tuple[Exception, bool] | None:
        if not refuses or of is not kinds.RESOURCE_CLAIM or "main-1" not in key:
            return None
        marked = PLAN in start.cluster.server.objects[of, key]["metadata"].get("annotations", {})
        return (Forbidden("not these devices"), False) if part is None or marked else None

    start.fault = fault
    leader = start.leader()
    leader.take_over()
    for _ in range(20):
        start.run(leader, 0.5)
        assert start.cluster.bound("main") == 0
    assert "not these devices" in leader.core.failed[-1]
    refuses = False
    leader.quiesce()
    leader.stop()
    assert start.cluster.outcome("main", 2) == "whole"


@pytest.mark.parametrize("kind", ["job", "bare", "free job"])
def test_devices_of_a_start_that_fails_are_free_again(kind: Kind) -> None:
    """A member is refused for ever: whatever the moment, none of the claims keeps a device for long."""
    start = Start(kind, (1, 1))
    start.fault = lambda verb, of, key: (Forbidden("never"), False) if verb == "bind" else None
    leader = start.leader()
    leader.take_over()
    freed = 0
    for _ in range(40):
        start.run(leader, 1.0)
        freed += not start.held() and not start.cluster.plans()
    leader.stop()
    assert start.cluster.bound("main") == 0
    assert freed > 10


@pytest.mark.parametrize("kind", [pytest.param("job", marks=pytest.mark.full), "bare"])
def test_a_leader_with_musters_own_core_dies_after_any_write(kind: Kind) -> None:
    """There are as many devices as pods: one that is left with a claim would keep the gang from starting."""
    i, more = 0, True
    while more:
        start = Start(kind, (1, 0))
        first = Running(start.cluster, 2, core=Scheduler())
        more = first.quiesce(writes=i)
        first.stop()
        start.cluster.server.time += 20.0
        second = Running(start.cluster, 3, core=Scheduler())
        second.quiesce()
        second.stop()
        assert start.cluster.outcome("main", 2) == "whole"
        assert start.held() == ["a/0", "c/0"]
        assert not start.cluster.plans()
        i += 1


def selective(kind: Kind, *, by_number: bool = False) -> Start:
    """There are as many devices as pods; an expression of the class selects them."""
    start = Start(kind, (1, 0), by_number=by_number)
    selectors = [{"cel": {"expression": "device.driver == 'd'"}}]
    start.cluster.server.patch(kinds.DEVICE_CLASS, "gpus", {"spec": {"selectors": selectors}})
    return start


def answer(running: Running) -> None:
    for expression, devices in running.mirror.devices.questions():
        running.mirror.devices.tell(expression, devices, [True] * len(devices))
    running.mirror.changed.set()


def interrupted(start: Start, writes: int) -> bool:
    """A leader with all answers makes so many writes; whether it would have made more."""
    first = Running(start.cluster, 2, core=Scheduler())
    first.take_over()
    answer(first)
    more = first.quiesce(writes=first.writes + writes)
    first.stop()
    return more


@pytest.mark.parametrize("kind", [pytest.param("job", marks=pytest.mark.full), "remade"])
def test_a_new_leader_decides_open_plans_once_it_knows_which_devices_are_selected(kind: Kind) -> None:
    """The answer takes nearly as long as it may: no claim is freed, no pod made again.

    Without an open plan it does not wait.
    """
    i, more, waited = 0, True, 0
    while more:
        start = selective(kind)
        more = interrupted(start, i)
        server, plans, held = start.cluster.server, start.cluster.plans(), start.held()
        allocated = {each.key for each in start.claims() if each.status.allocation is not None}
        pods = {pod.metadata.uid for pod in server.all(kinds.POD)} if held else set()
        second, began, written = Running(start.cluster, 3, core=Scheduler()), server.time, len(server.log)
        while server.time - began < ANSWERS - 0.25:
            second.go()
            start.cluster.settle()
            second.look()
            server.time += 0.25
        assert second.leads == (not plans)
        waited += bool(plans)
        answer(second)
        second.quiesce()
        second.stop()
        assert start.cluster.outcome("main", 2) == "whole"
        assert start.held() == ["a/0", "c/0"]
        assert pods <= {pod.metadata.uid for pod in server.all(kinds.POD)}
        claims = [claim for _, key, claim in server.log[written:] if key in allocated]
        assert all(isinstance(each, ResourceClaim) and each.status.allocation for each in claims)
        i += 1
    assert waited > 4


@pytest.mark.parametrize("by_number", [False, True])
def test_a_new_leader_does_not_wait_for_answers_for_ever(by_number: bool) -> None:
    start = selective("bare", by_number=by_number)
    interrupted(start, 7 if by_number else 5)
    assert start.held()
    second, began = Running(start.cluster, 3, core=Scheduler()), start.cluster.server.time
    second.quiesce()
    assert second.leads
    answer(second)
    second.quiesce()
    second.stop()
    assert start.cluster.outcome("main", 2) == "whole"
    assert start.cluster.server.time > began + ANSWERS


def test_a_new_leader_does_not_wait_for_answers_that_its_plans_do_not_need() -> None:
    """Another gang's claims ask by an expression that is never evaluated."""
    start = Start("bare", (1, 0))
    first = Running(start.cluster, 2, core=Scheduler())
    first.quiesce(writes=6)
    first.stop()
    assert start.cluster.plans()
    selectors = [{"cel": {"expression": "device.driver == 'e'"}}]
    other = {"metadata": {"name": "others"}, "spec": {"selectors": selectors}}
    start.cluster.server.create(kinds.DEVICE_CLASS, "", other)
    second, now = Running(start.cluster, 3, core=Scheduler()), start.cluster.server.time
    while not second.leads and second.mirror.changed.is_set():
        second.go()
        second.look()
    second.stop()
    assert second.mirror.devices.pending
    assert second.leads
    assert start.cluster.server.time == now


@pytest.mark.parametrize("reserved", [False, True])
def test_a_device_of_a_claim_that_its_user_has_marked_is_given_to_no_other(reserved: bool) -> None:
    """Neither by a leader that starts gangs, nor by one that takes over; another device is."""
    start = Start("bare", (3, 0))
    server = start.cluster.server
    start.cluster.gang("evil", 1, "bare")
    held: Object = {"allocation": allocation("a", "0")}
    if reserved:
        uid = server.read(kinds.POD, "default/evil").metadata.uid
        held["reservedFor"] = [{"resource": "pods", "name": "evil", "uid": uid}]
    claim: Object = {"metadata": {"name": "foreign", "annotations": {PLAN: "x"}}, "spec": CLAIM}
    server.create(kinds.RESOURCE_CLAIM, "default", claim)
    server.patch(kinds.RESOURCE_CLAIM, FOREIGN, {"status": held}, "status")
    leader = Running(start.cluster, 2, core=Scheduler())
    leader.take_over()
    leader.quiesce(writes=leader.writes + 4)
    leader.stop()
    assert any(plan.gang == "default/main" for plan in start.cluster.plans())
    leader = Running(start.cluster, 3, core=Scheduler())
    leader.quiesce()
    leader.stop()
    assert start.cluster.outcome("main", 2) == "whole"
    assert "a/0" not in start.held()
    assert not start.cluster.plans()


@pytest.mark.parametrize("kind", [pytest.param("job", marks=pytest.mark.full), "bare"])
def test_claims_that_are_deleted_while_another_leader_takes_over_keep_no_gang_from_starting(
    kind: Kind,
) -> None:
    """They are held by their finalizer, with their devices; there are others for the next gang."""
    i, more, deleted = 0, True, 0
    while more:
        start = Start(kind, (2, 0))
        first = Running(start.cluster, 2, core=Scheduler())
        more = first.quiesce(writes=i)
        first.stop()
        for claim in start.claims() if not start.cluster.bound("main") else ():
            if claim.status.allocation is not None:
                start.cluster.server.delete(kinds.RESOURCE_CLAIM, claim.key)
                deleted += 1
        start.cluster.gang("next", 1, "bare")
        second = Running(start.cluster, 3, core=Scheduler())
        start.run(second, 300)
        second.stop()
        if start.cluster.bound("main") < 2:
            assert start.cluster.bound("next") == 1, start.cluster.record("next")
        i += 1
    assert deleted > 2


@pytest.mark.parametrize("error", [Forbidden("never freed"), ServerError("never freed")], ids=["403", "500"])
@pytest.mark.parametrize("kind", ["bare", "free job"])
def test_a_start_is_undone_although_its_devices_cannot_be_freed(kind: Kind, error: Exception) -> None:
    """A member is never bound. What runs of its gang is ended all the same, and the refusal is the reason."""
    start, refuses = Start(kind, (1, 0)), True

    def fault(verb: str, of: AnyKind, key: str) -> tuple[Exception, bool] | None:
        if verb == "bind" and "main-1" in key and refuses:
            return Forbidden("never bound"), False
        found = start.cluster.server.objects.get((of, key), {})
        allocated = of is kinds.RESOURCE_CLAIM and found.get("status", {}).get("allocation")
        return (error, False) if allocated and "main-1" in key and refuses else None

    start.fault = fault
    leader = start.leader()
    leader.take_over()
    start.run(leader, 60)
    writes = leader.writes
    start.run(leader, 60)
    assert leader.writes - writes < 30  # retried every 28 s
    assert not start.cluster.plans()
    record = start.cluster.record("main")
    assert record is not None
    assert record.status.phase == ("Waiting" if kind == "free job" else "Degraded")
    assert record.status.reason is not None
    assert "never freed" in record.status.reason.message
    if kind == "free job":
        assert start.cluster.bound("main") == 0
    refuses = False
    start.run(leader, 120)
    leader.stop()
    assert start.cluster.outcome("main", 2) == "whole"


@pytest.mark.parametrize("refused", ["create", "status"])
def test_a_refused_write_of_a_claim_by_number_is_a_refusal(refused: str) -> None:
    """The start is undone at once, and tried less and less often; the refusal is the reason."""
    cluster = Cluster()
    cluster.by_number.add("main")
    start, refuses, tries = Start("bare", (1, 0), cluster), True, 0

    def fault(verb: str, of: AnyKind, key: str) -> tuple[Exception, bool] | None:
        nonlocal tries
        makes = verb == "create" and of is kinds.RESOURCE_CLAIM
        tells = verb == "patch" and of is kinds.POD
        if not refuses or not (makes if refused == "create" else tells):
            return None
        tries += 1
        return Forbidden("exceeded quota"), False

    leader = start.leader()
    leader.take_over()
    start.fault = fault
    start.run(leader, 10)
    assert tries < 12
    start.run(leader, 110)
    assert 6 <= tries < 24
    assert start.cluster.bound("main") == 0
    assert not start.held()
    assert not start.cluster.plans()
    assert "exceeded quota" in leader.core.failed[-1]
    refuses = False
    start.run(leader, 60)
    leader.stop()
    assert start.cluster.outcome("main", 2) == "whole"
