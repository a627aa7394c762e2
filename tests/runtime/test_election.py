"""Elections on the embedded store, in virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Kind, Object, revision
from muster.api.scheduling import Lease
from muster.embedded.client import LocalClient
from muster.kube.errors import ServerError, Unanswered, Unreachable
from muster.names import BAD_NODES, CANNOT_READ, PODS_SEEN, SUCCESSOR
from muster.runtime.election import Election, Timing
from muster.runtime.leader import Deposed
from tests.runtime.test_loop import Cluster

pytestmark = pytest.mark.looptime
WHERE = ("muster-system", "scheduler")
TIMING = Timing()


class Faulty:
    """A client of the Lease alone, whose requests can fail before or after they have their effect."""

    def __init__(self, client: LocalClient) -> None:
        #: the server, which can be another one from some moment on
        self.client = client
        #: called with "get", "create", "patch" before (True) and after (False) the request
        self.fault: Callable[[str, bool], None] = lambda verb, before: None
        #: no request is answered any more
        self.hangs = False
        #: seconds until a request has its effect
        self.delay = 0.0

    async def get(self, kind: Kind[Any], namespace: str, name: str) -> Any:
        return await self._with("get", lambda: self.client.get(kind, namespace, name))

    async def create(self, kind: Kind[Any], namespace: str, obj: Object) -> Any:
        return await self._with("create", lambda: self.client.create(kind, namespace, obj))

    async def patch(self, kind: Kind[Any], namespace: str, name: str, patch: Any) -> Any:
        return await self._with("patch", lambda: self.client.patch(kind, namespace, name, patch))

    async def _with(self, verb: str, request: Callable[[], Any]) -> Any:
        self.fault(verb, True)
        await asyncio.sleep(self.delay)
        if self.hangs:
            await asyncio.Event().wait()
        answer = await request()
        self.fault(verb, False)
        return answer


def ready() -> Cluster:
    """Call it in the running loop, whose time it takes."""
    made = Cluster()
    made.create(kinds.NAMESPACE, {"metadata": {"name": WHERE[0]}})
    return made


def candidate(
    cluster: Cluster,
    identity: str,
    timing: Timing = TIMING,
    missing: Sequence[str] = (),
    instance: str = "",
    told: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Election, Faulty]:
    """`missing` is looked at whenever the candidate asks what it cannot read."""
    client: Any = Faulty(cluster.client)  # Any: it has no more than an election needs
    made = Election(
        client, cluster.clock, identity, *WHERE, timing, missing=lambda: missing, instance=instance, told=told
    )
    return made, client


async def lease(cluster: Cluster) -> Lease:
    return await cluster.client.get(kinds.LEASE, *WHERE)


def down(verb: str, before: bool) -> None:
    raise Unreachable("no route")


async def test_the_first_candidate_leads_once_a_leader_of_a_deleted_lease_would_have_stopped() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    began = cluster.clock.monotonic()
    term = await one.win()
    assert TIMING.deadline <= cluster.clock.monotonic() - began <= TIMING.deadline + 2 * TIMING.retry
    assert term.fresh()
    assert one.fresh
    assert not term.sole
    assert term.epoch == (await lease(cluster)).spec.lease_transitions >= 1


async def test_a_candidate_waits_while_the_lease_is_renewed_and_takes_it_when_it_is_not() -> None:
    cluster = ready()
    one, client = candidate(cluster, "one")
    first = await one.win()
    keeping = asyncio.create_task(one.keep())
    two, _ = candidate(cluster, "two")
    winning = asyncio.create_task(two.win())
    await asyncio.sleep(120)
    assert one.fresh
    assert not winning.done()
    client.fault = down
    lost = cluster.clock.monotonic()
    while not winning.done():
        await asyncio.sleep(0.1)
        assert not (one.fresh and two.fresh), "two leaders"
    took = cluster.clock.monotonic() - lost
    assert TIMING.deadline < took <= TIMING.duration + TIMING.retry + 0.2
    assert (await winning).epoch == first.epoch + 1
    await keeping
    assert not first.fresh()


async def test_a_leader_says_once_per_failure_why_it_cannot_renew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = ready()
    one, client = candidate(cluster, "one")
    await one.win()
    keeping = asyncio.create_task(one.keep())
    caplog.clear()
    for _ in range(2):
        client.fault = down
        await asyncio.sleep(TIMING.deadline / 2)
        client.fault = lambda verb, before: None
        await asyncio.sleep(TIMING.deadline)
    assert one.fresh
    assert caplog.messages == ["one cannot renew lease muster-system/scheduler: no route"] * 2
    client.fault = down
    await keeping
    assert caplog.messages[2:] == [
        "one cannot renew lease muster-system/scheduler: no route",
        "one no longer leads",
    ]


@pytest.mark.parametrize("apart", [0.3, 1.1, 1.9])
async def test_a_candidate_takes_the_lease_when_it_ends_and_not_at_its_next_look(apart: float) -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    await one.win()
    await asyncio.sleep(apart)
    two, _ = candidate(cluster, "two")
    seen = cluster.clock.monotonic()
    await two.win()
    assert cluster.clock.monotonic() - seen == pytest.approx(TIMING.duration)


async def test_a_released_lease_is_taken_at_once() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    await one.win()
    two, _ = candidate(cluster, "two")
    winning = asyncio.create_task(two.win())
    await asyncio.sleep(1)
    await one.release()
    assert not one.fresh
    await asyncio.sleep(TIMING.retry + 0.1)
    assert winning.done()
    assert two.fresh


async def test_a_released_lease_tells_the_next_leader_and_only_that_one_which_pods_have_been_seen() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    assert (await one.win()).seen == float("inf")
    await one.release(42)
    two, _ = candidate(cluster, "two")
    assert (await two.win()).seen == 42
    three, _ = candidate(cluster, "three")  # two is gone without a word
    assert (await three.win()).seen == float("inf")
    await three.release()
    four, _ = candidate(cluster, "four")
    assert (await four.win()).seen == float("inf")


async def test_a_lease_is_released_although_the_answer_to_its_last_renewal_was_lost() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    await one.win()
    held = await lease(cluster)  # the renewal took effect, and the leader was stopped before it knew
    await cluster.client.patch(kinds.LEASE, *WHERE, {"spec": {"renewTime": "2026-01-01T00:00:09.000000Z"}})
    assert (await lease(cluster)).metadata.resource_version != held.metadata.resource_version
    await one.release(42)
    two, _ = candidate(cluster, "two")
    began = cluster.clock.monotonic()
    assert (await two.win()).seen == 42
    assert cluster.clock.monotonic() == began


async def test_a_lease_that_another_has_taken_is_not_released() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    await one.win()
    await cluster.client.patch(kinds.LEASE, *WHERE, {"spec": {"holderIdentity": "two"}})
    await one.release(42)
    assert (await lease(cluster)).spec.holder_identity == "two"


async def test_a_release_counts_only_for_the_term_that_follows_it() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    await one.win()
    await one.release(42)
    spec = {"leaseTransitions": 1_000_000_000}  # another program has led meanwhile, and left the annotation
    await cluster.client.patch(kinds.LEASE, *WHERE, {"spec": spec})
    two, _ = candidate(cluster, "two")
    assert (await two.win()).seen == float("inf")


async def test_a_leader_whose_lease_is_deleted_stops_before_another_leads() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one")
    first = await one.win()
    keeping = asyncio.create_task(one.keep())
    await asyncio.sleep(3600)
    await cluster.client.delete(kinds.LEASE, *WHERE)
    two, _ = candidate(cluster, "two")
    winning = asyncio.create_task(two.win())
    while not winning.done():
        await asyncio.sleep(0.1)
        assert not (one.fresh and two.fresh), "two leaders"
    assert (await winning).epoch > first.epoch + 3600 - 60
    with pytest.raises(Deposed, match="or the lease deleted"):
        await keeping


async def emptied(cluster: Cluster, path: Path) -> Cluster:
    """Another store, without the Lease."""
    return ready()


async def emptied_and_led(cluster: Cluster, path: Path) -> Cluster:
    """Another store, in which the Lease has been made anew, and has been written more often than before."""
    other = ready()
    three, _ = candidate(other, "three")
    await three.win()
    while revision((await lease(other)).metadata.resource_version) < 100:
        await other.client.patch(kinds.LEASE, *WHERE, {"spec": {"holderIdentity": ""}})
        await other.client.patch(kinds.LEASE, *WHERE, {"spec": {"holderIdentity": "three"}})
    return other


async def restored(cluster: Cluster, path: Path) -> Cluster:
    """The store as it is now, restored after a while in which the Lease has been renewed."""
    cluster.store.execute("VACUUM INTO ?", [str(path)])
    await asyncio.sleep(60)
    return Cluster(path)


@pytest.mark.parametrize("replace", [emptied, emptied_and_led, restored])
async def test_a_candidate_does_not_lead_in_a_store_that_is_not_the_one_it_has_watched(
    replace: Callable[[Cluster, Path], Awaitable[Cluster]], tmp_path: Path
) -> None:
    """Its copy of the objects is another store's, and no watch says so (kubernetes/kubernetes#107457)."""
    cluster = ready()
    one, _ = candidate(cluster, "one")
    await one.win()
    keeping = asyncio.create_task(one.keep())
    two, client = candidate(cluster, "two")
    winning = asyncio.create_task(two.win())
    await asyncio.sleep(3)
    other = await replace(cluster, tmp_path / "backup")
    client.client = other.client
    with pytest.raises(Deposed, match="emptied or restored"):
        await asyncio.wait_for(winning, 2 * TIMING.retry)
    assert not two.fresh
    keeping.cancel()
    other.store.close()


