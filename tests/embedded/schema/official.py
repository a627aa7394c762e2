"""How Kubernetes merges lists and maps, derived from the OpenAPI documents of a Kubernetes source tree.

python -m tests.embedded.schema.official KUBERNETES      writes src/muster/embedded/schema/merging.json

KUBERNETES is the source tree, as Go keeps it: ~/go/pkg/mod/k8s.io/kubernetes@VERSION.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.api.rules.official import FILE as TYPES
from tests.api.rules.official import RENAMED

FILE: Final = Path(__file__).parents[3] / "src/muster/embedded/schema/merging.json"
DOCUMENTS: Final = (
    "api__v1",
    "apis__batch__v1",
    "apis__policy__v1",
    "apis__storage.k8s.io__v1",
    "apis__node.k8s.io__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__coordination.k8s.io__v1",
    "apis__resource.k8s.io__v1",
)
#: Types with another name in the table of types.
_RENAMED: Final = {
    f"io.k8s.api.core.v1.{model.removeprefix('CoreV1')}": name for model, name in RENAMED.items()
}


def derived(documents: list[Any]) -> dict[str, dict[str, str]]:  # Any: JSON
    """By type and field: how it merges, in the code that `muster.embedded.schema` describes."""
    known = json.loads(TYPES.read_text())
    found: dict[str, dict[str, str]] = {}
    for document in documents:
        for long, schema in document["components"]["schemas"].items():
            name = _RENAMED.get(long) or long.rpartition(".")[2]
            if name not in known or not long.startswith("io.k8s."):
                continue
            rules = {"": _code(schema)} | {
                field: _code(inner)
                for field, inner in schema.get("properties", {}).items()
                if field in known[name]
            }
            if rules := {field: rule for field, rule in sorted(rules.items()) if rule}:
                found[name] = rules
    return dict(sorted(found.items()))


def _code(schema: Any) -> str:  # Any: JSON
    of_list = schema.get("x-kubernetes-list-type")
    strategies = schema.get("x-kubernetes-patch-strategy", "").split(",")
    keys = ",".join(schema.get("x-kubernetes-list-map-keys", ()))
    if schema.get("x-kubernetes-map-type") == "atomic":
        return "!"
    if strategies == ["replace"]:
        return "replace"
    if of_list == "set":
        return "*" if "merge" in strategies else "~*"
    if of_list == "map":
        return keys + ("+" if "retainKeys" in strategies else "") if "merge" in strategies else f"~{keys}"
    return f"={schema['x-kubernetes-patch-merge-key']}" if "merge" in strategies else ""


def text(table: dict[str, dict[str, str]]) -> str:
    """One type a line."""
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table.items()) + "\n}\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "api/openapi-spec/v3"
    FILE.write_text(
        text(derived([json.loads((folder / f"{d}_openapi.json").read_text()) for d in DOCUMENTS]))
    )
