"""What a pod takes from its node, by resource.

Source: KEP-753 (sidecars), KEP-688 (overhead), KEP-2837 (pod-level resources), as in
kubernetes/component-helpers, resource/helpers.go. Amounts stay exact until the end, where the sum
is rounded up once. One `pods` per pod is not part of it: the core counts pods itself.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from muster.api.core_v1 import Container, PodSpec, Quantities, ResourceRequirements
from muster.api.quantity import parse, unit
from muster.core.gang import Amounts

_Sum = dict[str, Fraction]
#: Resources that `spec.resources` may set for the whole pod; hugepages too.
_POD_LEVEL = ("cpu", "memory")


def requests(spec: PodSpec) -> Amounts:
    """Integer units (milli-CPU, MiB, pieces), rounded up. Raises ValueError for what is no quantity."""
    total = _plus(_pod_level(spec, _of_containers(spec)), _read(spec.overhead))
    amounts = ((resource, math.ceil(amount / unit(resource))) for resource, amount in total.items())
    return tuple(sorted((resource, amount) for resource, amount in amounts if amount > 0))


def limits(spec: PodSpec) -> Amounts:
    """The same of limits: a container that states none adds none. Pod-level limits replace the sum."""
    total = _plus({**_of_containers(spec, _limited), **_read(spec.resources.limits)}, _read(spec.overhead))
    amounts = ((resource, math.ceil(amount / unit(resource))) for resource, amount in total.items())
    return tuple(sorted((resource, amount) for resource, amount in amounts if amount > 0))


def _of_containers(spec: PodSpec, own_of: Callable[[ResourceRequirements], _Sum] | None = None) -> _Sum:
    """The most that is ever running at once: an init container with the sidecars before it, or the rest."""
    own_of = own_of or _defaulted
    sidecars: _Sum = {}
    peak: _Sum = {}
    for container in spec.init_containers:
        own = own_of(container.resources)
        if container.restart_policy == "Always":
            sidecars = _plus(sidecars, own)
        else:
            peak = _most(peak, _plus(sidecars, own))
    return _most(peak, _plus(sidecars, _sum(spec.containers, own_of)))


def _pod_level(spec: PodSpec, containers: _Sum) -> _Sum:
    """What the pod states as a whole replaces the sum over its containers.

    A limit without a request stands for the request only where no container asks for the resource.
    """
    limits, stated = _read(spec.resources.limits), _read(spec.resources.requests)
    whole = {**limits, **containers, **stated}
    return {
        resource: amount
        for resource, amount in whole.items()
        if resource in containers or resource in _POD_LEVEL or resource.startswith("hugepages-")
    }


def _sum(containers: Iterable[Container], own_of: Callable[[ResourceRequirements], _Sum]) -> _Sum:
    total: _Sum = {}
    for container in containers:
        total = _plus(total, own_of(container.resources))
    return total


def _limited(resources: ResourceRequirements) -> _Sum:
    return _read(resources.limits)


def _defaulted(resources: ResourceRequirements) -> _Sum:
    """A limit is also the request where none is stated, as the API server defaults it."""
    return {**_read(resources.limits), **_read(resources.requests)}


def _read(quantities: Quantities) -> _Sum:
    return {resource: parse(quantity) for resource, quantity in quantities.items()}


def _plus(one: _Sum, other: _Sum) -> _Sum:
    return {key: one.get(key, _ZERO) + other.get(key, _ZERO) for key in {*one, *other}}


def _most(one: _Sum, other: _Sum) -> _Sum:
    return {key: max(one.get(key, _ZERO), other.get(key, _ZERO)) for key in {*one, *other}}


_ZERO = Fraction(0)
