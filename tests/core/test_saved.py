"""The state of a scheduler is saved and restored, and nothing else is.

That a restored scheduler decides as the saved one would have is checked by the rule machine
(`test_invariants.py`), by journals (`tests/sim/test_recheck.py`), and here across processes.
"""

import ast
import importlib
import os
import pickle
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from pickletools import genops
from types import FrameType, SimpleNamespace

import numpy as np
import pytest

import muster.core
from muster.core.cycle import Config, Scheduler
from muster.core.saved import Unreadable, _array, _Restorer, restored, saved
from muster.core.words.decisions import Assign
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Code, NodeName
from muster.core.world.completions import expected
from tests.core.scenario import facts

PROGRAM = """
import sys
from muster.core.saved import restored
from muster.core.words.events import NodeChanged
scheduler = restored(sys.stdin.buffer.read())
scheduler.apply(NodeChanged("new", (("cpu", 10**6), ("nvidia.com/gpu", 16))))
for decision in scheduler.decide(2.0):
    print(decision)
"""


@pytest.mark.parametrize("hashes", ["1", "2"])
def test_a_restored_scheduler_continues_in_a_process_with_other_hashes(hashes: str) -> None:
    scheduler = Scheduler()
    for event in facts(3):
        scheduler.apply(event)
    assert scheduler.decide(1.0)
    there = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=saved(scheduler),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": hashes},
        check=True,
    )
    scheduler.apply(NodeChanged(NodeName("new"), (("cpu", 10**6), ("nvidia.com/gpu", 16))))
    here = scheduler.decide(2.0)
    assert any(isinstance(decision, Assign) for decision in here)
    assert there.stdout.decode().splitlines() == [*map(str, here)]


CORE = Path(muster.core.__file__).parent
#: These are compared by identity, but are never part of a state.
OF_ONE_CALL = {"NEVER", "_NONE"}


def _compared_by_identity() -> Iterator[object]:
    """Constants of the core that some module compares by identity, other than classes and their members."""
    for file in sorted(CORE.rglob("*.py")):
        name = ".".join(("muster.core", *file.relative_to(CORE).with_suffix("").parts))
        module = importlib.import_module(name.removesuffix(".__init__"))
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
                for side in (node.left, *node.comparators):
                    if isinstance(side, ast.Name) and side.id.isupper() and side.id not in OF_ONE_CALL:
                        yield getattr(module, side.id)


def test_constants_are_themselves_again() -> None:
    """Copies of constants that are compared by identity would be taken for other values."""
    constants = [*_compared_by_identity()]
    assert constants
    for constant in constants:
        scheduler = Scheduler()
        scheduler.served = (constant,)  # type: ignore[assignment]  # any object
        assert restored(saved(scheduler)).served[0] is constant


def test_the_configuration_is_saved() -> None:
    again = restored(saved(Scheduler(Config(hold=7.0))))
    assert type(again) is Scheduler
    assert again.config == Config(hold=7.0)


class Call:
    """Pickled, it is the call of a function."""

    def __init__(self, *call: object) -> None:
        self.call = call

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        function, *arguments = self.call
        return function, tuple(arguments)


@pytest.mark.parametrize(
    "value",
    [
        Call(os.mkdir, "made"),
        Call(getattr, Call(os.mkdir, "made"), "x"),
        Call(getattr, Scheduler, "__init__"),
        Call(getattr, SimpleNamespace(), "__init__"),
        Call(np.load, "made"),
        Call(np.dtype, "O"),
        np.float64(1.0),
        Path("made"),
        {"config": None},
        [],
    ],
)
def test_what_is_no_state_is_not_read(value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unreadable):
        restored(zlib.compress(pickle.dumps(value)))
    assert list(tmp_path.iterdir()) == []


def text(value: str) -> bytes:
    return pickle.SHORT_BINUNICODE + bytes([len(value)]) + value.encode()


def named(module: str, name: str) -> bytes:
    return text(module) + text(name) + pickle.STACK_GLOBAL


def number(value: int) -> bytes:
    return pickle.LONG1 + b"\x08" + value.to_bytes(8, "little", signed=True)


def numbers(count: int) -> bytes:
    return named("builtins", "range") + number(0) + number(count) + number(1) + pickle.TUPLE3 + pickle.REDUCE


def set_(attribute: str, value: bytes) -> bytes:
    """Sets an attribute of the object on the stack, as for an object with slots."""
    item = pickle.EMPTY_DICT + text(attribute) + value + pickle.SETITEM
    return pickle.NONE + item + pickle.TUPLE2 + pickle.BUILD


SCHEDULER = named("muster.core.cycle", "Scheduler")
ARRAY = named("muster.core.saved", "_array")
EXPECTED = named("muster.core.world.completions", "expected")
CODE = named("muster.core.words.gang", "Code") + text("Gated") + pickle.TUPLE1 + pickle.REDUCE
OBJECT = SCHEDULER + pickle.EMPTY_TUPLE + pickle.NEWOBJ

