"""Computes what a pod uses of its node, by resource.

While a pod is resized in place, it uses the maximum of what it requests, what its node has allocated for it,
and what it still has; the request of a resize that its node can never grant does not count (KEP-1287).

Source: KEP-753 (sidecars), KEP-688 (overhead), KEP-2837 (pod-level resources), as in
kubernetes/component-helpers, resource/helpers.go. Amounts stay exact until the end, where the sum
is rounded up once. One `pods` per pod is not part of it: the core counts pods itself.

GPUs are counted here for all who show or judge what a pod has of them; the core counts those of its demands
by the same names (`core.words.gang.gpus`).
"""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import groupby

import msgspec

from muster.api.base import condition
from muster.api.core_v1 import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplate,
    Quantities,
    ResourceRequirements,
)
from muster.api.marks import GPU_SHARE
from muster.api.quantity import BILLION, billionths, unit
from muster.names import is_gpu

#: By resource, integers (milli-CPU, bytes, pieces): sorted by name, no zeros. The core's word for it.
Amounts = tuple[tuple[str, int], ...]
#: By resource, billionths: integers, but for what is finer than that. A pod of thousands of containers has as
#: many terms, and fractions take ten times as long to add.
_Sum = dict[str, int | Fraction]
#: Resources that `spec.resources` may set for the whole pod; hugepages too.
_POD_LEVEL = ("cpu", "memory")


def requests(spec: PodSpec) -> Amounts:
    """Returns integers (milli-CPU, bytes, pieces), rounded up. Raises ValueError for an invalid quantity."""
    return _amounts(_plus(_pod_level(spec, _of_containers(spec)), _read(spec.overhead)))


def gpus(pod: Pod | PodTemplate) -> float:
    """Returns the GPUs of a pod at its peak: whole ones of any vendor, and its share of one.

    An integer without a share; a share that cannot be read counts as none. Raises ValueError for an invalid
    quantity.
    """
    whole, share = whole_gpus(pod.spec), GPU_SHARE.get(pod.metadata)
    return whole + share / 1000 if share else whole


def whole_gpus(spec: PodSpec) -> int:
    """As `gpus`, without shares."""
    return _pieces(_of_containers(spec, _gpus_of))


def gpus_of_container(container: Container) -> int:
    """Returns the whole GPUs that one container requests. Raises ValueError for an invalid quantity."""
    return _pieces(_gpus_of(container.resources))


def as_it_runs(pod: Pod) -> Pod:
    """Returns the pod with requests for what it uses now; the same object unless it is being resized."""
    status, spec = pod.status, pod.spec
    pending = condition(status.conditions, "PodResizePending")
    granted = pending is None or pending.status != "True" or pending.reason != "Infeasible"
    containers = _running(spec.containers, status.container_statuses, granted)
    sidecars = _running(spec.init_containers, status.init_container_statuses, granted)
    whole = _held(spec.resources, status, granted) if spec.resources.requests else spec.resources
    if containers is spec.containers and sidecars is spec.init_containers and whole is spec.resources:
        return pod
    spec = msgspec.structs.replace(spec, containers=containers, init_containers=sidecars, resources=whole)
    return msgspec.structs.replace(pod, spec=spec)


def limits(spec: PodSpec) -> Amounts:
    """Returns the sum of limits: a container without one adds nothing. Pod-level limits replace the sum."""
    total = {**_of_containers(spec, _limited), **_read(spec.resources.limits)}
    return _amounts(_plus(total, _read(spec.overhead)))


def _pieces(total: _Sum) -> int:
    return sum(_up(amount, BILLION) for amount in total.values())


def _amounts(total: _Sum) -> Amounts:
    """Returns what is above zero in the units of the core, rounded up."""
    amounts = ((name, _up(amount, unit(name))) for name, amount in total.items())
    return tuple(sorted((resource, amount) for resource, amount in amounts if amount > 0))


