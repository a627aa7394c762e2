"""Device classes, slices, claims and templates, and the fields for which an API server refuses them.

The same cases are tried on a real API server (tests/cluster/test_devices.py).
"""

from typing import Any, Final, NamedTuple

from muster.api.base import AnyKind, Object
from muster.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE

DRIVER: Final = "gpu.example.com"
CLASS: Final = {"deviceClassName": "gpu"}
Json = Any  # Any: JSON, right or wrong


class Case(NamedTuple):
    name: str
    kind: AnyKind
    spec: Object
    #: the fields that are refused; none: the object is taken
    refused: tuple[str, ...] = ()

    @property
    def body(self) -> Object:
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": {"name": "tried"},
            "spec": self.spec,
        }


def a_slice(name: str, *refused: str, devices: Json = None, pool: Json = None, **spec: Json) -> Case:
    body: Object = {
        "driver": DRIVER,
        "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1, **(pool or {})},
        "nodeName": "n0",
        "devices": [{"name": "gpu-0"}] if devices is None else devices,
        **spec,
    }
    return Case(
        name, RESOURCE_SLICE, {key: value for key, value in body.items() if value is not None}, refused
    )


def counters(name: str, counters: Object, *refused: str) -> Case:
    spec = a_slice(name, sharedCounters=[{"name": "gpu", "counters": counters}]).spec
    del spec["devices"]
    return Case(name, RESOURCE_SLICE, spec, refused)


def device(name: str, *refused: str, **fields: Json) -> Case:
    return a_slice(name, *refused, devices=[{"name": "gpu-0", **fields}])


def attribute(name: str, value: Object, *refused: str) -> Case:
    return device(name, *refused, attributes={"model": value})


def policy(name: str, policy: Object, *refused: str) -> Case:
    capacity = {"memory": {"value": "80Gi", "requestPolicy": policy}}
    return device(name, *refused, allowMultipleAllocations=True, capacity=capacity)


def claim(name: str, *refused: str, requests: Json = None, **devices: Json) -> Case:
    requests = [{"name": "gpu", "exactly": CLASS}] if requests is None else requests
    return Case(name, RESOURCE_CLAIM, {"devices": {"requests": requests, **devices}}, refused)


def request(name: str, *refused: str, **fields: Json) -> Case:
    return claim(name, *refused, requests=[{"name": "gpu", "exactly": {**CLASS, **fields}}])


def a_class(name: str, *refused: str, **spec: Json) -> Case:
    return Case(name, DEVICE_CLASS, spec, refused)


def cel(expression: str) -> Object:
    return {"cel": {"expression": expression}}


def taint(**fields: Json) -> Object:
    return {"key": "example.com/broken", "effect": "NoSchedule", **fields}


def _many(count: int, **fields: Json) -> list[Object]:
    return [{"name": f"gpu-{number}", **fields} for number in range(count)]


_ATTRIBUTES: Final = {f"a{number}": {"int": number} for number in range(33)}
_LIST: Final = {"ints": [*range(25)]}
_COUNTERS: Final = {"memory": {"value": "80Gi"}}
_OPAQUE: Final = {"driver": DRIVER, "parameters": {"apiVersion": "example.com/v1", "kind": "X"}}
_HERE: Final = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}

