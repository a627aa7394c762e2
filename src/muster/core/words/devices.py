"""Devices of nodes, and the claims by which pods ask for them.

A device is of a *kind*: what a claim can tell devices apart by. Devices of one kind on one node are
interchangeable, so a node of eight equal GPUs is the number 8 to the scheduler, and nodes with equal numbers
are decided once. So a kind has only what matters: the attributes that some constraint names, never a serial
number that none does; and counters are named within the node, not by the node.

The core evaluates no expressions. Whether a device satisfies one is an *answer* of its kind: an opaque name,
found before the core. A new expression changes the answers of kinds, and no node. `deviceclass/NAME` is the
answer of devices of a class. It is a resource as well: a node has as many of it as it has such devices, and a
pod requests as many as any allocation of its claims takes at least. So queues, quotas and preemption count
devices as they count all resources, and the claims refine that.

A class may have the name of a resource that other nodes give out by number (`DeviceKind.resources`). Then
pods that request it may run on both sorts of nodes. Where it is devices, a pod has one more claim,
`BY_NUMBER`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NewType

#: Unique in the cluster: `driver/pool/device`.
DeviceId = NewType("DeviceId", str)
KindId = NewType("KindId", int)

#: Begins the resource of which each device of a class is one. It is the answer of devices of that class, too.
DEVICE_CLASS: Final = "deviceclass/"
#: Names the claim that stands for what a pod requests by number: each of its requests has the name of a
#: resource, and counts on nodes that have this as devices. It is the last claim of its pod, and no other has
#: such a name.
BY_NUMBER: Final = "/requests"
#: In place of a number of devices: all that match, of which there must be one, and each must be free.
ALL: Final = -1
#: Devices that one claim has, at most.
MOST_OF_CLAIM: Final = 32

#: Amounts by counter, sorted, no zeros. A counter's name is unique on its node.
Counters = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """What devices of a kind have in common."""

    #: names of the selectors that hold of it
    answers: frozenset[str] = frozenset()
    #: by attribute that constraints name, sorted, its value with its type: `int:1` and `string:1` differ
    attributes: tuple[tuple[str, str], ...] = ()
    #: what a device takes of its node's counters: partitions of one GPU share these
    consumes: Counters = ()
    #: it has a taint: only asks whose tolerations are among its answers may have it
    tainted: bool = False
    #: it is there, but not to be had: by what asks for all devices neither
    withheld: bool = False
    #: answers that are resources, besides those of `deviceclass/`
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DeviceAsk:
    """So many devices, or `ALL`, for each of which all selectors hold; the first is that of their class."""

    selectors: tuple[str, ...]
    count: int = 1
    #: the answer that tainted devices must have
    tolerations: str = ""
    #: among the alternatives of its request; "" if it is the only one
    name: str = ""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """The first of these alternatives that can be had, in order."""

    name: str
    alternatives: tuple[DeviceAsk, ...]


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """All devices for these requests (empty: of the claim) have the attribute, with equal values.

    With `distinct`: no two of them have equal values. `request/alternative` is what one alternative takes.
    """

    attribute: str
    requests: tuple[str, ...] = ()
    distinct: bool = False

    def binds(self, request: str, label: str) -> bool:
        """Whether it is about devices for a request. `label`: with the alternative that they are for."""
        return not self.requests or request in self.requests or label in self.requests


@dataclass(frozen=True, slots=True)
class ClaimShape:
    """What one claim of a pod asks for. `name` is its name in the pod."""

    name: str
    requests: tuple[DeviceRequest, ...]
    constraints: tuple[DeviceConstraint, ...] = ()


def least(claims: Iterable[ClaimShape]) -> dict[str, int]:
    """What any allocation of these claims takes at least, by class: the first selector of each ask."""
    amounts: dict[str, int] = {}
    for request in (request for claim in claims for request in claim.requests):
        each = [
            dict.fromkeys(a.selectors[:1], 1 if a.count == ALL else a.count) for a in request.alternatives
        ]
        for name in each[0].keys() if each else ():
            if number := min(one.get(name, 0) for one in each):
                amounts[name] = amounts.get(name, 0) + number
    return amounts


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices of one claim, each after the request that it is for: `request` or `request/alternative`."""

    claim: str
    devices: tuple[tuple[str, DeviceId], ...]


@dataclass(frozen=True, slots=True)
class DeviceKindChanged:
    """An event: what devices of a kind are, before nodes that have such devices. It may change later."""

    id: KindId
    kind: DeviceKind


@dataclass(frozen=True, slots=True)
class DeviceKindRemoved:
    """An event: no node has devices of this kind any more."""

    id: KindId


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """An event: all devices of a node, of complete pools only; none = it has none any more.

    `taken` are those in use by no pod that is bound: of a claim that no pod uses yet, or any more. It
    does no harm if a place or a pod of which the core knows has one of them.
    """

    node: str
    devices: tuple[tuple[DeviceId, KindId], ...] = ()
    #: what there is of each counter
    counters: Counters = ()
    taken: tuple[DeviceId, ...] = ()
