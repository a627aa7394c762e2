"""The output of pods, line by line, and the selection of pods.

A pod's output is read from the API server while the pod exists. The embedded cluster keeps it longer, in
files on this machine (the archive); the recorded runs say where to find it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import Pod
from muster.api.failures import Failure, failures
from muster.api.jobset_v1alpha2 import JOB_INDEX
from muster.app.views.lines import Splitter, shown
from muster.app.views.pods import group_of, label, pod_order, statuses
from muster.embedded.node.logs import CUT, Logs
from muster.kube.client import EVERYTHING, Client, LogOptions
from muster.kube.errors import ApiError, BadRequest, NotFound, Unanswered, Unreachable
from muster.workloads.pod_run import PodRun, failure_of, label_of

#: What is shown of the output of a container that failed: lines, characters of each, bytes read.
LAST_LINES: Final = 5
LONGEST: Final = 500
LAST_BYTES: Final = 4096
#: Text with which the output of a container begins whose older starts a real cluster has forgotten.
OLDER: Final = "[muster: the output of earlier starts is gone; the cluster keeps that of the last two]"


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a pod printed."""

    pod: str  # its label
    text: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects pods by type and index, or pods by their names or labels.

    The index is that of the pod's job, or that of the pod if there is one job.
    """

    group: str | None = None
    index: int | None = None
    pods: tuple[str, ...] = ()
    #: only those that failed by themselves
    failed: bool = False

    def holds(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        indices = (labels.get(JOB_INDEX), labels.get(COMPLETION_INDEX))
        return (
            (not self.failed or bool(failures(pod)))
            and (self.group is None or group_of(pod) == self.group)
            and (self.index is None or str(self.index) in indices)
            and (not self.pods or not {pod.metadata.name, label(pod)}.isdisjoint(self.pods))
        )

    def holds_run(self, run: PodRun) -> bool:
        return (
            (not self.failed or failure_of(run) is not None)
            and (self.group is None or run.replicated_job == self.group)
            and (self.index is None or self.index in (run.job_index, run.completion_index))
            and (not self.pods or not {run.name, label_of(run)}.isdisjoint(self.pods))
        )


async def read(client: Client, pods: Iterable[Pod], how: LogOptions = EVERYTHING) -> AsyncIterator[Line]:
    """The lines printed so far, in the order of the job file. Pods that have not started have none.

    `how.previous`: the lines of the start before the newest, for containers that restarted.
    """
    for pod in sorted(pods, key=pod_order):
        for container in containers_of(pod):
            with suppress(NotFound, BadRequest):
                written = chunks(client, pod, container, how)
                async for line in _split(source_of(pod, container), written, how):
                    yield line


async def read_archive(
    archive: Logs, runs: Sequence[PodRun], how: LogOptions = EVERYTHING
) -> AsyncIterator[Line]:
    """The lines of recorded runs, whether or not their pods still exist.

    `how.previous`: the lines of the start before the newest; a re-created pod counts as a start, too.
    """
    for name, run, again in _before(archive, runs) if how.previous else _all(runs):
        order = run.containers.split()
        containers = archive.containers(run.namespace, run.name, run.uid)
        containers.sort(key=lambda name: order.index(name) if name in order else len(order))
        for container in containers:
            start = replace(how, previous=again, every_start=not how.previous)
            alone = len(containers) == 1 and len(order) <= 1
            source = name if alone else f"{name}/{container}"
            log = (run.namespace, run.name, run.uid, container)
            if archive.is_cut(*log, start):
                yield Line(source, CUT)
            async for line in _split(source, archive.read(*log, start), how):
                yield line


def _all(runs: Sequence[PodRun]) -> Iterator[tuple[str, PodRun, bool]]:
    return ((name, run, False) for name, run in labelled(runs))


def _before(archive: Logs, runs: Sequence[PodRun]) -> Iterator[tuple[str, PodRun, bool]]:
    """For each place, the run that has the start before the newest, and whether it also has the newest."""
    places: dict[str, list[tuple[str, PodRun]]] = {}
    for name, run in labelled(runs):
        places.setdefault(label_of(run), []).append((name, run))
    for at in places.values():
        name, newest = at[-1]
        if archive.started_again(newest.namespace, newest.name, newest.uid):
            yield name, newest, True
        elif len(at) > 1:
            yield *at[-2], False


async def last_lines(client: Client, failure: Failure, *, archive: Logs | None = None) -> list[str]:
    """The last lines that the container printed before it failed, at most `LAST_LINES`, if they are kept."""
    if not failure.container:
        return []
    if archive is not None:
        log = (failure.namespace, failure.pod, failure.uid, failure.container)
        text = archive.last_lines(*log, failure.start).encode()
    else:
        text = b""
        for previous in (True, False) if failure.times else (False,):
            how = LogOptions(tail=LAST_LINES, previous=previous)
            with suppress(ApiError, Unanswered, Unreachable):
                parts = client.log(failure.namespace, failure.pod, container=failure.container, how=how)
                text = b"".join([part async for part in parts])[-LAST_BYTES:]
                break
    lines = [shown(line) for line in text.splitlines()]
    return [line[:LONGEST] for line in lines if line.strip()][-LAST_LINES:]


async def chunks(
    client: Client,
    pod: Pod,
    container: str,
    how: LogOptions = EVERYTHING,
    *,
    archive: Logs | None = None,
) -> AsyncIterator[bytes]:
    """The output of one container, up to its end if followed; from the archive if the pod is gone.

    It begins with a line that says so if older output has been dropped. A real cluster keeps the output of
    the newest start and of the one before it.
    """
    meta = pod.metadata
    if archive is not None and archive.is_cut(meta.namespace, meta.name, meta.uid, container, how):
        yield CUT.encode() + b"\n"
    if archive is None and how.every_start and how.tail is None and (starts := _restarts(pod, container)):
        if starts > 1:
            yield OLDER.encode() + b"\n"
        before = replace(how, previous=True, follow=False)
        with suppress(NotFound, BadRequest):
            async for chunk in client.log(meta.namespace, meta.name, container=container, how=before):
                yield chunk
    try:
        async for chunk in client.log(meta.namespace, meta.name, container=container, how=how):
            yield chunk
    except NotFound:  # gone before the first chunk
        if archive is None:
            raise
        gone = replace(how, follow=False, every_start=not how.previous)
        async for chunk in archive.read(meta.namespace, meta.name, meta.uid, container, gone):
            yield chunk


def _restarts(pod: Pod, container: str) -> int:
    return next((each.restart_count for each in statuses(pod) if each.name == container), 0)


def containers_of(pod: Pod) -> list[str]:
    """The names of the pod's containers, in the order in which they start: init containers first."""
    return [each.name for each in (*pod.spec.init_containers, *pod.spec.containers)]


