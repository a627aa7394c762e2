"""Which devices each node has, and of which kinds: the core's words for what drivers publish.

Devices are of one kind if nothing tells them apart that an expression or a constraint looks at, and if they
have the same taints and take the same from counters. Nothing looks at serial numbers, so a cluster has few
kinds, and each expression is evaluated once for each. Its answers come from outside (`Kinds.unanswered`,
`Kinds.tell`). Until they are there, an expression holds of no device. An answer stays known if something else
tells devices apart from then on: it depends on what its own expression looks at.

A device that muster cannot give out is withheld, and counted by its reason. Amounts of counters are rounded
so that there never seems to be more than there is.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from muster.api import quantity
from muster.api.resource_v1 import Device, DeviceTaint, ResourceSlice
from muster.core.words.devices import (
    DEVICE_CLASS,
    Counters,
    DeviceId,
    DeviceKind,
    DeviceKindChanged,
    DeviceKindRemoved,
    DevicesChanged,
    KindId,
)
from muster.translate.devices.claims import Asked, Tolerations, counts, tolerates
from muster.translate.devices.selectors import Facts, facts, names, only

#: Most kinds of one node, and of the cluster. Devices beyond are left out: an expression looks at what
#: differs in each. What the driver of one node publishes takes devices from that node only.
MOST_OF_NODE: Final = 256
MOST_KINDS: Final = 100_000
#: Answers that are kept before those are forgotten of which nothing asks or no node has the kind.
MOST_KNOWN: Final = 200_000
#: The largest amount of a counter: if there is more, so much is there.
MOST: Final = 2**50
_KEY: Final = msgspec.msgpack.Encoder(order="deterministic").encode


@dataclass(slots=True)
class Wanted:
    """What classes and claims ask of devices."""

    #: by answer, the expressions that must all hold
    answers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: answers that are resources, besides those of `deviceclass/`
    resources: set[str] = field(default_factory=set)
    tolerations: dict[str, Tolerations] = field(default_factory=dict)
    attributes: set[str] = field(default_factory=set)

    def add(self, asked: Asked) -> None:
        self.answers |= {answer: (text,) for answer, text in asked.expressions.items()}
        self.tolerations |= asked.tolerations
        self.attributes |= asked.attributes

    def add_class(self, name: str, expressions: Iterable[str], resource: str = "") -> None:
        """Adds a class. `resource`: as which its devices are counted, if it stands for one."""
        self.answers[resource or DEVICE_CLASS + name] = tuple(expressions)
        if resource:
            self.resources.add(resource)

    @property
    def looked_at(self) -> frozenset[str] | None:
        """Names of attributes and capacities that tell devices apart; None = all."""
        found = {attribute.rpartition("/")[2] for attribute in self.attributes}
        for expression in {text for texts in self.answers.values() for text in texts}:
            if (looked := names(expression)) is None:
                return None
            found |= looked
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Kind:
    facts: Facts
    taints: tuple[DeviceTaint, ...]
    consumes: Counters
    #: it is not given out
    withheld: bool
    #: of all of it
    whole: bytes
    #: by the names that an expression looks at, of these facts alone: these, and their key
    seen: dict[frozenset[str] | None, tuple[Facts, bytes]] = field(default_factory=dict, compare=False)

    def seen_by(self, expression: str) -> tuple[Facts, bytes]:
        if (found := self.seen.get(looked := names(expression))) is None:
            of = self.facts if looked is None else only(self.facts, looked)
            found = self.seen[looked] = of, _KEY(of)
        return found


class Kinds:
    """Kinds by what tells devices apart, and the answers that are known of them."""

    def __init__(self) -> None:
        self.wanted = Wanted()
        self._looked: frozenset[str] | None = frozenset()
        self._ids: dict[bytes, KindId] = {}
        self._kinds: dict[KindId, _Kind] = {}
        self._next = 0
        #: how many nodes have each kind, the kinds of each, and the kinds that none has
        self._uses = Counter[KindId]()
        self._of_node: dict[str, frozenset[KindId]] = {}
        self._unused: set[KindId] = set()
        self._told: dict[KindId, DeviceKind] = {}
        #: by expression and what it sees of a device, whether it holds
        self._known: dict[tuple[str, bytes], bool] = {}
        #: expressions that have been evaluated for all kinds
        self._settled: set[str] = set()
        #: whether kinds may have something to tell, and something to ask
        self._stale = self.asks = False

    def want(self, wanted: Wanted) -> bool:
        """Takes what is asked of devices now. True: kinds have to be found anew for all of them."""
        self.wanted = wanted
        self._stale = self.asks = True
        looked = wanted.looked_at
        if looked == self._looked:
            return False
        self._looked = looked
        self._ids.clear()
        return True

    def of(self, driver: str, device: Device, consumes: Counters, withheld: bool) -> KindId | None:
        """Returns the kind of a device; None if there are too many. `withheld`: it is not given out."""
        seen = facts(driver, device, self._looked)
        taints = tuple(taint for taint in device.taints if counts(taint))
        whole = _KEY([seen, taints, consumes, withheld])
        known = self._ids.get(whole)
        if known is None:
            if len(self._ids) >= MOST_KINDS:
                return None
            known = self._ids[whole] = KindId(self._next)
            self._next += 1
            self._kinds[known] = kind = _Kind(seen, taints, consumes, withheld, whole)
            self._settled -= {text for text in self._settled if not self._answered(text, kind)}
            self._unused.add(known)
            self._stale = self.asks = True
        return known

    def _answered(self, text: str, kind: _Kind) -> bool:
        return (text, kind.seen_by(text)[1]) in self._known

    def use(self, node: str, kinds: frozenset[KindId]) -> None:
        """Takes in of which kinds the devices of a node are now."""
        before = self._of_node.pop(node, frozenset())
        if kinds:
            self._of_node[node] = kinds
        self._uses.update(kinds - before)
        self._unused -= kinds
        for kind in before - kinds:
            self._uses[kind] -= 1
            if not self._uses[kind]:
                del self._uses[kind]
                self._unused.add(kind)

    def removed(self) -> list[DeviceKindRemoved]:
        """Forgets the kinds that no node has; returns those of which the core knows."""
        unused, self._unused = sorted(self._unused), set()
        for id_ in unused:
            whole = self._kinds.pop(id_).whole
            if self._ids.get(whole) == id_:
                del self._ids[whole]
        return [DeviceKindRemoved(id_) for id_ in unused if self._told.pop(id_, None) is not None]

    def unanswered(self) -> Iterator[tuple[str, list[Facts]]]:
        """Yields expressions, and the devices of which it is not known whether they hold, each once."""
        self.asks = False
        texts = {text for expressions in self.wanted.answers.values() for text in expressions}
        if len(self._known) > MOST_KNOWN:
            living = {(text, kind.seen_by(text)[1]) for kind in self._living() for text in texts}
            self._known = {key: held for key, held in self._known.items() if key in living}
        self._settled &= texts
        for text in sorted(texts):
            found = {key: of for of, key in (kind.seen_by(text) for kind in self._living())}
            devices = [of for key, of in found.items() if (text, key) not in self._known]
            if devices or text not in self._settled:
                yield text, devices

    def tell(self, expression: str, devices: Iterable[Facts], holds: Iterable[bool]) -> None:
        for of, held in zip(devices, holds, strict=True):
            self._known[expression, _KEY(of)] = held
        self._settled.add(expression)
        self._stale = True

    @property
    def pending(self) -> frozenset[str]:
        """The answers whose expressions have not been evaluated yet."""
        answers, settled = self.wanted.answers, self._settled
        return frozenset(name for name, texts in answers.items() if not settled.issuperset(texts))

    def events(self) -> Iterator[DeviceKindChanged]:
        """Yields kinds that are new, or of which something else is known than was last told."""
        if not self._stale:
            return
        self._stale = False
        for id_ in self._ids.values():
            kind = self._kinds[id_]
            now = self._kind(kind)
            if self._told.get(id_) != now:
                self._told[id_] = now
                yield DeviceKindChanged(id_, now)

    def _living(self) -> Iterator[_Kind]:
        return (self._kinds[id_] for id_ in self._ids.values())

    def _kind(self, kind: _Kind) -> DeviceKind:
        wanted, known = self.wanted, self._known
        answers = [
            answer
            for answer, texts in wanted.answers.items()
            if all(known.get((text, kind.seen_by(text)[1]), False) for text in texts)
        ]
        answers += [name for name, each in wanted.tolerations.items() if tolerates(each, kind.taints)]
        values = ((name, _attribute(kind.facts, name)) for name in sorted(wanted.attributes))
        return DeviceKind(
            answers=frozenset(answers),
            attributes=tuple((name, value) for name, value in values if value),
            consumes=kind.consumes,
            tainted=bool(kind.taints),
            withheld=kind.withheld,
            resources=frozenset(wanted.resources.intersection(answers)),
        )


def _attribute(of: Facts, full: str) -> str:
    """Returns the value of an attribute with its type; "" if the device has none."""
    domain, _, name = full.rpartition("/")
    value = of.attributes.get(domain, {}).get(name)
    if value is None:
        return ""
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return f"{kind}:{text}"
    return f"{type(value).__name__}:{value}"


def devices_of(
    node: str, slices: Iterable[ResourceSlice], kind: Callable[[str, Device, Counters, bool], KindId | None]
) -> tuple[DevicesChanged, Mapping[str, int]]:
    """Returns the devices of a node, from slices of complete pools, and how many cannot be had, by reason.

    A device that is not given out is among them all the same: it keeps claims off that ask for all devices.
    `kind`: returns the kind of a device of a driver, with what it takes of counters, and whether it is such.
    """
    found: list[tuple[DeviceId, KindId]] = []
    counters: dict[str, int] = {}
    omitted = Counter[str]()
    kinds = set[KindId]()
    pools: dict[str, list[str]] = {}  # by driver
    ordered = sorted(slices, key=lambda each: (each.spec.driver, each.spec.pool.name, each.metadata.name))
    for each in ordered:
        driver, pool = each.spec.driver, each.spec.pool.name
        known = pools.setdefault(driver, [])
        if pool not in known:
            known.append(pool)
        # by number, as nodes name their pools after themselves, and their devices shall be of the same kinds
        prefix = f"{driver}/{len(known) - 1}"
        for one in each.spec.shared_counters:
            for name, counter in one.counters.items():
                counters[f"{prefix}/{one.name}/{name}"] = _has(counter.value)
        for device in each.spec.devices:
            if reason := left_out(device):
                omitted[reason] += 1
            takes: dict[str, int] = {}
            for part in device.consumes_counters if not reason else ():
                for name, counter in part.counters.items():
                    key = f"{prefix}/{part.counter_set}/{name}"
                    takes[key] = takes.get(key, 0) + _takes(counter.value)
            consumes = tuple(sorted((key, amount) for key, amount in takes.items() if amount))
            id_ = kind(driver, device, consumes, bool(reason))
            if id_ is None or (id_ not in kinds and len(kinds) >= MOST_OF_NODE):
                omitted[
                    f"there are too many kinds of devices{' on its node' if id_ is not None else ''}"
                ] += 1
                continue
            kinds.add(id_)
            found.append((DeviceId(f"{driver}/{pool}/{device.name}"), id_))
    there = tuple(sorted((name, amount) for name, amount in counters.items() if amount))
    return DevicesChanged(node, tuple(found), there), omitted


def left_out(device: Device) -> str:
    """Returns why muster does not give a device out; "" if it does."""
    if device.binding_conditions or device.binding_failure_conditions:
        return "bindingConditions are not supported yet"
    if device.binds_to_node:
        return "bindsToNode is not supported yet"
    if device.node_allocatable_resources:
        return "nodeAllocatableResources are not supported yet"
    if device.allow_multiple_allocations:
        return "allowMultipleAllocations is not supported yet"
    if any(part.compatibility_groups for part in device.consumes_counters):
        return "compatibilityGroups are not supported yet"
    return ""


def elsewhere(each: ResourceSlice) -> str:
    """Returns why the devices of a slice are of no single node; "" if they are."""
    spec = each.spec
    if spec.per_device_node_selection:
        return "perDeviceNodeSelection is not supported yet"
    if spec.all_nodes:
        return "allNodes is not supported yet"
    if spec.node_selector is not None:
        return "nodeSelector is not supported yet"
    return "" if spec.node_name else "it names no node"


def _has(value: str | int | float) -> int:
    """Returns what there is of a counter; nothing of one that cannot be read."""
    try:
        return max(0, min(math.floor(quantity.parse(value)), MOST))
    except ValueError:
        return 0


def _takes(value: str | int | float) -> int:
    """Returns what a device takes of a counter; more than there is of any, if it cannot be read."""
    try:
        return max(0, min(math.ceil(quantity.parse(value)), MOST + 1))
    except ValueError:
        return MOST + 1
