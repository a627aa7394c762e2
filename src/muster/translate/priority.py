"""Translates priority classes and marks into the number that orders gangs; decides which pods may preempt.

Source: kubernetes, plugin/pkg/admission/priority. The API server does the same when a pod is created;
for templates, and for pods that it has not processed, muster does it here.

A priority is a right. The API server checks the class of a pod: whether it exists, and whether the
ResourceQuotas of the namespace leave room for it. It does not check `muster.dev/priority`, so that is bounded
here by what the namespace could have by a class (`_allowed`). `maxPriority` of the gang's queue, or of a
queue above, replaces that bound, and bounds the priority of the pods, too. A priority above the bound is
lowered to it, with a warning, rather than refused: a bound may change under a gang that runs.
A field of a group object is bounded like the mark, but never below its pods: theirs is admitted already.

A group or a mark may forbid preemption by its class, but never allow it to pods whose policy is `Never`.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from muster import names
from muster.api.base import ObjectMeta
from muster.api.core_v1 import PodSpec
from muster.api.groups import Asked
from muster.api.marks import PRIORITY
from muster.core.words.gang import Code, Gate
from muster.translate.quotas import counts_classes
from muster.translate.world import World

#: The highest value that a class of users can have.
HIGHEST: Final = 1_000_000_000
#: The namespace of the classes above that.
SYSTEM_NAMESPACE: Final = "kube-system"
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


class Chosen(NamedTuple):
    """A priority that is stated beside the pods."""

    number: int
    #: whether its class allows preemption
    preempts: bool
    #: the mark or the field that states it
    by: str


def chosen(owners: Iterable[ObjectMeta], world: World, group: Asked | None = None) -> Chosen | Gate | None:
    """Returns the first `muster.dev/priority` of these objects, else what the fields of the group object say.

    It overrides the priority of the pods, which cannot be changed once they are created.
    """
    for meta in owners:
        try:
            found = PRIORITY.read(meta)
        except ValueError as error:
            return Gate(Code.INVALID, str(error))
        if isinstance(found, str):
            return _by_class(found, names.PRIORITY, world)
        if found is not None:
            return Chosen(found, True, names.PRIORITY)
    if group is None:
        return None
    if group.priority is not None:
        return Chosen(group.priority, _class_preempts(group.priority_class, world), "spec.priority")
    if group.priority_class:
        return _by_class(group.priority_class, "spec.priorityClassName", world)
    return None


class Ranked(NamedTuple):
    """The priority that a gang gets."""

    number: int
    #: Invalid: its mark names no class
    refusal: Gate | None = None
    #: how its priority was lowered
    warnings: tuple[str, ...] = ()
    #: whether the class that gives it, unless that is its pods', allows preemption
    preempts: bool = True


def ranked(
    owners: Iterable[ObjectMeta],
    of_pods: int,
    namespace: str,
    queue: str,
    world: World,
    group: Asked | None = None,
) -> Ranked:
    """Returns the priority of a gang: that of its owners' mark, else `of_pods`, as far as it may have it.

    `group`: what the group object asks for, which counts without a mark.
    `refusal`: the mark cannot be read; the priority is that of the pods, then.
    """
    found, refusal = chosen(owners, world, group), None
    if isinstance(found, Gate):
        found, refusal = None, found
    number, preempts, by = found or (of_pods, True, "")
    # the API server admits the pods, or refuses them
    admitted = of_pods <= HIGHEST or namespace == SYSTEM_NAMESPACE
    by_queue = world.queue_rules.bound(queue)
    if by_queue is not None:
        bound, why = by_queue.most, f"maxPriority of queue {by_queue.queue}"
    elif not by and admitted:
        return Ranked(number, refusal)
    else:
        bound, why = _allowed(namespace, world)
        if by != names.PRIORITY and admitted and of_pods > bound:
            bound, why = of_pods, "the priority of its pods"
    if number <= bound:
        return Ranked(number, refusal, preempts=preempts)
    said = f"{by}: " if by else ""
    return Ranked(bound, refusal, (f"{said}its priority {number} is lowered to {bound}, {why}",), preempts)


def of_template(spec: PodSpec, world: World) -> int | Gate:
    """Returns the priority that pods of a template get. Invalid: the API server would refuse them."""
    found = priority(replace(spec, priority=None), world)
    if spec.priority is None or isinstance(found, Gate) or found == spec.priority:
        return found
    said = f"spec.priority of its pods is {spec.priority}, and their PriorityClass says {found}"
    return Gate(Code.INVALID, f"{said}; leave it out")


def _allowed(namespace: str, world: World) -> tuple[int, str]:
    """Returns the highest priority that a namespace may have by a class, and why.

    A class that a ResourceQuota of the namespace counts is not allowed to a mark: the quota would not count
    the mark. While there is no class of users, `World.unranked` is allowed.
    """
    if namespace == SYSTEM_NAMESPACE:
        return max(SYSTEM.values()), "the highest PriorityClass"
    quotas = world.quotas_in(namespace)
    classes = [each for each in world.priority_classes.values() if each.value <= HIGHEST]
    if not classes and not any(map(counts_classes, quotas)):
        return world.unranked, "the most that a gang may have while there is no PriorityClass"
    least = min((each.value for each in classes if each.global_default), default=0)
    allowed = [
        each.value
        for each in classes
        if not any(counts_classes(quota, each.metadata.name) for quota in quotas)
    ]
    return max([least, *allowed]), f"the most that PriorityClasses allow in namespace {namespace}"


def may_preempt(spec: PodSpec, world: World) -> bool:
    """Whether the pod's policy, else its class's, allows preemption: any but `Never`, as in Kubernetes."""
    if spec.preemption_policy:
        return spec.preemption_policy != "Never"
    if spec.priority_class_name:
        return _class_preempts(spec.priority_class_name, world)
    defaults = [one for one in world.priority_classes.values() if one.global_default]
    found = min(defaults, key=lambda one: (one.value, one.metadata.name), default=None)
    return found is None or found.preemption_policy != "Never"


def _class_preempts(name: str, world: World) -> bool:
    found = world.priority_classes.get(("", name))
    return found is None or found.preemption_policy != "Never"


def _by_class(name: str, by: str, world: World) -> Chosen | Gate:
    number = _of_class(name, world)
    return number if isinstance(number, Gate) else Chosen(number, _class_preempts(name, world), by)


def _of_class(name: str, world: World) -> int | Gate:
    found = world.priority_classes.get(("", name))
    if found is not None:
        return found.value
    if name in SYSTEM:
        return SYSTEM[name]
    return Gate(Code.INVALID, f"PriorityClass {name} does not exist")