@pytest.mark.parametrize("replace", [emptied, emptied_and_led, restored])
async def test_a_leader_does_not_go_on_in_a_store_that_is_not_the_one_it_has_watched(
    replace: Callable[[Cluster, Path], Awaitable[Cluster]], tmp_path: Path
) -> None:
    """A restored Lease names the leader, which would renew it, and decide by a copy from the future."""
    cluster = ready()
    one, client = candidate(cluster, "one")
    term = await one.win()
    keeping = asyncio.create_task(one.keep())
    other = await replace(cluster, tmp_path / "backup")
    client.client = other.client
    await asyncio.wait({keeping}, timeout=TIMING.deadline + 0.1)
    assert keeping.done()
    assert not term.fresh()
    assert (keeping.exception() is None) == (replace is emptied), "without a Lease it only cannot renew"
    before = other.store.revision
    await one.release(42)
    assert other.store.revision == before
    other.store.close()


async def test_a_leader_that_stops_as_the_store_is_replaced_stops_without_a_failure(tmp_path: Path) -> None:
    cluster = ready()
    one, client = candidate(cluster, "one")
    await one.win()
    other = await emptied_and_led(cluster, tmp_path)
    client.client = other.client
    await one.release(42)
    assert (await lease(other)).spec.holder_identity == "three"
    other.store.close()


