"""Which objects a reference names, and the table of groups."""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

import muster
from muster.api import groups, kinds
from muster.api.base import AnyKind, Object, ObjectMeta, OwnerReference, Resource, controls
from muster.api.core_v1 import Pod, PodSpec
from muster.api.fields import convert
from muster.api.groups import Asked, Dialect
from muster.api.kinds import JOB, JOBSET, VOLCANO_JOB
from muster.api.muster_v1alpha1 import Source


@pytest.mark.parametrize("kind", [JOB, JOBSET, VOLCANO_JOB])
@pytest.mark.parametrize(
    ("api_version", "name", "expected"),
    [
        ("batch/v1", "Job", JOB),
        ("batch/v1beta1", "Job", JOB),
        ("batch.volcano.sh/v1alpha1", "Job", VOLCANO_JOB),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", JOBSET),
        ("jobset.x-k8s.io/v1", "JobSet", JOBSET),
        ("batch/v1", "JobSet", None),
        ("jobs.example.org/v1", "Job", None),
        ("v1", "Job", None),
        ("", "Job", None),
    ],
)
def test_an_owner_is_of_a_kind_by_its_api_group(
    kind: AnyKind, api_version: str, name: str, expected: AnyKind | None
) -> None:
    owner = Resource(metadata=ObjectMeta(name="x", uid="1"))
    reference = OwnerReference(api_version=api_version, kind=name, name="x", uid="1", controller=True)
    assert kind.matches(reference) == (kind is expected)
    assert kind.matches(Source(api_version=api_version, kind=name)) == (kind is expected)
    owned = Resource(metadata=ObjectMeta(owner_references=[reference]))
    assert controls(kind, owner, owned) == (kind is expected)


#: Modules that may name a kind of PodGroup, and why.
_ALLOWED: Final = {
    "api/foreign_kinds.py": "the kinds of other projects that muster does not read",
    "api/foreign_marks.py": "the marks of other projects that muster does not read",
    "api/groups/coscheduling.py": "rows",
    "api/groups/kubebatch.py": "rows",
    "api/groups/native.py": "a row",
    "api/groups/volcano.py": "a row",
    "api/kinds.py": "every kind is defined there",
    "api/koordinator_v1alpha1.py": "the annotations of its row",
    "api/volcano_v1beta1.py": "the annotations of its row",
}


def test_no_module_besides_the_table_names_a_kind_of_pod_group() -> None:
    """A dialect is added by a row; a module that names a kind would have to be found and changed as well."""
    source = Path(muster.__file__).parent
    found = {
        str(path.relative_to(source)): words
        for path in sorted(source.rglob("*.py"))
        if (words := sorted(set(_named_in(ast.parse(path.read_text())))))
    }
    assert found.keys() == _ALLOWED.keys(), found


