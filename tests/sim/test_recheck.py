"""The journal of a live scheduler, decided again."""

import asyncio
import base64
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import kinds
from muster.controllers import driver
from muster.controllers.job import CONTROLLER as JOBS
from muster.controllers.jobset import controller as jobset_controller
from muster.core.cycle import Scheduler
from muster.core.saved import saved
from muster.core.words.decisions import Assign, Decision, Wait
from muster.core.words.events import Event, GangSubmitted, NodeChanged, PodsBound, PodsEnded
from muster.core.words.gang import Gang, GangId, NodeName, PodSet, Shape
from muster.journal import LIMIT, Began, Cycle, Entry, Journal, Snapshot, decode, encode, previous, read
from muster.runtime.leader import Term
from muster.runtime.loop import run
from muster.sim.recheck import recheck
from muster.sim.trace import TraceError
from muster.version import VERSION
from tests.informed import informed
from tests.runtime.test_loop import Cluster, jobset, pod
from tests.test_journal import ENTRIES
from tests.tiers import examples


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


async def live(
    cluster: Cluster, epoch: int, path: Path, play: Callable[[], None], seconds: float, limit: int = LIMIT
) -> None:
    """A scheduler and controllers, in virtual time, for a while."""
    core, term = Scheduler(), Term(epoch, sole=True)
    journal = Journal(path, limit, partial(saved, core))
    tasks = [
        asyncio.create_task(
            informed(run, cluster.client, cluster.clock, term, scheduler=core, journal=journal)
        ),
        asyncio.create_task(informed(driver.run, cluster.client, [JOBS, jobset_controller()], cluster.clock)),
    ]
    await asyncio.sleep(1)
    play()
    await asyncio.sleep(seconds)
    for task in tasks:
        assert not task.done()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    journal.close()


@pytest.mark.looptime
async def test_a_live_scheduler_decides_again_what_it_decided_over_a_restart(path: Path) -> None:
    cluster = Cluster()
    cluster.node("node-0")
    cluster.node("node-1")

    def gangs_and_pods() -> None:
        cluster.create(kinds.JOBSET, jobset("first", 6))
        cluster.create(kinds.JOBSET, jobset("second", 4, suspend=False))
        cluster.create(kinds.POD, pod("alone"))
        cluster.create(kinds.POD, pod("big", "9"))

    def losses() -> None:
        for name in bound[::2]:
            failed = {"status": {"phase": "Failed"}}
            cluster.registry.patch(kinds.POD, "default", name, failed, subresource="status")

    await live(cluster, 1, path, gangs_and_pods, 400)  # longer than a place is held
    bound = sorted(await cluster.bound())
    await live(cluster, 2, path, losses, 400)
    cluster.store.close()

    entries = list(read(path))
    compared = recheck(path, Scheduler)
    assert compared.difference is None
    assert compared.schedulers == 2
    assert compared.decisions == sum(isinstance(entry.what, Decision) for entry in entries) > 4
    assert {Assign, Wait, PodsBound, PodsEnded} <= {type(entry.what) for entry in entries}
    assert compared.cycles == sum(isinstance(entry.what, Cycle) for entry in entries)


@pytest.mark.looptime
async def test_each_file_that_is_left_after_rotations_is_replayed_on_its_own(path: Path) -> None:
    cluster = Cluster()
    cluster.node("node-0")
    cluster.node("node-1")

    def many_gangs() -> None:
        for number in range(24):
            cluster.create(kinds.JOBSET, jobset(f"gang-{number}", 1 + number % 5, suspend=False))

    await live(cluster, 1, path, many_gangs, 400, 40_000)
    cluster.store.close()
    for file in (previous(path), path):
        alone = file.rename(path.with_name(f"{file.name}-alone"))
        assert alone.stat().st_size <= 40_000
        assert isinstance(next(read(alone)).what, Snapshot)
        compared = recheck(alone, Scheduler)
        assert compared.difference is None
        assert compared.schedulers == 1
        assert compared.cycles
        assert compared.events


def submit(name: str, pods: int) -> GangSubmitted:
    sets = (PodSet("main", Shape((("cpu", 1000),)), pods, pods),)
    return GangSubmitted(Gang(GangId(name), sets, pods, 0.0))


def record() -> Iterator[Entry]:
    """What a scheduler on one node of two CPUs says: one gang starts, another waits."""
    scheduler = Scheduler()
    yield Entry(0.0, Began(1))
    told: list[list[Event]] = [
        [NodeChanged(NodeName("n"), (("cpu", 2000),)), submit("ns/a", 2)],
        [submit("ns/b", 3), submit("ns/c", 1)],
        [],
    ]
    for now, events in enumerate(told, 1):
        at = float(now)
        for event in events:
            scheduler.apply(event)
            yield Entry(at, event)
        yield Entry(at, Cycle())
        yield from (Entry(at, decision) for decision in scheduler.decide(at))