CASES: Final = (
    a_slice("a slice"),
    a_slice("a slice of no devices", devices=[]),
    a_slice("128 devices", devices=_many(128)),
    a_slice("129 devices", "spec.devices", devices=_many(129)),
    a_slice("64 devices with taints", devices=_many(64, taints=[taint()])),
    a_slice("65 devices with taints", "spec.devices", devices=_many(65, taints=[taint()])),
    a_slice("two devices of a name", "spec.devices[1]", devices=_many(1) * 2),
    a_slice("a driver that is no name", "spec.driver", driver="a b"),
    a_slice("a driver in capitals", driver="GPU.example.com"),
    a_slice("no driver", "spec.driver", driver=""),
    a_slice("a driver that is too long", "spec.driver", driver="d" * 64),
    a_slice("a pool of several parts", pool={"name": "rack/n0"}),
    a_slice("a pool with an empty part", "spec.pool.name", pool={"name": "rack//n0"}),
    a_slice("no pool", "spec.pool.name", pool={"name": ""}),
    a_slice("a pool of no slices", "spec.pool.resourceSliceCount", pool={"resourceSliceCount": 0}),
    a_slice("a generation below 0", "spec.pool.generation", pool={"generation": -1}),
    a_slice("a generation of 0", pool={"generation": 0}),
    a_slice("a slice for nowhere", "spec", nodeName=None),
    a_slice("a slice for everywhere", nodeName=None, allNodes=True),
    a_slice("a slice for one node and all", "spec", allNodes=True),
    a_slice("a slice for a selector", nodeName=None, nodeSelector=_HERE),
    a_slice(
        "a selector of two terms",
        "spec.nodeSelector.nodeSelectorTerms",
        nodeName=None,
        nodeSelector={"nodeSelectorTerms": _HERE["nodeSelectorTerms"] * 2},
    ),
    a_slice(
        "devices for nodes of their own",
        nodeName=None,
        perDeviceNodeSelection=True,
        devices=[{"name": "gpu-0", "nodeName": "n1"}],
    ),
    a_slice("a device for nowhere", "spec.devices[0]", nodeName=None, perDeviceNodeSelection=True),
    device("a device with a node in the slice of one", "spec.devices[0]", nodeName="n1"),
    counters("counters", _COUNTERS),
    counters("no counters", {}, "spec.sharedCounters[0].counters"),
    counters("33 counters", {f"c{n}": {"value": 1} for n in range(33)}, "spec.sharedCounters[0].counters"),
    a_slice("devices and counters", "spec", sharedCounters=[{"name": "gpu", "counters": _COUNTERS}]),
    device("a device that consumes", consumesCounters=[{"counterSet": "gpu", "counters": _COUNTERS}]),
    device(
        "a device that consumes of three",
        "spec.devices[0].consumesCounters",
        consumesCounters=[{"counterSet": f"g{number}", "counters": _COUNTERS} for number in range(3)],
    ),
    attribute("a text", {"string": "A100"}),
    attribute("a text of 65", {"string": "a" * 65}, "spec.devices[0].attributes[model].string"),
    attribute("a version", {"version": "1.2.3-rc.1+build"}),
    attribute("a version that is none", {"version": "1.2"}, "spec.devices[0].attributes[model].version"),
    attribute("a number", {"int": 0}),
    attribute("false", {"bool": False}),
    attribute("no value", {}, "spec.devices[0].attributes[model]"),
    attribute("two values", {"int": 1, "bool": True}, "spec.devices[0].attributes[model]"),
    device("an attribute with a domain", attributes={"example.com/model": {"int": 1}}),
    device("a name of two words", "spec.devices[0].attributes", attributes={"a model": {"int": 1}}),
    device("a name that is too long", "spec.devices[0].attributes", attributes={"m" * 33: {"int": 1}}),
    device("33 attributes", "spec.devices[0]", attributes=_ATTRIBUTES),
    device("a capacity", capacity={"memory": {"value": "80Gi"}}),
    device(
        "a capacity for one with a policy",
        "spec.devices[0].capacity[memory].requestPolicy",
        capacity={"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}},
    ),
    policy("some values", {"default": "10Gi", "validValues": ["10Gi", "20Gi"]}),
    policy(
        "a default that is none of the values",
        {"default": "5Gi", "validValues": ["10Gi"]},
        "spec.devices[0].capacity[memory].requestPolicy.validValues",
    ),
    policy("a range", {"default": "10Gi", "validRange": {"min": "5Gi", "step": "5Gi"}}),
    policy(
        "a range without a default",
        {"validRange": {"min": "5Gi"}},
        "spec.devices[0].capacity[memory].requestPolicy.default",
    ),
    policy(
        "a default between the steps",
        {"default": "11Gi", "validRange": {"min": "5Gi", "step": "5Gi"}},
        "spec.devices[0].capacity[memory].requestPolicy.validRange.step",
    ),
    device("a taint", taints=[taint(value="yes")]),
    device("a taint without effect", "spec.devices[0].taints[0].effect", taints=[taint(effect="")]),
    device("an effect that is none", "spec.devices[0].taints[0].effect", taints=[taint(effect="Never")]),
    device("17 taints", "spec.devices[0].taints", taints=[taint()] * 17),
    a_slice("a device in capitals", "spec.devices[0].name", devices=[{"name": "GPU"}]),
    device("conditions", bindingConditions=["a"], bindingFailureConditions=["b"]),
    device(
        "conditions without failures", "spec.devices[0].bindingFailureConditions", bindingConditions=["a"]
    ),
    a_class("a class"),
    a_class("a class with all", selectors=[cel("true")], config=[{"opaque": _OPAQUE}]),
    a_class("a name for devices", extendedResourceName="example.com/gpu"),
    a_class("a name of Kubernetes'", "spec.extendedResourceName", extendedResourceName="kubernetes.io/gpu"),
    a_class("a name without a domain", "spec.extendedResourceName", extendedResourceName="gpu"),
    a_class("33 selectors", "spec.selectors", selectors=[cel("true")] * 33),
    a_class("a selector of nothing", "spec.selectors[0].cel", selectors=[{}]),
    a_class("no expression", "spec.selectors[0].cel.expression", selectors=[cel("")]),
    a_class("10 KiB of CEL", selectors=[cel("true" + " " * (10 * 1024 - 4))]),
    a_class(
        "more than 10 KiB of CEL",
        "spec.selectors[0].cel.expression",
        selectors=[cel("true" + " " * (10 * 1024 - 3))],
    ),
    a_class("no configuration", "spec.config[0].opaque", config=[{}]),
    a_class(
        "parameters that are no object",
        "spec.config[0].opaque.parameters",
        config=[{"opaque": {"driver": DRIVER, "parameters": 1}}],
    ),
    claim("a claim"),
    claim("a claim of nothing", requests=[]),
    claim("32 requests", requests=[{"name": f"r{number}", "exactly": CLASS} for number in range(32)]),
    claim(
        "33 requests",
        "spec.devices.requests",
        requests=[{"name": f"r{number}", "exactly": CLASS} for number in range(33)],
    ),
    claim(
        "two requests of a name", "spec.devices.requests[1]", requests=[{"name": "a", "exactly": CLASS}] * 2
    ),
    claim("a request of nothing", "spec.devices.requests[0]", requests=[{"name": "a"}]),
    claim(
        "a request of both",
        "spec.devices.requests[0]",
        requests=[{"name": "a", "exactly": CLASS, "firstAvailable": [{"name": "b", **CLASS}]}],
    ),
    claim(
        "alternatives",
        requests=[
            {"name": "a", "firstAvailable": [{"name": "b", **CLASS}, {"name": "c", **CLASS, "count": 2}]}
        ],
    ),
    claim(
        "nine alternatives",
        "spec.devices.requests[0].firstAvailable",
        requests=[{"name": "a", "firstAvailable": [{"name": f"b{number}", **CLASS} for number in range(9)]}],
    ),
    request("all devices", allocationMode="All"),
    request(
        "all devices, and a count", "spec.devices.requests[0].exactly.count", allocationMode="All", count=2
    ),
    request("a mode that is none", "spec.devices.requests[0].exactly.allocationMode", allocationMode="Some"),
    request("a count below 0", "spec.devices.requests[0].exactly.count", count=-1),
    request("many", count=10_000),
    request("no class", "spec.devices.requests[0].exactly.deviceClassName", deviceClassName=""),
    request("a class in capitals", "spec.devices.requests[0].exactly.deviceClassName", deviceClassName="GPU"),
    request("a toleration of all", tolerations=[{"operator": "Exists"}]),
    request("a toleration", tolerations=[{"key": "a", "value": "b", "effect": "NoExecute"}]),
    request(
        "a toleration of any value with a value",
        "spec.devices.requests[0].exactly.tolerations[0].value",
        tolerations=[{"key": "a", "operator": "Exists", "value": "b"}],
    ),
    request("17 tolerations", tolerations=[{"operator": "Exists"}] * 17),
    claim("a constraint", constraints=[{"requests": ["gpu"], "matchAttribute": "example.com/numa"}]),
    claim("another", constraints=[{"distinctAttribute": "example.com/numa"}]),
    claim(
        "a constraint without a domain",
        "spec.devices.constraints[0].matchAttribute",
        constraints=[{"matchAttribute": "numa"}],
    ),
    claim("a constraint of nothing", "spec.devices.constraints[0]", constraints=[{}]),
    claim(
        "a constraint for another request",
        "spec.devices.constraints[0].requests[0]",
        constraints=[{"requests": ["other"], "matchAttribute": "example.com/numa"}],
    ),
    claim("a configuration", config=[{"requests": ["gpu"], "opaque": _OPAQUE}]),
    Case(
        "a template",
        RESOURCE_CLAIM_TEMPLATE,
        {
            "metadata": {"labels": {"a": "b"}, "annotations": {"example.com/a": "b"}},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": CLASS}]}},
        },
    ),
    Case(
        "a template with a wrong label",
        RESOURCE_CLAIM_TEMPLATE,
        {"metadata": {"labels": {"a": "b c"}}, "spec": {"devices": {}}},
        ("spec.metadata.labels",),
    ),
    Case(
        "a template of a wrong claim",
        RESOURCE_CLAIM_TEMPLATE,
        {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {**CLASS, "count": -1}}]}}},
        ("spec.spec.devices.requests[0].exactly.count",),
    ),
)
