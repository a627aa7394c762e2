"""As which resource the devices of each class are counted. Source: KEP-5004.

A class may have the name of a resource that device plug-ins offer, such as nvidia.com/gpu. Its devices are
counted as that, for claims and for pods that request the resource. Devices of other classes are counted as
`deviceclass/NAME`. If several classes have one name, the newest has it, as for kube-scheduler.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from muster.api.core_v1 import PodSpec
from muster.api.resource_v1 import OF_CLASS, DeviceClass
from muster.api.times import seconds
from muster.core.words.devices import DEVICE_CLASS, ClaimShape
from muster.names import GPU_SHARE


def counted_as(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Returns, by class that has one, the resource as which its devices are counted."""
    named = [each for each in classes if _is_resource(each.spec.extended_resource_name)]
    newest: dict[str, str] = {}
    for each in sorted(named, key=_age):
        newest.setdefault(each.spec.extended_resource_name, each.metadata.name)
    return {name: resource for resource, name in newest.items()}


def resource_of(class_: str, counted: Mapping[str, str]) -> str:
    """Returns as which resource devices of a class are counted."""
    return counted.get(class_, DEVICE_CLASS + class_)


def renamed(claim: ClaimShape, counted: Mapping[str, str]) -> ClaimShape:
    """Returns a claim whose classes have the names of the resources as which their devices are counted."""
    if not counted:
        return claim
    requests = tuple(
        replace(
            request,
            alternatives=tuple(
                replace(one, selectors=(_renamed(one.selectors[0], counted), *one.selectors[1:]))
                for one in request.alternatives
            ),
        )
        for request in claim.requests
    )
    return replace(claim, requests=requests)


def by_class(spec: PodSpec) -> Iterator[str]:
    """Yields the resources of a pod that name a class themselves."""
    for container in (*spec.containers, *spec.init_containers):
        for name in (*container.resources.requests, *container.resources.limits):
            if name.startswith(OF_CLASS):
                yield name


def _renamed(answer: str, counted: Mapping[str, str]) -> str:
    return (
        resource_of(answer.removeprefix(DEVICE_CLASS), counted) if answer.startswith(DEVICE_CLASS) else answer
    )


def _is_resource(name: str) -> bool:
    """Whether a class can stand for a resource of this name: one of a domain other than Kubernetes' own."""
    domain, slash, _ = name.partition("/")
    if not slash or domain.endswith("kubernetes.io") or domain.startswith("requests."):
        return False
    return name != GPU_SHARE and not name.startswith(DEVICE_CLASS)


def _age(class_: DeviceClass) -> tuple[float, str]:
    created = class_.metadata.creation_timestamp
    return -(seconds(created) if created is not None else 0.0), class_.metadata.name
