"""Creating, reading, updating, patching: the semantics all kinds share."""

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
)
from tests.embedded.conftest import StillClock
from tests.embedded.objects import config, pod, read
from tests.objects import CLUSTER
from tests.spoiled import nested


def create(registry: Registry, obj: Object, kind: Any = kinds.CONFIG_MAP) -> Any:
    return read(registry.create(kind, "default" if kind.namespaced else "", obj))


def patch(registry: Registry, name: str, change: Any, kind: Any = kinds.CONFIG_MAP, sub: str = "") -> Any:
    return read(registry.patch(kind, "default" if kind.namespaced else "", name, change, subresource=sub))


def test_the_server_stamps_what_is_its_own(registry: Registry) -> None:
    obj = config()
    obj["metadata"] |= {"uid": "mine", "creationTimestamp": None, "generation": 9, "managedFields": [{}]}
    made = create(registry, obj)
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    meta = made["metadata"]
    assert len(meta["uid"]) == 36
    assert meta["creationTimestamp"] == "2026-03-01T12:00:00.250000Z"
    assert meta["namespace"] == "default"
    assert meta["resourceVersion"] == str(registry.store.revision)
    assert "generation" not in meta
    assert "managedFields" not in meta
    assert read(registry.get(kinds.CONFIG_MAP, "default", "c")) == made


@pytest.mark.parametrize(("depth", "taken"), [(90, True), (110, False)])
def test_objects_are_nested_to_a_depth_that_every_reader_can_read(
    registry: Registry, depth: int, taken: bool
) -> None:
    refused = pytest.raises(BadRequest, match="is nested more than 100 levels deep")
    with contextlib.nullcontext() if taken else refused:
        create(registry, {**pod(), "unknown": nested(depth)}, kinds.POD)


def test_a_new_object_has_no_status_of_its_own_making(registry: Registry) -> None:
    made = create(registry, {"metadata": {"name": "g"}, "status": {"phase": "Standing"}}, kinds.POD_GROUP_X)
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    assert create(registry, pod() | {"status": {"phase": "Running"}}, kinds.POD)["status"] == {
        "phase": "Pending"
    }


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"ports": [{"port": 80, "targetPort": 8080}]}, True),
        ({"ports": [{"port": 80}, {"port": 81, "targetPort": 8081}], "type": "NodePort"}, True),
        ({"ports": [{"port": 80, "targetPort": 8080}], "clusterIP": "None"}, False),
        ({"ports": [{"port": 80, "targetPort": 80}, {"port": 81}, {"port": 82, "targetPort": 0}]}, False),
        ({"ports": [{"port": 80, "targetPort": "web"}]}, False),
        ({}, False),
    ],
)
def test_a_new_service_that_translates_ports_is_refused_as_in_files(
    registry: Registry, spec: Any, refused: bool
) -> None:
    body = {"metadata": {"name": "tracker"}, "spec": spec}
    if not refused:
        made = create(registry, body, kinds.SERVICE)
        change = {"metadata": {"labels": {"a": "b"}}}
        assert patch(registry, "tracker", change, kinds.SERVICE)["spec"] == made["spec"]
        return
    with pytest.raises(Invalid, match=r"targetPort: is 808\d, .* translates no ports"):
        create(registry, body, kinds.SERVICE)


def test_a_node_is_born_with_its_status(registry: Registry) -> None:
    made = create(registry, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}, kinds.NODE)
    assert made["status"]["allocatable"] == {"cpu": "2"}


