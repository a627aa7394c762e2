"""Saves the whole state of a scheduler, and restores it.

The events that describe a cluster as it is now do not restore a scheduler that has run for a while: it also
knows what has been tried in vain, which reservations it has announced, and what its queues have borrowed. All
of that decides what it decides next. So the object graph is saved as it is, by pickle.

The bytes may be hostile. `restored` therefore runs only the opcodes that `saved` writes, by the
Python code of the module pickle, and each only on operands of the kind that `saved` gives it. It makes
instances of the core's classes without their `__init__`, plain collections and arrays of numbers, and sets
the attributes of these instances itself. Of the core it calls what hashes and compares values, and no other
function. It changes no class, function or constant, and gives no instance an attribute in place of a method.
"""

import io
import pickle
import struct
import sys
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import FunctionType, MethodType, NoneType
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from muster.core.cycle import Scheduler
from muster.core.demand import NO_CONTEXT
from muster.core.words.events import NOTHING

_CORE: Final = "muster.core"
#: The most bytes of a state before it is compressed. 100,000 pods on 5,000 nodes take 15 MB.
_MOST: Final = 2**26
#: The most numbers of a range.
_LONGEST: Final = 2**24
#: What else a state consists of.
_KNOWN: Final = {
    (cls.__module__, cls.__name__): cls
    for cls in (Counter, OrderedDict, WeakValueDictionary, defaultdict, deque, set)
}
#: What these are made of, besides `set`, which makes the values of a defaultdict.
_CONTENTS: Final = (dict, list, int, NoneType)
#: What a class has that no attribute of an instance stands in for.
_METHODS: Final = (FunctionType, classmethod, staticmethod, property, type, MethodType)
#: What the core compares by identity.
_CONSTANTS: Final = (NOTHING, NO_CONTEXT)
_READ: Final = pickle._Unpickler.dispatch
#: The opcodes that are as harmless as their operands.
_PLAIN: Final = (
    *(pickle.PROTO, pickle.FRAME, pickle.MARK, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2),
    *(pickle.LONG1, pickle.LONG4, pickle.BINFLOAT, pickle.SHORT_BINUNICODE, pickle.BINUNICODE),
    *(pickle.SHORT_BINBYTES, pickle.BINBYTES, pickle.EMPTY_TUPLE, pickle.EMPTY_LIST, pickle.EMPTY_DICT),
    *(pickle.EMPTY_SET, pickle.FROZENSET, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.POP, pickle.POP_MARK, pickle.STACK_GLOBAL, pickle.STOP),
)


class Unreadable(ValueError):
    """The bytes are no state of a scheduler of this version."""


def saved(scheduler: Scheduler) -> bytes:
    """Return the state of a scheduler between two events, compressed.

    Raises ValueError if it is too large to be restored.
    """
    file = io.BytesIO()
    _Saver(file, 5).dump(scheduler)
    if file.tell() > _MOST:
        raise ValueError(f"the state has {file.tell()} bytes; up to {_MOST} can be restored")
    return zlib.compress(file.getbuffer(), 1)


def restored(data: bytes) -> Scheduler:
    """Return the scheduler that was saved. Raises Unreadable."""
    try:
        plain = zlib.decompressobj().decompress(data, _MOST)
        found = _Restorer(io.BytesIO(plain)).load()
    except Exception as error:  # a damaged pickle may raise any exception
        raise Unreadable(f"no state of a scheduler of this version: {error}") from None
    if not isinstance(found, Scheduler):
        raise Unreadable(f"no state of a scheduler, but {type(found).__name__}")
    return found


def copied(scheduler: Scheduler) -> Scheduler:
    """Return a copy that shares nothing with the scheduler."""
    file = io.BytesIO()
    _Saver(file, 5).dump(scheduler)
    copy = pickle.loads(file.getbuffer())  # bytes that have not left the process
    assert isinstance(copy, Scheduler)
    return copy


