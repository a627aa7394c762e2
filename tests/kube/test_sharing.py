"""Equal parts of objects are one object in memory, and no object is another for it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object, ObjectMeta
from muster.api.batch_v1 import Job
from muster.api.core_v1 import ConfigMap, Pod
from muster.kube import sharing
from muster.kube.sharing import shared


def decoded(obj: Object) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(obj), type=Pod)


def pod(name: str, index: int) -> Object:
    container = {"name": "main", "command": ["python3"], "env": [{"name": "A", "value": "b"}]}
    return {
        "metadata": {
            "name": name,
            "labels": {"batch.kubernetes.io/job-name-of-some-length": "train", "index": str(index)},
            "annotations": {"an.example.com/annotation": "train"},
            "finalizers": ["a.example.com/tracking"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}],
        },
        "spec": {"containers": [container], "volumes": [{"name": "main"}], "nodeName": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def test_equal_parts_of_pods_are_stored_once() -> None:
    one, other = shared(decoded(pod("a", 0))), shared(decoded(pod("b", 1)))
    assert (one, other) == (decoded(pod("a", 0)), decoded(pod("b", 1)))
    assert one.spec.containers is other.spec.containers
    assert one.spec.volumes is other.spec.volumes
    assert one.metadata.owner_references is other.metadata.owner_references
    assert one.metadata.finalizers is other.metadata.finalizers
    for texts in (
        [*one.metadata.labels, *one.metadata.annotations.values()],
        [one.status.conditions[0].type],
    ):
        others = {id(text) for text in (*other.metadata.labels, *other.metadata.labels.values())}
        others |= {id(text) for text in (other.status.conditions[0].type,)}
        assert {id(text) for text in texts} <= others


def job(name: str, **template: object) -> Job:
    marks = {"jobset.example.com/jobset-name": "train", "index": name}
    body = {
        "metadata": {"name": name, "labels": marks, "annotations": marks},
        "spec": {
            "template": {
                "metadata": {"labels": marks, "annotations": {**marks, "other": "x"}},
                "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "b"}]}]},
                **template,
            }
        },
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=Job)


def test_equal_parts_of_the_templates_of_jobs_are_stored_once() -> None:
    one, other = shared(job("a")), shared(job("b"))
    assert (one, other) == (job("a"), job("b"))
    assert list(one.spec.template) == list(job("a").spec.template)
    assert one.spec.template["spec"] is other.spec.template["spec"]
    assert one.metadata.annotations is one.metadata.labels
    assert one.spec.template["metadata"]["labels"] is one.metadata.labels
    assert one.spec.template["metadata"]["labels"] is not other.spec.template["metadata"]["labels"]


@pytest.mark.parametrize(
    "meta", [None, 1, [], "x", {}, {"labels": {"a": 1}}, {"labels": {"a": {}}}, {"labels": []}]
)
@pytest.mark.parametrize("spec", [None, True, [], {"a": 2**70}])
def test_the_template_of_a_job_may_be_anything(meta: object, spec: object) -> None:
    assert shared(job("a", metadata=meta, spec=spec)) == job("a", metadata=meta, spec=spec)


def test_a_template_is_not_a_pods_part_of_the_same_encoding() -> None:
    shared(job("a", containers=[{"name": "x"}]))
    assert (
        shared(decoded(pod("a", 0) | {"spec": {"containers": [{"name": "x"}]}})).spec.containers[0].name
        == "x"
    )


def test_lists_that_are_encoded_alike_are_distinguished() -> None:
    found = shared(
        decoded(pod("a", 0) | {"spec": {"containers": [{"name": "x"}], "volumes": [{"name": "x"}]}})
    )
    assert found.spec.containers[0].name == "x"
    assert found.spec.volumes == [{"name": "x"}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=4)


@given(
    st.lists(
        st.tuples(TEXTS, TEXTS, st.lists(st.dictionaries(st.text(max_size=2), JSON, max_size=3))), max_size=4
    )
)
def test_sharing_changes_no_object(parts: list[tuple[dict[str, str], dict[str, str], list[Any]]]) -> None:
    """Equal numbers of different types (1, 1.0, true) stay what they are."""
    for labels, annotations, volumes in parts:
        obj = {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"volumes": volumes}}
        assert repr(shared(decoded(obj))) == repr(decoded(obj))


def test_the_table_of_shared_values_is_bounded() -> None:
    for number in range(3 * sharing.PARTS):
        shared(ConfigMap(metadata=ObjectMeta(finalizers=[f"f{number}"])))
    assert len(sharing._parts) <= sharing.PARTS


def test_what_is_remembered_of_large_parts_is_bounded_in_bytes() -> None:
    for number in range(40):
        large = f"{number:02}" * (sharing.BYTES // 32)
        meta = ObjectMeta(annotations={"a": large}, finalizers=[large])
        shared(ConfigMap(metadata=meta))
        assert sum(len(encoding) for _, encoding in sharing._parts) <= sharing.BYTES
    one, other = (shared(decoded(pod("a", 0) | {"status": {"x": n}})) for n in (1, 2))
    assert one.spec.containers is other.spec.containers


def test_long_texts_are_stored_once() -> None:
    def annotated() -> ConfigMap:
        return shared(ConfigMap(metadata=ObjectMeta(annotations={"a": "".join(["x"] * 10_000)})))

    assert annotated().metadata.annotations["a"] is annotated().metadata.annotations["a"]


def test_a_part_that_cannot_be_shared_stays_as_it_is() -> None:
    body = pod("a", 0)
    body["spec"]["volumes"] = [{"name": "v", "emptyDir": {"unknown": 2**70}}]
    found = shared(decoded(body))
    assert found == decoded(body)
    assert found.spec.containers is shared(decoded(pod("b", 1))).spec.containers