def save(path: Path, entries: list[Entry]) -> Path:
    path.write_bytes(b"".join(encode(entry.at, entry.what) + b"\n" for entry in entries))
    return path


def index(entries: list[Entry], kind: type) -> int:
    return next(i for i, entry in enumerate(entries) if isinstance(entry.what, kind))


def test_the_same_is_the_same(path: Path) -> None:
    compared = recheck(save(path, [*record(), *record()]), Scheduler)
    assert (compared.schedulers, compared.events, compared.cycles, compared.decisions) == (2, 8, 6, 6)
    assert compared.difference is None


def test_a_decision_that_was_another_is_shown_with_what_is_decided_now(path: Path) -> None:
    entries = list(record())
    at = index(entries, Assign)
    line = encode(entries[at].at, entries[at].what).replace(b'"n"', b'"m"')
    entries[at] = decode(line)
    difference = recheck(save(path, entries), Scheduler).difference
    assert difference is not None
    assert (difference.at, difference.number) == (1, 1)
    assert str(difference).splitlines() == [
        "decision 1 differs, in the cycle at 1.000000:",
        f"  the journal has  {line.decode()}",
        "  decided now      " + line.replace(b'"m"', b'"n"').decode(),
    ]


def test_a_decision_that_is_not_on_record_or_not_made_again_is_found(path: Path) -> None:
    entries = list(record())
    at = index(entries, Wait)
    missing = recheck(save(path, entries[:at] + entries[at + 1 :]), Scheduler).difference
    assert missing is not None
    # the other gang's reason stands where this one's should
    assert isinstance(missing.logged, Wait)
    assert isinstance(missing.decided, Wait)
    assert missing.decided.gang == "ns/b"

    at = index(entries, Assign)
    gone = recheck(save(path, entries[:at] + entries[at + 1 :]), Scheduler).difference
    assert gone is not None
    assert gone.logged is None
    assert isinstance(gone.decided, Assign)
    assert "the journal has  nothing" in str(gone)

    again = recheck(save(path, [*entries, entries[at]]), Scheduler).difference
    assert again is not None
    assert (again.logged, again.decided) == (entries[at].what, None)


def test_an_event_that_is_missing_makes_a_difference(path: Path) -> None:
    entries = [entry for entry in record() if entry.what != submit("ns/c", 1)]
    found = recheck(save(path, entries), Scheduler).difference
    assert found is not None
    assert isinstance(found.logged, Wait)
    assert found.logged.gang == "ns/c"


def test_a_line_that_a_crash_cut_off_is_no_difference(path: Path) -> None:
    entries = list(record())
    cut = entries[: index(entries, Wait) + 1]  # the second of two reasons was not written any more
    assert recheck(save(path, cut), Scheduler).difference is None
    assert recheck(save(path, [*cut, *record()]), Scheduler).difference is None


