"""Sets the priority of new pods from their PriorityClass.

Source: kubernetes, plugin/pkg/admission/priority/admission.go.
"""

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.api.rules.scheduling import SYSTEM_CLASSES
from muster.api.scheduling import PriorityClass
from muster.embedded.api_errors import forbidden, resource
from muster.embedded.storage.store import Store

_CLASS = msgspec.json.Decoder(PriorityClass)
_KEY = resource(kinds.PRIORITY_CLASS)


def admit(store: Store, pod: Object) -> None:
    """Sets `priority` and `preemptionPolicy` of `pod`, in place."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    wanted = spec.get("priorityClassName") or ""
    if wanted in SYSTEM_CLASSES:
        value, policy = SYSTEM_CLASSES[wanted], "PreemptLowerPriority"
    elif wanted:
        body = store.get(_KEY, "", wanted)
        if body is None:
            raise forbidden(kinds.POD, name, f"no PriorityClass with name {wanted} was found")
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
            kinds.POD,
            name,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name",
        )
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _global_default(store: Store) -> PriorityClass | None:
    """The default PriorityClass; if several claim to be it, the one of lowest value. None without any."""
    defaults = [found for _, _, body in store.scan(_KEY) if (found := _CLASS.decode(body)).global_default]
    return min(defaults, key=lambda found: (found.value, found.metadata.name), default=None)