@pytest.mark.parametrize("verb", ["get", "create", "patch"])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("error", [ServerError("500"), Unanswered("cut off"), Unreachable("down")])
async def test_a_request_that_fails_once_changes_nothing(verb: str, before: bool, error: Exception) -> None:
    cluster = ready()
    one, client = candidate(cluster, "one")
    failures = [error]

    def fail(asked: str, when: bool) -> None:
        if (asked, when) == (verb, before) and failures:
            raise failures.pop()

    client.fault = fail
    term = await one.win()
    assert (await lease(cluster)).spec.holder_identity == "one"
    keeping = asyncio.create_task(one.keep())
    failures.append(error)
    await asyncio.sleep(60)
    assert term.fresh()
    assert not keeping.done()
    assert (await lease(cluster)).spec.lease_transitions == term.epoch
    keeping.cancel()


@pytest.mark.parametrize("delay", [1.9, 3.0, 4.9])
async def test_a_leader_keeps_its_lease_though_each_answer_takes_seconds(delay: float) -> None:
    """And another takes it in time once it is free. client-go waits for half of the deadline, too."""
    cluster = ready()
    one, first = candidate(cluster, "one")
    term = await one.win()
    keeping = asyncio.create_task(one.keep())
    two, second = candidate(cluster, "two")
    first.delay = second.delay = delay
    winning = asyncio.create_task(two.win())
    for _ in range(1200):
        await asyncio.sleep(0.1)
        assert term.fresh()
    assert not keeping.done()
    assert not winning.done()
    keeping.cancel()
    await asyncio.wait_for(winning, TIMING.duration + 2 * (delay + TIMING.retry))


async def test_an_attempt_that_hangs_is_given_up() -> None:
    cluster = ready()
    one, client = candidate(cluster, "one")
    term = await one.win()

    client.hangs = True
    began = cluster.clock.monotonic()
    await one.keep()
    assert cluster.clock.monotonic() - began <= TIMING.deadline + 2 * TIMING.retry
    assert not term.fresh()


@pytest.mark.parametrize("timing", [TIMING, Timing(15.0, 14.0, 5.0), Timing(5.0, 4.0, 3.0)])
@pytest.mark.parametrize("hangs", [True, False])
async def test_a_leader_stops_before_a_candidate_may_take_its_lease(timing: Timing, hangs: bool) -> None:
    """What it leads is told by the end of `keep`; controllers ask nothing else."""
    cluster = ready()
    one, client = candidate(cluster, "one", timing)
    await one.win()
    renewed = cluster.clock.monotonic()
    client.hangs, client.fault = hangs, (lambda verb, before: None) if hangs else down
    await one.keep()
    assert cluster.clock.monotonic() - renewed == pytest.approx(timing.deadline)