def test_generated_names(registry: Registry) -> None:
    names = {create(registry, {"metadata": {"generateName": "x-"}})["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("x-") and len(name) == 7 for name in names)
    long = create(registry, {"metadata": {"generateName": "y" * 200}})["metadata"]["name"]
    assert len(long) == 63


def test_a_generated_name_that_is_taken_is_tried_again(clock: StillClock) -> None:
    class Repeating:
        """Says everything twice."""

        def __init__(self) -> None:
            self.calls = 0

        def choices(self, letters: str, k: int) -> list[str]:
            self.calls += 1
            return [letters[(self.calls - 1) // 2]] * k

        def getrandbits(self, bits: int) -> int:
            return self.calls

    registry = Registry(Store(":memory:"), clock=clock, source=Repeating())  # type: ignore[arg-type]
    names = [create(registry, {"metadata": {"generateName": "x-"}})["metadata"]["name"] for _ in range(2)]
    assert names == ["x-bbbbb", "x-ccccc"]


@pytest.mark.parametrize(
    ("obj", "error", "message"),
    [
        ({}, BadRequest, "needs metadata.name or metadata.generateName"),
        ({"metadata": "x"}, BadRequest, "metadata is not an object"),
        ({"metadata": {"name": 7}}, BadRequest, "metadata.name is 7"),
        ({"metadata": {"name": "c"}}, AlreadyExists, 'configmaps "c" already exists'),
        (
            {"metadata": {"name": "Big"}},
            Invalid,
            'ConfigMap "Big" is invalid: metadata.name: Invalid value: "Big"',
        ),
        ({"metadata": {"name": "x" * 254}}, Invalid, r"\(254 characters\)"),
        (
            {"metadata": {"name": "x", "resourceVersion": "1"}},
            BadRequest,
            "resourceVersion should not be set",
        ),
        (
            {"metadata": {"name": "x", "namespace": "other"}},
            BadRequest,
            r"\(other\) does not match .*\(default\)",
        ),
        ({"kind": "Secret", "metadata": {"name": "x"}}, BadRequest, "kind is 'Secret'"),
        ({"apiVersion": "v2", "metadata": {"name": "x"}}, BadRequest, "apiVersion is 'v2'"),
        (
            {"metadata": {"name": "x", "labels": {"a b": "c"}}},
            Invalid,
            'metadata.labels: Invalid value: "a b"',
        ),
        ({"metadata": {"name": "x", "labels": {"a": "c d"}}}, Invalid, r"metadata.labels.a: Invalid value"),
        ({"metadata": {"name": "x", "labels": {"a": 1}}}, Invalid, "metadata.labels"),
        ({"metadata": {"name": "x", "finalizers": ["no good"]}}, Invalid, "metadata.finalizers"),
        (
            {
                "metadata": {
                    "name": "x",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "", "uid": "u"}],
                }
            },
            Invalid,
            r"metadata.ownerReferences\[0\].name: Required value",
        ),
        ({"metadata": {"name": "x"}, "data": {"a": 1}}, Invalid, "data.*Expected `str`, got `int`"),
        ({"metadata": {"name": "x"}, "data": {"a/b": "1"}}, Invalid, 'Invalid value: "a/b"'),
        ({"metadata": {"name": "x", "annotations": {"a": "x" * 300_000}}}, Invalid, "Too long"),
        ("text", BadRequest, "the body is not an object"),
        (["list"], BadRequest, "the body is not an object"),
    ],
)
def test_objects_that_are_refused(registry: Registry, obj: Any, error: type[ApiError], message: str) -> None:
    create(registry, config())
    before = registry.store.revision
    with pytest.raises(error, match=message):
        registry.create(kinds.CONFIG_MAP, "default", obj)
    assert registry.store.revision == before


def test_an_error_names_its_fields_for_programs(registry: Registry) -> None:
    with pytest.raises(Invalid) as caught:
        create(registry, {"metadata": {"name": "X", "labels": {"a": "b c"}}})
    details = caught.value.details
    assert details is not None
    assert (details["name"], details["kind"]) == ("X", "ConfigMap")
    assert [cause["field"] for cause in details["causes"]] == ["metadata.name", "metadata.labels.a"]


def test_nulls_are_absent(registry: Registry) -> None:
    obj = pod()
    obj["metadata"] |= {"labels": None, "annotations": {"a": None}}
    obj["spec"] |= {"nodeSelector": None, "volumes": None}
    obj["status"] = None
    made = create(registry, obj, kinds.POD)
    assert "labels" not in made["metadata"]
    assert made["metadata"]["annotations"] == {}
    assert "volumes" not in made["spec"]


def test_unknown_fields_are_kept(registry: Registry) -> None:
    obj = pod()
    obj["spec"]["priorityPolicyOfTomorrow"] = {"a": [1]}
    made = create(registry, obj, kinds.POD)
    assert made["spec"]["priorityPolicyOfTomorrow"] == {"a": [1]}
    after = patch(registry, "p", {"metadata": {"labels": {"a": "b"}}}, kinds.POD)
    assert after["spec"] == made["spec"]


def test_the_callers_object_is_left_alone(registry: Registry) -> None:
    obj = pod()
    before = repr(obj)
    create(registry, obj, kinds.POD)
    assert repr(obj) == before


def test_a_missing_object(registry: Registry) -> None:
    attempts: list[Callable[[], bytes]] = [
        lambda: registry.get(kinds.JOB, "default", "x"),
        lambda: registry.patch(kinds.JOB, "default", "x", {}),
        lambda: registry.update(kinds.JOB, "default", "x", {}),
        lambda: registry.delete(kinds.JOB, "default", "x"),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound, match=r'jobs.batch "x" not found') as caught:
            attempt()
        assert caught.value.details == {"name": "x", "group": "batch", "kind": "jobs"}


# Updates


def test_an_update_replaces_all_but_what_is_the_servers(registry: Registry) -> None:
    made = create(registry, {"metadata": {"name": "c", "labels": {"a": "1"}}, "data": {"x": "1"}})
    new = {
        "metadata": {"name": "c", "uid": made["metadata"]["uid"], "creationTimestamp": "2000-01-01T00:00:00Z"}
    }
    after = read(registry.update(kinds.CONFIG_MAP, "default", "c", new))
    assert "data" not in after
    assert "labels" not in after["metadata"]
    for field in ("uid", "creationTimestamp", "namespace"):
        assert after["metadata"][field] == made["metadata"][field]


def test_an_update_of_what_has_changed_is_a_conflict(registry: Registry) -> None:
    made = create(registry, config(x="1"))
    patch(registry, "c", {"data": {"x": "2"}})
    with pytest.raises(
        Conflict, match=r'Operation cannot be fulfilled on configmaps "c": .* has been modified'
    ):
        registry.update(kinds.CONFIG_MAP, "default", "c", made)
    without = {**made, "metadata": {"name": "c"}}
    assert read(registry.update(kinds.CONFIG_MAP, "default", "c", without))["data"] == {"x": "1"}


def test_a_new_pod_has_what_limit_ranges_and_its_runtime_class_add(registry: Registry) -> None:
    items = [{"type": "Container", "default": {"cpu": 2}}]
    create(registry, {"metadata": {"name": "l"}, "spec": {"limits": items}}, kinds.LIMIT_RANGE)
    runtime = {"handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    registry.create(kinds.RUNTIME_CLASS, "", {"metadata": {"name": "kata"}, **runtime})
    created = create(registry, pod(), kinds.POD)["spec"]
    assert created["containers"][0]["resources"] == {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}
    assert "overhead" not in created
    one = pod("other")
    one["spec"] |= {"runtimeClassName": "kata", "tolerations": [{"operator": "Exists", "unknown": "kept"}]}
    spec = create(registry, one, kinds.POD)["spec"]
    assert (spec["overhead"], spec["tolerations"]) == (
        {"cpu": "250m"},
        [{"operator": "Exists", "unknown": "kept"}],
    )
    unknown = pod("third")
    unknown["spec"]["runtimeClassName"] = "nvidia"
    assert create(registry, unknown, kinds.POD)["spec"]["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize(
    ("metadata", "error"),
    [({"name": "d"}, BadRequest), ({"namespace": "kube-system"}, BadRequest), ({"uid": "other"}, Conflict)],
)
def test_an_update_for_another_object(registry: Registry, metadata: Object, error: type[ApiError]) -> None:
    create(registry, config())
    with pytest.raises(error):
        registry.update(kinds.CONFIG_MAP, "default", "c", {"metadata": metadata})


@pytest.mark.parametrize("field", ["resourceVersion", "uid"])
def test_a_patch_is_conditional_by_what_it_sets(registry: Registry, field: str) -> None:
    made = create(registry, config())
    with pytest.raises(Conflict):
        patch(registry, "c", {"metadata": {field: "4711"}, "data": {"x": "1"}})
    change = {"metadata": {field: made["metadata"][field]}, "data": {"x": "1"}}
    assert patch(registry, "c", change)["data"] == {"x": "1"}


def test_a_json_patch_is_conditional_by_its_tests(registry: Registry) -> None:
    made = create(registry, config(x="1"))
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]}
    change = [test, {"op": "replace", "path": "/data/x", "value": "2"}]
    assert patch(registry, "c", change)["data"] == {"x": "2"}
    with pytest.raises(Invalid):
        patch(registry, "c", change)


def test_a_write_that_changes_nothing_is_none(registry: Registry) -> None:
    made = create(registry, pod(labels={"a": "b"}), kinds.POD)
    before = registry.store.revision
    assert patch(registry, "p", {"metadata": {"labels": {"a": "b", "c": None}}}, kinds.POD) == made
    assert patch(registry, "p", {"status": {"phase": "Pending"}}, kinds.POD, "status") == made
    assert read(registry.update(kinds.POD, "default", "p", made)) == made
    assert registry.store.revision == before


def test_a_number_that_becomes_a_boolean_is_a_change(registry: Registry) -> None:
    create(registry, {"metadata": {"name": "b"}, "spec": {"tasks": [{"x": 1}]}}, kinds.BATCH_JOB)
    after = patch(registry, "b", {"spec": {"tasks": [{"x": True}]}}, kinds.BATCH_JOB)
    assert after["spec"]["tasks"][0]["x"] is True
    assert after["metadata"]["generation"] == 2


def test_status_has_a_writer_of_its_own(registry: Registry) -> None:
    create(registry, {"metadata": {"name": "g"}, "spec": {"minMember": 1}}, kinds.POD_GROUP_X)
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"minMember": 2}, "status": {"phase": "Pending"}}
    after = patch(registry, "g", change, kinds.POD_GROUP_X, "status")
    assert (after["spec"], after["status"]) == ({"minMember": 1}, {"phase": "Pending"})
    assert "labels" not in after["metadata"]
    after = patch(registry, "g", change | {"status": {"phase": "Running"}}, kinds.POD_GROUP_X)
    assert (after["spec"], after["status"]) == ({"minMember": 2}, {"phase": "Pending"})
    assert after["metadata"]["labels"] == {"a": "b"}


