"""Queues of other schedulers as queues of muster."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import elastic_quota, kinds
from muster.api.base import AnyKind, Resource
from muster.api.elastic_quota import ElasticQuota
from muster.api.kinds import ELASTIC_QUOTA, QUEUE, QUEUE_VOLCANO
from muster.api.muster_v1alpha1 import Queue
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue
from muster.core.words.gang import Queue as Rules
from muster.kube.decode import decode
from muster.translate import adopted
from muster.translate.adopted import DEFAULT, EVERY, Adopted, QueueObjects, counting
from muster.translate.queues import queue_changed


def queue(name: str = "a", **spec: Any) -> Queue:  # Any: JSON
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, Queue)


def volcano(name: str = "a", state: str = "", **spec: Any) -> VolcanoQueue:  # Any: JSON
    body = {"metadata": {"name": name}, "spec": spec, "status": {"state": state}}
    return msgspec.convert(body, VolcanoQueue)


def quota(
    name: str = "a",
    namespace: str = "kube-system",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,  # Any: JSON
) -> ElasticQuota:
    meta = {"labels": labels or {}, "annotations": annotations or {}}
    body = {"metadata": {"name": name, "namespace": namespace, **meta}, "spec": spec}
    return msgspec.convert(body, ElasticQuota)


def kind_of(each: Resource) -> AnyKind:
    return next(kind for kind in kinds.QUEUES if isinstance(each, kind.type))


def read(*objects: Resource, adopts: frozenset[str] = EVERY) -> dict[str, Queue]:
    found = counting(((kind_of(each), each) for each in objects), adopts)
    return {each.metadata.name: each for each in found}


def rules(one: Resource) -> Rules:
    (found,) = read(one).values()
    return queue_changed(found).queue


def test_a_queue_of_volcano_is_read_as_one_of_muster() -> None:
    theirs = volcano(
        parent="dept",
        weight=3,
        capability={"cpu": 8},
        deserved={"cpu": "4"},
        guarantee={"resource": {"cpu": "500m"}},
        reclaimable=False,
    )
    assert rules(theirs) == Rules(
        "a",
        parent="dept",
        weight=3,
        capability=(("cpu", 8000),),
        deserved=(("cpu", 4000),),
        guarantee=(("cpu", 500),),
        reclaimable=False,
        adopted=True,
    )


@pytest.mark.parametrize("state", ["Closed", "Closing", "Open", "Unknown", ""])
def test_its_state_closes_it(state: str) -> None:
    found = rules(volcano(state=state))
    assert found.closed == state.startswith("Clos")
    assert found.reclaimable
    assert found.parent == "root"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("affinity", {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}}),
        ("extendClusters", [{"name": "c"}]),
        ("priority", 5),
    ],
)
def test_a_field_that_is_not_read_makes_it_unusable_and_is_named(field: str, value: Any) -> None:
    assert f"spec.{field} of a Queue of Volcano is not read" in rules(volcano(**{field: value})).fault


def test_an_elastic_quota_is_read_as_a_queue() -> None:
    one = quota(
        labels={elastic_quota.PARENT: "dept"}, min={"cpu": "500m", "x.io/y": 1}, max={"cpu": 8, "memory": "2"}
    )
    assert rules(one) == Rules(
        "a",
        parent="dept",
        guarantee=(("cpu", 500), ("x.io/y", 1)),
        capability=(("cpu", 8000), ("memory", 2)),
        parts=(("cpu", 8000), ("memory", 2)),
        adopted=True,
    )
    assert rules(quota(labels={elastic_quota.PARENT: elastic_quota.ROOT})).parent == "root"


def test_its_shared_weight_counts_instead_of_its_maximum() -> None:
    one = quota(max={"cpu": 8}, annotations={elastic_quota.SHARED_WEIGHT: '{"cpu":2,"memory":"3"}'})
    assert rules(one).parts == (("cpu", 2000), ("memory", 3))
    assert rules(quota(max={"cpu": 0})).parts == (), "what it may not have it need not share"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *((elastic_quota.SHARED_WEIGHT, text) for text in ("", "x", "[]", "[" * 9999)),
        *((elastic_quota.SHARED_WEIGHT, f'{{"cpu":{odd}}}') for odd in ("0", "-1", "true", "1e999")),
        *((elastic_quota.NAMESPACES, text) for text in ("x", '{"a":1}', "[1]", str(["n"] * 1001))),
        (elastic_quota.TOTAL, '{"cpu":1}'),
        (elastic_quota.ADMISSION, '{"cpu":1}'),
    ],
)
def test_an_annotation_that_cannot_be_honoured_makes_it_unusable_and_is_named(key: str, text: str) -> None:
    fault = rules(quota(annotations={key: text})).fault
    assert fault.startswith(key), fault
    assert len(fault) < 400


def test_a_tree_of_its_own_makes_it_unusable() -> None:
    fault = rules(quota(labels={elastic_quota.TREE: "gpu"})).fault
    assert fault.startswith(f"{elastic_quota.TREE} of an ElasticQuota is not read; remove it")


def test_quotas_that_koordinator_has_by_itself() -> None:
    three = [quota(name, max={"cpu": 1}) for name in (elastic_quota.ROOT, elastic_quota.SYSTEM)]
    assert read(*three) == {}
    assert [*read(quota(elastic_quota.DEFAULT, max={"cpu": 1}))] == ["default"]


@pytest.mark.parametrize("kind", kinds.QUEUES)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weight", 10**30),
        ("capability", {"cpu": {"a": 1}}),
        ("reclaimable", "perhaps"),
        ("deserved", [1]),
        ("max", {"cpu": {"a": 1}}),
        ("min", [1]),
    ],
)
def test_a_queue_that_cannot_be_read_whole_is_unusable(kind: AnyKind, field: str, value: Any) -> None:
    body = {"metadata": {"name": "a", "uid": "u", "namespace": "n"}, "spec": {field: value}}
    if (kind is ELASTIC_QUOTA) != (field in ("min", "max")):
        return  # it has no such field
    found = QueueObjects().change(kind, decode(kind, msgspec.json.encode(body)))[2]
    assert found is not None
    assert queue_changed(found).queue.fault.startswith(f"cannot be read: spec.{field}")


def test_muster_s_own_queue_counts_then_volcano_s_and_root_is_no_queue() -> None:
    own, theirs, third = queue(weight=2), volcano(weight=9), quota(max={"cpu": 1})
    assert read(third, theirs, own, volcano("root")) == {"a": own}
    assert read(third, theirs)["a"].spec.weight == 9


def test_of_two_queues_of_a_name_the_other_counts_once_the_first_is_gone() -> None:
    known, own, theirs = QueueObjects(), queue(weight=2), volcano(weight=9)
    assert known.change(QUEUE_VOLCANO, theirs)[1] is None
    name, before, now = known.change(QUEUE, own)
    assert before is not None
    assert (name, before.spec.weight, now) == ("a", 9, own)
    assert known.covered("a") == "Queue of Volcano"
    assert known.change(QUEUE_VOLCANO, volcano(weight=5)) == ("a", own, own), "it decides nothing"
    _, before, now = known.change(QUEUE, own, gone=True)
    assert before is own
    assert now is not None
    assert now.spec.weight == 5
    assert known.change(QUEUE_VOLCANO, theirs, gone=True)[2] is None
    assert known.all_counting() == []


def test_quotas_of_one_name_in_two_namespaces_are_at_fault_until_one_is_gone() -> None:
    known, one, other = QueueObjects(), quota(namespace="n"), quota(namespace="m")
    known.change(ELASTIC_QUOTA, one)
    found = known.change(ELASTIC_QUOTA, other)[2]
    assert found is not None
    assert queue_changed(found).queue.fault == "m/a and n/a have one name; delete one of them"
    assert known.change(ELASTIC_QUOTA, other, gone=True)[2] == read(one)["a"]


@given(
    st.lists(
        st.builds(
            quota,
            st.sampled_from(["a", "b", "default", "root", elastic_quota.DEFAULT]),
            st.sampled_from(["tenant", "other"]),
            labels=st.sampled_from([{}, {elastic_quota.PARENT: "a"}]),
            annotations=st.sampled_from([{}, {elastic_quota.NAMESPACES: '["tenant","victim"]'}]),
            min=st.sampled_from([{}, {"cpu": 10**6}]),
        )
    )
)
def test_a_quota_in_a_namespace_that_is_not_listed_changes_nothing(quotas: list[ElasticQuota]) -> None:
    """A tenant that may write ElasticQuotas in its namespace gains nothing, and bars nobody."""
    known, theirs = QueueObjects(frozenset(DEFAULT)), [queue("b"), volcano("a"), quota("c")]
    for each in theirs:
        known.change(kind_of(each), each)
    before = known.all_counting()
    for each in quotas:
        _, was, now = known.change(ELASTIC_QUOTA, each)
        assert was is now or was == now
    assert known.all_counting() == before
    for each in quotas:
        known.change(ELASTIC_QUOTA, each, gone=True)
    assert known.all_counting() == before


@pytest.mark.parametrize(
    ("adopts", "expected"),
    [
        ((), []),
        (("volcano",), ["v"]),
        (("koordinator/n",), ["q"]),
        (("koordinator/*",), ["q"]),
        (("koordinator/m", "volcano"), ["v"]),
    ],
)
def test_the_setting_lists_what_is_adopted(adopts: tuple[str, ...], expected: list[str]) -> None:
    assert [*read(volcano("v"), quota("q", "n"), adopts=frozenset(adopts))] == expected
    assert not [*adopted.wrong(adopts)]
    assert adopted.stated(adopted.written(adopts)) == frozenset(adopts)


@pytest.mark.parametrize(
    "entry", ["", "kueue", "koordinator", "koordinator/", "koordinator/A_b", "volcano/*", "volcano/n", "*"]
)
def test_an_entry_that_means_nothing_is_refused(entry: str) -> None:
    (said,) = adopted.wrong([entry])
    assert said.endswith("write volcano or koordinator/NAMESPACE")
    assert adopted.stated("odd,entries") == adopted.stated(None) == frozenset(DEFAULT)


def test_the_namespaces_that_it_serves() -> None:
    found = read(quota("team", "team", annotations={elastic_quota.NAMESPACES: '["n","m"]'}))["team"]
    assert isinstance(found, Adopted)
    assert found.serves == ["team", "n", "m"]
