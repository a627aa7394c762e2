"""Sets the priority of new pods, and of new PodGroups of Kubernetes' own, from their PriorityClass.

Source: kubernetes, plugin/pkg/admission/priority/admission.go.
"""

from typing import Final

import msgspec

from muster.api import groups, kinds
from muster.api.base import Object
from muster.api.rules.scheduling import SYSTEM_CLASSES
from muster.api.scheduling import PriorityClass
from muster.embedded.api_errors import AnyKind, forbidden, resource
from muster.embedded.storage.store import Store

_CLASS = msgspec.json.Decoder(PriorityClass)
_KEY = resource(kinds.PRIORITY_CLASS)
#: The kinds whose objects have a priority, and what messages call them.
_CALLED: Final[dict[AnyKind, str]] = {kinds.POD: "pod", groups.NATIVE.kind: "pod group"}
OF: Final = tuple(_CALLED)


def admit(store: Store, kind: AnyKind, obj: Object) -> None:
    """Sets `priority` and `preemptionPolicy` of `obj`, in place.

    A group that names no class gets no policy.
    """
    spec, name = obj.setdefault("spec", {}), obj["metadata"]["name"]
    named = bool(spec.get("priorityClassName"))
    wanted = spec.get("priorityClassName") or ""
    if wanted in SYSTEM_CLASSES:
        value, policy = SYSTEM_CLASSES[wanted], "PreemptLowerPriority"
    elif wanted:
        body = store.get(_KEY, "", wanted)
        if body is None:
            raise forbidden(kind, name, f"no PriorityClass with name {wanted} was found")
        found = _CLASS.decode(body)
        value, policy = found.value, found.preemption_policy
    else:
        default = store.derived(_KEY, _global_default)
        value, policy = 0, "PreemptLowerPriority"
        if default is not None:
            spec["priorityClassName"] = default.metadata.name
            value, policy = default.value, default.preemption_policy
    if spec.get("priority", value) != value:
        raise forbidden(
            kind,
            name,
            f"the integer value of priority ({spec['priority']}) must not be provided in "
            f"{_CALLED[kind]} spec; priority admission controller computed {value} from the given "
            "PriorityClass name",
        )
    spec["priority"] = value
    if kind is kinds.POD or spec.get("priorityClassName"):
        stated = spec.get("preemptionPolicy")
        if stated not in (None, policy):
            raise forbidden(
                kind,
                name,
                f"the string value of PreemptionPolicy ({stated}) must not be provided in "
                f"{_CALLED[kind]} spec; priority admission controller computed {policy} from the given "
                "PriorityClass name",
            )
    if kind is kinds.POD or named:
        spec["preemptionPolicy"] = policy


def _global_default(store: Store) -> PriorityClass | None:
    """The default PriorityClass; if several claim to be it, the one of lowest value. None without any."""
    defaults = [found for _, _, body in store.scan(_KEY) if (found := _CLASS.decode(body)).global_default]
    return min(defaults, key=lambda found: (found.value, found.metadata.name), default=None)
