"""Saves the whole state of a scheduler, and restores it.

The events that describe a cluster as it is now do not restore a scheduler that has run for a while: it also
knows what has been tried in vain, which reservations it has announced, and what its queues have borrowed. All
of that decides what it decides next. So the object graph is saved as it is, by pickle.

The bytes may be hostile. `restored` therefore constructs only classes of the core, plain collections
and arrays of numbers, and calls only functions of the core, which have no side effects.
"""

import io
import pickle
import sys
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from types import FunctionType
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from muster.core.cycle import Scheduler
from muster.core.demand import NO_CONTEXT
from muster.core.words.events import NOTHING

_CORE: Final = "muster.core"
#: The most bytes of a state. 100,000 pods on 5,000 nodes take 15 MB.
_MOST: Final = 2**28
#: What else a state consists of.
_KNOWN: Final = {
    (cls.__module__, cls.__name__): cls
    for cls in (Counter, OrderedDict, WeakValueDictionary, defaultdict, deque, range, set)
}
#: What the core compares by identity.
_CONSTANTS: Final = (NOTHING, NO_CONTEXT)


class Unreadable(ValueError):
    """The bytes are no state of a scheduler of this version."""


def saved(scheduler: Scheduler) -> bytes:
    """Return the state of a scheduler between two events, compressed."""
    file = io.BytesIO()
    _Saver(file, 5).dump(scheduler)
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


class _Saver(pickle.Pickler):
    def reducer_override(self, value: object) -> Any:  # Any: as pickle has it
        if isinstance(value, Scheduler):  # of a subclass, only what the core knows
            known = vars(Scheduler(value.config))
            return _empty, (), {name: getattr(value, name) for name in known}
        if any(value is constant for constant in _CONSTANTS):
            return _constant, (_CONSTANTS.index(value),)
        if type(value) is np.ndarray:
            return _array, (value.dtype.str, value.shape, value.tobytes())
        if type(value) is WeakValueDictionary:
            return WeakValueDictionary, (dict(value),)
        return NotImplemented


class _Restorer(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # Any: as pickle has it
        if (module, name) == ("builtins", "getattr"):
            return _method
        if (module, name) in _KNOWN:
            return _KNOWN[module, name]
        found = getattr(sys.modules.get(module), name, None) if module.startswith(f"{_CORE}.") else None
        if not isinstance(found, (type, FunctionType)) or found.__module__ != module:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a state")
        return found


def _empty() -> Scheduler:
    return Scheduler.__new__(Scheduler)


def _constant(number: int) -> object:
    return _CONSTANTS[number]


def _array(dtype: str, shape: tuple[int, ...], data: bytes) -> npt.NDArray[Any]:
    """Return an array of numbers."""
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _method(owner: object, name: str) -> Any:
    """Return a method of an object of the core."""
    function = getattr(type(owner), name, None)
    if not type(owner).__module__.startswith(f"{_CORE}.") or not isinstance(function, FunctionType):
        raise pickle.UnpicklingError(f"{name} is no method of the core")
    return getattr(owner, name)
