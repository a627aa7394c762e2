"""Caches that controllers read: one per kind, shared by all controllers, with indexes.

Each cache is fed by a reflector and therefore shows every object of its kind at some recent revision,
`version`. A controller that has written revision 17 of a pod, and sees the pod cache at 17 or later, sees
its own write. This is how the driver keeps a controller from acting twice on one observation
(`muster.controllers.driver`).

Revisions are compared as integers. etcd and the embedded store both count them so; a server that does
not is treated as if it were always up to date.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from muster.api.base import AnyKind, Kind, Resource, revision

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class Index:
    """An additional way to look up objects of a kind: by each of their `values`."""

    kind: AnyKind
    name: str
    values: Callable[[Any], Iterable[str]]  # Any: an object of `kind`


class Cache(Generic[R]):
    """The objects of one kind, by `namespace/name`, by owner and by further indexes."""

    def __init__(self, kind: Kind[R], indexes: Iterable[Index] = ()) -> None:
        self.kind = kind
        self.items: dict[str, R] = {}
        self.version = 0
        self._indexes: dict[str, Callable[[Any], Iterable[str]]] = {OWNER: _owner_uids}
        for index in indexes:
            known = self._indexes.setdefault(index.name, index.values)
            if known is not index.values:
                raise ValueError(f"two indexes of {kind.plural} are called {index.name}")
        self._found: dict[tuple[str, str], dict[str, R]] = {}

    def get(self, key: str) -> R | None:
        return self.items.get(key)

    def owned_by(self, owner: Resource) -> list[R]:
        """Returns the objects with an owner reference to this one, in order of key.

        An object of a namespace owns nothing in another, whatever is written there.
        """
        namespace, found = owner.metadata.namespace, self.by(OWNER, owner.metadata.uid)
        return [each for each in found if not namespace or each.metadata.namespace == namespace]

    def by(self, index: str, value: str) -> list[R]:
        """Returns the objects that `index` files under `value`, in order of key."""
        found = self._found.get((index, value))
        return [found[key] for key in sorted(found)] if found else []

    def change(self, old: R | None, new: R | None) -> None:
        """Takes in a change: `old` is None for a new object, `new` for one that is gone."""
        entries = self._entries(new) if new is not None else set()
        if old is not None:
            for entry in self._entries(old) - entries:
                filed = self._found[entry]
                filed.pop(old.key, None)
                if not filed:
                    del self._found[entry]
        if new is not None:
            self.items[new.key] = new
            for entry in entries:
                self._found.setdefault(entry, {})[new.key] = new
        elif old is not None:
            self.items.pop(old.key, None)

    def progress(self, resource_version: str) -> None:
        """Notes that the cache is complete up to this revision."""
        self.version = max(self.version, revision(resource_version))

    def _entries(self, item: R) -> set[tuple[str, str]]:
        return {(name, value) for name, values in self._indexes.items() for value in values(item)}


class Caches:
    """All caches, by kind."""

    def __init__(self, kinds: Iterable[AnyKind], indexes: Iterable[Index] = ()) -> None:
        wanted = list(indexes)
        self._caches: dict[AnyKind, Cache[Any]] = {  # Any: one mapping over many kinds
            kind: Cache(kind, [index for index in wanted if index.kind is kind])
            for kind in [*kinds, *(index.kind for index in wanted)]
        }

    def __getitem__(self, kind: Kind[R]) -> Cache[R]:
        return self._caches[kind]

    def __contains__(self, kind: AnyKind) -> bool:
        return kind in self._caches

    def __iter__(self) -> Iterator[Cache[Any]]:
        return iter(self._caches.values())

    def behind(self, versions: Mapping[AnyKind, int]) -> AnyKind | None:
        """Returns the first of these kinds whose cache has not reached its revision; None if all have."""
        return next(
            (kind for kind, version in versions.items() if self._caches[kind].version < version), None
        )


OWNER = "owner"


def _owner_uids(item: Resource) -> list[str]:
    return [reference.uid for reference in item.metadata.owner_references]
