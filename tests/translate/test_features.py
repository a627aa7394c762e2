"""Pods that need features of their node run only on nodes that declare them."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from muster.api.base import Object
from muster.api.core_v1 import Node, Pod
from muster.api.kinds import NODE, POD
from muster.api.scheduled_pod import SCHEDULED_POD
from muster.core.words.decisions import Assign
from muster.core.words.events import GangSubmitted
from muster.core.words.gang import Code
from muster.runtime.mirror import Mirror
from muster.translate.features import BIND_OPTIONS, RESTART_ALL, USER_NAMESPACES, needed
from muster.translate.nodes import node_changed, says_as_before
from muster.translate.pods import asked
from tests.core.words import assigns, gang, node, scheduler, shape, waits, where
from tests.translate import cluster

RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
HOST = {"hostNetwork": True, "hostUsers": False}
OPTIONS = {"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}


def spec(**of_container: Any) -> Object:
    return {"containers": [{"name": "c", **of_container}]}


@pytest.mark.parametrize(
    ("body", "features"),
    [
        (spec(), ()),
        (spec(restartPolicyRules=[RULE]), (RESTART_ALL,)),
        (spec(restartPolicyRules=[{"action": "Restart"}]), ()),
        (spec() | {"initContainers": [{"name": "i", "restartPolicyRules": [RULE]}]}, (RESTART_ALL,)),
        (spec() | HOST, (USER_NAMESPACES,)),
        (spec() | {"hostNetwork": True, "hostUsers": True}, ()),
        (spec() | {"hostNetwork": True}, ()),
        (spec() | {"hostUsers": False}, ()),
        (spec(volumeMounts=[{"name": "v", "mountPath": "/v"}, OPTIONS]), (BIND_OPTIONS,)),
        (spec(volumeMounts=[{"name": "v", "mountPath": "/v", "bindMountOptions": []}]), ()),
        (
            spec(volumeMounts=[OPTIONS], restartPolicyRules=[RULE])
            | {"hostNetwork": True, "hostUsers": False},
            (RESTART_ALL, USER_NAMESPACES, BIND_OPTIONS),
        ),
    ],
)
def test_what_a_pod_needs_follows_from_its_spec(body: Object, features: tuple[str, ...]) -> None:
    whole = {"metadata": {"name": "p", "namespace": "ns"}, "spec": body}
    read = msgspec.convert(whole, Pod)
    assert needed(read.spec) == features
    assert asked(read).shape.features == features
    kept = SCHEDULED_POD
    assert kept.kept is not None
    slim = kept.kept(msgspec.json.decode(msgspec.json.encode(whole), type=kept.type))
    assert asked(slim).shape.features == features, "as the scheduler keeps it"
    assert asked(slim).shape == asked(read).shape


def declaring(*features: str) -> Node:
    return msgspec.convert({"metadata": {"name": "n"}, "status": {"declaredFeatures": [*features]}}, Node)


def test_a_node_declares_what_pods_can_need_and_nothing_else_is_read() -> None:
    old, new = declaring(), declaring("Other", RESTART_ALL, RESTART_ALL)
    assert node_changed(old).features == ()
    assert node_changed(new).features == (RESTART_ALL,)
    assert not says_as_before(new, old)
    mirror = Mirror()
    mirror.change(NODE, None, old)
    mirror.drain(0.0)
    mirror.change(NODE, old, new)
    assert mirror.drain(0.0).events == [node_changed(new)]


def test_a_gang_goes_to_nodes_that_declare_all_that_it_needs() -> None:
    needs = replace(shape(gpu=1), features=(RESTART_ALL, USER_NAMESPACES))
    made = scheduler(
        [node("a"), replace(node("b"), features=(RESTART_ALL,))],
        gang("x", of=needs),
    )
    decisions = made.decide(0.0)
    assert not assigns(decisions)
    (wait,) = waits(decisions)
    assert wait.explanation.code is Code.NOTHING_MATCHES
    assert wait.explanation.message.endswith(
        "none of 2 nodes matches: its nodes must declare RestartAllContainersOnContainerExits, "
        "UserNamespacesHostNetworkSupport (status.declaredFeatures)"
    )
    assert wait.explanation.pod_sets[0].limited_by == {"features": 2}
    made.apply(replace(node("a"), features=(RESTART_ALL, USER_NAMESPACES)))
    (assign,) = assigns(made.decide(1.0))
    assert where(assign) == ["a"]


def test_a_pod_that_needs_nothing_goes_anywhere() -> None:
    mirror, made = Mirror(), scheduler([node("a")])
    mirror.change(POD, None, cluster.pod("p", spec=cluster.pod_spec(1)))
    for event in mirror.drain(0.0).events:
        made.apply(event)
        assert not isinstance(event, GangSubmitted) or not event.gang.pod_sets[0].shape.features
    assert any(isinstance(each, Assign) for each in made.decide(0.0))