class _Saver(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # Any: as pickle has it
        if type(value) is Scheduler:
            return _empty, (), vars(value)
        if any(value is constant for constant in _CONSTANTS):
            return _constant, (_CONSTANTS.index(value),)
        if type(value) is np.ndarray:
            return _array, (value.dtype.str, value.shape, value.tobytes())
        if type(value) is WeakValueDictionary:
            return WeakValueDictionary, (dict(value),)
        return NotImplemented


class _Restorer(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # Any: as pickle has it
        if (module, name) in _REPLACED:
            return _REPLACED[module, name]
        if (module, name) in _KNOWN:
            return _KNOWN[module, name]
        found = getattr(sys.modules.get(module), name, None) if _of_core(module) else None
        public = isinstance(found, FunctionType) and not name.startswith("_")
        if not (isinstance(found, type) or public) or found.__module__ != module:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a state")
        return found


def _of_core(module: str) -> bool:
    """Whether states consist of this module's classes. What saves and restores them is no part of them."""
    return module.startswith(f"{_CORE}.") and module != __name__


def _bytes(unpickler: Any) -> None:
    """Make a bytearray. (The original allocates what the length says before it reads.)"""
    (size,) = struct.unpack("<Q", unpickler.read(8))
    unpickler.append(bytearray(unpickler.read(size)))


def _build(unpickler: Any) -> None:
    """Set the attributes of a new object, never those of a class, a function or a constant."""
    state, made = unpickler.stack.pop(), unpickler.stack[-1]
    owner = type(made)
    if not _of_core(owner.__module__) or issubclass(owner, Enum) or any(made is each for each in _CONSTANTS):
        raise pickle.UnpicklingError(f"the attributes of {owner.__name__} are no part of a state")
    for name, value in _attributes(owner, state):
        if type(name) is not str or name.startswith("__") or isinstance(getattr(owner, name, None), _METHODS):
            raise pickle.UnpicklingError(f"this attribute of {owner.__name__} is no part of a state")
        object.__setattr__(made, name, value)


def _attributes(owner: type, state: object) -> Iterable[tuple[str, object]]:
    """Return names and values as pickle has them: of `__dict__`, of slots too, or of a frozen dataclass."""
    match state:
        case dict():
            return state.items()
        case (None | dict() as others, dict() as slots):
            return [*(others or {}).items(), *slots.items()]
        case list() if is_dataclass(owner):
            return zip((each.name for each in fields(owner)), state, strict=True)
    raise pickle.UnpicklingError(f"{owner.__name__} has no attributes in a state")


def _reduce(unpickler: Any) -> None:
    """Call what makes a plain collection, an array, or a method, or find the member of an Enum."""
    made, arguments = unpickler.stack[-2:]
    member = isinstance(made, type) and issubclass(made, Enum) and _of_core(made.__module__)
    if not (member or any(made is each for each in (*_KNOWN.values(), *_REPLACED.values()))):
        raise pickle.UnpicklingError(f"{made} is not called for a state")
    if made in _KNOWN.values() and not all(type(each) in _CONTENTS or each is set for each in arguments):
        raise pickle.UnpicklingError(f"{made.__name__} has plain contents in a state")
    _read(unpickler, pickle.REDUCE, arguments)


def _new(unpickler: Any) -> None:
    """Make an instance of a class of the core."""
    made, arguments = unpickler.stack[-2:]
    if not isinstance(made, type) or not _of_core(made.__module__):
        raise pickle.UnpicklingError(f"{made} is not made for a state")
    _read(unpickler, pickle.NEWOBJ, arguments)


def _read(unpickler: Any, opcode: bytes, arguments: tuple[object, ...]) -> None:
    if any(isinstance(each, range) for each in arguments):  # as a collection, it is many times larger
        raise pickle.UnpicklingError("a range is no argument in a state")
    _READ[opcode[0]](unpickler)


def _filling(opcode: bytes, types: tuple[type, ...]) -> Callable[[Any], None]:
    """Return what adds items to a collection of these types, and to no other object."""
    marked = opcode in (pickle.APPENDS, pickle.SETITEMS, pickle.ADDITEMS)

    def fill(unpickler: Any) -> None:
        below = 2 if opcode == pickle.APPEND else 3
        filled = unpickler.metastack[-1][-1] if marked else unpickler.stack[-below]
        if not isinstance(filled, types):
            raise pickle.UnpicklingError(f"{type(filled).__name__} has no items in a state")
        _READ[opcode[0]](unpickler)

    return fill


_Restorer.dispatch = {opcode[0]: _READ[opcode[0]] for opcode in _PLAIN} | {
    pickle.BYTEARRAY8[0]: _bytes,
    pickle.BUILD[0]: _build,
    pickle.REDUCE[0]: _reduce,
    pickle.NEWOBJ[0]: _new,
    pickle.APPEND[0]: _filling(pickle.APPEND, (list, deque)),
    pickle.APPENDS[0]: _filling(pickle.APPENDS, (list, deque)),
    pickle.SETITEM[0]: _filling(pickle.SETITEM, (dict,)),
    pickle.SETITEMS[0]: _filling(pickle.SETITEMS, (dict,)),
    pickle.ADDITEMS[0]: _filling(pickle.ADDITEMS, (set,)),
}


def _empty() -> Scheduler:
    return Scheduler.__new__(Scheduler)


def _constant(number: int) -> object:
    return _CONSTANTS[number]


def _array(dtype: str, shape: tuple[int, ...], data: bytes) -> npt.NDArray[Any]:
    """Return an array of numbers."""
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _range(start: int, stop: int, step: int) -> range:
    found = range(start, stop, step)
    if len(found) > _LONGEST:
        raise pickle.UnpicklingError(f"a range of {len(found)} numbers is no part of a state")
    return found


def _method(owner: object, name: str) -> Any:
    """Return a method of an object of the core."""
    function = getattr(type(owner), name, None)
    if not _of_core(type(owner).__module__) or not isinstance(function, FunctionType):
        raise pickle.UnpicklingError(f"{name} is no method of the core")
    return MethodType(function, owner)


#: Functions that are called in place of those that a state names.
_REPLACED: Final = {
    ("builtins", "getattr"): _method,
    ("builtins", "range"): _range,
    (__name__, "_array"): _array,
    (__name__, "_constant"): _constant,
    (__name__, "_empty"): _empty,
}
