"""Snapshots: what kubectl prints in any of its forms, and one clear error for what it never does."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.kinds import NODE, POD, POD_GROUP_X
from muster.workloads.findings import JobFileError
from muster.workloads.snapshot import MAX_VALUES, Objects, parse, read, typed
from tests.tiers import examples

KINDS = (NODE, POD, POD_GROUP_X)


def pod(name: str = "a", **fields: Any) -> Object:  # Any: JSON
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **fields}


NODE_N: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u"}}


def keys(objects: Objects) -> list[tuple[str, str, str]]:
    return [(kind.kind, namespace, name) for kind, namespace, name in objects.items]


FORMS = {
    "documents": yaml.safe_dump_all([pod(), NODE_N]),
    "list": yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [pod(), NODE_N]}),
    "empty documents": f"---\n---\n{yaml.safe_dump_all([pod(), NODE_N])}---\n",
    "json": json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod(), NODE_N]}),
    "array": json.dumps([pod(), NODE_N]),
    "lists of one kind": yaml.safe_dump_all(
        [
            {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]},
            {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n", "uid": "u"}}]},
        ]
    ),
    "lists within a list": json.dumps(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]},
                NODE_N,
            ],
        }
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_that_kubectl_prints_is_read(form: str) -> None:
    found = parse(FORMS[form].encode(), "f", KINDS)
    assert keys(found) == [("Pod", "default", "a"), ("Node", "", "n")]
    assert [resource.metadata.uid for resource in found.items.values()] == ["Pod/default/a", "u"]
    assert (dict(found.ignored), found.repeated) == ({}, 0)


def test_other_kinds_are_counted_and_of_namesakes_the_last_counts() -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": 7}}
    volcano = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    found = typed([pod(spec={"nodeName": "n"}), other, volcano, other, pod(spec={"nodeName": "m"})], KINDS)
    assert found.ignored == {"apps/v1 Deployment": 2, "scheduling.volcano.sh/v1beta1 PodGroup": 1}
    (last,) = found.items.values()
    assert isinstance(last, Pod)
    assert (found.repeated, last.spec.node_name) == (1, "m")


def test_dates_in_labels_stay_text_and_null_means_absent() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\n"
        "metadata: {name: a, labels: {since: 2026-01-01}, creationTimestamp: null}\n"
        "status: {conditions: null}\n"
    )
    (found,) = parse(text.encode(), "f", KINDS).items.values()
    assert found.metadata.labels == {"since": "2026-01-01"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1\nb: }", "f:2: is not YAML: did not find expected"),
        ("kind: Pod\napiVersion: v1\nspec: {}\n", "f:1: Pod has no metadata.name"),
        ("kind: Pod\n", "f:1: is not a Kubernetes object: it needs apiVersion and kind"),
        ("- 1\n", "f:1: is not an object"),
        (
            "---\n---\nkind: Pod\napiVersion: v1\nmetadata:\n  name: a\n  labels: 3\n",
            "f:7: Pod a: metadata.labels: Expected `object`, got `int`",
        ),
        (
            "kind: List\napiVersion: v1\nitems:\n- kind: Pod\n  apiVersion: v1\n  metadata: {name: 4}\n",
            "f:6: Pod 4: metadata.name: Expected `str`, got `int`",
        ),
        ('{"kind": "Pod",\n "apiVersion": "v1"]', "f:2: is not JSON: expected ',' or '}' (column 20)"),
        ('{"kind": 3}', "f: is not a Kubernetes object: Expected `str`, got `int`"),
        (
            '[{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": 4}}]',
            "f: object 1: Pod 4: metadata.name",
        ),
        ("[" * 10_000, "f: is not JSON: it is nested too deeply"),
        ('[{"kind": "Pod",\n "apiVersion"', "f:2: is not JSON: Input data was truncated (column 14)"),
        ("a: " + "[" * 10_000, "f:1: is nested deeper than 100 levels"),
        ("a: &a [*a]", "f: has more than 100,000,000 values"),
        (
            "kind: Pod\napiVersion: v1\nmetadata: {name: a}\nspec: {x: 99999999999999999999999}\n",
            "f:1: Pod a has what no object can hold: ",
        ),
        ("a: *b", "f:1: is not YAML: found undefined alias"),
        (" \n", "f: is empty; expected Kubernetes objects"),
        (
            "kind: Node\napiVersion: v1\nmetadata: {name: n}\nstatus:\n  allocatable: {cpu: -8}\n",
            "f:5: Node n: status.allocatable.cpu: -8 is negative; write 0 or more",
        ),
        (
            json.dumps([pod(spec={"containers": [{"name": "c", "resources": {"limits": {"cpu": "x"}}}]})]),
            "f: object 1: Pod a: spec.containers[0].resources.limits.cpu: 'x' is not a quantity; write a",
        ),
        (
            json.dumps(pod(spec={"overhead": {"cpu": "-1"}, "resources": {"requests": {"cpu": "-2"}}})),
            "spec.resources.requests.cpu: -2 is negative; write 0 or more\nf: Pod a: spec.overhead.cpu: -1",
        ),
        ("a: 0x_", "f: is not YAML"),
        ("a: \x01", "f:1: is not YAML"),
        ("!!python/name:os.system {}", "f:1: is not YAML"),
    ],
)
def test_a_broken_object_of_a_snapshot_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(JobFileError) as error:
        parse(text.encode(), "f", KINDS)
    assert said in str(error.value)


def test_aliases_of_aliases_are_bounded() -> None:
    text = "a0: &a0 [x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
    )
    with pytest.raises(JobFileError, match=f"{MAX_VALUES:,} values, its aliases expanded"):
        parse(text.encode(), "f", KINDS)


def test_no_more_errors_than_can_be_read(tmp_path: Path) -> None:
    broken = [pod(name="x", spec=n) for n in range(100)]
    (tmp_path / "f.json").write_text(json.dumps(broken))
    with pytest.raises(JobFileError) as error:
        read(tmp_path / "f.json", KINDS)
    assert len(error.value.findings) == 20
    with pytest.raises(JobFileError, match="nosuch: cannot be read: No such file"):
        read(tmp_path / "nosuch", KINDS)
    with pytest.raises(JobFileError, match="cannot be read: Is a directory"):
        read(tmp_path, KINDS)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "apiVersion", "metadata", "name", "items", "spec", "status", "labels"]),
            inner | st.sampled_from(["Pod", "v1", "List", "NodeList"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=3), st.sampled_from(["json", "yaml", "values"]))
@settings(max_examples=examples(150), deadline=None)
def test_any_input_is_read_or_refused(values: list[Any], form: str) -> None:
    with suppress(JobFileError):
        if form == "values":
            typed(values, KINDS)
        else:
            text = json.dumps(values) if form == "json" else yaml.safe_dump_all(values)
            parse(text.encode(), "f", KINDS)
