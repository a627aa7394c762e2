"""A command has expressions evaluated in a process that may fail, and waits for it within a limit."""

import sys
from collections.abc import Mapping
from typing import Final

import pytest

from muster.api.fields import convert
from muster.api.resource_v1 import DeviceClass, ResourceSlice
from muster.app.plan.answers import answered
from muster.core.words.devices import DeviceKindChanged
from muster.translate.devices import Devices

DRIVER: Final = "gpu.x"
A, B, C = (f"device.attributes['{DRIVER}'].clique == '{each}'" for each in "abc")


def devices(*expressions: str) -> Devices:
    found = Devices()
    for number, each in enumerate(expressions):
        spec = {"selectors": [{"cel": {"expression": each}}]}
        found.change(None, convert({"metadata": {"name": f"k{number}"}, "spec": spec}, DeviceClass))
    made = [{"name": each, "attributes": {"clique": {"string": each}}} for each in "ab"]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    published = {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": made}
    found.change(None, convert({"metadata": {"name": "s"}, "spec": published}, ResourceSlice))
    assert [*found.events()]
    return found


def holding(found: Devices) -> Mapping[str, int]:
    """How many kinds each class has."""
    answers = [each.kind.answers for each in found.events() if isinstance(each, DeviceKindChanged)]
    return {name: sum(name in some for some in answers) for name in sorted(frozenset().union(*answers))}


def test_each_question_is_answered_once() -> None:
    pytest.importorskip("cel_expr_python", reason="the extra `devices` is not installed")
    found = devices(A, B, "1")
    assert answered(found)
    assert holding(found) == {"deviceclass/k0": 1, "deviceclass/k1": 1}
    assert not answered(found)


#: Answers that all devices match; of the expression that names b, it ends, or never answers.
FAKE: Final = """
import sys, time
import msgspec
out, frame = sys.stdout.buffer, lambda text: len(text).to_bytes(4) + text
out.write(frame(b""))
out.flush()
while head := sys.stdin.buffer.read(4):
    asked = msgspec.msgpack.decode(sys.stdin.buffer.read(int.from_bytes(head)))
    if "'b'" in asked["expression"]:
        %s
    out.write(frame(msgspec.msgpack.encode({"holds": [True] * len(asked["devices"])})))
    out.flush()
"""


def test_an_expression_that_ends_the_process_holds_of_nothing_and_harms_no_other() -> None:
    found = devices(A, B, C)
    assert answered(found, [sys.executable, "-c", FAKE % "sys.exit(1)"])
    assert holding(found) == {"deviceclass/k0": 2, "deviceclass/k2": 2}


def test_no_command_waits_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.app.plan.answers.LONGEST", 0.5)
    found = devices(B)
    assert answered(found, [sys.executable, "-c", FAKE % "time.sleep(600)"])
    assert holding(found) == {}
    assert not answered(found)
