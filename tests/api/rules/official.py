"""The table of Kubernetes' types, derived from the official client, which is made from Kubernetes' OpenAPI.

python -m tests.api.rules.official      writes src/muster/api/rules/types.json
"""

import json
import re
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).parents[3] / "src/muster/api/rules/types.json"
ROOTS: Final = (
    "V1Namespace",
    "V1Node",
    "V1Pod",
    "V1Service",
    "V1ConfigMap",
    "V1Secret",
    "V1ServiceAccount",
    "CoreV1Event",
    "V1ResourceQuota",
    "V1LimitRange",
    "V1PersistentVolumeClaim",
    "V1PersistentVolume",
    "V1StorageClass",
    "V1RuntimeClass",
    "V1Job",
    "V1CronJob",
    "V1JobTemplateSpec",
    "V1PriorityClass",
    "V1PodDisruptionBudget",
    "V1Lease",
    "V1DeviceClass",
    "V1ResourceSlice",
    "ResourceV1ResourceClaim",
    "V1ResourceClaimTemplate",
)
#: Types that have the name of another group's.
RENAMED: Final = {"CoreV1ResourceClaim": "ContainerResourceClaim"}
_PRIMITIVE: Final = {"str": "s", "int": "i", "bool": "b", "datetime": "t", "bytes": "s", "object": "o"}
#: OpenAPI calls these strings.
_QUANTITIES: Final = {
    ("ResourceRequirements", "limits"),
    ("ResourceRequirements", "requests"),
    ("VolumeResourceRequirements", "limits"),
    ("VolumeResourceRequirements", "requests"),
    ("ContainerStatus", "allocatedResources"),
    ("PodStatus", "allocatedResources"),
    ("PodSpec", "overhead"),
    ("NodeStatus", "capacity"),
    ("NodeStatus", "allocatable"),
    ("ResourceQuotaSpec", "hard"),
    ("ResourceQuotaStatus", "hard"),
    ("ResourceQuotaStatus", "used"),
    ("LimitRangeItem", "default"),
    ("LimitRangeItem", "defaultRequest"),
    ("LimitRangeItem", "max"),
    ("LimitRangeItem", "maxLimitRequestRatio"),
    ("LimitRangeItem", "min"),
    ("Overhead", "podFixed"),
    ("PersistentVolumeSpec", "capacity"),
    ("PersistentVolumeClaimStatus", "capacity"),
    ("PersistentVolumeClaimStatus", "allocatedResources"),
    ("ResourceFieldSelector", "divisor"),
    ("EmptyDirVolumeSource", "sizeLimit"),
    ("CapacityRequestPolicy", "default"),
    ("CapacityRequestPolicy", "validValues"),
    ("CapacityRequestPolicyRange", "max"),
    ("CapacityRequestPolicyRange", "min"),
    ("CapacityRequestPolicyRange", "step"),
    ("CapacityRequirements", "requests"),
    ("Counter", "value"),
    ("DeviceCapacity", "value"),
    ("DeviceRequestAllocationResult", "consumedCapacity"),
    ("NodeAllocatableMapping", "capacityMultiplier"),
    ("NodeAllocatableMapping", "deviceMultiplier"),
    ("NodeAllocatableOverhead", "perContainer"),
    ("NodeAllocatableOverhead", "perPod"),
}
#: Fields that are a number or a string; all other fields without a model are any JSON.
_INT_OR_STRING: Final = ("port", "targetPort", "minAvailable", "maxUnavailable")
#: Required fields that a module of rules asks for, in words of its own.
_ASKED_ELSEWHERE: Final = {
    ("PodSpec", "containers"),
    ("JobSpec", "template"),
    ("CronJob", "spec"),
    ("Volume", "name"),
    ("EnvVar", "name"),
    ("VolumeMount", "name"),
    ("VolumeMount", "mountPath"),
    # 0 is a generation, which protobuf leaves out
    ("ResourcePool", "generation"),
}


def derived() -> dict[str, dict[str, str]]:
    """By type and field: the field's type; a `!` behind it says that the field is required."""
    from kubernetes.client import models  # it is slow to import

    found: dict[str, dict[str, str]] = {}
    waiting = list(ROOTS)
    while waiting:
        model: Any = getattr(models, waiting.pop())
        name = _name(model.__name__)
        if name in found:
            continue
        fields = found[name] = {}
        required = {
            info.serialization_alias or info.alias or attribute
            for attribute, info in model.model_fields.items()
            if info.is_required()
        }
        for attribute, type_ in model.openapi_types.items():
            field = model.attribute_map[attribute]
            waiting += [word for word in re.findall(r"\w+", type_) if _is_model(word)]
            if (name, field) in _QUANTITIES:
                code = {"Dict": "{q", "List": "[q"}.get(type_[:4], "q")
            else:
                code = "x" if type_ == "object" and field in _INT_OR_STRING else _code(type_)
            asked = field in required and (name, field) not in _ASKED_ELSEWHERE
            fields[field] = code + ("!" if asked else "")
    return {name: dict(sorted(found[name].items())) for name in sorted(found)}


def _code(type_: str) -> str:
    if type_.startswith("List["):
        return "[" + _code(type_[5:-1])
    if type_.startswith("Dict[str, "):
        return "{" + _code(type_[10:-1])
    return _PRIMITIVE.get(type_) or _name(type_)


def _is_model(word: str) -> bool:
    return word[0].isupper() and word not in ("List", "Dict")


def _name(model: str) -> str:
    return RENAMED.get(model) or re.sub(r"^(Core|Resource)?V1(alpha\d|beta\d)?", "", model)


def text(types: dict[str, dict[str, str]]) -> str:
    """One type a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in types.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(derived()))
