"""The journal: what is written is read back, in order, and it is bounded."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.words.decisions import Assign, Decision, Evict, Explanation, PodSetExplanation, Victim, Wait
from muster.core.words.events import (
    CommitFailed,
    Event,
    Footprint,
    GangSubmitted,
    NodeChanged,
    PlacesLost,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import (
    Amounts,
    Code,
    Effect,
    Gang,
    GangId,
    Gate,
    NodeName,
    NodeTerm,
    Operator,
    Place,
    PodId,
    PodSet,
    PodTerm,
    Requirement,
    Shape,
    Taint,
    Toleration,
)
from muster.journal import Began, Cycle, Entry, Journal, Mark, Snapshot, decode, encode, previous, read
from tests.tiers import examples

G, N = GangId("ns/g"), NodeName("n")
SHAPE = Shape(
    (("cpu", 1000),),
    selector=(("zone", "a"),),
    affinity=(NodeTerm((Requirement("k", Operator.IN, ("v",)),)),),
    tolerations=(Toleration("k", None, Effect.NO_SCHEDULE),),
)
ENTRIES: list[Event | Decision | Mark] = [
    NodeChanged(N, (("cpu", 4000),), (("zone", "a"),), (Taint("k", "v", Effect.NO_EXECUTE),)),
    GangSubmitted(Gang(G, (PodSet("w", SHAPE, 2, 1),), 1, 12.5, gate=Gate(Code.GATED, "held"))),
    PodsBound({PodId("u"): Place("w", 1)}, N, (("cpu", 1000),), G),
    PodsEnded((PodId("u"),), 99.5),
    PlacesLost(G, frozenset({Place("w", 0), Place("w", 1)}), frozenset({N}), 60.0),
    CommitFailed(G, inf, "refused"),
    Assign(G, {Place("w", 0): N, Place("w", 10): N}),
    Evict((Victim(GangId("ns/v"), frozenset({PodId("x")})),), G, 3.5),
    Wait(G, Explanation(Code.FRAGMENTED, "place", "m", (PodSetExplanation("w", 2, 1, {"cpu": 3}),), (G,))),
    Began(3),
    Cycle(),
]


def test_a_journal_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "logs" / "journal")
    for number, entry in enumerate(ENTRIES):
        journal.write(float(number), entry)
    journal.close()
    assert list(read(tmp_path / "logs" / "journal")) == [Entry(float(i), e) for i, e in enumerate(ENTRIES)]


def test_a_reopened_journal_is_continued_without_the_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.write(1.0, ENTRIES[0])
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:20])
    assert [entry.at for entry in read(path)] == [1.0]
    journal = Journal(path)
    journal.write(2.0, ENTRIES[1])
    journal.close()
    assert [entry.at for entry in read(path)] == [1.0, 2.0]


def test_a_file_of_nothing_but_a_cut_line_starts_over(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"x" * 200_000)
    journal = Journal(path)
    journal.write(1.0, ENTRIES[0])
    journal.close()
    assert [entry.at for entry in read(path)] == [1.0]


def test_a_journal_never_takes_more_than_twice_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, limit=1000)
    for number in range(200):
        journal.write(float(number), ENTRIES[4])
    journal.close()
    assert path.stat().st_size <= 1000
    assert previous(path).stat().st_size <= 1000
    kept = [entry.at for entry in read(path)]
    assert kept == [float(number) for number in range(200 - len(kept), 200)]


def lines(path: Path) -> list[str]:
    return [type(entry.what).__name__ for entry in read(path)]


def test_each_file_but_the_first_begins_with_a_snapshot(tmp_path: Path) -> None:
    path, states = tmp_path / "journal", iter(range(100))
    journal = Journal(path, limit=1000, state=lambda: b"state %d" % next(states))
    for number in range(20):
        journal.write(float(number), ENTRIES[4])
    journal.close()
    assert path.stat().st_size <= 1000
    assert previous(path).stat().st_size <= 1000
    assert next(states) > 1
    for file in (previous(path), path):
        alone = file.rename(tmp_path / f"{file.name}-alone")
        first, *others = read(alone)
        assert isinstance(first.what, Snapshot)
        assert first.at == others[0].at
        assert {type(entry.what) for entry in others} == {PlacesLost}


def test_a_scheduler_that_begins_needs_no_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(encode(0.0, ENTRIES[4]) + b"\n")
    journal = Journal(path, limit=100, state=lambda: b"state")
    journal.write(1.0, Began(2))
    journal.close()
    assert lines(path) == ["PlacesLost", "Began"]


@pytest.mark.parametrize("kept", range(0, 60, 7))
def test_a_crash_between_the_rotation_and_its_snapshot_loses_no_other_line(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, limit=300, state=lambda: b"state")
    while not previous(path).exists():
        journal.write(1.0, ENTRIES[4])
    journal.close()
    path.write_bytes(path.read_bytes()[:kept])  # the snapshot was begun
    before = lines(previous(path))
    journal = Journal(path, limit=300, state=lambda: b"state")
    journal.write(2.0, Began(2))
    journal.close()
    assert lines(path) == [*before, "Began"]


def test_a_snapshot_that_would_fill_the_file_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, limit=1000, state=lambda: bytes(600))
    for number in range(20):
        journal.write(float(number), ENTRIES[4])
    journal.close()
    assert set(lines(path)) == {"PlacesLost"}
    assert path.stat().st_size <= 1000
    assert "a snapshot of the scheduler has" in caplog.records[0].message


def test_a_state_that_cannot_be_saved_costs_the_snapshot_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def state() -> bytes:
        raise AttributeError("cannot pickle a lambda")

    path = tmp_path / "journal"
    journal = Journal(path, limit=1000, state=state)
    for number in range(20):
        journal.write(float(number), ENTRIES[4])
    journal.close()
    assert set(lines(path)) == {"PlacesLost"}
    assert "begins without a snapshot" in caplog.records[0].message


def test_a_line_of_something_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text('{"at": 1, "is": "Nonsense"}\n')
    with pytest.raises(ValueError, match=r"journal, line 1: not an entry"):
        list(read(path))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk here that is always full")
def test_a_full_disk_ends_the_journal_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(Path("/dev/full"))
    for _ in range(2):
        journal.write(1.0, NodeChanged(N, (("cpu", 4000),)))
    journal.close()
    assert [record.message for record in caplog.records] == [
        "/dev/full ends here: [Errno 28] No space left on device"
    ]


def values(type_: Any) -> st.SearchStrategy[Any]:  # Any: types as values
    """Anything that a field of this type may hold."""
    if isinstance(type_, NewType):
        return values(type_.__supertype__)
    if type_ == Amounts:
        return st.dictionaries(values(str), values(int), max_size=2).map(lambda each: tuple(each.items()))
    origin, args = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, args))
    if origin is tuple and args[-1:] == (Ellipsis,):
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, args))
    if origin is frozenset:
        return st.frozensets(values(args[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=2)
    if type_ is Place:
        return st.builds(Place, st.text(max_size=3), st.integers(0, 99))
    if type_ is float:
        return st.floats(0, 1e10) | st.just(inf)
    if type_ is int:
        return st.integers(-(2**40), 2**40)
    if is_dataclass(type_):
        made: Any = type_  # Any: a dataclass
        hints = get_type_hints(made)
        each = {field.name: values(hints[field.name]) for field in fields(made)}
        each |= {"count": st.integers(0, 99)} if made is PodSet else {}
        each |= {"device": st.none() | st.integers(0, 255)} if made is Footprint else {}
        return st.builds(made, **each)
    if type_ is NoneType:
        return st.none()
    return st.text(max_size=4) if type_ is str else st.from_type(type_)


@pytest.mark.parametrize(
    "type_", [*get_args(Event), *get_args(Decision), *get_args(Mark)], ids=lambda type_: type_.__name__
)
@given(st.data())
@settings(max_examples=examples(15), deadline=None)
def test_every_word_of_the_core_can_be_written_and_read(type_: Any, data: st.DataObject) -> None:
    word = data.draw(values(type_))
    assert decode(encode(1.5, word)) == Entry(1.5, word)


def test_fields_are_read_by_the_names_that_earlier_versions_gave_them() -> None:
    pod_footprint = Footprint("ns", (), (), (PodTerm("zone", (), None),))
    event = PodsBound({PodId("p"): None}, NodeName("n"), (), None, pod_footprint)
    line = encode(0.0, event)
    for name, earlier in ((b'"footprint"', b'"presence"'), (b'"pod_anti_affinity"', b'"apart"')):
        line = line.replace(name, earlier)
    assert b'"apart"' in line
    assert b'"presence"' in line
    assert decode(line) == Entry(0.0, event)


@pytest.mark.parametrize("value", [True, 1.5, "x", [], {}, [None], {"a": 1}], ids=repr)
@pytest.mark.parametrize("what", ENTRIES, ids=lambda what: type(what).__name__)
def test_a_field_of_another_type_is_named_and_never_reaches_the_core(
    what: Event | Decision | Mark, value: object, tmp_path: Path
) -> None:
    line = msgspec.json.decode(encode(1.0, what))
    file = tmp_path / "journal.jsonl"
    for holder, key in [(line, "at"), *_leaves(line["what"])]:
        before = holder[key]
        if before is None or before == "inf" or type(before) is type(value):
            continue  # it may have this type
        holder[key] = value
        file.write_bytes(msgspec.json.encode(line) + b"\n")
        holder[key] = before
        with pytest.raises(ValueError, match="line 1: not an entry of a journal"):
            [*read(file)]


def test_a_time_is_a_number() -> None:
    with pytest.raises(TypeError, match="expected float, got 'nan'"):
        decode(b'{"at": "nan", "is": "Cycle", "what": {}}')


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the holder and the key of each number, text, and null."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            yield from _leaves(item)
        else:
            yield value, key


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    (tmp_path / "journal.jsonl").touch()
    with pytest.raises(ValueError, match="line 1: longer than 128 MiB"):
        [*read(tmp_path / "journal.jsonl", lambda path: io.BufferedReader(Endless()))]