def _up(amount: int | Fraction, of: int) -> int:
    """Returns how many units, rounded up: without a fraction of two integers, which takes longer."""
    return -(-amount // of)


def _of_containers(spec: PodSpec, own_of: Callable[[ResourceRequirements], _Sum] | None = None) -> _Sum:
    """Returns the peak use: of an init container with the sidecars before it, or of all the rest together.

    Each container costs as much as it states: what it does not, the sidecars alone use, and so does the rest.
    """
    own_of = own_of or _defaulted
    lasting: _Sum = {}
    peak: _Sum = {}
    for container in spec.init_containers:
        own = own_of(container.resources)
        if container.restart_policy == "Always":
            _add(lasting, own)
        else:
            for resource, amount in own.items():
                peak[resource] = max(peak.get(resource, 0), lasting.get(resource, 0) + amount)
    for resources, equal in groupby(container.resources for container in spec.containers):
        _add(lasting, own_of(resources), sum(1 for _ in equal))
    return _most(peak, lasting)


def _running(containers: list[Container], statuses: list[ContainerStatus], granted: bool) -> list[Container]:
    """Returns the containers with requests for what they use; the same list if that is what they request."""
    if not any(status.allocated_resources or status.resources for status in statuses):
        return containers
    known = {status.name: status for status in statuses}
    found = [
        msgspec.structs.replace(container, resources=_held(container.resources, status, granted))
        if (status := known.get(container.name)) is not None
        else container
        for container in containers
    ]
    return containers if found == containers else found


def _held(
    asked: ResourceRequirements, status: ContainerStatus | PodStatus, granted: bool
) -> ResourceRequirements:
    """Returns the maximum of `asked` and what the node reports; `asked` itself if the two are equal."""
    has = status.resources.requests if status.resources is not None else {}
    told = [amounts for amounts in (has, status.allocated_resources) if amounts]
    wanted = {**asked.limits, **asked.requests}
    if all(amounts == wanted for amounts in told):
        return asked
    try:
        most: _Sum = {}
        for amounts in (*([wanted] if granted else []), *told):
            most = _most(most, _read(amounts))
    except ValueError:
        return asked  # not a quantity: it states nothing
    return msgspec.structs.replace(asked, requests={name: _text(most[name]) for name in sorted(most)})


def _text(amount: int | Fraction) -> str:
    return f"{math.ceil(amount)}n"


def _pod_level(spec: PodSpec, containers: _Sum) -> _Sum:
    """Returns the sum, with the containers' part replaced where the pod states a resource as a whole.

    A limit without a request replaces the request only if no container requests the resource.
    """
    if not (spec.resources.limits or spec.resources.requests):
        return containers
    limits, stated = _read(spec.resources.limits), _read(spec.resources.requests)
    whole = {**limits, **containers, **stated}
    return {
        resource: amount
        for resource, amount in whole.items()
        if resource in containers or resource in _POD_LEVEL or resource.startswith("hugepages-")
    }


def _limited(resources: ResourceRequirements) -> _Sum:
    return _read(resources.limits)


def _defaulted(resources: ResourceRequirements) -> _Sum:
    """Returns requests, with limits where no request is stated, as the API server defaults them."""
    stated = _read(resources.requests)
    return {**_read(resources.limits), **stated} if resources.limits else stated


def _gpus_of(resources: ResourceRequirements) -> _Sum:
    """As `_defaulted`, of GPUs alone: most containers have none, and no other quantity is read."""
    stated = {**resources.limits, **resources.requests}
    return {name: billionths(quantity) for name, quantity in stated.items() if is_gpu(name)}


def _read(quantities: Quantities) -> _Sum:
    return {resource: billionths(quantity) for resource, quantity in quantities.items()}


def _add(total: _Sum, more: _Sum, times: int = 1) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, 0) + amount * times


def _plus(one: _Sum, other: _Sum) -> _Sum:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {*one, *other}} if other else one


def _most(one: _Sum, other: _Sum) -> _Sum:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {*one, *other}}