def test_entries_before_the_first_complete_start_are_skipped(path: Path) -> None:
    entries = list(record())
    compared = recheck(save(path, [*entries[3:], *record()]), Scheduler)
    assert (compared.schedulers, compared.difference) == (1, None)
    with pytest.raises(
        TraceError, match=r"no scheduler begins in it; .* its beginning has been rotated away"
    ):
        recheck(save(path, entries[1:]), Scheduler)
    with pytest.raises(TraceError, match="no scheduler begins in it"):
        recheck(save(path, []), Scheduler)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense\n",
        "\x1f\x8b\n",
        '{"at": 1}\n',
        '{"at": 1, "is": "Begun"}\n',
        "[]\n",
        '"x"\n',
        "; MaxProcs: 1\n",
    ],
)
def test_a_line_of_something_else_is_named(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(TraceError, match="journal, line 1: not an entry of a journal"):
        recheck(path, Scheduler)


POD_SET = '{"name":"w","shape":{"requests":[["cpu",1]]},"count":%s}'
GANG = '{"gang":{"id":"ns/g","pod_sets":[%s],"min_count":1,"submitted":0}}'
PODS = '{"pods":{"u":null},"node":"n","requests":[["muster.dev/gpu-share",5]],"footprint":{"device":%s}}'


@pytest.mark.parametrize(
    ("is_", "what", "said"),
    [
        (
            "GangSubmitted",
            GANG % POD_SET % 10**12,
            "gang ns/g: count of pod set w is 1000000000000; expected 0",
        ),
        ("GangSubmitted", GANG % POD_SET % -3, "gang ns/g: count of pod set w is -3; expected 0 to 1000000"),
        (
            "GangSubmitted",
            GANG % ",".join([POD_SET % 900_000] * 2),
            "number of places is 1800000; expected 0",
        ),
        ("GangSubmitted", GANG % POD_SET % 10**90, "10000.* is out of range"),
        ("GangSubmitted", GANG % POD_SET % ("9" * 5000), "nteger value out of range"),
        ("GangSubmitted", GANG % ("[" * 50_000 + "]" * 50_000), "recursion"),
        ("PodsBound", PODS % 10**6, "device is 1000000; expected 0 to 255"),
        ("PodsBound", PODS % -1, "device is -1; expected 0 to 255"),
        ("PodsEnded", '{"pods":[],"at":1%s}' % ("0" * 400), "10000.* is out of range"),
        (
            "QuotaChanged",
            '{"namespace":"a","name":"q","room":[["cpu",1],["cpu",2]]}',
            "an amount is given twice",
        ),
    ],
)
def test_an_absurd_number_or_depth_is_named_with_its_line(path: Path, is_: str, what: str, said: str) -> None:
    save(path, [Entry(0.0, Began(1))])
    with path.open("a") as file:
        file.write(f'{{"at":1,"is":"{is_}","what":{what}}}\n')
    with pytest.raises(TraceError, match=f"journal, line 2: not an entry of a journal: .*{said}"):
        recheck(path, Scheduler)


def every_node(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the holder and the key of each value within a value."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from every_node(item)


LINES = [msgspec.json.decode(encode(1.5, what)) for what in ENTRIES]
LINES += [msgspec.json.decode(encode(entry.at, entry.what)) for entry in record()]


@given(
    st.integers(0, len(LINES) - 1),
    st.integers(0, 1000),
    st.sampled_from([-(2**63), -1, 0, 9, 2**31, 10**12, 2**63, 2**99, 10**300, -1.5, 1e30, 1e300])
    | st.sampled_from(["inf", "", "x/1", "x/-1", None, True, [], {}, [[]], [["cpu", 1]] * 2]),
)
@settings(max_examples=examples(200), deadline=None)
def test_whatever_one_value_of_a_line_is_it_is_replayed_or_refused_with_its_line(
    number: int, node: int, value: object
) -> None:
    lines = msgspec.json.decode(msgspec.json.encode(LINES))
    nodes = [*every_node(lines[number])]
    holder, key = nodes[node % len(nodes)]
    holder[key] = value
    began = msgspec.json.decode(encode(0.0, Began(1)))
    with TemporaryDirectory() as directory:
        file = Path(directory, "journal")
        file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in [began, *lines]))
        try:
            recheck(file, Scheduler)
            return
        except TraceError as error:
            said = str(error)
        assert f"journal, line {number + 2}: " in said


def test_a_journal_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(TraceError, match="journal: no such file"):
        recheck(path, Scheduler)
    path.mkdir()
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        recheck(path, Scheduler)


def cut(cut_at: int) -> list[Entry]:
    """What is left of `record` if the file is rotated before this entry."""
    core, entries = Scheduler(), list(record())
    for entry in entries[:cut_at]:
        if isinstance(entry.what, Cycle):
            core.decide(entry.at)
        elif not isinstance(entry.what, Began | Snapshot | Decision):
            core.apply(entry.what)
    state = base64.b64encode(saved(core)).decode()
    return [Entry(entries[cut_at].at, Snapshot(VERSION, state)), *entries[cut_at:]]


@pytest.mark.parametrize("cut_at", range(1, len(list(record()))))
def test_a_journal_that_is_cut_anywhere_is_replayed_from_there(path: Path, cut_at: int) -> None:
    left = cut(cut_at)
    compared = recheck(save(path, left), Scheduler)
    assert compared.difference is None
    first = next((i for i, entry in enumerate(left) if isinstance(entry.what, Cycle)), len(left))
    assert compared.decisions == sum(isinstance(entry.what, Decision) for entry in left[first:])
    assert compared.cycles == sum(isinstance(entry.what, Cycle) for entry in left)


def test_a_snapshot_in_the_middle_changes_nothing(path: Path) -> None:
    entries = list(record())
    at = index(entries, Assign)
    whole = recheck(save(path, entries), Scheduler)
    save(previous(path), entries[:at])
    assert recheck(save(path, cut(at)), Scheduler) == whole


def test_a_decision_after_a_snapshot_that_was_another_is_found(path: Path) -> None:
    left = cut(2)
    at = index(left, Assign)
    left[at] = decode(encode(left[at].at, left[at].what).replace(b'"n"', b'"m"'))
    assert recheck(save(path, left), Scheduler).difference is not None


def test_a_journal_whose_snapshot_cannot_be_read_is_refused_with_the_reason(path: Path) -> None:
    left = [Entry(1.0, Snapshot("0.0.1", "aGVsbG8=")), *list(record())[1:]]
    said = (
        r"the snapshot at its beginning cannot be read \(muster 0\.0\.1 wrote it; this is .*\): no state of"
    )
    with pytest.raises(TraceError, match=said):
        recheck(save(path, left), Scheduler)
    with pytest.raises(TraceError, match="no scheduler begins in it"):
        recheck(path, Scheduler, resume=None)
