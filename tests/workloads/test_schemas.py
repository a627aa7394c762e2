"""The schemas for editors say what `check` says of a file's fields: both come from the same readers."""

import copy
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.embedded.schema import editor, unknown
from muster.workloads import schemas, source
from muster.workloads.aichor import manifest
from muster.workloads.batch import reader
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import format_of, load
from muster.workloads.outline import DRAFT
from tests.workloads.batch import jobs

ROOT = Path(__file__).parents[2]
Doc = dict[str, Any]
#: Texts of each kind that the samples do not have in every place.
MORE = [
    jobs.TRAINING,
    "apiVersion: '0.2.3'\nclone: {submodules: true}\nspec: {operator: jobset, command: a, types: {w: {}}}",
    """
spec:
  operator: jobset
  command: a
  timeout: 6h
  types: {w: {resources: {cpus: 0.5, memory: 2, accelerators: {gpu: {count: 1}}}}}
  scheduling: {preemptible: false, runTime: 4h, progressRules: {stalledAfter: 15m, action: notify}}
""",
]


SCHEMAS: Final[dict[str, Callable[[], Doc]]] = {
    "aichor": schemas.aichor,
    "batch": schemas.batch_job,
    "JobSet": lambda: editor.of(kinds.JOBSET, DRAFT),
    "Queue": lambda: editor.of(kinds.QUEUE, DRAFT),
}


@cache
def validator(kind: str) -> jsonschema.Draft7Validator:
    found = SCHEMAS[kind]()
    jsonschema.Draft7Validator.check_schema(found)
    return jsonschema.Draft7Validator(found)


def kind_of(value: Doc) -> str:
    """Which schema is for this document; "" if none is."""
    known = format_of(source.parse(yaml.safe_dump(value), "f")[0]).name
    return known if known in ("aichor", "batch") else str(value.get("kind"))


def told(value: Doc) -> list[str]:
    """What `check` has against the fields of a document."""
    document = source.parse(yaml.safe_dump(value), "f.yaml")[0]
    match kind_of(value):
        case "aichor":
            return [str(each) for each in manifest.parse(document)[1]]
        case "batch":
            return [str(each) for each in reader.read(document, "default")[1]]
        case kind:
            of = kinds.JOBSET if kind == "JobSet" else kinds.QUEUE
            try:
                load("f.yaml", Options(jobs=False), text=yaml.safe_dump(value))
            except JobFileError as error:
                return [str(error)]
            return [f"unknown field {each}" for each in unknown.unknown(of, value)]


def texts() -> Iterator[str]:
    yield from MORE
    for file in [*ROOT.glob("examples/*.yaml"), *ROOT.glob("src/muster/cli/shapes/*.yaml")]:
        yield file.read_text()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield from re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.S | re.M)
        for block in re.findall(r"(?:^ *> .*\n)+", page.read_text(), re.M):
            yield re.sub(r"^ *> ", "", block, flags=re.M)


def samples() -> Iterator[tuple[str, Doc]]:
    """The documents of the documentation and the examples that `check` accepts, each with its kind."""
    for text in texts():
        try:
            documents = list(yaml.safe_load_all(text))
        except yaml.YAMLError:
            continue
        for value in documents:
            meant = isinstance(value, dict) and ("spec" in value or "kind" in value)
            if meant and kind_of(value) in ("aichor", "batch", "JobSet", "Queue") and not told(value):
                yield kind_of(value), value


SAMPLES = list(samples())


def test_there_are_samples_of_every_kind() -> None:
    assert {kind for kind, _ in SAMPLES} == {"aichor", "batch", "JobSet", "Queue"}
    assert len(SAMPLES) > 20


@pytest.mark.parametrize(("kind", "value"), SAMPLES)
def test_what_check_accepts_validates(kind: str, value: Doc) -> None:
    assert [each.message for each in validator(kind).iter_errors(value)] == []


def keys(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each key of a document, with the path of its mapping."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict):
            yield path, key
        if isinstance(item, dict | list):
            yield from keys(item, (*path, key))


@given(st.data())
def test_a_misspelt_key_is_an_error_of_the_schema_exactly_if_check_finds_it(data: st.DataObject) -> None:
    kind, value = data.draw(st.sampled_from(SAMPLES))
    value = copy.deepcopy(value)
    path, key = data.draw(st.sampled_from(list(keys(value))))
    at: Any = value
    for step in path:
        at = at[step]
    at[f"{key}z"] = at.pop(key)
    found = told(value)
    valid = validator(kind).is_valid(value)
    if any("unknown field" in each for each in found):
        assert not valid, (path, key)
    elif not found:
        assert valid, (path, key)


@given(st.data())
def test_a_value_of_a_wrong_type_is_no_surprise(data: st.DataObject) -> None:
    """What the readers accept in place of a value, the schema accepts."""
    kind, value = data.draw(st.sampled_from([each for each in SAMPLES if each[0] in ("aichor", "batch")]))
    value = copy.deepcopy(value)
    path, key = data.draw(st.sampled_from(list(keys(value))))
    at: Any = value
    for step in path:
        at = at[step]
    at[key] = data.draw(st.sampled_from([None, 1, 2.5, True, "text", "2", [], ["a"], {}, {"a": "b"}]))
    if not told(value):
        assert [each.message for each in validator(kind).iter_errors(value)] == [], (path, key)


def test_fields_beside_a_resource_depend_on_its_type() -> None:
    """A volume has no count, and a GPU has no size. What other types have, policies say."""

    def job(type_: str, params: Doc) -> Doc:
        resource = {"type": type_, "params": params}
        return {
            "apiVersion": kinds.BATCH_JOB.api_version,
            "kind": "BatchJob",
            "spec": {"resources": {"r": resource}, "defaults": {"resources": {"r": resource}}},
        }

    accepts = validator("batch").is_valid
    tried = [("gpu", "count"), ("volume", "size"), ("gpu", "size"), ("volume", "count"), ("bucket", "region")]
    found = [accepts(job(type_, {field: 1})) for type_, field in tried]
    assert found == [True, True, False, False, True]


def test_marks_are_named_with_examples() -> None:
    named = editor.of(kinds.JOBSET, DRAFT)["properties"]["metadata"]["allOf"][1]["properties"]
    assert named["annotations"]["properties"]["muster.dev/on-job-failure"]["examples"] == ["stop", "continue"]
