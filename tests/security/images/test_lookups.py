"""Look-ups of images: who asks gets an answer at once, and registries are asked in bounds."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from muster.compiler.facts import Image
from muster.security.images import lookups
from muster.security.images.lookups import (
    AT_A_TIME,
    BACK_OFF,
    KEPT,
    OF_ONE,
    TAG,
    TIME,
    UNMET,
    Lookups,
    Unknown,
)
from muster.security.images.reference import Reference
from muster.security.images.registry import RegistryError
from muster.security.images.trust import TrustPolicy
from muster.security.images.verify import Unmet, Verified
from tests.loop_clock import LoopClock

pytestmark = pytest.mark.looptime


def digest_of(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass
class World:
    """Registries that answer as they are told, and those who have asked."""

    lookups: Lookups = field(init=False)
    #: seconds until a registry answers; absent = at once
    slow: dict[str, float] = field(default_factory=dict)
    failing: dict[str, Exception] = field(default_factory=dict)
    trusted: bool = True
    complete: bool = True
    asked: list[str] = field(default_factory=list)
    busy: dict[str, int] = field(default_factory=dict)
    busiest: dict[str, int] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    async def digest(self, image: Reference) -> str:
        await self._answer(image, f"{image.name}:{image.tag}")
        return self.tags.get(image.tag, digest_of(image.tag))

    async def verify(self, image: Reference, policies: Sequence[TrustPolicy]) -> Verified:
        await self._answer(image, image.pinned(image.digest))
        unmet = () if self.trusted else (Unmet("team", enforced=True, reason="unsigned"),)
        return Verified(Image(image.digest, trusted=self.trusted, reason="unsigned"), unmet, self.complete)

    async def _answer(self, image: Reference, what: str) -> None:
        self.asked.append(what)
        for each in (image.registry, ""):
            self.busy[each] = self.busy.get(each, 0) + 1
            self.busiest[each] = max(self.busiest.get(each, 0), self.busy[each])
        try:
            await asyncio.sleep(self.slow.get(image.registry, 0.0))
            if (error := self.failing.get(image.registry)) is not None:
                raise error
        finally:
            for each in (image.registry, ""):
                self.busy[each] -= 1

    def known(self, text: str, version: str = "1", asker: str = "ns/job") -> Verified | Unknown:
        return self.lookups.known(text, [], version, asker)


@asynccontextmanager
async def world(again: Callable[[str], None] | None = None) -> AsyncIterator[World]:
    made = World()

    def tell(askers: Sequence[str]) -> None:
        made.told += askers

    made.lookups = Lookups(made, LoopClock(), lambda askers: tell(list(askers)))
    running = asyncio.create_task(made.lookups.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_tag_is_resolved_and_verified_once_for_all_callers() -> None:
    async with world() as at:
        for asker in ("ns/a", "ns/b"):
            assert isinstance(at.known("reg.example.com/app:v1", asker=asker), Unknown)
        await asyncio.sleep(1)
        assert at.told == ["ns/a", "ns/b"]
        assert isinstance(at.known("reg.example.com/app:v1", asker="ns/a"), Unknown)
        await asyncio.sleep(1)
        found = at.known("reg.example.com/app:v1")
        assert isinstance(found, Verified)
        assert found.image.digest == digest_of("v1")
        assert len(at.asked) == 2


async def test_tags_of_one_digest_are_verified_once_and_again_under_other_policies() -> None:
    async with world() as at:
        at.tags = {"v1": digest_of("same"), "v2": digest_of("same")}
        for version in ("1", "2"):
            for tag in ("v1", "v2", "v1", "v2"):
                at.known(f"reg.example.com/app:{tag}", version)
                await asyncio.sleep(1)
        pinned = f"reg.example.com/app@{digest_of('same')}"
        assert at.asked.count(pinned) == 2
        assert isinstance(at.known(pinned, "2"), Verified)


async def test_a_tag_is_resolved_again_after_a_while_and_a_digest_is_not() -> None:
    async with world() as at:
        for _ in range(3):
            at.known("reg.example.com/app:v1")
            await asyncio.sleep(1)
        at.tags["v1"] = digest_of("moved")
        await asyncio.sleep(TAG)
        for _ in range(3):
            at.known("reg.example.com/app:v1")
            await asyncio.sleep(1)
        found = at.known("reg.example.com/app:v1")
        assert isinstance(found, Verified)
        assert found.image.digest == digest_of("moved")
        await asyncio.sleep(10 * TAG)
        assert isinstance(at.known(f"reg.example.com/app@{digest_of('v1')}"), Verified)


async def test_a_namespace_that_names_many_slow_registries_delays_no_other() -> None:
    async with world() as at:
        for number in range(1_000):
            at.slow[f"slow{number}.example.com"] = 10 * TIME
            at.known(f"slow{number}.example.com/app:v1", asker="evil/job")
            at.known(f"reg.example.com/evil{number}:v1", asker="evil/job")
        for _ in range(3):
            at.known("reg.example.com/app:v1", asker="ml/train")
            at.known("reg.example.com/evil999:v1", asker="ml/train")
            await asyncio.sleep(1)
        for image in ("app", "evil999"):
            assert isinstance(at.known(f"reg.example.com/{image}:v1", asker="ml/train"), Verified)


async def test_a_namespace_cannot_use_up_the_room_of_other_namespaces() -> None:
    async with world() as at:
        at.slow["slow.example.com"] = 10 * TIME
        for number in range(KEPT + 10):
            last = at.known(f"slow.example.com/app{number}:v1", asker="evil/job")
        assert isinstance(last, Unknown)
        assert "too many" in last.reason
        for _ in range(3):
            at.known("reg.example.com/app:v1", asker="ml/train")
            await asyncio.sleep(1)
        assert isinstance(at.known("reg.example.com/app:v1", asker="ml/train"), Verified)


async def test_a_caller_from_another_namespace_is_notified_too() -> None:
    async with world() as at:
        for asker in ("a/job", "b/job", "c/job"):
            at.known("reg.example.com/app:v1", asker=asker)
        await asyncio.sleep(1)
        assert (sorted(at.told), len(at.asked)) == (["a/job", "b/job", "c/job"], 1)


async def test_a_registry_that_fails_is_asked_again_with_longer_pauses_as_long_as_somebody_asks() -> None:
    async with world() as at:
        at.failing["reg.example.com"] = RegistryError("out of order")
        for _ in range(600):
            at.known("reg.example.com/app:v1")
            await asyncio.sleep(1)
        assert at.known("reg.example.com/app:v1") == Unknown("out of order")
        assert len(at.asked) == 9  # after 0, 2, 6, 14, 30, 62, 126, 254 and 510 s
        await asyncio.sleep(2 * BACK_OFF[1])
        await asyncio.sleep(2 * BACK_OFF[1])
        tries = len(at.asked)
        await asyncio.sleep(10 * BACK_OFF[1])
        assert len(at.asked) == tries
        at.failing.clear()
        for _ in range(3):
            at.known("reg.example.com/app:v1")
            await asyncio.sleep(1)
        assert isinstance(at.known("reg.example.com/app:v1"), Verified)


async def test_a_registry_that_never_answers_delays_no_other() -> None:
    async with world() as at:
        at.slow["slow.example.com"] = 10 * TIME
        for number in range(100):
            at.known(f"slow.example.com/app{number}:v1")
        for _ in range(3):
            at.known("reg.example.com/app:v1")
            await asyncio.sleep(1)
        assert isinstance(at.known("reg.example.com/app:v1"), Verified)
        await asyncio.sleep(TIME - 2)
        found = at.known("slow.example.com/app0:v1")
        assert isinstance(found, Unknown)
        assert f"within {TIME:g} s" in found.reason
        assert at.busiest["slow.example.com"] == OF_ONE


async def test_no_more_images_are_looked_up_at_a_time_than_the_bound() -> None:
    async with world() as at:
        at.slow = {f"reg{number}.example.com": 1.0 for number in range(40)}
        for number, registry in enumerate(at.slow):
            at.known(f"{registry}/app:v1", asker=f"ns{number}/job")
        await asyncio.sleep(20)
        assert at.busiest[""] == AT_A_TIME


async def test_signatures_that_cannot_be_fetched_are_no_denial() -> None:
    async with world() as at:
        at.trusted, at.complete = False, False
        pinned = f"reg.example.com/app@{digest_of('v1')}"
        at.known(pinned)
        await asyncio.sleep(1)
        assert at.known(pinned) == Unknown("not all signatures can be read: unsigned")
        at.complete = True
        await asyncio.sleep(10)
        found = at.known(pinned)
        assert isinstance(found, Verified)
        assert not found.image.trusted


async def test_an_image_that_is_signed_later_is_trusted_then_and_refused_until_then() -> None:
    async with world() as at:
        at.trusted = False
        pinned = f"reg.example.com/app@{digest_of('v1')}"
        at.known(pinned)
        await asyncio.sleep(1)
        for trusted in (False, True):
            at.trusted = trusted
            before, told = len(at.asked), len(at.told)
            await asyncio.sleep(UNMET)
            found = at.known(pinned)
            assert isinstance(found, Verified)
            assert not found.image.trusted
            await asyncio.sleep(1)
            assert (len(at.asked), len(at.told)) == (before + 1, told + trusted)
        found = at.known(pinned)
        assert isinstance(found, Verified)
        assert found.image.trusted
        at.failing["reg.example.com"] = RegistryError("away")
        await asyncio.sleep(10 * UNMET)
        assert at.known(pinned) == found


async def test_while_a_registry_is_away_an_image_that_was_refused_stays_so() -> None:
    async with world() as at:
        at.trusted = False
        pinned = f"reg.example.com/app@{digest_of('v1')}"
        at.known(pinned)
        await asyncio.sleep(1)
        at.failing["reg.example.com"] = RegistryError("away")
        for _ in range(10):
            await asyncio.sleep(UNMET)
            found = at.known(pinned)
            assert isinstance(found, Verified)
            assert not found.image.trusted
        assert len(at.asked) < 12


async def test_a_fault_of_one_look_up_is_its_own(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as at:
        at.failing["bad.example.com"] = ZeroDivisionError()
        at.known("bad.example.com/app:v1")
        await asyncio.sleep(1)
        assert at.known("bad.example.com/app:v1") == Unknown("it cannot be looked up: ZeroDivisionError")
        at.known("reg.example.com/app:v1")
        await asyncio.sleep(1)
        assert at.told == ["ns/job", "ns/job"]


async def test_what_names_no_image_is_not_trusted() -> None:
    async with world() as at:
        found = at.known("reg.example.com/app@sha256:def456")
        assert isinstance(found, Verified)
        assert (found.image.trusted, at.asked) == (False, [])


async def test_memory_is_bounded_and_the_oldest_result_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "KEPT", 10)
    async with world() as at:
        for number in range(20):
            at.known(f"reg.example.com/app@{digest_of(str(number))}")
            await asyncio.sleep(1)
        assert isinstance(at.known(f"reg.example.com/app@{digest_of('19')}"), Verified)
        at.slow["reg.example.com"] = 30.0
        for number in range(10):
            at.known(f"reg.example.com/new@{digest_of(str(number))}")
        found = at.known(f"reg.example.com/more@{digest_of('0')}")
        assert isinstance(found, Unknown)
        assert "too many" in found.reason


async def test_what_is_asked_for_before_it_runs_is_looked_up_then() -> None:
    made = World()
    made.lookups = Lookups(made, LoopClock(), lambda askers: None)
    pinned = f"reg.example.com/app@{digest_of('v1')}"
    made.known(pinned)
    running = asyncio.create_task(made.lookups.run())
    await asyncio.sleep(1)
    assert isinstance(made.known(pinned), Verified)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