def test_generation_counts_changes_of_the_spec_only(registry: Registry) -> None:
    create(registry, {"metadata": {"name": "g"}, "spec": {"minMember": 1}}, kinds.POD_GROUP_X)
    generations = [
        patch(registry, "g", change, kinds.POD_GROUP_X, sub)["metadata"]["generation"]
        for change, sub in (
            ({"status": {"phase": "Pending"}}, "status"),
            ({"metadata": {"labels": {"a": "b"}, "generation": 50}}, ""),
            ({"spec": {"minMember": 2}}, ""),
            ({"spec": {"minMember": 2}}, ""),
            ({"spec": {"minMember": 3}}, ""),
        )
    ]
    assert generations == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("kind", "sub"), [(kinds.CONFIG_MAP, "status"), (kinds.POD, "scale"), (kinds.POD, "x")]
)
def test_a_subresource_that_is_not_there(registry: Registry, kind: Any, sub: str) -> None:
    create(registry, pod() if kind is kinds.POD else config("p"), kind)
    with pytest.raises(NotFound, match="no subresource"):
        patch(registry, "p", {"status": {}}, kind, sub)


def test_a_status_of_wrong_types_never_reaches_the_store(registry: Registry) -> None:
    create(registry, pod(), kinds.POD)
    with pytest.raises(Invalid, match=r"status.startTime"):
        patch(registry, "p", {"status": {"startTime": "yesterday"}}, kinds.POD, "status")


