"""The numbers of protobuf fields, derived from Kubernetes' Go types.

python -m tests.embedded.http.protobuf.official MODULES   writes the messages.json of the package

MODULES is the folder with `api@VERSION` and `apimachinery@VERSION`, as Go keeps it: ~/go/pkg/mod/k8s.io.
"""

import json
import re
import sys
from pathlib import Path
from typing import Final, NamedTuple

from tests.api.rules.official import RENAMED

FILE: Final = Path(__file__).parents[4] / "src/muster/embedded/http/protobuf/messages.json"
SOURCES: Final = (
    "api@*/core/v1/types.go",
    "api@*/batch/v1/types.go",
    "api@*/policy/v1/types.go",
    "api@*/storage/v1/types.go",
    "api@*/node/v1/types.go",
    "api@*/scheduling/v1/types.go",
    "api@*/coordination/v1/types.go",
    "api@*/resource/v1/types.go",
    "api@*/authorization/v1/types.go",
    "api@*/authentication/v1/types.go",
    "apimachinery@*/pkg/apis/meta/v1/types.go",
    "api@*/scheduling/v1alpha3/types.go",
)
#: Kinds that the embedded cluster takes in a request's body.
ROOTS: Final = (
    *("Namespace", "Node", "Pod", "Service", "ConfigMap", "Secret", "ServiceAccount", "Event"),
    *("ResourceQuota", "LimitRange", "PersistentVolumeClaim", "PersistentVolume", "StorageClass"),
    *("RuntimeClass", "Job", "CronJob", "PriorityClass", "PodDisruptionBudget", "Lease"),
    *("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"),
    *("Binding", "Eviction", "DeleteOptions"),
    *("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview"),
)
_LEAVES: Final = {
    "string": "s",
    "types.UID": "s",
    "bool": "b",
    "int": "i",
    "int32": "i",
    "int64": "i",
    "uint32": "i",
    "uint64": "i",
    "[]byte": "y",
    "Time": "t",
    "MicroTime": "t",
    "resource.Quantity": "q",
    "intstr.IntOrString": "x",
    "FieldsV1": "j",
    "runtime.RawExtension": "j",
    "Verbs": "[s",
}
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_ALIAS: Final = re.compile(r"^type (\w+) ([\w.\[\]*]+)$", re.M)
_FIELD: Final = re.compile(
    r"^\s+(?:(?P<field>\w+)\s+)?(?P<type>\S+)\s+`json:\"(?P<json>[^\"]*)\".*?"
    r"protobuf:\"\w+,(?P<number>\d+),(?:opt|rep|req|name)",
    re.M,
)


class Go(NamedTuple):
    structs: dict[str, str]
    aliases: dict[str, str]


def derived(modules: Path) -> dict[str, dict[str, list[str]]]:
    """By message and number: the field's name in JSON ("" if its own fields stand there), and its code."""
    go = Go({}, {})
    for pattern in SOURCES:
        (file,) = modules.glob(pattern)
        text = file.read_text()
        if "/core/" in pattern:
            for model, name in RENAMED.items():
                text = re.sub(rf"\b{model.removeprefix('CoreV1')}\b", name, text)
        for name, body in _STRUCT.findall(text):
            go.structs.setdefault(name, body)
        for name, type_ in _ALIAS.findall(text):
            go.aliases.setdefault(name, type_)
    found: dict[str, dict[str, list[str]]] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = {}
        for field in _FIELD.finditer(go.structs[name]):
            code = _code(field["type"], go)
            label, *flags = field["json"].split(",")
            if label == "-" or code is None or "TypeMeta" in field["type"]:
                continue
            found[name][field["number"]] = ["" if not label or "inline" in flags else label, code]
            waiting += [part for part in re.findall(r"\w+", code) if part in go.structs]
    return {name: found[name] for name in sorted(found)}


def _code(type_: str, go: Go) -> str | None:
    """The code of a Go type (the package describes them); None if it is not needed."""
    pointer = type_.startswith("*")
    type_ = re.sub(r"^[a-z]*v1\w*\.", "", type_.removeprefix("*"))
    if type_ in _LEAVES:
        return _LEAVES[type_] + ("?" if pointer else "")
    if type_ == "ExtraValue":
        return None
    if found := re.match(r"\[\]|map\[(string|(v1\.)?ResourceName|QualifiedName)\]", type_):
        inner = _code(type_[found.end() :], go)
        return None if inner is None else ("[" if found[0] == "[]" else "{") + inner
    if type_ in go.structs:
        return type_ + ("?" if pointer else "")
    if type_ in go.aliases:
        inner = _code(go.aliases[type_], go)
        return None if inner is None else inner + ("?" if pointer else "")
    raise TypeError(f"no code for {type_}")


def text(table: dict[str, dict[str, list[str]]]) -> str:
    """One message a line."""
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table.items()) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(derived(Path(sys.argv[1]).expanduser())))
