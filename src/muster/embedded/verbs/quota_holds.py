"""Quota that is held for groups whose pods are still to be created: their `totalResources`.

A group that is created takes as much of each ResourceQuota as its total asks for, or is refused. Its pods
then use what is held: a quota is charged for the group with its total less what its pods, also those that
have ended, ask for, and not with less than nothing. The rest is given back with the group, or once its status
says that it has finished, or waited too long (`Asked.total`). So a namespace loses at most its own quota to a
group without pods.

A quota with scopes holds nothing: which of them match pods is known once there are pods.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from muster.api import groups, kinds
from muster.api.base import Object
from muster.api.core_v1 import Pod, ResourceQuota
from muster.api.groups import Dialect
from muster.embedded.api_errors import AnyKind, resource
from muster.embedded.storage.store import Store
from muster.translate import quotas

_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: JSON
_POD: Final = msgspec.json.Decoder(Pod)
#: A group, whichever object describes it: the dialect of its gang, and its name.
_Group = tuple[Dialect, str]


def change(
    store: Store, kind: AnyKind, quota: ResourceQuota, new: Object | None, old: Object | None
) -> Mapping[str, int]:
    """Returns by how much a write of an object changes what a quota holds, by the quota's own names."""
    found = Counter[str]()
    if not _holds(quota):
        return found
    for group in dict.fromkeys(each for obj in (new, old) if obj is not None for each in _groups(kind, obj)):
        for obj, sign in ((new, 1), (old, -1)):
            for what, amount in _held(store, quota, group, kind, obj, new or old).items():
                found[what] += sign * amount
    return found


def all_of(store: Store, quota: ResourceQuota) -> Mapping[str, int]:
    """Returns what a quota holds for the groups of its namespace."""
    found = Counter[str]()
    for group in _all_groups(store, quota.metadata.namespace) if _holds(quota) else ():
        found.update(_held(store, quota, group))
    return found


def touches(kind: AnyKind) -> bool:
    """Whether a change of such an object may change what is held."""
    return kind is kinds.POD or kind in groups.OF_NAMED


def _holds(quota: ResourceQuota) -> bool:
    return not quota.spec.scopes and quota.spec.scope_selector is None


def _groups(kind: AnyKind, obj: Object) -> Iterable[_Group]:
    """Yields the group that an object is, or that a pod names."""
    if kind in groups.OF_NAMED:
        yield groups.BY_KIND[kind].naming, obj["metadata"]["name"]
    elif kind is kinds.POD and (named := groups.named_in(obj)) is not None:
        yield named.dialect, named.name


def _all_groups(store: Store, namespace: str) -> Iterable[_Group]:
    found = dict[_Group, None]()
    for row in groups.NAMED:
        found.update(((row.naming, name), None) for _, name, _ in store.scan(resource(row.kind), namespace))
    return found


def _held(
    store: Store,
    quota: ResourceQuota,
    group: _Group,
    kind: AnyKind | None = None,
    obj: Object | None = None,
    instead: Object | None = None,
) -> Mapping[str, int]:
    """Returns what is held for a group. `obj` counts instead of what is stored of `instead`."""
    naming, name = group
    namespace = quota.metadata.namespace
    total: Mapping[str, int] = {}
    for row in groups.SHARING[naming]:
        if row.kind is kind:
            found = obj
        else:
            body = store.get(resource(row.kind), namespace, name)
            found = _OBJECT.decode(body) if body is not None else None
        if found is not None:
            total = quotas.of_total(quota, row.read(found).total) if row.asked is not None else {}
            break
    if not any(total.values()):
        return {}
    other = instead["metadata"]["name"] if kind is kinds.POD and instead is not None else None
    pods = [pod for pod in _pods(store, namespace, group) if pod.metadata.name != other]
    if kind is kinds.POD and obj is not None and group in _groups(kind, obj):
        pods.append(msgspec.convert(obj, Pod))
    asked = Counter[str]()
    for pod in pods:
        asked.update(quotas.claim(quota, pod.spec))
    return {what: max(amount - asked[what], 0) for what, amount in total.items()}


def _pods(store: Store, namespace: str, group: _Group) -> Iterable[Pod]:
    """Yields the stored pods that name a group."""
    text = group[1].encode()
    for _, _, body in store.scan(resource(kinds.POD), namespace):
        named = groups.named(pod := _POD.decode(body)) if text in body else None
        if named is not None and (named.dialect, named.name) == group:
            yield pod
