"""Telling what happens to jobs: over restarts of the host, whatever the receiver and the disk do."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import msgspec
import pytest

from muster.api import kinds
from muster.api.core_v1 import Pod
from muster.app.wiring import notifying
from muster.app.wiring.notices import ATTEMPTS, HOLD
from muster.app.wiring.notifying import Notifying, ask, untold
from muster.app.wiring.sending import Address, Url
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from tests.loop_clock import LoopClock

pytestmark = pytest.mark.looptime

TO = Url("http://127.0.0.1:1/hook")
TROUBLE = "the server answered 500"


class Receiver:
    """Answers as a test says; keeps what has arrived, and how often it was tried."""

    def __init__(self, answer: Callable[[str], str] = lambda event: "") -> None:
        self.answer, self.told, self.tries = answer, list[str](), 0
        self.held = set[str]()

    async def __call__(self, to: Address, body: bytes, variables: Mapping[str, str]) -> str:
        self.tries += 1
        said = msgspec.json.decode(body)
        assert variables["MUSTER_EVENT"] == said["event"]
        if said["job"] in self.held:
            await asyncio.Event().wait()
        trouble = self.answer(said["event"])
        if not trouble:
            self.told.append(f"{said['job']} {said['event']} {said['state']}")
        return trouble


class Site:
    def __init__(self, root: Path, client: LocalClient) -> None:
        self.root, self.client = root, client

    @asynccontextmanager
    async def host(self, receiver: Receiver) -> AsyncIterator[Notifying]:
        """A host, which ends with the context as one that is killed."""
        host = Notifying(self.root, self.client, self.client.registry.past, LoopClock(), receiver)
        task = asyncio.create_task(host.run())
        try:
            yield host
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def submit(self, name: str) -> Pod:
        spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        made = await self.client.create(kinds.POD, "default", {"metadata": {"name": name}, "spec": spec})
        ask(self.root, made, "Pod", TO)
        return made

    async def phase(self, name: str, phase: str) -> None:
        await self.client.patch(
            kinds.POD, "default", name, {"status": {"phase": phase}}, subresource="status"
        )

    @property
    def files(self) -> list[str]:
        return sorted(path.suffix for path in (self.root / "notify").iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(Store(":memory:")) as store:
        yield Site(tmp_path, LocalClient(Registry(store)))


async def test_start_and_end_are_told_once_though_the_host_starts_again_and_again(site: Site) -> None:
    receiver = Receiver()
    await site.submit("j")
    for phase in ("Pending", "Running", "Running", "Succeeded", "Succeeded"):
        await site.phase("j", phase)
        async with site.host(receiver):
            await asyncio.sleep(5)
    assert receiver.told == ["j start running", "j end succeeded"]
    assert site.files == [], "nothing is left of a job of which all is told"


async def test_what_is_refused_is_told_later_by_the_same_or_the_next_host(site: Site) -> None:
    refusing, receiver = Receiver(lambda _: "the server answered 500"), Receiver()
    await site.submit("j")
    await site.phase("j", "Succeeded")
    async with site.host(refusing) as host:
        await asyncio.sleep(10)
        assert host.busy()
    assert 1 < refusing.tries < ATTEMPTS
    async with site.host(receiver) as host:
        await asyncio.sleep(60)
        assert not host.busy()
    assert receiver.told == ["j start running", "j end succeeded"]


async def test_what_is_refused_for_ever_is_given_up_and_said(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver(lambda _: TROUBLE)
    uid = (await site.submit("j")).metadata.uid
    await site.phase("j", "Failed")
    async with site.host(receiver):
        await asyncio.sleep(3)
        assert untold(site.root, uid) == [f"--notify: not told yet: start ({TROUBLE}; attempt 2 of 8)"]
        await asyncio.sleep(3 * HOLD)
    assert (receiver.tries, site.files) == (2 * ATTEMPTS, [".told"])
    said = [f"--notify: not told: {each} ({TROUBLE}; given up after 8 attempts)" for each in ("start", "end")]
    assert untold(site.root, uid) == said
    async with site.host(receiver):  # the next one begins nothing of it
        await asyncio.sleep(60)
    assert receiver.tries == 2 * ATTEMPTS
    assert caplog.text.count("end of j is not told: the server answered 500\n") == ATTEMPTS - 1
    assert caplog.text.count("end of j is not told: the server answered 500; it is given up\n") == 1


async def test_what_was_given_up_is_kept_of_the_jobs_that_ended_last(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "KEPT", 2)
    receiver, uids = Receiver(lambda _: TROUBLE), list[str]()
    async with site.host(receiver):
        for number in range(3):
            uids.append((await site.submit(f"j{number}")).metadata.uid)
            await site.phase(f"j{number}", "Failed")
            await asyncio.sleep(3 * HOLD)
    assert [bool(untold(site.root, uid)) for uid in uids] == [False, True, True]
    assert untold(site.root, "../secret") == []


async def test_attempts_are_counted_although_the_host_is_killed_within_each(site: Site) -> None:
    receiver = Receiver()
    receiver.held = {"j"}
    await site.submit("j")
    await site.phase("j", "Running")
    for _ in range(3 * ATTEMPTS):
        async with site.host(receiver):
            await asyncio.sleep(2)
        await asyncio.sleep(HOLD)
    assert receiver.tries == ATTEMPTS


async def test_a_receiver_that_hangs_is_left_and_holds_up_no_other_job_nor_the_host(site: Site) -> None:
    receiver = Receiver()
    for number in range(10):
        await site.submit(f"hangs-{number}")
        await site.phase(f"hangs-{number}", "Succeeded")
    receiver.held = {f"hangs-{number}" for number in range(10)}
    await site.submit("j")
    await site.phase("j", "Succeeded")
    async with site.host(receiver) as host:
        await asyncio.sleep(120)
        assert receiver.told == ["j start running", "j end succeeded"]
        assert host.busy()
        await asyncio.sleep(HOLD)
        assert not host.busy(), "what cannot be told holds the host up for a bounded time"


async def test_a_sender_that_fails_counts_as_an_attempt(site: Site) -> None:
    def fails(event: str) -> str:
        raise RuntimeError(event)

    receiver = Receiver(fails)
    await site.submit("j")
    await site.phase("j", "Running")
    async with site.host(receiver):
        await asyncio.sleep(2 * HOLD)
    assert receiver.tries == ATTEMPTS


async def test_the_end_of_a_job_that_was_deleted_before_it_was_told(site: Site) -> None:
    receiver = Receiver()
    for name, phase in (("done", "Succeeded"), ("waits", "Pending")):
        await site.submit(name)
        await site.phase(name, phase)
        await site.client.delete(kinds.POD, "default", name)
    async with site.host(receiver):
        await asyncio.sleep(10)
    assert sorted(receiver.told) == ["done end succeeded", "done start running", "waits end cancelled"]


async def test_a_job_of_the_same_name_is_another_one(site: Site) -> None:
    receiver = Receiver()
    await site.submit("j")
    await site.client.delete(kinds.POD, "default", "j")
    await site.submit("j")
    await site.phase("j", "Running")
    async with site.host(receiver):
        await asyncio.sleep(10)
    assert sorted(receiver.told) == ["j end cancelled", "j start running"]


async def test_a_host_stays_until_the_end_is_known_and_told(site: Site) -> None:
    async with site.host(Receiver()) as host:
        await asyncio.sleep(5)
        assert not host.busy(), "nobody is to be told of anything"
        await site.submit("j")
        assert host.busy(), "it has not read the file yet"
        await asyncio.sleep(5)
        assert not host.busy(), "the job is unfinished: that holds the host up, not this"
        await site.phase("j", "Succeeded")
        assert host.busy(), "it has not seen the end yet"
        await asyncio.sleep(5)
        assert not host.busy()
        await site.client.create(kinds.NODE, "", {"metadata": {"name": "n"}})
        assert not host.busy(), "other changes are nothing to wait for"


async def test_nothing_is_sent_that_cannot_be_recorded_and_the_host_lives(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    await site.submit("j")
    await site.phase("j", "Succeeded")

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device", str(path))

    async with site.host(receiver) as host:
        with monkeypatch.context() as patched:
            patched.setattr(notifying, "write_private", full)
            await asyncio.sleep(30)
            assert (receiver.tries, host.busy()) == (0, False)
            assert caplog.text.count("cannot tell what happens to jobs") == 1
        await asyncio.sleep(30)
    assert receiver.told == ["j start running", "j end succeeded"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"to":{"type":"shell"}}', b" " * (2 << 20)])
async def test_a_file_that_cannot_be_read_is_put_aside(
    site: Site, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    await site.submit("j")
    await site.phase("j", "Succeeded")
    odd = site.root / "notify" / f"{'0' * 36}.json"
    odd.write_bytes(content)
    (site.root / "notify" / "notes.txt").write_text("of the user")
    async with site.host(receiver) as host:
        await asyncio.sleep(30)
        assert not host.busy()
    assert receiver.told == ["j start running", "j end succeeded"]
    assert caplog.text.count("there are no notifications of this job") == 1
    assert site.files == [".txt", ".unreadable"]


async def test_a_job_that_is_submitted_again_tells_the_new_address_what_is_still_to_come(site: Site) -> None:
    seen = list[Address]()

    class Both(Receiver):
        async def __call__(self, to: Address, body: bytes, variables: Mapping[str, str]) -> str:
            seen.append(to)
            return await super().__call__(to, body, variables)

    receiver, other = Both(), Url("http://127.0.0.1:2/other")
    made = await site.submit("j")
    await site.phase("j", "Running")
    async with site.host(receiver):
        await asyncio.sleep(5)
        ask(site.root, made, "Pod", other)
        await site.phase("j", "Succeeded")
        await asyncio.sleep(5)
    assert receiver.told == ["j start running", "j end succeeded"]
    assert seen == [TO, other]
