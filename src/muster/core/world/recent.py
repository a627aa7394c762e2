"""A cache of what was used most recently, as a dictionary: unlike `functools.lru_cache`, it can be saved."""

from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def recent(cache: dict[K, V], key: K, make: Callable[[K], V], most: int) -> V:
    """Return the key's value, made if it is not there. Of more than `most`, the oldest in use is dropped."""
    value = cache.pop(key, None)
    if value is None:
        value = make(key)
    cache[key] = value
    if len(cache) > most:
        del cache[next(iter(cache))]
    return value
