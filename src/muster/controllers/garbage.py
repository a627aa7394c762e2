"""Garbage collection: deletes objects whose owners are gone.

Owners are named by uid in `ownerReferences`. A dependent is deleted if none of its owners exists, even if
its owner was gone before the dependent was created. The owner's deletion policy decides the rest:

- Background: the owner is deleted at once, then its dependents.
- Foreground: the finalizer `foregroundDeletion` keeps the owner, which counts as gone for its dependents,
  until the dependents that block it (`blockOwnerDeletion`) are gone, too.
- Orphan: the finalizer `orphan` keeps the owner until no dependent refers to it any more.

An owner that is missing from a cache is not proof: it may be newer than what the cache shows. Before a
dependent is deleted, the controller asks the API server itself for each owner (`Absent`). An owner of a kind
that muster does not know counts as present: what cannot be checked is not deleted.

Source: kubernetes, pkg/controller/garbagecollector/garbagecollector.go. Upstream keeps one graph of all
uids; here the caches' index by owner is that graph. Events have no dependents and no owners, so they are not
watched. As upstream, owners that own each other in a circle are not collected.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from muster.api import kinds
from muster.api.base import AnyKind, Object, OwnerReference, Resource
from muster.controllers.caches import Caches
from muster.controllers.driver import Change, Controller, Watch
from muster.effects import Absent, Delete, Effect, Patch

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
KINDS: tuple[AnyKind, ...] = tuple(kind for kind in kinds.ALL if kind is not kinds.EVENT)


class Standing(Enum):
    PRESENT = "present"
    #: present, and kept only until its dependents are gone
    WAITING = "waiting"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Owner:
    reference: OwnerReference
    kind: AnyKind | None  # None if muster does not know the kind
    standing: Standing


@dataclass(frozen=True, slots=True)
class Dependent:
    kind: AnyKind
    item: Resource


@dataclass(frozen=True, slots=True)
class Observed:
    kind: AnyKind
    item: Resource
    owners: tuple[Owner, ...]
    #: filled only for an object that is deleted or kept by its dependents; not needed for others
    dependents: tuple[Dependent, ...]


def controller(collected: Sequence[AnyKind] = KINDS) -> Controller[Observed]:
    """Returns the controller for the driver. A key is `apiVersion kind namespace/name`."""
    return Controller(
        "garbage", tuple(Watch(kind, _concerned(kind)) for kind in collected), observe, reconcile
    )


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    if observed.item.metadata.deletion_timestamp is not None:
        return _let_go(observed)
    absent = [owner for owner in observed.owners if owner.standing is Standing.ABSENT]
    leaving = [owner for owner in observed.owners if owner.standing is not Standing.PRESENT]
    if not leaving:
        return []
    checks: list[Effect] = [_check(observed, owner) for owner in absent]
    if len(leaving) < len(observed.owners):
        gone = {owner.reference.uid for owner in leaving}
        return [*checks, _without_owners(observed.kind, observed.item, gone)]
    meta = observed.item.metadata
    foreground = bool(observed.dependents) and len(absent) < len(leaving)
    return [
        *checks,
        Delete(
            observed.kind,
            meta.namespace,
            meta.name,
            meta.uid,
            "Foreground" if foreground else "Background",
        ),
    ]


def observe(caches: Caches, key: str) -> Observed | None:
    api_version, name, path = key.split(" ", 2)
    kind = kinds.BY_NAME[api_version, name]
    item = caches[kind].get(path)
    if item is None:
        return None
    owners = tuple(_owner(caches, kind, item, ref) for ref in item.metadata.owner_references)
    goes = any(owner.standing is not Standing.PRESENT for owner in owners)
    if not goes and not _is_kept(item):
        return None  # as for nearly all; a Job with 10,000 pods is checked for each of them
    return Observed(kind, item, owners, tuple(_dependents(caches, item)))


def _let_go(observed: Observed) -> list[Effect]:
    """Handles an object that is being deleted: its dependents may keep it, by either finalizer."""
    meta = observed.item.metadata
    if ORPHAN in meta.finalizers:
        freed = [_without_owners(d.kind, d.item, {meta.uid}) for d in observed.dependents]
        return [*freed, _without_finalizer(observed, ORPHAN)]
    if FOREGROUND not in meta.finalizers:
        return []
    blocking = (
        ref
        for dependent in observed.dependents
        for ref in dependent.item.metadata.owner_references
        if ref.uid == meta.uid and ref.block_owner_deletion
    )
    return [] if any(blocking) else [_without_finalizer(observed, FOREGROUND)]


def _check(observed: Observed, owner: Owner) -> Absent:
    assert owner.kind is not None, "owners of unknown kinds count as present"
    namespace = observed.item.metadata.namespace if owner.kind.namespaced else ""
    return Absent(owner.kind, namespace, owner.reference.name, owner.reference.uid)


def _without_owners(kind: AnyKind, item: Resource, uids: set[str]) -> Patch:
    """Removes owner references; conditional, since a merge patch replaces the whole list."""
    meta = item.metadata
    kept = [_as_json(ref) for ref in meta.owner_references if ref.uid not in uids]
    body: Object = {"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": kept}}
    return Patch(kind, meta.namespace, meta.name, body)


def _without_finalizer(observed: Observed, finalizer: str) -> Patch:
    meta = observed.item.metadata
    kept = [name for name in meta.finalizers if name != finalizer]
    body: Object = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept}}
    return Patch(observed.kind, meta.namespace, meta.name, body)


def _owner(caches: Caches, kind: AnyKind, item: Resource, ref: OwnerReference) -> Owner:
    found = kinds.BY_NAME.get((ref.api_version, ref.kind))
    if found is None or found not in caches or (found.namespaced and not kind.namespaced):
        return Owner(ref, None, Standing.PRESENT)
    namespace = item.metadata.namespace
    owner = caches[found].get(f"{namespace}/{ref.name}" if found.namespaced else ref.name)
    if owner is None or owner.metadata.uid != ref.uid:
        return Owner(ref, found, Standing.ABSENT)
    meta = owner.metadata
    waiting = meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers
    return Owner(ref, found, Standing.WAITING if waiting else Standing.PRESENT)


def _dependents(caches: Caches, item: Resource) -> Iterable[Dependent]:
    for cache in caches:
        for dependent in cache.owned_by(item):
            yield Dependent(cache.kind, dependent)


def _is_kept(item: Resource) -> bool:
    """Whether the object is being deleted and waits for this controller."""
    meta = item.metadata
    return meta.deletion_timestamp is not None and not {FOREGROUND, ORPHAN}.isdisjoint(meta.finalizers)


def _concerned(kind: AnyKind) -> Callable[[Change], Iterable[str]]:
    """Returns a function from changes of `kind` to the keys to reconcile: quickly none, for most changes."""

    def keys(change: Change) -> Iterable[str]:
        old: Resource | None = change.old
        new: Resource | None = change.new
        if new is not None:
            if old is not None and _ties(old) == _ties(new):
                return
            yield _key(kind, new)
        for item in change.objects:
            yield from _owner_keys(item)
        if new is None or _is_kept(new):
            for dependent in _dependents(change.caches, change.objects[-1]):
                yield _key(dependent.kind, dependent.item)

    return keys


def _ties(item: Resource) -> object:
    meta = item.metadata
    return meta.owner_references, meta.finalizers, meta.deletion_timestamp is None


def _owner_keys(item: Resource) -> Iterable[str]:
    """Yields the object's owners: they wait for it to be deleted, and must notice one created too late."""
    for ref in item.metadata.owner_references:
        kind = kinds.BY_NAME.get((ref.api_version, ref.kind))
        if kind is not None:
            path = f"{item.metadata.namespace}/{ref.name}" if kind.namespaced else ref.name
            yield f"{kind.api_version} {kind.kind} {path}"


def _key(kind: AnyKind, item: Resource) -> str:
    return f"{kind.api_version} {kind.kind} {item.key}"


def _as_json(ref: OwnerReference) -> Object:
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "name": ref.name,
        "uid": ref.uid,
        "controller": ref.controller,
        "blockOwnerDeletion": ref.block_owner_deletion,
    }
