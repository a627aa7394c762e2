"""Adds the defaults of LimitRanges and RuntimeClasses to new pods (`muster.api.admitted`)."""

from typing import Final

import msgspec

from muster.api import kinds
from muster.api.admitted import admitted
from muster.api.base import Object
from muster.api.core_v1 import LimitRange, PodSpec
from muster.api.node_v1 import RuntimeClass
from muster.embedded.api_errors import resource
from muster.embedded.storage.store import Store

_RANGE: Final = msgspec.json.Decoder(LimitRange)
_OF_PODS: Final = (
    ("overhead", "overhead"),
    ("nodeSelector", "node_selector"),
    ("tolerations", "tolerations"),
)
_CLASS: Final = msgspec.json.Decoder(RuntimeClass)


def admit(store: Store, pod: Object) -> None:
    """Completes the pod's spec in place. A RuntimeClass that does not exist adds nothing."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    ranges = store.derived(resource(kinds.LIMIT_RANGE), _ranges).get(namespace, [])
    name = spec.get("runtimeClassName") or ""
    body = store.get(resource(kinds.RUNTIME_CLASS), "", name) if name else None
    if not ranges and body is None:
        return
    before = msgspec.convert(spec, PodSpec)
    after = admitted(before, ranges, _CLASS.decode(body) if body is not None else None)
    for field, containers in (("containers", after.containers), ("initContainers", after.init_containers)):
        for container, given in zip(spec.get(field) or (), containers, strict=True):
            if resources := msgspec.to_builtins(given.resources):
                container["resources"] = {**(container.get("resources") or {}), **resources}
    for field, attribute in _OF_PODS:
        if (completed := getattr(after, attribute)) != getattr(before, attribute):
            spec[field] = msgspec.to_builtins(completed)


def _ranges(store: Store) -> dict[str, list[LimitRange]]:
    """All LimitRanges, by their namespace."""
    found: dict[str, list[LimitRange]] = {}
    for namespace, _, body in store.scan(resource(kinds.LIMIT_RANGE)):
        found.setdefault(namespace, []).append(_RANGE.decode(body))
    return found
