"""Asks Kubernetes' own allocator of devices (`recipes/structured-allocator`), a question at a time."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from muster.api import rules
from muster.api.base import Object
from muster.api.kinds import RESOURCE_CLAIM
from muster.embedded import devicespec
from muster.embedded.devicespec import DeviceSpec

NODE: Final = "node-0"


class Refused(Exception):
    """The allocator refuses the question; the message is its own."""


@dataclass(frozen=True)
class Allocator:
    process: subprocess.Popen[bytes]

    def ask(
        self,
        devices: Sequence[DeviceSpec],
        claims: Sequence[Object],
        taken: Sequence[str] = (),
        slices: Sequence[Object] = (),
        classes: Sequence[Object] = (),
    ) -> list[Object] | None:
        """The allocations of the claims on a node with these devices; None if there are none.

        `slices` and `classes` are there besides those of the devices.
        `claims` are specs; `taken` are devices in use, as `driver/pool/device`. Raises Refused.
        """
        question = {
            "node": {"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}},
            "slices": [*devicespec.slices(NODE, devices), *slices],
            "classes": [*devicespec.classes(devices), *classes],
            "claims": [claim(spec, number) for number, spec in enumerate(claims)],
            "taken": [*taken],
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(msgspec.json.encode(question) + b"\n")
        self.process.stdin.flush()
        answer: Object = msgspec.json.decode(self.process.stdout.readline())
        if error := answer.get("error"):
            raise Refused(error)
        found: list[Object] | None = answer["allocations"]
        return found


def claim(spec: Object, number: int = 0) -> Object:
    """A claim with its defaults, as an API server stores it."""
    body: Object = {"metadata": {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"}}
    return rules.default(RESOURCE_CLAIM, {**body, "spec": msgspec.json.decode(msgspec.json.encode(spec))})


@contextmanager
def running(program: Path) -> Iterator[Allocator]:
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Allocator(process)
        assert process.stdin is not None
        process.stdin.close()
