"""Devices and claims: their columns, defaults and schema, and what is refused."""

import json

from muster.api.base import Object
from tests.api.rules.devices import CASES as OBJECTS
from tests.kubectl.cases import Case, Run


def _body(case: str, name: str) -> str:
    """An object of tests/api/rules/devices.py under another name."""
    found = next(each.body for each in OBJECTS if each.name == case)
    body: Object = {**found, "metadata": {"name": name}}
    return json.dumps(body)


CASES = (
    Case(
        "devices",
        (
            Run("create -f -", ("created",), stdin=_body("a slice", "tried")),
            Run("create -f -", ("created",), stdin=_body("a name for devices", "tried")),
            Run("create -f -", ("created",), stdin=_body("a claim", "tried")),
            Run("create -f -", ("created",), stdin=_body("a template", "tried")),
            Run("get resourceslice tried", ("^NAME NODE DRIVER POOL AGE$", "^tried n0 gpu.example.com n0 ")),
            Run("get resourceslices --field-selector spec.nodeName=n0 -o name", ("resourceslice.*/tried$",)),
            Run("get resourceslices --field-selector spec.nodeName=n1 -o name", never=("tried",)),
            Run("get deviceclass tried", ("^NAME AGE$", "^tried ")),
            Run("get resourceclaim tried", ("^NAME STATE AGE$", "^tried pending ")),
            Run("get resourceclaimtemplate tried", ("^NAME AGE$", "^tried ")),
            Run(
                "get resourceclaim tried -o jsonpath={.spec.devices.requests[0].exactly}",
                ('"allocationMode":"ExactCount"', '"count":1'),
            ),
            Run("explain resourceclaim.spec.devices.requests.exactly", ("count <integer>", "selectors <")),
            Run("explain resourceslice.spec.devices.attributes", ("version <string>",)),
            Run(
                "api-resources --api-group=resource.k8s.io",
                (
                    "^deviceclasses resource.k8s.io/v1 false DeviceClass",
                    "^resourceclaims resource.k8s.io/v1 true ResourceClaim",
                    "^resourceclaimtemplates resource.k8s.io/v1 true ResourceClaimTemplate",
                    "^resourceslices resource.k8s.io/v1 false ResourceSlice",
                ),
            ),
            Run(
                "create -f -",
                (r"is invalid: spec.devices.requests\[0\].exactly.count",),
                code=1,
                stdin=_body("a count below 0", "wrong"),
            ),
            Run("delete resourceslice,deviceclass,resourceclaim,resourceclaimtemplate tried", ("deleted",)),
        ),
    ),
)
