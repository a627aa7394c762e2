"""The output of pods, line by line, and the selection of pods.

A pod's output is read from the API server while the pod exists. The embedded cluster keeps it longer, in
files on this machine (the archive); the recorded runs say where to find it.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOB_INDEX
from muster.app.views.lines import Splitter, shown
from muster.app.views.pods import group_of, label, pod_order
from muster.kube.client import EVERYTHING, Client, LogOptions
from muster.kube.errors import BadRequest, NotFound
from muster.local.node.logs import CUT, Logs
from muster.workloads.pod_run import PodRun


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a pod printed."""

    pod: str  # its label
    text: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects pods by type and index, or one pod by its name or label.

    The index is that of the pod's job, or that of the pod if there is one job.
    """

    group: str | None = None
    index: int | None = None
    pod: str | None = None

    def holds(self, pod: Pod) -> bool:
        labels = pod.metadata.labels
        indices = (labels.get(JOB_INDEX), labels.get(COMPLETION_INDEX))
        return (
            (self.group is None or group_of(pod) == self.group)
            and (self.index is None or str(self.index) in indices)
            and (self.pod is None or self.pod in (pod.metadata.name, label(pod)))
        )

    def holds_run(self, run: PodRun) -> bool:
        return (
            (self.group is None or run.replicated_job == self.group)
            and (self.index is None or self.index in (run.job_index, run.completion_index))
            and (self.pod is None or self.pod in (run.name, _label(run)))
        )


async def read(client: Client, pods: Iterable[Pod], how: LogOptions = EVERYTHING) -> AsyncIterator[Line]:
    """The lines printed so far, in the order of the job file. Pods that have not started have none.

    `how.previous`: the lines of the start before the newest, for containers that restarted.
    """
    for pod in sorted(pods, key=pod_order):
        for container in pod.spec.containers:
            with suppress(NotFound, BadRequest):
                written = chunks(client, pod, container.name, how)
                async for line in _split(source_of(pod, container.name), written, how):
                    yield line


async def read_archive(
    archive: Logs, runs: Sequence[PodRun], how: LogOptions = EVERYTHING
) -> AsyncIterator[Line]:
    """The lines of recorded runs, whether or not their pods still exist.

    `how.previous`: the lines of the start before the newest; a re-created pod counts as a start, too.
    """
    for name, run, again in _before(archive, runs) if how.previous else _all(runs):
        containers = archive.containers(run.namespace, run.name, run.uid)
        for container in containers:
            start = replace(how, previous=again)
            source = name if len(containers) == 1 else f"{name}/{container}"
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
        places.setdefault(_label(run), []).append((name, run))
    for at in places.values():
        name, newest = at[-1]
        if archive.started_again(newest.namespace, newest.name, newest.uid):
            yield name, newest, True
        elif len(at) > 1:
            yield *at[-2], False


async def chunks(
    client: Client,
    pod: Pod,
    container: str,
    how: LogOptions = EVERYTHING,
    *,
    archive: Logs | None = None,
) -> AsyncIterator[bytes]:
    """The output of one container, up to its end if followed; from the archive if the pod is gone.

    It begins with a line that says so if the archive has dropped older output.
    """
    meta = pod.metadata
    if archive is not None and archive.is_cut(meta.namespace, meta.name, meta.uid, container, how):
        yield CUT.encode() + b"\n"
    try:
        async for chunk in client.log(meta.namespace, meta.name, container=container, how=how):
            yield chunk
    except NotFound:  # gone before the first chunk
        if archive is None:
            raise
        gone = replace(how, follow=False)
        async for chunk in archive.read(meta.namespace, meta.name, meta.uid, container, gone):
            yield chunk


def source_of(pod: Pod, container: str) -> str:
    """The label of this container's lines."""
    return label(pod) if len(pod.spec.containers) == 1 else f"{label(pod)}/{container}"


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
        name = _label(run)
        seen[name] += 1
        found.append((name if seen[name] == 1 else f"{name} ({seen[name]})", run))
    return found


def _label(run: PodRun) -> str:
    """The label that `muster.app.views.pods.label` gives the run's pod."""
    index = "" if run.completion_index is None else str(run.completion_index)
    if run.replicated_job:
        job = "" if run.job_index is None else str(run.job_index)
        return "-".join(filter(None, [run.replicated_job, job, index]))
    return f"{run.job}-{index}" if run.job and index else run.name


async def _split(pod: str, written: AsyncIterator[bytes], how: LogOptions) -> AsyncIterator[Line]:
    splitter = Splitter(stamped=how.timestamps)
    async for chunk in written:
        for line in splitter.feed(chunk):
            yield Line(pod, shown(line, stamped=how.timestamps))
    if rest := splitter.end():
        yield Line(pod, shown(rest, stamped=how.timestamps))
