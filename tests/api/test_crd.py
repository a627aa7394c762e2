import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from muster.api import kinds
from muster.api.base import Kind
from muster.api.crd import COLUMNS, definition, definitions

CHART = Path(__file__).parents[2] / "charts/muster/files"
MINE: tuple[Kind[Any], ...] = (kinds.QUEUE, kinds.GANG, kinds.GANG_PLAN)


def schema(kind: Kind[Any]) -> dict[str, Any]:
    (found,) = [each for each in definitions() if each["spec"]["names"]["kind"] == kind.kind]
    whole: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return whole


@pytest.mark.parametrize("kind", MINE, ids=lambda kind: kind.kind)
def test_every_field_of_the_struct_is_in_the_schema(kind: Kind[Any]) -> None:
    """The server drops a field that the schema does not have."""
    for part in ("spec", "status"):
        struct = {f.encode_name: f.type for f in msgspec.structs.fields(kind.type)}.get(part)
        if struct is not None:
            fields = {field.encode_name for field in msgspec.structs.fields(struct)}
            assert set(schema(kind)["properties"][part]["properties"]) == fields


def test_the_schemas_are_structural() -> None:
    """Each part has a type, or says that it is open or a number or a string; no references."""

    def check(part: dict[str, Any], at: str) -> None:
        assert "type" in part or part.get("x-kubernetes-int-or-string"), at
        assert "$ref" not in part, at
        assert not ({"properties", "additionalProperties"} <= part.keys()), at
        for name, each in part.get("properties", {}).items():
            check(each, f"{at}.{name}")
        for name in ("items", "additionalProperties"):
            if name in part:
                check(part[name], f"{at}.{name}")

    for kind in MINE:
        check(schema(kind), kind.kind)


@pytest.mark.parametrize("kind", MINE, ids=lambda kind: kind.kind)
def test_only_what_muster_alone_writes_has_one_owner(kind: Kind[Any]) -> None:
    """Of other kinds, people and tools own single fields, by server-side apply."""
    alone = kind in (kinds.GANG, kinds.GANG_PLAN, kinds.PREEMPTION)
    for part in {"spec", "status"} & schema(kind)["properties"].keys():
        assert (schema(kind)["properties"][part].get("x-kubernetes-map-type") == "atomic") == alone


@pytest.mark.parametrize("kind", MINE, ids=lambda kind: kind.kind)
def test_columns_show_fields_that_exist(kind: Kind[Any]) -> None:
    for _, type_, path in COLUMNS[kind.kind]:
        found = {**schema(kind)}
        names = re.split(r"(?<!\\)\.", path.removeprefix("."))
        if names[0] == "metadata":
            continue
        for name in names:
            found = found["properties"][name] if "properties" in found else found["additionalProperties"]
        assert found.get("type", "string") == type_, path  # a quantity has no type


def test_the_chart_defines_the_kinds_as_this_version_does() -> None:
    """`muster crds > charts/muster/files/crds.yaml` brings the file up to date."""
    assert list(yaml.safe_load_all((CHART / "crds.yaml").read_text())) == definitions()


def test_definitions_have_the_labels_that_the_chart_gives_them() -> None:
    """So whichever of the two is applied after the other, neither takes the other's labels away."""
    base = yaml.safe_load_all((CHART.parents[2] / "kustomize" / "muster.yaml").read_text())
    labels = [each["metadata"]["labels"] for each in base if each["kind"] == "CustomResourceDefinition"]
    assert labels
    assert all(
        each["metadata"]["labels"] == labels[0] for each in (*definitions(), definition(kinds.LATTICE_JOB))
    )


def test_the_chart_defines_lattice_jobs_in_a_file_of_their_own() -> None:
    """`muster crds --lattice-jobs > charts/muster/files/latticejobs.yaml` brings the file up to date."""
    assert yaml.safe_load((CHART / "latticejobs.yaml").read_text()) == definition(kinds.LATTICE_JOB)
    assert all(each["spec"]["group"] == "muster.dev" for each in definitions())


def test_a_lattice_job_has_the_schema_and_the_columns_of_a_batch_job() -> None:
    [ours] = [each for each in definitions() if each["spec"]["names"]["kind"] == "BatchJob"]
    [mine], [theirs] = (each["spec"]["versions"] for each in (ours, definition(kinds.LATTICE_JOB)))
    for each in (mine, theirs):
        each["schema"]["openAPIV3Schema"].pop("description")
    assert mine == theirs