def test_a_pods_spec_is_mostly_fixed(registry: Registry) -> None:
    create(registry, pod(), kinds.POD)
    with pytest.raises(Invalid, match="pod updates may not change fields other than"):
        patch(registry, "p", {"spec": {"nodeName": "node-0"}}, kinds.POD)
    after = patch(registry, "p", {"spec": {"containers": [{"name": "main", "image": "new"}]}}, kinds.POD)
    assert after["spec"]["containers"][0]["image"] == "new"


# Admission that needs the store


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({}, 5),
        ({"priorityClassName": "high"}, 1000),
        ({"priorityClassName": "system-node-critical"}, 2_000_001_000),
    ],
)
def test_a_pods_priority_is_its_classes(registry: Registry, spec: Object, priority: int) -> None:
    create(
        registry,
        {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"},
        kinds.PRIORITY_CLASS,
    )
    create(registry, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}, kinds.PRIORITY_CLASS)
    obj = pod()
    obj["spec"] |= spec
    made = create(registry, obj, kinds.POD)["spec"]
    assert made["priority"] == priority
    assert made["preemptionPolicy"] == ("Never" if priority == 1000 else "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "none"}, "no PriorityClass with name none was found"),
        ({"priority": 7}, r"the integer value of priority \(7\) must not be provided"),
        (
            {"preemptionPolicy": "Never"},
            r"the string value of PreemptionPolicy \(Never\) must not be provided",
        ),
    ],
)
def test_a_priority_that_is_not_to_be_had(registry: Registry, spec: Object, message: str) -> None:
    obj = pod()
    obj["spec"] |= spec
    with pytest.raises(Forbidden, match=message):
        create(registry, obj, kinds.POD)


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
@pytest.mark.parametrize("named", [True, False])
def test_a_group_has_the_policy_of_its_class_or_is_refused(
    registry: Registry, policy: str, named: bool
) -> None:
    body = {"metadata": {"name": "c"}, "value": 5, "preemptionPolicy": "Never", "globalDefault": not named}
    create(registry, body, kinds.PRIORITY_CLASS)
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": 1}}, "preemptionPolicy": policy}
    obj = {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}
    if named:
        spec["priorityClassName"] = "c"
    if policy == "Never":
        assert create(registry, obj, kinds.POD_GROUP_K8S)["spec"]["preemptionPolicy"] == "Never"
        return
    with pytest.raises(Forbidden, match=r"must not be provided in pod group spec; .* computed Never from"):
        create(registry, obj, kinds.POD_GROUP_K8S)