STATES = {
    "a class that changes": SCHEDULER + set_("decide", EXPECTED),
    "a function that changes": EXPECTED + set_("__defaults__", pickle.EMPTY_TUPLE),
    "this module's functions change": ARRAY + set_("__defaults__", pickle.EMPTY_TUPLE),
    "what restores states changes": named("muster.core.saved", "_Restorer") + set_("find_class", EXPECTED),
    "a member of an Enum changes": CODE + set_("_value_", text("x")),
    "a constant changes": named("muster.core.saved", "_constant")
    + (number(0) + pickle.TUPLE1 + pickle.REDUCE)
    + (pickle.EMPTY_LIST + pickle.BUILD),
    "a method changes": named("builtins", "getattr")
    + (OBJECT + text("decide") + pickle.TUPLE2 + pickle.REDUCE)
    + set_("x", pickle.NONE),
    "a function is called": EXPECTED + pickle.NONE + pickle.TUPLE1 + pickle.REDUCE,
    "a class is called": named("muster.core.world.queues", "Queues") + pickle.EMPTY_TUPLE + pickle.REDUCE,
    "a class of elsewhere is made": named("muster.api.base", "Struct") + pickle.EMPTY_TUPLE + pickle.NEWOBJ,
    "a private function": named("muster.core.world", "_set"),
    "an object that says how its attributes are set": OBJECT
    + set_("__setstate__", EXPECTED)
    + (text("x") + pickle.BUILD),
    "an attribute in place of a method": OBJECT + set_("decide", EXPECTED),
    "an attribute whose name is an object": OBJECT
    + (
        pickle.NONE + pickle.EMPTY_DICT + OBJECT + pickle.NONE + pickle.SETITEM + pickle.TUPLE2 + pickle.BUILD
    ),
    "a collection of what an object of the core yields": named("collections", "deque")
    + (named("muster.core.queueing", "Attempts") + pickle.EMPTY_TUPLE + pickle.NEWOBJ)
    + (pickle.TUPLE1 + pickle.REDUCE),
    "a function that makes the values of a dictionary": named("collections", "defaultdict")
    + (EXPECTED + pickle.TUPLE1 + pickle.REDUCE),
    "items for an object that has its own way": OBJECT
    + set_("extend", SCHEDULER)
    + (pickle.MARK + pickle.NONE + pickle.APPENDS),
    "a long range": numbers(2**60),
    "many numbers from a short range": named("collections", "deque")
    + (numbers(1000) + pickle.TUPLE1 + pickle.REDUCE),
    "a tuple from a range": named("muster.core.words.gang", "Place")
    + (numbers(1000) + pickle.TUPLE1 + pickle.NEWOBJ),
    "a large memo": pickle.NONE + pickle.LONG_BINPUT + (2**27).to_bytes(4, "little"),
    "a long bytearray": pickle.BYTEARRAY8 + (2**62).to_bytes(8, "little"),
    "an old opcode": b"cmuster.core.cycle\nScheduler\n",
    "objects instead of numbers": ARRAY
    + (text("O") + pickle.EMPTY_TUPLE + pickle.SHORT_BINBYTES + b"\x08" + bytes(8) + pickle.TUPLE3)
    + pickle.REDUCE,
}


def _called_of_core(state: bytes) -> set[str]:
    """Which functions of the core run while this is read, besides those of `saved`."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(CORE) and file.name != "saved.py":
            found.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        with suppress(Unreadable):
            restored(state)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_hostile_state_runs_nothing(state: bytes) -> None:
    assert not _called_of_core(zlib.compress(pickle.PROTO + b"\x05" + state + pickle.STOP))


def test_a_state_is_read_without_the_functions_of_what_is_in_it() -> None:
    scheduler = Scheduler()
    for event in facts(3):
        scheduler.apply(event)
    scheduler.decide(1.0)
    assert _called_of_core(saved(scheduler)) <= {"__hash__", "_fields"}


def test_only_opcodes_that_states_have_are_read() -> None:
    scheduler = Scheduler()
    for event in facts(3):
        scheduler.apply(event)
    scheduler.decide(1.0)
    written = {opcode.code for opcode, _, _ in genops(zlib.decompress(saved(scheduler)))}
    read = {chr(code) for code in _Restorer.dispatch}
    assert written <= read
    # Those that call or import something, other than by what this page tests.
    assert not read & {"c", "i", "o", "P", "Q", "\x92", "\x82", "\x83", "\x84"}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_no_state_changes_or_calls_what_exists_or_is_larger_than_its_bytes(state: bytes) -> None:
    classes = (Scheduler, _Restorer, type(Code.GATED))
    before = [*map(dict, map(vars, classes)), expected.__defaults__, _array.__defaults__, Code.GATED.value]
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match="of this version"):
            restored(zlib.compress(pickle.PROTO + b"\x05" + state + pickle.STOP))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    after = [*map(dict, map(vars, classes)), expected.__defaults__, _array.__defaults__, Code.GATED.value]
    assert after == before


@pytest.mark.parametrize(
    "data",
    [b"", b"text", zlib.compress(b""), zlib.compress(b"text"), saved(Scheduler())[:99]],
    ids=["empty", "text", "empty, compressed", "text, compressed", "cut off"],
)
def test_damaged_bytes_are_not_read(data: bytes) -> None:
    with pytest.raises(Unreadable):
        restored(data)
