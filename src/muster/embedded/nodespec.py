"""The nodes of an embedded cluster, as written after `--nodes` or in a YAML file.

    4 x cpu=32,memory=256Gi,pods=110,nvidia.com/gpu=8,product=NVIDIA-A100-SXM4-80GB,label:zone=a; 2 x cpu=8

Groups are separated by `;`; a group is a count (`1 x` may be left out) and keys: resources, `product` (the
label that GPU pods select by), `label:KEY`, `name` (the nodes' common prefix) and `runtime`. `process` runs
pods on this machine, whatever resources the nodes pretend to have; `none` only simulates them. Devices of
dynamic resource allocation are described by `device:DRIVER` (`muster.embedded.devicespec`). The YAML form is
a list of groups with the same keys and `count`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from muster.api import quantity
from muster.api.core_v1 import Quantities
from muster.embedded import devicespec
from muster.embedded.devicespec import DeviceSpec, InvalidDevices
from muster.names import GPU, GPU_PRODUCT

RUNTIMES: Final = ("process", "none")
#: Resources of a node for which the group states none.
DEFAULTS: Final[Quantities] = {"cpu": 1, "memory": "1Gi", "ephemeral-storage": "100Gi", "pods": 110}
MOST: Final = 100_000  # nodes
MOST_DEVICES: Final = 1_000_000  # of all nodes
_FILE_BYTES: Final = 2**20
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?")
_RESOURCE: Final = re.compile(
    r"cpu|memory|pods|ephemeral-storage|hugepages-\w+|([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)[A-Za-z0-9][-\w.]*"
)
_LABEL_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?")
_EXAMPLE: Final = 'write for example "4 x cpu=32,memory=256Gi,nvidia.com/gpu=8"'


class NodeSpec(msgspec.Struct, frozen=True):
    """One node to create."""

    name: str
    resources: Quantities
    labels: dict[str, str] = {}
    runtime: str = "process"
    #: indices of the real GPUs
    gpus: tuple[str, ...] = ()
    #: of dynamic resource allocation, one entry for each driver
    devices: tuple[DeviceSpec, ...] = ()


class InvalidNodes(ValueError):
    """`--nodes` cannot be read; the message names the group and what to write instead."""


def read(text: str) -> list[NodeSpec]:
    """Nodes from `--nodes`: the path of a YAML file, or the nodes themselves. Raises InvalidNodes."""
    if "=" not in text and (text.endswith((".yaml", ".yml")) or Path(text).is_file()):
        return read_file(Path(text))
    return parse(text)


def parse(text: str) -> list[NodeSpec]:
    """Nodes from the grammar above. Raises InvalidNodes."""
    groups: list[tuple[str, dict[str, Any]]] = []
    for number, group in enumerate((part.strip() for part in text.split(";")), 1):
        if not group:
            if text.rstrip().endswith(";") and number == text.count(";") + 1 and groups:
                continue  # a trailing `;`
            raise InvalidNodes(f"--nodes: group {number} is empty; {_EXAMPLE}")
        groups.append((f"--nodes: group {number}", _group(group, number)))
    return _nodes(groups)


def read_file(path: Path) -> list[NodeSpec]:
    """Nodes from a YAML file. Raises InvalidNodes."""
    try:
        if path.stat().st_size > _FILE_BYTES:
            raise InvalidNodes(f"{path}: larger than {_FILE_BYTES} bytes")
        document = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    except OSError as error:
        raise InvalidNodes(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidNodes(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if isinstance(document, Mapping) and isinstance(document.get("nodes"), list):
        document = document["nodes"]
    if not isinstance(document, list) or not document:
        raise InvalidNodes(
            f"{path}: must be a list of groups such as `- {{count: 4, cpu: 32, memory: 256Gi}}`"
        )
    groups = []
    for index, group in enumerate(document):
        if not isinstance(group, Mapping):
            raise InvalidNodes(f"{path}: [{index}]: must be keys and values such as `cpu: 32`")
        groups.append((f"{path}: [{index}]", {str(key): value for key, value in _flat(group)}))
    return _nodes(groups)


def _group(text: str, number: int) -> dict[str, Any]:
    count = re.match(r"(\S+)\s*x\s+|(\d+)x\s*(?=\w)", text)
    values: dict[str, Any] = {}
    if count is not None and "=" not in count[0]:
        values["count"] = count[1] or count[2]
        text = text[count.end() :]
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise InvalidNodes(f"--nodes: group {number}: {part.strip()!r} is not KEY=VALUE; {_EXAMPLE}")
        if key in values:
            raise InvalidNodes(f"--nodes: group {number}: {key} is given twice")
        values[key] = value
    return values


def _flat(group: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """`label: {zone: a}` is the same as `label:zone: a`."""
    for key, value in group.items():
        if key in ("label", "labels") and isinstance(value, Mapping):
            yield from ((f"label:{name}", each) for name, each in value.items())
        else:
            yield key, value


def _nodes(groups: list[tuple[str, dict[str, Any]]]) -> list[NodeSpec]:
    result: list[NodeSpec] = []
    described: list[DeviceSpec] = []
    devices = 0
    for where, values in groups:
        count = _count(where, values.pop("count", 1))
        if len(result) + count > MOST:
            raise InvalidNodes(f"{where}: more than {MOST} nodes in all; {MOST} is the most")
        prefix = str(values.pop("name", "node"))
        if not _NAME.fullmatch(prefix):
            raise InvalidNodes(
                f"{where}: name {prefix!r}: write at most 52 lower-case letters, digits and '-'"
            )
        template = _one(where, prefix, values)
        devices += count * sum(each.count for each in template.devices)
        if devices > MOST_DEVICES:
            raise InvalidNodes(
                f"{where}: more than {MOST_DEVICES} devices in all; {MOST_DEVICES} is the most"
            )
        taken = sum(1 for node in result if node.name.rpartition("-")[0] == prefix)
        result += [
            msgspec.structs.replace(template, name=f"{prefix}-{taken + index}") for index in range(count)
        ]
        described += template.devices
        try:
            devicespec.classes(described)
        except InvalidDevices as error:
            raise InvalidNodes(f"{where}: {error}") from None
    return result


def _count(where: str, value: Any) -> int:
    if isinstance(value, bool) or not str(value).isdigit() or int(value) < 1:
        raise InvalidNodes(f"{where}: count {value!r} is not a whole number from 1 on; {_EXAMPLE}")
    return int(value)


def _one(where: str, prefix: str, values: Mapping[str, Any]) -> NodeSpec:
    resources, labels = dict(DEFAULTS), {}
    runtime = "process"
    try:
        devices, values = devicespec.read(values)
    except InvalidDevices as error:
        raise InvalidNodes(f"{where}: {error}") from None
    for key, value in values.items():
        if key == "runtime":
            runtime = str(value)
            if runtime not in RUNTIMES:
                raise InvalidNodes(f"{where}: runtime={runtime}: choose from {', '.join(RUNTIMES)}")
        elif key == "product" or key.startswith("label:"):
            name = GPU_PRODUCT if key == "product" else key.removeprefix("label:")
            labels[name] = _label(where, key, name, value)
        elif _RESOURCE.fullmatch(key):
            resources[key] = _amount(where, key, value)
        else:
            raise InvalidNodes(
                f"{where}: unknown key {key!r}; known: cpu, memory, pods, {GPU} or another resource with a "
                "domain, product, label:KEY, device:DRIVER, name, runtime"
            )
    if "product" in values and GPU not in resources:
        raise InvalidNodes(f"{where}: product={values['product']} needs {GPU}=COUNT; add it")
    return NodeSpec(prefix, resources, labels, runtime, devices=tuple(devices))


def _label(where: str, key: str, name: str, value: Any) -> str:
    text = str(value)
    if not _LABEL_KEY.fullmatch(name):
        raise InvalidNodes(
            f"{where}: {key}: {name!r} is not a label's key; write a name such as pool or example.com/pool"
        )
    if not _LABEL_VALUE.fullmatch(text):
        raise InvalidNodes(
            f"{where}: {key}={text}: a label's value has at most 63 letters, digits, '-', '_' and '.'"
        )
    return text


def _amount(where: str, key: str, value: Any) -> str | int | float:
    try:
        amount = quantity.parse(value)
    except ValueError as error:
        raise InvalidNodes(f"{where}: {key}: {error}") from None
    if amount < 0:
        raise InvalidNodes(f"{where}: {key}={value}: cannot be negative")
    if quantity.capacity(key, value) > quantity.most(key):
        most = quantity.show(key, quantity.most(key))
        raise InvalidNodes(f"{where}: {key}={value}: more than a node can have, which is {most}")
    if key not in ("cpu", "memory", "ephemeral-storage") and amount.denominator != 1:
        raise InvalidNodes(f"{where}: {key}={value}: must be a whole number")
    return value if isinstance(value, int | float) else str(value)
