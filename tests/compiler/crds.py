"""Definitions of the kinds of other projects, from Go's module cache.

`python -m tests.compiler.crds` fills the cache. Tests fetch nothing: they skip what the cache lacks.
Tetragon's definitions are in no module with a version; what is needed of them is stated here.
"""

import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

Schema = dict[str, Any]  # Any: JSON

#: module → files or directories of definitions
MODULES: Final[dict[str, tuple[str, ...]]] = {
    "github.com/cilium/cilium@v1.20.2": ("pkg/k8s/apis/cilium.io/client/crds/v2/ciliumnetworkpolicies.yaml",),
    "github.com/external-secrets/external-secrets@v1.3.2": (
        "config/crds/bases/external-secrets.io_externalsecrets.yaml",
    ),
    "istio.io/api@v1.31.1": ("kubernetes/customresourcedefinitions.gen.yaml",),
    "sigs.k8s.io/jobset@v0.10.1": ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    "sigs.k8s.io/scheduler-plugins@v0.33.5": ("config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",),
    "volcano.sh/volcano@v1.14.1": (
        "config/crd/volcano/bases/batch.volcano.sh_jobs.yaml",
        "config/crd/volcano/bases/batch.volcano.sh_cronjobs.yaml",
    ),
}
_TEXT: Final = {"type": "string"}
_INDEX: Final = {"type": "integer", "minimum": 0}


def _object(required: tuple[str, ...], **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


#: The fields and values of Tetragon's policies that muster uses. Source: cilium/tetragon,
#: pkg/k8s/apis/cilium.io/v1alpha1/{types,tracing_policy_types}.go.
_TRACING: Final = _object(
    ("metadata", "spec"),
    spec=_object(
        (),
        podSelector=_object((), matchLabels={"type": "object", "additionalProperties": _TEXT}),
        kprobes=_list(
            _object(
                ("call",),
                call=_TEXT,
                syscall={"type": "boolean"},
                args=_list(
                    _object(("index", "type"), index=_INDEX, type={"enum": ["linux_binprm"]}, label=_TEXT)
                ),
                selectors=_list(
                    _object(
                        (),
                        matchArgs=_list(
                            _object(
                                ("index", "operator"),
                                index=_INDEX,
                                operator={"enum": ["Equal", "NotEqual", "Prefix", "Postfix"]},
                                values=_list(_TEXT),
                            )
                        ),
                        matchActions=_list(
                            _object(("action",), action={"enum": ["Post", "Sigkill", "Override", "NoPost"]})
                        ),
                    )
                ),
            )
        ),
    ),
)
_META: Final[Schema] = {"apiVersion": {}, "kind": {}, "metadata": {}}
_CACHE: Final = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")


@lru_cache
def schemas() -> dict[tuple[str, str], Schema]:
    """(apiVersion, kind) → schema of the object in which no unknown field is permitted."""
    tracing = _closed(_TRACING | {"properties": _META | _TRACING["properties"]})
    found: dict[tuple[str, str], Schema] = {("cilium.io/v1alpha1", "TracingPolicyNamespaced"): tracing}
    for module, files in MODULES.items():
        for file in files:
            path = _CACHE / module / file
            if not path.is_file():
                continue
            for definition in yaml.load_all(path.read_bytes(), yaml.CSafeLoader):
                if not definition or definition.get("kind") != "CustomResourceDefinition":
                    continue
                spec = definition["spec"]
                for version in spec["versions"]:
                    key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                    schema = _closed(version["schema"]["openAPIV3Schema"])
                    schema["properties"] = {"apiVersion": {}, "kind": {}, "metadata": {}} | schema[
                        "properties"
                    ]
                    found[key] = schema
    return found


def _closed(schema: Schema) -> Schema:
    """The schema with every list of properties complete."""
    made = dict(schema)
    if isinstance(items := schema.get("items"), dict):
        made["items"] = _closed(items)
    if isinstance(values := schema.get("additionalProperties"), dict):
        made["additionalProperties"] = _closed(values)
    if properties := schema.get("properties"):
        made["properties"] = {name: _closed(each) for name, each in properties.items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
            made["additionalProperties"] = False
    return made


def fetch() -> None:
    """Downloads the modules with `go mod download`."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "go.mod").write_text("module definitions\n")
        for module in MODULES:
            subprocess.run(["go", "mod", "download", module], cwd=directory, check=True)


if __name__ == "__main__":
    fetch()
    sys.exit(0 if schemas() else 1)