async def test_a_term_counts_from_when_its_renewal_was_asked_for() -> None:
    """However late the answer: another candidate counts from when the server had the renewal."""
    cluster = ready()
    one, client = candidate(cluster, "one")
    term = await one.win()
    asked: list[float] = []

    def answered_once(verb: str, before: bool) -> None:
        if verb == "patch" and before:
            asked.append(cluster.clock.monotonic())
        client.hangs = len(asked) > 1

    client.fault, client.delay = answered_once, TIMING.answer - 0.1
    keeping = asyncio.create_task(one.keep())
    await asyncio.sleep(TIMING.retry + 0.1)
    await asyncio.sleep(asked[0] + TIMING.deadline - 0.05 - cluster.clock.monotonic())
    assert term.fresh()
    await asyncio.sleep(0.1)
    assert not term.fresh()
    await keeping


async def test_a_lease_that_is_held_is_no_release_whatever_it_notes() -> None:
    cluster = ready()
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": 5, "leaseTransitions": 7}
    metadata = {"name": WHERE[1], "annotations": {PODS_SEEN: "7/42"}}
    await cluster.client.create(kinds.LEASE, WHERE[0], {"metadata": metadata, "spec": spec})
    one, _ = candidate(cluster, "one")
    assert (await one.win()).seen == float("inf")


async def test_a_leader_whose_deadline_has_passed_does_not_release_the_lease() -> None:
    """Another may be about to take it, and needs its whole duration."""
    cluster = ready()
    one, _ = candidate(cluster, "one")
    await one.win()
    await asyncio.sleep(TIMING.deadline)
    await one.release(42)
    assert (await lease(cluster)).spec.holder_identity == "one"


@pytest.mark.parametrize("seconds", [0, -5, 2**31 - 1])
async def test_an_absurd_duration_in_the_lease_does_not_stop_the_candidates(seconds: int) -> None:
    cluster = ready()
    spec = {"holderIdentity": "gone", "leaseDurationSeconds": seconds, "leaseTransitions": 7}
    await cluster.client.create(kinds.LEASE, WHERE[0], {"metadata": {"name": WHERE[1]}, "spec": spec})
    one, _ = candidate(cluster, "one")
    began = cluster.clock.monotonic()
    assert (await asyncio.wait_for(one.win(), 1200)).epoch == 8
    assert cluster.clock.monotonic() - began >= 1


async def free(cluster: Cluster) -> None:
    """No Lease is there."""


async def released(cluster: Cluster) -> None:
    one, _ = candidate(cluster, "one")
    await one.win()
    await one.release()


async def expired(cluster: Cluster) -> None:
    one, _ = candidate(cluster, "one")
    await one.win()
    await asyncio.sleep(TIMING.duration)


