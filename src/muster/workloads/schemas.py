"""The JSON Schemas of AIchor manifests and batch jobs: outlines of their readers.

A batch job's task may say its fields in other places as well (`muster.workloads.batch.merging`).
"""

from typing import Any

from muster.api.base import Object
from muster.api.kinds import BATCH_JOB, LATTICE_JOB
from muster.workloads.aichor import manifest
from muster.workloads.batch import reader
from muster.workloads.batch.merging import WRAPPER, Merged
from muster.workloads.outline import DRAFT, OPTIONAL_MAP, outline


def aichor() -> Object:
    shape = outline(manifest.read)
    shape["properties"]["kind"] = {"enum": [manifest.KIND, None]}
    shape["properties"]["spec"]["properties"]["operator"] = {"const": manifest.SUPPORTED}
    return {"$schema": DRAFT, "title": "AIchor manifest of muster", **shape, "required": ["spec"]}


def batch_job() -> Object:
    """The schema of BatchJob and LatticeJob. What a task may say, `defaults` may say for all tasks."""
    shape = outline(lambda top: reader.read_job(top, Merged(_Empty()), "default"))
    top = shape["properties"]
    top["apiVersion"] = {"enum": [kind.api_version for kind in (BATCH_JOB, LATTICE_JOB)]}
    top["kind"] = {"enum": [kind.kind for kind in (BATCH_JOB, LATTICE_JOB)]}
    spec = top["spec"]["properties"]
    fields = spec["tasks"]["additionalProperties"]["properties"]
    spec["resources"] = {"$ref": "#/definitions/resources"}
    spec["defaults"] = spec["tasks"]["additionalProperties"] = {"$ref": "#/definitions/task"}
    resources = fields["workload"]["properties"]["resources"]
    fields["workload"]["properties"]["resources"] = fields["resources"] = spec["resources"]
    inner = {**OPTIONAL_MAP, "additionalProperties": False, "properties": dict(fields)}
    fields[WRAPPER] = inner
    return {
        "$schema": DRAFT,
        "title": "BatchJob of muster",
        **shape,
        "required": ["apiVersion", "kind", "spec"],
        "definitions": {
            "task": {**OPTIONAL_MAP, "additionalProperties": False, "properties": fields},
            "resources": resources,
        },
    }


class _Empty:
    """A document without fields."""

    value: Any = {}  # Any: a user's YAML

    def finding(self, *_: object) -> Any:
        raise AssertionError("an outline reports nothing")
