"""The journal: the scheduler's events and decisions as lines on disk, in order.

The runtime writes it. The same events, applied to a new scheduler, give the same decisions in the same
cycles; two marks (`Began`, `Cycle`) say where a new scheduler begins, and where `decide` is called. One JSON
object per line, `{"at": seconds, "is": class name, "what": {...}}`. When a file has grown to `limit` bytes it
is renamed to `<name>.1`, which replaces the previous one: the journal never takes more than twice the limit.
The next file begins with a `Snapshot` of the scheduler, so that it can be replayed without the previous one.
The first scheduler after a crash writes `Began` first, so a crash between the renaming and the snapshot loses
no more lines than any other crash. A line that was cut off by a crash is ignored. A full disk stops the
journal, not the scheduler.
"""

import base64
import logging
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from math import inf
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, BinaryIO, Final, NewType, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec

from muster.core.words.decisions import Decision
from muster.core.words.events import Event, Footprint
from muster.core.words.gang import MOST_DEVICES, MOST_PLACES, Amounts, Gang, Place
from muster.version import VERSION

log = logging.getLogger(__name__)

LIMIT: Final = 64 * 2**20  # bytes per file
_LONGEST: Final = 128 * 2**20  # bytes of a line; a snapshot, the longest, takes less
#: The largest number. A pod's milli-CPU may exceed int64: each of its containers may ask for 2**63 CPUs.
_LARGEST: Final = 2**100
#: Most places of a gang: a PodGroup that is refused for its size counts the pods that exist all the same.
_MOST_PLACES: Final = 20 * MOST_PLACES
_SHOWN: Final = 40  # characters of a value in a message
_BLOCK: Final = 65_536  # bytes read at once, looking for the end of a line


@dataclass(frozen=True, slots=True)
class Began:
    """Marks that the following events are for a new scheduler, that of this epoch's leader."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Marks that `decide` is called with this time; its decisions follow, if there are any.

    A cycle without decisions counts too: what is held, and until when, may change in it.
    """


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Marks that the following lines are for a scheduler in this state.

    Decisions that come directly after it are of the cycle before it.
    """

    #: the version of muster that can read it
    version: str
    #: what `core.saved` returns, in base64
    state: str


Mark = Began | Cycle | Snapshot

_CLASSES: Final = {cls.__name__: cls for union in (Event, Decision, Mark) for cls in get_args(union)}


class Recorder(Protocol):
    """Takes the scheduler's events, decisions and marks, in their order: a journal, or a `Tee` of several."""

    def write(self, at: float, what: Event | Decision | Mark) -> None: ...


@dataclass(frozen=True, slots=True)
class Tee:
    """Several recorders as one."""

    recorders: Sequence[Recorder]

    def write(self, at: float, what: Event | Decision | Mark) -> None:
        for recorder in self.recorders:
            recorder.write(at, what)


@dataclass(frozen=True, slots=True)
class Entry:
    at: float
    what: Event | Decision | Mark


class Journal:
    """Writes a journal. `state`: the state of the scheduler whose events and decisions it writes."""

    def __init__(self, path: Path, limit: int = LIMIT, state: Callable[[], bytes] | None = None) -> None:
        self._path, self._limit, self._state = path, limit, state
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file: BinaryIO = _appending(path)
        self._size = _whole_lines(path)
        if self._size < self._file.tell():
            self._file.truncate(self._size)

    def write(self, at: float, what: Event | Decision | Mark) -> None:
        if self._file.closed:
            return
        line = encode(at, what) + b"\n"
        try:
            if self._size and self._size + len(line) > self._limit:
                self._rotate()
                if self._state is not None and not isinstance(what, Began):
                    self._put_snapshot(at, self._state)
            self._put(line)
        except OSError as error:
            log.error("%s ends here: %s", self._path, error)
            self._file.close()

    def close(self) -> None:
        self._file.close()

    def _put_snapshot(self, at: float, state: Callable[[], bytes]) -> None:
        try:
            found = base64.b64encode(state()).decode()
        except Exception:  # a fault in the state must not stop the scheduler
            log.exception("%s begins without a snapshot of the scheduler", self._path)
            return
        line = encode(at, Snapshot(VERSION, found)) + b"\n"
        if len(line) <= self._limit // 2:
            self._put(line)
        else:  # it would take more than half of each file, and the rest would soon be full
            log.warning(
                "%s: a snapshot of the scheduler has %d bytes, more than half of the journal's size of %d; "
                "this file cannot be replayed without the previous one",
                self._path,
                len(line),
                self._limit,
            )

    def _put(self, line: bytes) -> None:
        self._size += len(line)
        while line:
            line = line[self._file.write(line) :]

    def _rotate(self) -> None:
        self._file.close()
        os.replace(self._path, previous(self._path))
        self._file = _appending(self._path)
        self._size = 0


def _appending(path: Path) -> BinaryIO:
    """The file, readable by its owner only: it names jobs of all namespaces."""

    def private(name: str, flags: int) -> int:
        descriptor = os.open(name, flags, 0o600)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            with suppress(PermissionError):  # another user's, who chose its mode
                os.fchmod(descriptor, 0o600)
        return descriptor

    return open(path, "ab", buffering=0, opener=private)  # open until the journal ends


