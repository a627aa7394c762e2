"""Enforces ResourceQuotas: refuses an object beyond one, and keeps what each has used in its status.

Kubernetes divides this between an admission plugin, which charges an object before it is created, and a
controller, which gives back what ends or is removed. Here each write of an object changes the status of its
namespace's quotas in the same transaction, so the status is never out of date. A charge is written before its
object and a refund after it, so no watcher sees an object that is not charged.

What a pod is charged is defined in `translate.quotas`; what is held for a group, in `quota_holds`. Of any
other kind a quota counts the objects (`count/jobs.batch`, `secrets`). A resource that nothing here counts
(`requests.storage`) is not in `used`.

Source: kubernetes, apiserver/pkg/admission/plugin/resourcequota/controller.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from muster.api import groups, kinds, quantity
from muster.api.base import Object
from muster.api.core_v1 import Pod, PodSpec, ResourceQuota
from muster.embedded.api_errors import AnyKind, forbidden, resource
from muster.embedded.storage.store import Store
from muster.embedded.verbs import quota_holds
from muster.translate import quotas

_KEY: Final = resource(kinds.RESOURCE_QUOTA)
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: JSON
_QUOTA: Final = msgspec.json.Decoder(ResourceQuota)
#: Kinds that a quota counts under their plural alone, besides `count/<plural>`.
_BY_PLURAL: Final = (
    kinds.CONFIG_MAP,
    kinds.SECRET,
    kinds.SERVICE,
    kinds.PERSISTENT_VOLUME_CLAIM,
    kinds.RESOURCE_QUOTA,
)


def admit(store: Store, kind: AnyKind, obj: Object) -> None:
    """Raises `Forbidden` if a quota of its namespace does not allow a new object."""
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
    for _, quota in _of(store, namespace):
        which, used = quota.metadata.name, quota.status.used
        if kind is kinds.POD:
            spec = msgspec.convert(obj["spec"], PodSpec)
            if quotas.matches(quota, spec) and (missing := quotas.unstated(quota, spec)):
                told = "; ".join(f"{what} for: {','.join(missing[what])}" for what in sorted(missing))
                raise forbidden(kind, name, f"failed quota: {which}: must specify {told}")
        charges, held = _charge(kind, quota, obj), quota_holds.change(store, kind, quota, obj, None)
        sums = {what: charges.get(what, 0) + held.get(what, 0) for what in {*charges, *held}}
        asked = {what: amount for what, amount in sums.items() if amount}
        exceeded = [
            what
            for what, amount in sorted(asked.items())
            if _read(what, used.get(what, "0")) + amount > _read(what, quota.spec.hard[what])
        ]
        if exceeded:
            requested = ",".join(f"{what}={_written(what, asked[what])}" for what in exceeded)
            there = ",".join(f"{what}={used.get(what, '0')}" for what in exceeded)
            limited = ",".join(f"{what}={quota.spec.hard[what]}" for what in exceeded)
            told = f"requested: {requested}, used: {there}, limited: {limited}"
            raise forbidden(kind, name, f"exceeded quota: {which}, {told}")


def charge(store: Store, kind: AnyKind, namespace: str, new: Object | None, old: Object | None) -> None:
    """Charges the quotas of a namespace for a write, before it or after it.

    None as `new`: the object is removed; as `old`: it is created. Call it within the write's transaction.
    """
    if new is not None and old is not None and not quota_holds.touches(kind):
        return
    there = _of(store, namespace)
    if there and new is not None and old is not None and kind is kinds.POD and _equals(new, old):
        return
    for raw, quota in there:
        more = _charge(kind, quota, new) if new is not None else {}
        less = _charge(kind, quota, old) if old is not None else {}
        held = quota_holds.change(store, kind, quota, new, old)
        used = dict(quota.status.used)
        for what in sorted({*more, *less, *held}):
            amount = more.get(what, 0) - less.get(what, 0) + held.get(what, 0)
            used[what] = _written(what, max(_read(what, used.get(what, "0")) + amount, 0))
        if used != quota.status.used:
            obj = _OBJECT.decode(raw)
            obj["status"] = {**(obj.get("status") or {}), "used": used}
            store.put(_KEY, namespace, quota.metadata.name, obj, raw)


def status(store: Store, obj: Object) -> Object:
    """Returns the status of a quota that is being written, from all objects of its namespace."""
    namespace = obj["metadata"]["namespace"]
    quota = msgspec.convert(obj, ResourceQuota)
    pods = (msgspec.json.decode(body, type=Pod) for _, _, body in store.scan(resource(kinds.POD), namespace))
    used = quotas.used_by(quota, pods)
    for name, amount in quota_holds.all_of(store, quota).items():
        used[name] += amount
    for kind in kinds.ALL:
        if kind.namespaced and kind is not kinds.POD:
            for name in _names(kind, quota.spec.hard):
                used[name] = store.count(resource(kind), namespace)
                new = kind is kinds.RESOURCE_QUOTA and not store.get(_KEY, namespace, quota.metadata.name)
                used[name] += new  # it counts itself
    counted = {name: _written(name, used[name]) for name in sorted(used)}
    return {**(obj.get("status") or {}), "hard": dict(quota.spec.hard), "used": counted}


def uncounted(store: Store) -> Iterator[tuple[bytes, Object]]:
    """Yields the quotas without a status: those of an earlier version of muster."""
    for _, _, raw in list(store.scan(_KEY)):
        obj = _OBJECT.decode(raw)
        if "hard" not in (obj.get("status") or {}):
            yield raw, obj


def _of(store: Store, namespace: str) -> list[tuple[bytes, ResourceQuota]]:
    """The quotas of a namespace; most have none, which is remembered."""
    if not namespace or namespace not in store.derived(_KEY, _namespaces):
        return []
    return [(raw, _QUOTA.decode(raw)) for _, _, raw in store.scan(_KEY, namespace)]


def _namespaces(store: Store) -> frozenset[str]:
    rows = store.execute("SELECT DISTINCT namespace FROM objects WHERE kind = ?", (_KEY,))
    return frozenset(namespace for (namespace,) in rows)


def _charge(kind: AnyKind, quota: ResourceQuota, obj: Object) -> Mapping[str, int]:
    if kind is kinds.POD:
        return quotas.usage(quota, msgspec.convert(obj, Pod))
    return dict.fromkeys(_names(kind, quota.spec.hard), 1)


def _names(kind: AnyKind, hard: Iterable[str]) -> list[str]:
    """What a quota calls the number of objects of a kind."""
    names = (f"count/{resource(kind)}", *([kind.plural] if kind in _BY_PLURAL else ()))
    return [name for name in names if name in hard]


def _equals(new: Object, old: Object) -> bool:
    """Whether two states of a pod are charged alike: only its spec, its end and its group matter."""
    phases = ((new.get("status") or {}).get("phase"), (old.get("status") or {}).get("phase"))
    ended = [phase in ("Succeeded", "Failed") for phase in phases]
    alike = ended[0] == ended[1] and new["spec"] == old["spec"]
    return alike and groups.named_in(new) == groups.named_in(old)


def _read(name: str, text: str | int | float) -> int:
    try:
        return quantity.request(quotas.unit(name), text)
    except ValueError:
        return 0


def _written(name: str, amount: int) -> str:
    return quantity.canonical(quantity.show(quotas.unit(name), amount))
