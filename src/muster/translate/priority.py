"""Translates priority classes and marks into the number that orders gangs; decides which pods may preempt.

Source: kubernetes, plugin/pkg/admission/priority. The API server does the same when a pod is created;
for templates, and for pods that it has not processed, muster does it here.
"""

import re
from collections.abc import Iterable
from typing import Final

from muster import names
from muster.api.base import ObjectMeta, mark
from muster.api.core_v1 import PodSpec
from muster.core.words.gang import Code, Gate
from muster.translate.world import World

#: The classes that every cluster has, whether or not their objects exist.
SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def priority(spec: PodSpec, world: World) -> int | Gate:
    """Returns the pod's number, else its class's or the global default's, else 0. Invalid: no such class."""
    if spec.priority is not None:
        return spec.priority
    if not spec.priority_class_name:
        # several defaults can exist for a moment; the API server uses the lowest
        defaults = [found.value for found in world.priority_classes.values() if found.global_default]
        return min(defaults, default=0)
    return _of_class(spec.priority_class_name, world)


def chosen(owners: Iterable[ObjectMeta], world: World) -> int | Gate | None:
    """Returns the first `muster.dev/priority` of these objects: a number, or a class's. None: no mark.

    It overrides the priority of the pods, which cannot be changed once they are created.
    """
    for meta in owners:
        text = mark(meta, names.PRIORITY)
        if text is not None:
            return int(text) if _NUMBER.fullmatch(text) else _of_class(text, world)
    return None


def may_preempt(spec: PodSpec, world: World) -> bool:
    """Whether the pod's policy, else its class's, allows preemption: any but `Never`, as in Kubernetes."""
    if spec.preemption_policy:
        return spec.preemption_policy != "Never"
    if spec.priority_class_name:
        found = world.priority_classes.get(("", spec.priority_class_name))
    else:
        defaults = [one for one in world.priority_classes.values() if one.global_default]
        found = min(defaults, key=lambda one: (one.value, one.metadata.name), default=None)
    return found is None or found.preemption_policy != "Never"


#: A number within the limits of a priority: nine digits stay slightly below them.
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


def _of_class(name: str, world: World) -> int | Gate:
    found = world.priority_classes.get(("", name))
    if found is not None:
        return found.value
    if name in SYSTEM:
        return SYSTEM[name]
    return Gate(Code.INVALID, f"PriorityClass {name} does not exist")
