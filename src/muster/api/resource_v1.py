"""The group of dynamic resource allocation (resource.k8s.io): devices, their classes, and claims of them.

A driver publishes the devices of a pool in slices. A class selects devices by expressions. A claim asks for
devices of classes, and has them once it is allocated. Source: k8s.io/api/resource/v1/types.go.
"""

from functools import lru_cache
from sys import intern
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from muster.api.base import Int64, Object, ObjectMeta, Resource, Struct
from muster.api.core_v1 import NodeSelector, Quantities, Toleration

#: Before the name of each DeviceClass: a resource by which pods ask for its devices without a claim.
OF_CLASS: Final = "deviceclass.resource.kubernetes.io/"


class CELSelector(Struct, frozen=True):
    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    cel: CELSelector | None = None


class DeviceClassSpec(Struct, frozen=True):
    selectors: list[DeviceSelector] = []
    #: passed on to the drivers
    config: list[Object] = []
    #: another resource by which pods ask for its devices without a claim
    extended_resource_name: str = ""


class DeviceClass(Resource, frozen=True):
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True):
    """One of these is set. The lists are read only to be refused by name."""

    int_: Int64 | None = msgspec.field(name="int", default=None)
    bool_: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    ints: list[Int64] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


class DeviceCapacity(Struct, frozen=True):
    value: str | int | float = ""
    #: which amounts a claim may take of it, if several may have the device
    request_policy: Object | None = None


class Counter(Struct, frozen=True):
    value: str | int | float = ""


class CounterSet(Struct, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Struct, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}
    compatibility_groups: list[str] = []


class DeviceTaint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""  # None, NoSchedule, NoExecute


class Device(Struct, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: list[DeviceCounterConsumption] = []
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: list[DeviceTaint] = []
    binds_to_node: bool = False
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    allow_multiple_allocations: bool = False
    node_allocatable_resources: Object = {}


class ResourcePool(Struct, frozen=True):
    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Struct, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[Device] = []
    shared_counters: list[CounterSet] = []


class ResourceSlice(Resource, frozen=True):
    spec: ResourceSliceSpec = ResourceSliceSpec()


def with_shared_values(found: ResourceSlice) -> ResourceSlice:
    """Returns the slice with equal attributes and capacities of all devices in memory once."""
    for device in found.spec.devices:
        for field, share in _SHARED.items():
            if values := getattr(device, field):
                shared = {intern(name): share(_ENCODE(each)) for name, each in values.items()}
                force_setattr(device, field, shared)
    return found


_ENCODE: Final = msgspec.msgpack.Encoder(order="deterministic").encode


#: By field of a device, what makes equal values one.
_SHARED: Final = {
    "attributes": lru_cache(maxsize=8192)(msgspec.msgpack.Decoder(DeviceAttribute).decode),
    "capacity": lru_cache(maxsize=8192)(msgspec.msgpack.Decoder(DeviceCapacity).decode),
}


class CapacityRequirements(Struct, frozen=True):
    requests: Quantities = {}


class DeviceAsked(Struct, frozen=True):
    """What a request, or one of its alternatives, asks for."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = "ExactCount"  # ExactCount, All
    count: Int64 = 1
    admin_access: bool = False
    tolerations: list[Toleration] = []
    capacity: CapacityRequirements | None = None
    derived_attributes: list[Object] = []


class DeviceRequest(Struct, frozen=True):
    """`exactly`, or the first of the alternatives that can be had."""

    name: str = ""
    exactly: DeviceAsked | None = None
    first_available: list[DeviceAsked] = []


class DeviceConstraint(Struct, frozen=True):
    #: names of requests; none: all
    requests: list[str] = []
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceClaim(Struct, frozen=True):
    requests: list[DeviceRequest] = []
    constraints: list[DeviceConstraint] = []
    #: passed on to the drivers
    config: list[Object] = []


class ResourceClaimSpec(Struct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(Struct, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    share_id: str = msgspec.field(name="shareID", default="")
    consumed_capacity: Quantities = {}


class AllocatedDevices(Struct, frozen=True):
    results: list[AllocatedDevice] = []


class Allocation(Struct, frozen=True):
    devices: AllocatedDevices = AllocatedDevices()
    #: where the devices can be used; None: everywhere
    node_selector: NodeSelector | None = None


class ConsumerReference(Struct, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Struct, frozen=True):
    allocation: Allocation | None = None
    reserved_for: list[ConsumerReference] = []


class ResourceClaim(Resource, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ClaimTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Resource, frozen=True):
    spec: ClaimTemplateSpec = ClaimTemplateSpec()