def read(path: Path, opened: Callable[[Path], IO[bytes]] = lambda file: file.open("rb")) -> Iterator[Entry]:
    """Yield what was written, oldest first; raises ValueError for a line that is not of a journal."""
    for file in (previous(path), path):
        if not file.exists():
            continue
        with opened(file) as lines:
            for number, line in enumerate(iter(partial(lines.readline, _LONGEST), b""), 1):
                if len(line) == _LONGEST:
                    raise ValueError(f"{file}, line {number}: longer than {_LONGEST >> 20} MiB")
                if not line.endswith(b"\n"):
                    break  # cut off by a crash
                try:
                    yield decode(line)
                except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                    raise ValueError(f"{file}, line {number}: not an entry of a journal: {error}") from None


def _whole_lines(path: Path) -> int:
    """Return the bytes up to the end of the last whole line: the rest was cut off by a crash."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
    return 0


def previous(path: Path) -> Path:
    """Return the path of the previous, full file."""
    return path.with_name(path.name + ".1")


def encode(at: float, what: Event | Decision | Mark) -> bytes:
    return msgspec.json.encode({"at": at, "is": type(what).__name__, "what": _plain(what)})


def decode(line: bytes) -> Entry:
    body = msgspec.json.decode(line)
    return Entry(_typed(float, body["at"]), _typed(_CLASSES[body["is"]], body["what"]))


def _plain(value: Any) -> Any:  # Any: JSON
    """Return a value as JSON. Places become `set/index`, so that they can be keys; infinity becomes a word.

    The scheduler waits for this: the exact types that nearly all values have come first.
    """
    type_: Any = type(value)  # Any: a class
    if type_ in _ATOMS:
        return value
    if type_ is float:
        return "inf" if value == inf else value
    if type_ is tuple or type_ is list:
        return [_plain(item) for item in value]
    if type_ is Place:
        return str(value)
    if is_dataclass(value):
        return {
            name: getattr(value, name) if plain else _plain(getattr(value, name))
            for name, plain in _fields(type_)
        }
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in sorted(value.items())}
    if isinstance(value, Set):
        return sorted(map(_plain, value))
    return value.value if isinstance(value, Enum) else value


_ATOMS: Final = frozenset({str, int, bool, NoneType})
#: Fields by their names in journals of earlier versions.
_RENAMED: Final = {
    "presence": "footprint",
    "near": "pod_affinity",
    "apart": "pod_anti_affinity",
    "drawn": "preferred_pod_affinity",
}


@cache
def _fields(cls: Any) -> tuple[tuple[str, bool], ...]:  # Any: a dataclass
    """The names of the fields, and whether msgspec encodes the field's values as `_plain` would."""
    hints = _hints(cls)
    return tuple((field.name, _is_plain(hints[field.name])) for field in fields(cls))


@cache
def _is_plain(type_: Any) -> bool:  # Any: types as values
    """Whether msgspec encodes all values of a type as `_plain` would; not so Place, and infinity."""
    if isinstance(type_, NewType):
        return _is_plain(type_.__supertype__)
    if get_origin(type_) in (tuple, UnionType, Union):
        return all(inner is Ellipsis or _is_plain(inner) for inner in get_args(type_))
    if type_ in _ATOMS or not isinstance(type_, type):
        return type_ in _ATOMS
    if is_dataclass(type_) and type_ is not Place:
        return all(plain and not name.startswith("_") for name, plain in _fields(type_))
    return issubclass(type_, Enum)


def _typed(type_: Any, value: Any) -> Any:  # Any: types as values, and JSON
    """Return the value of this type from which `_plain` made `value`."""
    if isinstance(type_, NewType):
        return _typed(type_.__supertype__, value)
    origin, args = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return None if value is None else _typed(next(arg for arg in args if arg is not NoneType), value)
    if origin is tuple:
        each = [args[0]] * len(value) if args[-1:] == (Ellipsis,) else args
        items = tuple(_typed(arg, item) for arg, item in zip(each, value, strict=True))
        if type_ == Amounts and len(dict(items)) < len(items):
            raise ValueError(f"an amount is given twice: {str(value)[:_SHOWN]!r}")
        return items
    if origin is frozenset:
        return frozenset(_typed(args[0], item) for item in value)
    if origin is Mapping:
        return {_typed(args[0], key): _typed(args[1], item) for key, item in value.items()}
    if type_ is Place:
        pod_set, _, index = value.rpartition("/")
        return Place(pod_set, int(index))
    if isinstance(type_, type) and is_dataclass(type_):
        hints = _hints(type_)
        named = ((_RENAMED.get(name, name), item) for name, item in value.items())
        made = type_(**{name: _typed(hints[name], item) for name, item in named})
        _check(made)
        return made
    if issubclass(type_, Enum):
        return type_(value)
    if type(value) in (int, float) and abs(value) > _LARGEST:
        raise ValueError(f"{str(value)[:_SHOWN]} is out of range")
    if type_ is float and (type(value) in (int, float) or value == "inf"):
        return float(value)
    if type(value) is not type_:
        raise TypeError(f"expected {type_.__name__}, got {str(value)[:_SHOWN]!r}")
    return value


def _check(made: object) -> None:
    """Raise ValueError for a number that would take the core's memory."""
    match made:
        case Gang(id=id, pod_sets=sets):
            for pod_set in sets:
                _within(f"gang {id}: count of pod set {pod_set.name}", pod_set.count, _MOST_PLACES)
            _within(f"gang {id}: number of places", sum(pod_set.count for pod_set in sets), _MOST_PLACES)
        case Footprint(device=int(device)):
            _within("device", device, MOST_DEVICES - 1)


def _within(name: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise ValueError(f"{name[: _SHOWN * 3]} is {number}; expected 0 to {most}")


@cache
def _hints(cls: Any) -> dict[str, Any]:  # Any: a class, and types as values
    return get_type_hints(cls)
