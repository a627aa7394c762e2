"""Bodies as kubectl 1.32 has sent them, and bodies that no client should send."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.http.protobuf import decode
from muster.kube.errors import BadRequest

EMPTY_META = b'\n\x00\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00'
JOB = (
    b'k8s\x00\n\x0f\n\x08batch/v1\x12\x03Job\x12x\n\x11\n\x01j\x12\x00\x1a\x00"\x00*\x002\x008\x00B\x00'
    b"\x12Y2W\n\x10"
    + EMPTY_META
    + b"\x12C\x12 \n\x01j\x12\x07busybox*\x00B\x00j\x00r\x00\x80\x01\x00\x88\x01"
    b"\x00\x90\x01\x00\xa2\x01\x00\x1a\x05Never2\x00B\x00J\x00R\x00X\x00`\x00h\x00\x82\x01\x00\x8a\x01\x00\x9a"
    b'\x01\x00\xc2\x01\x00\x1a\x08 \x00(\x000\x00:\x00\x1a\x00"\x00'
)
ACCESS = (
    b"k8s\x00\n2\n\x17authorization.k8s.io/v1\x12\x17SelfSubjectAccessReview\x12?\n\x10"
    + EMPTY_META
    + b'\x12!\n\x1f\n\x07default\x12\x06create\x1a\x00"\x00*\x04pods2\x00:\x00\x1a\x08\x08\x00\x12\x00'
    b'\x1a\x00 \x00\x1a\x00"\x00'
)


def varint(number: int) -> bytes:
    number %= 2**64
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: "bytes | int") -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    type_ = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\x00" + field(1, type_) + field(2, raw) + field(3, b"") + field(4, b"")


def test_a_job_of_kubectl() -> None:
    container = {"name": "j", "image": "busybox"}
    assert decode(JOB) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def test_a_review_of_kubectl() -> None:
    attributes = {"namespace": "default", "verb": "create", "resource": "pods"}
    assert decode(ACCESS)["spec"] == {"resourceAttributes": attributes}


@pytest.mark.parametrize(
    ("kind", "raw", "found"),
    [
        # absent, and a zero that was written
        ("Job", field(2, b""), {}),
        ("Job", field(2, field(1, 0) + field(2, 3)), {"spec": {"parallelism": 0, "completions": 3}}),
        (
            "DeleteOptions",
            field(1, 0) + field(2, field(1, b"u")),
            {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}},
        ),
        ("DeleteOptions", field(1, -1), {"gracePeriodSeconds": -1}),
        # maps, bytes, quantities, either-or
        ("Secret", field(2, field(1, b"k") + field(2, b"\xff\x00")), {"data": {"k": "/wA="}}),
        ("ConfigMap", field(2, field(1, b"k")), {"data": {"k": ""}}),
        (
            "ResourceQuota",
            field(2, field(1, field(1, b"cpu") + field(2, field(1, b"1500m")))),
            {"spec": {"hard": {"cpu": "1500m"}}},
        ),
        (
            "PodDisruptionBudget",
            field(2, field(1, field(1, 1) + field(3, b"50%"))),
            {"spec": {"minAvailable": "50%"}},
        ),
        ("PodDisruptionBudget", field(2, field(1, field(2, 7))), {"spec": {"minAvailable": 7}}),
        # the source of a volume stands in the volume
        (
            "Pod",
            field(2, field(1, field(1, b"v") + field(2, field(2, b"")))),
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        ),
        # times
        (
            "Pod",
            field(1, field(9, field(1, 1_700_000_000))),
            {"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}},
        ),
        # a field of a later version
        ("ConfigMap", field(99, b"x") + field(98, 7), {}),
    ],
)
def test_fields(kind: str, raw: bytes, found: Any) -> None:  # Any: JSON
    assert decode(body("v", kind, raw)) == {"apiVersion": "v", "kind": kind, **found}


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{}",
        b"k8s\x00\x0a",
        b"k8s\x00" + b"\xff" * 20,
        body("v1", "Picture", b""),
        body("v1", "Pod", field(1, 7)),
        body("v1", "Pod", field(1, field(1, b"\xff"))),
        body("v1", "Pod", field(1, field(8, field(1, 2**62)))),
        body("v1", "Pod", b"\x0b"),
        body("v1", "Pod", varint(1 << 3 | 2) + varint(1000)),
    ],
)
def test_damaged_protobuf_is_refused(sent: bytes) -> None:
    with pytest.raises(BadRequest):
        decode(sent)


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Job", "Secret", "Event", "DeleteOptions"]))
def test_any_bytes_are_an_object_or_are_refused(raw: bytes, kind: str) -> None:
    with suppress(BadRequest):
        assert decode(body("v1", kind, raw))["kind"] == kind