def test_a_store_that_no_process_hosts_can_be_read(tmp_path: Any) -> None:
    registry = Registry(Store(tmp_path / "s"))
    create(registry, config())
    registry.store.close()
    reader = Registry(Store.open_read_only(tmp_path / "s"))
    assert len(reader.list(kinds.CONFIG_MAP).items) == 1
    assert reader.history.runs() == []
    with pytest.raises(MethodNotAllowed):
        create(reader, config("d"))
    reader.store.close()


def test_objects_stored_with_other_types_by_an_earlier_version_can_be_changed(registry: Registry) -> None:
    old = create(registry, pod("p"), kinds.POD)
    old["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 1}}
    raw = registry.get(kinds.POD, "default", "p")
    with registry.store.transaction():
        registry.store.put("pods", "default", "p", old, raw)
    body = registry.patch(kinds.POD, "default", "p", {"metadata": {"labels": {"a": "b"}}})
    assert read(body)["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


def test_the_official_client_reads_what_was_written_with_numbers(registry: Registry) -> None:
    from kubernetes.client import V1Job, V1Pod  # it is slow to import

    container = {"name": "m", "resources": {"limits": {"cpu": 1, "memory": 1.5e9}}}
    spec = {"containers": [container], "restartPolicy": "Never"}
    job = {"metadata": {"name": "a"}, "spec": {"template": {"spec": spec}}}
    pod = V1Pod.from_dict(create(registry, {"metadata": {"name": "a"}, "spec": spec}, kinds.POD))
    template = V1Job.from_dict(create(registry, job, kinds.JOB))
    assert pod is not None
    assert pod.to_dict()["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1500M"}
    assert template is not None


@pytest.mark.parametrize(
    ("kind", "body"),
    [each for each in CLUSTER if each[0].status and each[0] is not kinds.POD],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_the_status_of_every_kind_can_be_written(registry: Registry, kind: Any, body: Object) -> None:
    obj = copy.deepcopy(body)
    for field in ("namespace", "uid", "resourceVersion", "finalizers", "ownerReferences"):
        obj["metadata"].pop(field, None)
    with contextlib.suppress(AlreadyExists):
        create(registry, obj, kind)
    made = patch(registry, obj["metadata"]["name"], {"status": {"tested": "yes"}}, kind, "status")
    assert made["status"]["tested"] == "yes"
