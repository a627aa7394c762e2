"""The output of pods, line by line, and which pods somebody means."""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOB_INDEX
from muster.app.jobs import group_of, label, pod_order
from muster.kube.client import Client
from muster.kube.errors import BadRequest, NotFound

LONGEST_LINE: Final = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a pod printed."""

    pod: str  # its label
    text: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Pods by type and index; the index is that of the pod's job, or of the pod where there is one job."""

    group: str | None = None
    index: int | None = None

    def holds(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        indices = (labels.get(JOB_INDEX), labels.get(COMPLETION_INDEX))
        return (self.group is None or group_of(pod) == self.group) and (
            self.index is None or str(self.index) in indices
        )


async def read(client: Client, pods: Iterable[Pod], tail: int | None = None) -> AsyncIterator[Line]:
    """What has been printed so far, in the order of the job file. Pods that have not started have nothing."""
    for pod in sorted(pods, key=pod_order):
        for container in pod.spec.containers:
            with suppress(NotFound, BadRequest):
                async for line in lines(client, pod, container.name, tail=tail):
                    yield line


async def lines(
    client: Client, pod: Pod, container: str, *, follow: bool = False, tail: int | None = None
) -> AsyncIterator[Line]:
    """The lines of one container, until it ends if `follow`; a line without an end is broken at a bound."""
    name = label(pod) if len(pod.spec.containers) == 1 else f"{label(pod)}/{container}"
    rest = b""
    chunks = client.log(
        pod.metadata.namespace, pod.metadata.name, container=container, follow=follow, tail=tail
    )
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _line(name, line)
        if len(rest) > LONGEST_LINE:
            yield _line(name, rest)
            rest = b""
    if rest:
        yield _line(name, rest)


def _line(pod: str, text: bytes) -> Line:
    return Line(pod, text.decode(errors="replace").rstrip("\r"))
