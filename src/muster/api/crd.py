"""CustomResourceDefinitions of muster's own kinds and of LatticeJob, with schemas derived from their structs.

Field names, types and ranges come from the structs, so the server refuses what muster could not read. Rules
that a type cannot express are CEL expressions (`RULES`).
"""

from typing import Any, Final

import msgspec
from msgspec import inspect

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.version import VERSION

#: The chart's labels, as a release called `muster` has them.
LABELS: Final = {
    "app.kubernetes.io/name": "muster",
    "app.kubernetes.io/instance": "muster",
    "app.kubernetes.io/version": VERSION,
}
#: By kind, columns of `kubectl get`: name, type, path.
COLUMNS: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "Queue": (
        ("Parent", "string", ".spec.parent"),
        ("Weight", "integer", ".spec.weight"),
        ("Waiting", "integer", ".status.waiting"),
        ("Running", "integer", ".status.standing"),
        ("CPU", "string", ".status.used.cpu"),
        ("GPUs", "string", r".status.used.nvidia\.com/gpu"),
        ("Closed", "boolean", ".spec.closed"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    "Gang": (
        ("Phase", "string", ".status.phase"),
        ("Queue", "string", ".spec.queue"),
        ("Min", "integer", ".spec.minCount"),
        ("Bound", "integer", ".status.bound"),
        ("Running", "integer", ".status.running"),
        ("Reason", "string", ".status.reason.code"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Priority", "integer", ".spec.priority"),
        ("Expected", "string", ".status.expectedStart"),
        ("Message", "string", ".status.reason.message"),
    ),
    "GangPlan": (
        ("Gang", "string", ".spec.gang"),
        ("Epoch", "integer", ".spec.epoch"),
        ("Attempt", "integer", ".spec.attempt"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    "Preemption": (
        ("Gang", "string", ".spec.gang"),
        ("Queue", "string", ".spec.queue"),
        ("By", "string", ".spec.by"),
        ("GPU hours", "string", ".spec.gpuHoursLost"),
        ("Cost", "string", ".spec.costLost"),
        ("At", "date", ".spec.at"),
    ),
    **dict.fromkeys(
        ("BatchJob", "LatticeJob"),
        (
            ("Phase", "string", ".status.phase"),
            ("Queue", "string", ".spec.queue"),
            ("Message", "string", ".status.message"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ),
    ),
    "CedarPolicy": (
        ("Phase", "string", ".status.phase"),
        ("Permits", "integer", ".status.permitCount"),
        ("Forbids", "integer", ".status.forbidCount"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    "TrustPolicy": (
        ("Phase", "string", ".status.phase"),
        ("Images", "string", ".spec.match.images"),
        ("Mode", "string", ".spec.mode"),
        ("Action", "string", ".spec.action"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
}
#: Kinds that only muster writes. Nobody applies single fields of them, so the API server need not record who
#: owns which field: their `spec` and `status` have one owner each, which saves it a sixth of a write.
RECORDS: Final = frozenset({"Gang", "GangPlan", "Preemption"})
#: Columns that `kubectl get -o wide` adds.
WIDE: Final = frozenset({"Priority", "Expected", "Message"})
#: By kind, CEL rules on `spec`, each with its message.
RULES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "Queue": (
        ("!has(self.weight) || self.weight >= 1", "weight must be at least 1"),
        ("!has(self.maxGangs) || self.maxGangs >= 0", "maxGangs must not be negative"),
        (
            "!has(self.order) || self.order in ['priority', 'fifo', 'fair']",
            "order must be priority, fifo or fair",
        ),
    ),
    "TrustPolicy": (
        ("!has(self.mode) || self.mode in ['any', 'all']", "mode must be any or all"),
        ("!has(self.action) || self.action in ['enforce', 'audit']", "action must be enforce or audit"),
    ),
    "GangPlan": (("self == oldSelf", "a GangPlan is created and deleted, never changed"),),
}


def definitions() -> list[Object]:
    """The CustomResourceDefinition of each kind of muster's own group."""
    return [definition(kind) for kind in kinds.OWN]


def definition(kind: Kind[Any]) -> Object:
    """The CustomResourceDefinition of one of `kinds.DEFINED`."""
    header = {"apiVersion", "kind", "metadata"}
    fields = {f.encode_name: _schema(f.type) for f in _fields(kind.type) if f.encode_name not in header}
    if kind.kind in RECORDS:
        for field in fields.values():
            field["x-kubernetes-map-type"] = "atomic"
    spec = fields["spec"]
    spec["x-kubernetes-validations"] = [
        {"rule": rule, "message": message} for rule, message in RULES.get(kind.kind, ())
    ]
    version: Object = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path, **({"priority": 1} if name in WIDE else {})}
            for name, type_, path in COLUMNS[kind.kind]
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": (kind.type.__doc__ or "").partition("\n")[0] or kind.kind,
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    **fields,
                },
            }
        },
        **({"subresources": {"status": {}}} if kind.status else {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "labels": {**LABELS}},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "categories": ["muster"],
            },
            "versions": [version],
        },
    }


def _fields(struct: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    found = inspect.type_info(struct)
    assert isinstance(found, inspect.StructType)
    return found.fields


def _schema(type_: inspect.Type) -> Object:
    """The structural schema of a field's type."""
    match type_:
        case inspect.Metadata():
            return _schema(type_.type)
        case inspect.UnionType():
            some = [each for each in type_.types if not isinstance(each, inspect.NoneType)]
            if len(some) > 1:  # a quantity, the only such type: `2`, `"500m"`
                return {
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "x-kubernetes-int-or-string": True,
                }
            (one,) = some
            return {**_schema(one), "nullable": True}
        case inspect.StructType():
            properties = {field.encode_name: _schema(field.type) for field in type_.fields}
            required = [field.encode_name for field in type_.fields if field.required]
            return {
                "type": "object",
                "properties": properties,
                **({"required": required} if required else {}),
            }
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _schema(type_.value_type)}
        case inspect.ListType():
            return {"type": "array", "items": _schema(type_.item_type)}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.IntType():
            small = type_.le is not None and type_.le < 2**31
            return {"type": "integer", "format": "int32" if small else "int64"}
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BoolType():
            return {"type": "boolean"}
    raise TypeError(f"no schema for {type_}")
