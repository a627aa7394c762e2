"""Devices of nodes, as written in `--nodes`: what a driver of dynamic resource allocation would publish.

    device:gpu.example.com=8,device:gpu.example.com/clique=a|b

A node has so many devices of the driver, `gpu.example.com`; an attribute has one value, or values separated
by `|`, which go to blocks of the devices in equal shares: the first four are in clique a, the others in b.
The YAML form has a list `devices` of maps: `driver`, `count`, `class` (the name of a DeviceClass that selects
the driver's devices; by default the driver's name), `extendedResourceName` (of that class), `attributes` (a
value or a list of values each; true and 8 are no texts) and `capacity`. Each device also has the attribute
`index`, its number on the node.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from muster.api import rules
from muster.api.base import Kind, Object
from muster.api.kinds import DEVICE_CLASS, RESOURCE_SLICE
from muster.api.rules.device_parts import driver_name
from muster.api.rules.devices import MOST_DEVICES

#: The attribute that each device has.
INDEX: Final = "index"
_KEYS: Final = ("driver", "count", "class", "extendedResourceName", "attributes", "capacity")
_EXAMPLE: Final = "write for example device:gpu.example.com=8"


class DeviceSpec(msgspec.Struct, frozen=True):
    """The devices of one driver on a node."""

    driver: str
    count: int
    device_class: str
    extended_resource_name: str = ""
    #: by name, the values of consecutive blocks of the devices, as the API has them: `{string: a}`
    attributes: dict[str, list[Object]] = {}
    capacity: dict[str, str] = {}


class InvalidDevices(ValueError):
    """The devices of a node cannot be read; the message says what to write instead."""


def read(values: Mapping[str, Any]) -> tuple[list[DeviceSpec], dict[str, Any]]:
    """Returns the devices that a group of nodes states, and the other keys. Raises InvalidDevices."""
    others = {
        key: value for key, value in values.items() if key != "devices" and not key.startswith("device:")
    }
    listed = values.get("devices", [])
    if not isinstance(listed, list):
        raise InvalidDevices("devices: must be a list such as [{driver: gpu.example.com, count: 8}]")
    short: dict[str, Object] = {}
    for key, value in values.items():
        if not key.startswith("device:"):
            continue
        driver, _, attribute = key.removeprefix("device:").partition("/")
        stated = short.setdefault(driver, {"driver": driver, "attributes": {}})
        if attribute:
            stated["attributes"][attribute] = [_plain(each) for each in str(value).split("|")]
        else:
            stated["count"] = value
    found = [_one(f"device:{driver}", stated) for driver, stated in short.items()]
    found += [_one(f"devices[{number}]", stated) for number, stated in enumerate(listed)]
    drivers = [each.driver for each in found]
    if twice := next((driver for driver in drivers if drivers.count(driver) > 1), None):
        raise InvalidDevices(f"devices: driver {twice} is given twice")
    return found, others


def slices(node: str, devices: Sequence[DeviceSpec]) -> list[Object]:
    """The ResourceSlices of a node: one pool of each driver."""
    return [
        {
            "apiVersion": RESOURCE_SLICE.api_version,
            "kind": RESOURCE_SLICE.kind,
            "metadata": {"name": f"{node}-{each.driver}".lower()},
            "spec": {
                "driver": each.driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [_device(each, number) for number in range(each.count)],
            },
        }
        for each in devices
    ]


def classes(devices: Iterable[DeviceSpec]) -> list[Object]:
    """The DeviceClasses of these devices. Raises InvalidDevices if two of one name differ."""
    found: dict[str, Object] = {}
    for each in devices:
        spec: Object = {"selectors": [{"cel": {"expression": f'device.driver == "{each.driver}"'}}]}
        if each.extended_resource_name:
            spec["extendedResourceName"] = each.extended_resource_name
        body = {
            "apiVersion": DEVICE_CLASS.api_version,
            "kind": DEVICE_CLASS.kind,
            "metadata": {"name": each.device_class},
            "spec": spec,
        }
        if found.setdefault(each.device_class, body) != body:
            raise InvalidDevices(
                f"class {each.device_class} is given with another driver or extendedResourceName; "
                "write another name"
            )
    return list(found.values())


def _one(where: str, stated: Any) -> DeviceSpec:  # Any: from YAML
    if not isinstance(stated, Mapping):
        raise InvalidDevices(f"{where}: must be keys and values such as `driver: gpu.example.com`")
    if unknown := sorted(str(key) for key in stated.keys() - {*_KEYS}):
        raise InvalidDevices(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(_KEYS)}")
    driver, count = stated.get("driver", ""), stated.get("count", 1)
    if not isinstance(driver, str) or not driver:
        raise InvalidDevices(f"{where}: driver is missing; {_EXAMPLE}")
    for wrong in driver_name(driver, ("driver",)):
        raise InvalidDevices(f"{where}: {wrong}")
    if isinstance(count, bool) or not re.fullmatch(r"[1-9]\d{0,2}", str(count)) or int(count) > MOST_DEVICES:
        raise InvalidDevices(f"{where}: count {count!r} is not a number from 1 to {MOST_DEVICES}; {_EXAMPLE}")
    spec = DeviceSpec(
        driver,
        int(count),
        str(stated.get("class", driver.lower())),
        str(stated.get("extendedResourceName", "")),
        {
            name: _blocks(f"{where}: {name}", each, int(count))
            for name, each in _map(where, stated, "attributes")
        },
        {name: str(amount) for name, amount in _map(where, stated, "capacity")},
    )
    _check(where, RESOURCE_SLICE, *slices("node", [spec]))
    _check(where, DEVICE_CLASS, *classes([spec]))
    return spec


def _map(where: str, stated: Mapping[str, Any], field: str) -> list[tuple[str, Any]]:  # Any: from YAML
    values = stated.get(field) or {}
    if not isinstance(values, Mapping):
        raise InvalidDevices(f"{where}: {field}: must be keys and values such as `model: A100`")
    return [(str(name), value) for name, value in values.items()]


def _blocks(where: str, stated: Any, count: int) -> list[Object]:  # Any: from YAML
    """The values of an attribute, each for as many devices."""
    values = stated if isinstance(stated, list) else [stated]
    if not values or count % len(values):
        raise InvalidDevices(f"{where}: {count} devices cannot have {len(values)} values in equal shares")
    return [_value(where, each) for each in values]


def _value(where: str, stated: Any) -> Object:  # Any: from YAML
    if isinstance(stated, bool):
        return {"bool": stated}
    if isinstance(stated, int):
        return {"int": stated}
    if isinstance(stated, str):
        return {"string": stated}
    if isinstance(stated, Mapping) and len(stated) == 1 and {*stated} <= {"bool", "int", "string", "version"}:
        return {str(key): value for key, value in stated.items()}
    raise InvalidDevices(f"{where}: must be a text, a whole number, true, false, or {{version: 1.2.3}}")


def _plain(text: str) -> Any:  # Any: a value as YAML would have it
    """A value of the short form: a number, true or false, or a text."""
    text = text.strip()
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text)


def _device(spec: DeviceSpec, number: int) -> Object:
    attributes = {
        name: values[number * len(values) // spec.count] for name, values in sorted(spec.attributes.items())
    }
    device: Object = {
        "name": f"{_short(spec.driver)}-{number}",
        "attributes": {INDEX: {"int": number}, **attributes},
    }
    if spec.capacity:
        device["capacity"] = {name: {"value": amount} for name, amount in sorted(spec.capacity.items())}
    return device


def _short(driver: str) -> str:
    """What a device is called: `gpu` of the driver gpu.example.com."""
    return driver.partition(".")[0].lower() or "device"


def _check(where: str, kind: Kind[Any], body: Object) -> None:  # Any: one of two kinds
    found = rules.type_(kind, body) or rules.validate(kind, rules.default(kind, body), None)
    if found:
        raise InvalidDevices(f"{where}: {found[0]}")