def _named_in(module: ast.Module) -> Iterator[str]:
    """Yields the constants and the words by which a module names a kind of PodGroup, except in docstrings."""
    constants = {name for name, value in vars(kinds).items() if value in groups.OF_NAMED}
    words = (*map(_word, groups.OF_NAMED), *groups.LABELS)
    prose = {node.value for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in constants:
                yield name
            case ast.Constant(value=str(text)) if node not in prose:
                if text in groups.NAMES_OF_NAMED or any(word in text for word in words):
                    yield text


def _word(kind: AnyKind) -> str:
    """The API group of a kind, with its version if muster knows others of the group."""
    versions = {one.version for one in kinds.ALL if one.group == kind.group}
    return kind.group if len(versions) == 1 else kind.api_version


def test_each_group_is_named_in_one_way_and_by_one_key() -> None:
    keys = [key for row in groups.NAMED for key in (row.label, *row.annotations, *row.by_description) if key]
    assert len(set(keys)) == len(keys)
    assert sum(row.in_spec for row in groups.NAMED) == 1
    assert len({row.name for row in groups.TABLE}) == len(groups.BY_KIND) == len(groups.TABLE)


@pytest.mark.parametrize("row", groups.NAMED, ids=lambda row: row.name)
def test_a_pod_names_its_group(row: Dialect) -> None:
    if row.label:
        assert groups.named(Pod(metadata=ObjectMeta(labels={row.label: "g"}))) == (row, "g", False)
    for key in row.naming.annotations:
        annotated = Pod(metadata=ObjectMeta(annotations={key: "g"}))
        assert groups.named(annotated) == (row.naming, "g", False)
        assert groups.also_named(annotated, groups.Named(row.naming, "g")) == []
        assert groups.named(Pod(metadata=ObjectMeta(labels={key: "g"}))) is None
    if row.in_spec:
        spec = PodSpec(scheduling_group={"podGroupName": "g"})
        assert groups.named(Pod(spec=spec)) == (row, "g", False)
    for key in row.by_description:
        for meta in (ObjectMeta(labels={key: "g"}), ObjectMeta(annotations={key: "g"})):
            assert groups.named(Pod(metadata=meta)) == (row, "g", True)
            both = {**meta.labels, groups.NAMED[0].label: "h"}
            first = Pod(metadata=replace(meta, labels=both))
            assert groups.named(first) == (groups.NAMED[0], "h", False), "a label wins"
        assert groups.named(Pod(metadata=ObjectMeta(labels={key: "No Name"}))) is None


@pytest.mark.parametrize("row", groups.NAMED, ids=lambda row: row.name)
def test_the_docs_name_each_dialect_and_its_keys(row: Dialect) -> None:
    docs = Path(__file__).parents[2] / "docs"
    pages = [docs / "concepts/gangs.md", *(docs / "reference/dialects").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    field = "spec.schedulingGroup" if row.in_spec else ""
    for word in (
        *(row.kind.api_version, row.label or field, *row.annotations),
        *(*row.by_description, *row.description),
    ):
        assert word in text


@pytest.mark.parametrize(
    "template", [{}, {"metadata": None}, {"metadata": {"labels": None}}, {"metadata": []}]
)
def test_a_template_without_metadata_names_no_group(template: Object) -> None:
    assert groups.named_in(template) is None


@pytest.mark.parametrize("row", groups.NAMED, ids=lambda row: row.name)
def test_what_a_group_asks_for_is_not_read_to_know_whether_it_is_a_gang(row: Dialect) -> None:
    """That is asked several times for each change of a pod."""

    def asked(group: Resource) -> Asked:
        raise AssertionError(group)

    unread = dataclasses.replace(row, asked=asked)
    basic: Object = {"spec": {"schedulingPolicy": {"basic": {}}}} if row is groups.NATIVE else {}
    assert unread.frees(convert(basic, row.kind.type)) == (row is groups.NATIVE)
    assert not unread.frees(convert({}, row.kind.type))
    assert not unread.frees(None)


@pytest.mark.parametrize("row", groups.NAMED, ids=lambda row: row.name)
def test_rows_that_share_keys_have_none_of_their_own(row: Dialect) -> None:
    assert row.naming.shares is None, "one step leads to the row of the keys"
    assert row in groups.SHARING[row.naming]
    assert groups.TABLE.index(row.naming) <= groups.TABLE.index(row)
    for version in (row.kind.version, "v9"):
        assert (
            groups.naming_of(Source(api_version=f"{row.kind.group}/{version}", kind="PodGroup")) is row.naming
        )
    if row.shares is not None:
        own = row.label, row.annotations, row.in_spec, row.by_description, row.alone
        assert not any(own)


def test_a_created_group_asks_for_its_minimum() -> None:
    made = groups.created("g", "ns", 3)
    row = groups.row_of(made)
    assert row is groups.CREATED
    asked = row.read(made)
    assert (asked.minimum, asked.field) == (3, "spec.minMember")
