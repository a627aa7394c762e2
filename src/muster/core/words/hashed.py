"""Values that are keys of many tables."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter


class Hashed:
    """Base of frozen dataclasses that are keys of many tables: their hash is computed once.

    The hash is no field, so it is not compared, copied, pickled or written down. (A dataclass makes its
    own hash unless its body names one: `__hash__ = Hashed.__hash__`.)
    """

    __slots__ = ("_hash",)
    _hash: int
    __match_args__: tuple[str, ...]

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", hash(_fields(self.__match_args__)(self)))
            return self._hash


@cache
def _fields(names: tuple[str, ...]) -> Callable[[object], object]:
    """Return a function that returns these fields of an object."""
    return attrgetter(*names)
