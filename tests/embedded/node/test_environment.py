"""Environment and command lines, by tables."""

import pytest

from muster.api.base import ObjectMeta
from muster.api.core_v1 import ConfigMap, Container, Pod, PodSpec, PodStatus, ResourceRequirements, Secret
from muster.embedded.node.environment import (
    Caller,
    Lookup,
    Unavailable,
    caller_of,
    command_line,
    environment,
    expand,
    hostname_of,
)

POD = Pod(
    metadata=ObjectMeta(
        name="p", namespace="ns", uid="u", labels={"a/b": "label"}, annotations={"note": "text"}
    ),
    spec=PodSpec(node_name="n"),
    status=PodStatus(pod_ip="127.1.0.9", host_ip="127.0.0.1"),
)
LOOKUP = Lookup(
    {"conf": ConfigMap(data={"k": "v", "l": "w"})}.get,
    {"sec": Secret(data={"s": "c2VjcmV0"})}.get,
    {"cpu": 4},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "a"),
        ("x$(A)$(B)y", "xaby"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$(NONE)", "$(NONE)"),
        ("$A $", "$A $"),
        ("$(A", "$(A"),
        ("cost $$5", "cost $5"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text, {"A": "a", "B": "b"}) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}, "label"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['none']"}}, ""),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "n"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "127.1.0.9"),
        ({"configMapKeyRef": {"name": "conf", "key": "k"}}, "v"),
        ({"secretKeyRef": {"name": "sec", "key": "s"}}, "secret"),
        ({"secretKeyRef": {"name": "none", "key": "s", "optional": True}}, None),
        ({"configMapKeyRef": {"name": "conf", "key": "none", "optional": True}}, None),
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}, "1536"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "4"),
        ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "1500"),
    ],
)
def test_value_from(source: dict[str, object], expected: str | None) -> None:
    requests = ResourceRequirements(requests={"memory": "1.5Gi", "cpu": 1.5})
    container = Container("c", env=[{"name": "X", "valueFrom": source}], resources=requests)
    assert environment(POD, container, Caller(), LOOKUP).get("X") == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, "configmap 'none' not found"),
        ({"secretKeyRef": {"name": "sec", "key": "none"}}, "'sec' has no key 'none'"),
        ({"fieldRef": {"fieldPath": "spec.colour"}}, "fieldRef 'spec.colour' is not offered"),
        ({"resourceFieldRef": {"resource": "cpu"}}, "write limits.cpu"),
        (
            {"resourceFieldRef": {"containerName": "none", "resource": "limits.cpu"}},
            "the pod has no container 'none'",
        ),
    ],
)
def test_a_missing_source_of_a_variable_is_named(source: dict[str, object], message: str) -> None:
    container = Container("c", env=[{"name": "X", "valueFrom": source}])
    with pytest.raises(Unavailable, match=message.replace("(", r"\(")):
        environment(POD, container, Caller(), LOOKUP)


def test_env_overrides_the_variables_of_env_from() -> None:
    container = Container(
        "c",
        env_from=[{"configMapRef": {"name": "conf"}, "prefix": "P_"}, {"secretRef": {"name": "sec"}}],
        env=[{"name": "s", "value": "$(P_k)!"}, {"name": "PATH", "value": "/mine:$(PATH)"}],
        command=["echo", "$(s)"],
        args=["$(P_l)"],
    )
    env = environment(POD, container, Caller(path="/bin", home="/h", lang="C"), LOOKUP)
    assert env == {
        "PATH": "/mine:/bin",
        "HOME": "/h",
        "LANG": "C",
        "PYTHONUNBUFFERED": "1",
        "HOSTNAME": "p",
        "P_k": "v",
        "P_l": "w",
        "s": "v!",
    }
    assert command_line(container, env) == ["echo", "v!", "w"]


def test_the_caller() -> None:
    pod = Pod(metadata=ObjectMeta(annotations={"muster.dev/caller": '{"cwd": "/w", "HOME": "/h"}'}))
    assert (caller_of(pod).cwd, caller_of(pod).home, caller_of(pod).lang) == ("/w", "/h", "C.UTF-8")
    with pytest.raises(Unavailable, match="must be JSON"):
        caller_of(Pod(metadata=ObjectMeta(annotations={"muster.dev/caller": "/w"})))


def test_host_names_have_at_most_63_characters() -> None:
    assert hostname_of(Pod(metadata=ObjectMeta(name="x" * 62 + "-y"))) == "x" * 62
    assert hostname_of(Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(hostname="h"))) == "h"