def source_of(pod: Pod, container: str) -> str:
    """The label of this container's lines."""
    return label(pod) if len(containers_of(pod)) == 1 else f"{label(pod)}/{container}"


def labelled(runs: Sequence[PodRun]) -> list[tuple[str, PodRun]]:
    """Runs with their labels, by attempt, then in the order of the job file.

    `worker-1-0 (2)` is the second run of that name.
    """
    groups = list(dict.fromkeys(run.replicated_job for run in runs))
    ordered = sorted(
        runs,
        key=lambda run: (
            run.attempt,
            groups.index(run.replicated_job),
            run.job_index or 0,
            run.completion_index or 0,
            run.created,
        ),
    )
    seen: Counter[str] = Counter()
    found = []
    for run in ordered:
        name = label_of(run)
        seen[name] += 1
        found.append((name if seen[name] == 1 else f"{name} ({seen[name]})", run))
    return found


async def _split(pod: str, written: AsyncIterator[bytes], how: LogOptions) -> AsyncIterator[Line]:
    splitter = Splitter(stamped=how.timestamps)
    async for chunk in written:
        for line in splitter.feed(chunk):
            yield Line(pod, shown(line, stamped=how.timestamps))
    if rest := splitter.end():
        yield Line(pod, shown(rest, stamped=how.timestamps))
