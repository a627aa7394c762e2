import json

import pytest

from muster.api import kinds
from muster.api.base import LabelSelector, LabelSelectorRequirement, Object
from muster.api.selectors import matches
from muster.embedded.api_errors import AnyKind
from muster.embedded.verbs.selectors import Selector
from muster.kube.errors import BadRequest


def body(obj: Object) -> bytes:
    return json.dumps(obj).encode()


@pytest.mark.parametrize(
    ("selector", "matching"),
    [
        ("", "web db bare"),
        ("app=web", "web"),
        ("app==web", "web"),
        ("app!=web", "db bare"),
        ("app", "web db"),
        ("!app", "bare"),
        ("! app", "bare"),
        ("app in (web, db)", "web db"),
        ("app in (web),tier=front", "web"),
        ("app in (web,db),tier notin (front)", "db"),
        ("app notin (web)", "db bare"),
        ("tier=", ""),
        ("example.com/zone=a-1", "db"),
        (" app = web , tier = front ", "web"),
        ("app=web,app=db", ""),
    ],
)
def test_label_selectors(selector: str, matching: str) -> None:
    objects = {
        "web": {"app": "web", "tier": "front"},
        "db": {"app": "db", "example.com/zone": "a-1"},
        "bare": {},
    }
    parsed = Selector(kinds.POD, selector)
    found = [
        name for name, labels in objects.items() if parsed.matches(body({"metadata": {"labels": labels}}))
    ]
    assert " ".join(found) == matching


@pytest.mark.parametrize(
    "selector", ["app=a b", "=a", "app in web", "app in (a", "a,,b", "a=b=c", "(a)", "in (a)x"]
)
def test_label_selectors_that_cannot_be_read(selector: str) -> None:
    with pytest.raises(BadRequest, match="unable to parse label selector"):
        Selector(kinds.POD, selector)


@pytest.mark.parametrize(
    ("kind", "selector", "matches"),
    [
        (kinds.POD, "metadata.name=p", True),
        (kinds.POD, "metadata.name!=p", False),
        (kinds.POD, "metadata.namespace=ns,spec.nodeName=n", True),
        (kinds.POD, "spec.nodeName=", False),
        (kinds.POD, "status.phase==Running", True),
        (kinds.POD, "status.phase!=Succeeded,status.phase!=Failed", True),
        (kinds.POD, "spec.schedulerName=", True),
        (kinds.EVENT, "involvedObject.name=x,involvedObject.kind=Pod,type=Warning", True),
        (kinds.EVENT, "involvedObject.uid=other", False),
        (kinds.SECRET, "type=Warning", True),
        (kinds.NODE, "spec.unschedulable=false", True),
        (kinds.JOBSET, "metadata.name=p", True),
    ],
)
def test_field_selectors(kind: AnyKind, selector: str, matches: bool) -> None:
    obj = body(
        {
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Running"},
            "involvedObject": {"name": "x", "kind": "Pod", "uid": "u"},
            "type": "Warning",
        }
    )
    assert Selector(kind, "", selector).matches(obj) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("spec.nodeName=n0", True),
        ("spec.driver=gpu.example.com,spec.pool.name=rack/n0", True),
        ("spec.pool.name=n0", False),
    ],
)
def test_field_selectors_of_slices(selector: str, matches: bool) -> None:
    spec = {"nodeName": "n0", "driver": "gpu.example.com", "pool": {"name": "rack/n0"}}
    found = Selector(kinds.RESOURCE_SLICE, fields=selector).matches(body({"metadata": {}, "spec": spec}))
    assert found is matches


def test_other_kinds_may_have_fields_of_these_names() -> None:
    spec = {"driver": 5, "pool": "none", "nodeName": "n0"}
    assert Selector(kinds.POD, fields="spec.nodeName=n0").matches(body({"metadata": {}, "spec": spec}))


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("spec.color=red", "not supported: spec.color .*known: .*spec.nodeName"),
        ("status.phase", "field=value"),
    ],
)
def test_field_selectors_that_are_refused(selector: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        Selector(kinds.POD, "", selector)


def test_selectors_within_objects() -> None:
    rule = LabelSelectorRequirement(key="tier", operator="In", values=["a", "b"])
    selector = LabelSelector(match_labels={"app": "x"}, match_expressions=[rule])
    assert matches(selector, {"app": "x", "tier": "b"})
    assert not matches(selector, {"app": "x"})
    assert not matches(selector, {"tier": "b"})
    assert matches(LabelSelector(), {})
