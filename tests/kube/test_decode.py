"""What a server answers is read whatever it holds; what cannot be read is left out, and named."""

from typing import Any

import msgspec
import pytest

from muster.api.fields import MOST_NESTED
from muster.api.kinds import JOB, POD, POD_GROUP_X
from muster.kube.client import EventType
from muster.kube.decode import decode, decode_change, decode_event, decode_list

NAME = {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
DEEP = 100_000


def encoded(obj: Any) -> bytes:
    return msgspec.json.encode(obj)


def test_a_bookmark_of_pods_as_real_servers_send_it() -> None:
    bookmark = (
        b'{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","creationTimestamp":null},'
        b'"spec":{"containers":null},"status":{}}'
    )
    event = decode_event(b'{"type":"BOOKMARK","object":' + bookmark + b"}")
    pod = decode(POD, event.object)
    assert (event.type, pod.metadata.resource_version, pod.metadata.unreadable) == ("BOOKMARK", "7", "")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"minMember": 10**19}, "spec.minMember: Expected `int` <= 2147483647, got 10000000000000000000"),
        ({"minMember": "3"}, 'spec.minMember: Expected `int`, got `str`, got "3"'),
        ({"minMember": 2.5}, "spec.minMember: Expected `int`, got `float`, got 2.5"),
        (
            {"minResources": {"cpu": []}},
            'spec.minResources: Expected `int | float | str`, got `array`, got {"cpu":[]}',
        ),
        ("x", 'spec: Expected `object`, got `str`, got "x"'),
    ],
)
def test_a_field_that_cannot_be_read_is_left_out_and_named_with_its_value(spec: Any, told: str) -> None:
    group = decode(POD_GROUP_X, encoded({"metadata": NAME, "spec": spec}))
    assert group.key == "ns/x"
    assert group.metadata.unreadable == told
    assert group.spec.min_member == 0


def test_a_damaged_object_keeps_its_readable_fields() -> None:
    containers = [{"name": "a", "ports": [{"hostPort": 2**40}]}, {"image": "no name"}, {"name": "b"}]
    body = {"metadata": NAME, "spec": {"nodeName": "n", "priority": 2**31, "containers": containers}}
    pod = decode(POD, encoded(body))
    assert pod.spec.node_name == "n"
    assert [container.name for container in pod.spec.containers] == ["a", "b"]
    assert pod.metadata.unreadable == "spec.priority: Expected `int` <= 2147483647, got 2147483648"


def test_an_object_with_a_thousand_faults_is_decoded() -> None:
    body = {"metadata": {**NAME, "finalizers": 1}, "spec": {"tolerations": [{"key": 1}] * 1000}}
    pod = decode(POD, encoded(body))
    assert pod.key == "ns/x"
    assert pod.metadata.unreadable


@pytest.mark.parametrize(
    "raw", [b"[]", b"1", b"{", b"", b'{"metadata": 1}', b'{"metadata": {"name": 5}}', b'{"metadata": []}']
)
def test_bytes_that_are_not_an_object_are_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(POD, raw)


def nested(depth: int) -> bytes:
    return b'{"x":[' * (depth // 2) + b'"]}\\"[{"' + b"]}" * (depth // 2)


@pytest.mark.parametrize("depth", [MOST_NESTED - 10, MOST_NESTED + 10, 900, DEEP])
def test_depth_is_no_matter(depth: int) -> None:
    """Of unknown fields, and of parts that are passed on as they are."""
    body = b'{"metadata":%b,"unknown":%b,"spec":{"parallelism":3,"template":%b}}'
    raw = body % (encoded(NAME), nested(depth), nested(depth))
    event = decode_event(b'{"type":"ADDED","object":%b}' % raw)
    listed = decode_list(JOB, b'{"items":[%b,{"metadata":{"name":"y"}}],"metadata":{}}' % raw)
    for job in (decode(JOB, raw), decode(JOB, event.object), listed.items[0]):
        assert (job.key, job.spec.parallelism) == ("ns/x", 3)
    assert listed.items[1].key == "y"


def test_a_damaged_object_of_a_list_does_not_affect_the_others() -> None:
    items = [{"metadata": {"name": f"x{i}"}, "spec": {"minMember": 10 ** (5 * i)}} for i in range(4)]
    found = decode_list(POD_GROUP_X, encoded({"items": items, "metadata": {"resourceVersion": "9"}}))
    assert found.metadata.resource_version == "9"
    assert [group.key for group in found.items] == ["x0", "x1", "x2", "x3"]
    assert [bool(group.metadata.unreadable) for group in found.items] == [False, False, True, True]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"type":"MODIFIED","object":%b}', EventType.MODIFIED),
        (b'{"type":"ADDED","object":%b}', EventType.ADDED),
        (b'{"type":"DELETED","object":%b}', EventType.DELETED),
        (b'{"type":"BOOKMARK","object":%b}', None),
        (b'{"type":"ERROR","object":%b}', None),
        (b'{"type": "MODIFIED", "object": %b}', None),
        (b'{"object":%b,"type":"MODIFIED"}', None),
        (b'{"type":"MODIFIED","object":%b,"type":"DELETED"}', None),
        (b'{"type":"MODIFIED","object":%b} ', None),
        (b'{"type":"MODIFIED","object":%b', None),
        (b'{"type":"MODIFIED","object":}', None),
        (b'{"type":"MODIFIED","object":{"metadata":{"uid":5}}}', None),
    ],
)
@pytest.mark.parametrize("spec", [{"minMember": 3}, {"minMember": 10**19}])
def test_a_change_is_decoded_in_one_pass_only_if_it_is_written_as_usual(
    line: bytes, told: EventType | None, spec: Any
) -> None:
    raw = encoded({"metadata": NAME, "spec": spec})
    found = decode_change(POD_GROUP_X, line.replace(b"%b", raw))
    assert found == (None if told is None else (told, decode(POD_GROUP_X, raw)))


def test_bytes_that_are_no_text_are_replaced() -> None:
    pod = decode(POD, b'{"metadata":{"name":"x","labels":{"a":"\xff"}}}')
    assert pod.metadata.labels == {"a": "�"}


def test_equal_parts_of_decoded_objects_are_one_object_however_they_come() -> None:
    """A process that reads all pods of a cluster would else keep each template once for each pod."""

    def raw(name: str) -> bytes:
        meta = {"name": name, "namespace": "a", "uid": name, "labels": {"app": "x"}}
        container = {"name": "main", "image": "registry/image", "env": [{"name": "A", "value": "b"}]}
        return msgspec.json.encode({"metadata": meta, "spec": {"containers": [container]}})

    change = decode_change(POD, b'{"type":"ADDED","object":' + raw("c") + b"}")
    assert change is not None
    listed = decode_list(POD, b'{"metadata":{},"items":[' + raw("d") + b"]}").items
    damaged = decode(POD, raw("e").replace(b'"spec":{', b'"spec":{"priority":"high",'))
    assert damaged.metadata.unreadable
    first = decode(POD, raw("b"))
    for other in (change[1], *listed, damaged):
        assert other.spec.containers is first.spec.containers