@pytest.mark.parametrize("before", [free, released, expired])
async def test_only_a_candidate_that_can_read_all_kinds_takes_the_lease(
    before: Callable[[Cluster], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = ready()
    await before(cluster)
    blind, _ = candidate(cluster, "blind", missing=["poddisruptionbudgets"])
    waiting = asyncio.create_task(blind.win())
    await asyncio.sleep(120)
    assert not waiting.done()
    held = (await cluster.client.list(kinds.LEASE)).items
    assert "blind" not in {each.spec.holder_identity for each in held}
    told = "blind waits for lease muster-system/scheduler: this replica cannot read poddisruptionbudgets"
    assert caplog.messages.count(told) == 1
    two, _ = candidate(cluster, "two")
    await asyncio.wait_for(two.win(), TIMING.duration + TIMING.deadline)
    assert (await lease(cluster)).spec.holder_identity == "two"
    waiting.cancel()


async def test_a_candidate_takes_the_lease_once_it_can_read_all_kinds() -> None:
    cluster = ready()
    await released(cluster)
    missing = ["pods"]
    one, _ = candidate(cluster, "one", missing=missing)
    winning = asyncio.create_task(one.win())
    await asyncio.sleep(60)
    missing.clear()
    await asyncio.wait_for(winning, 0.2)


@pytest.mark.parametrize("others", [0, 2])
async def test_a_leader_that_cannot_read_a_kind_goes_on_while_no_other_can(others: int) -> None:
    """All have the same rights. That nothing is led would be worse."""
    cluster = ready()
    missing = ["poddisruptionbudgets"]
    one, _ = candidate(cluster, "one", missing=missing)
    missing.clear()
    term = await one.win()
    keeping = asyncio.create_task(one.keep())
    missing.append("poddisruptionbudgets")
    waiting = [
        asyncio.create_task(candidate(cluster, f"blind {n}", missing=missing)[0].win()) for n in range(others)
    ]
    for _ in range(60):
        await asyncio.sleep(TIMING.retry)
        assert term.fresh()
    assert not keeping.done()
    assert (await lease(cluster)).metadata.annotations[CANNOT_READ] == "poddisruptionbudgets"
    missing.clear()
    await asyncio.sleep(2 * TIMING.retry)
    assert CANNOT_READ not in (await lease(cluster)).metadata.annotations
    assert term.fresh()
    for task in (keeping, *waiting):
        task.cancel()


async def test_a_leader_that_cannot_read_a_kind_releases_the_lease_for_one_that_can() -> None:
    cluster = ready()
    missing: list[str] = []
    one, _ = candidate(cluster, "one", missing=missing)
    first = await one.win()
    keeping = asyncio.create_task(one.keep())
    two, _ = candidate(cluster, "two")
    winning = asyncio.create_task(two.win())
    await asyncio.sleep(60)
    missing.append("poddisruptionbudgets")
    with pytest.raises(Deposed, match="poddisruptionbudgets cannot be read any more; two can"):
        await asyncio.wait_for(keeping, 4 * TIMING.retry)
    await asyncio.sleep(TIMING.retry)
    assert not winning.done(), "what it leads is still to be stopped"
    assert first.fresh()
    await one.release(42)
    term = await asyncio.wait_for(winning, TIMING.retry + 0.1)
    assert (term.epoch, term.seen) == (first.epoch + 1, 42)
    assert not {CANNOT_READ, SUCCESSOR} & {*(await lease(cluster)).metadata.annotations}


async def test_a_leader_that_can_read_all_again_keeps_the_lease_though_another_has_asked_for_it() -> None:
    cluster = ready()
    missing: list[str] = []
    one, _ = candidate(cluster, "one", missing=missing)
    await one.win()
    keeping = asyncio.create_task(one.keep())
    missing.append("pods")
    await asyncio.sleep(TIMING.retry + 0.1)
    two, _ = candidate(cluster, "two")
    winning = asyncio.create_task(two.win())
    await asyncio.sleep(0.1)
    assert (await lease(cluster)).metadata.annotations[SUCCESSOR] == "two"
    missing.clear()
    await asyncio.sleep(60)
    assert one.fresh
    assert not keeping.done()
    assert not winning.done()
    assert not {CANNOT_READ, SUCCESSOR} & {*(await lease(cluster)).metadata.annotations}
    keeping.cancel()
    winning.cancel()


async def test_the_next_process_of_a_container_takes_the_lease_of_the_last_one_at_once() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "pod-1_a", instance="pod-1_")
    first = await one.win()
    began = cluster.clock.monotonic()
    again, _ = candidate(cluster, "pod-1_b", instance="pod-1_")
    term = await again.win()
    assert cluster.clock.monotonic() == began
    assert (term.epoch, term.seen) == (first.epoch + 1, float("inf")), "what it left is to be fenced"


@pytest.mark.parametrize(
    ("holder", "instance"), [("pod-1_a", "pod-2_"), ("pod-1_a", ""), ("pod-12_a", "pod-1_"), ("", "pod-1_")]
)
async def test_the_lease_of_any_other_process_is_waited_for(holder: str, instance: str) -> None:
    cluster = ready()
    one, _ = candidate(cluster, holder or "elsewhere")
    await one.win()
    began = cluster.clock.monotonic()
    two, _ = candidate(cluster, f"{instance}b", instance=instance)
    await two.win()
    assert cluster.clock.monotonic() - began == pytest.approx(TIMING.duration)


async def test_the_lease_has_what_its_holder_tells_and_no_candidate_does() -> None:
    cluster = ready()
    one, _ = candidate(cluster, "one", told={BAD_NODES: "{}"})
    await one.win()
    keeping = asyncio.create_task(one.keep())
    two, _ = candidate(cluster, "two", told={BAD_NODES: '{"jobs":1}'})
    winning = asyncio.create_task(two.win())
    await asyncio.sleep(60)
    assert (await lease(cluster)).metadata.annotations[BAD_NODES] == "{}"
    await cluster.client.patch(kinds.LEASE, *WHERE, {"metadata": {"annotations": {BAD_NODES: "odd"}}})
    await asyncio.sleep(2 * TIMING.retry)
    assert (await lease(cluster)).metadata.annotations[BAD_NODES] == "{}", "written again by each renewal"
    keeping.cancel()
    await one.release(42)
    await asyncio.wait_for(winning, 2 * TIMING.retry)
    assert (await lease(cluster)).metadata.annotations[BAD_NODES] == '{"jobs":1}'
