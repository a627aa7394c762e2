"""The indexes of a job, each with its parameters, how it ended, and what its program reported."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from muster.api.core_v1 import Pod
from muster.api.marks import MATRIX
from muster.api.matrix import MOST_TRIALS
from muster.api.progress import Report, report
from muster.app.views.job import JobView
from muster.names import PROGRESS, RETRY_OF
from muster.workloads.pod_run import PodRun, label_of
from muster.workloads.retry import Retry, originals

#: Characters of a result that are shown.
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Trial:
    #: the number of a sweep's trial, else the label of the pod
    index: str
    parameters: dict[str, str] = field(default_factory=dict)
    #: waiting, running, succeeded, failed or stopped
    state: str = "waiting"
    exit_code: int | None = None
    #: pods that were started for it
    starts: int = 0
    #: the newest report of its program
    report: Report | None = None
    #: what its program wrote to /dev/termination-log, or why it failed
    result: str = ""

    @property
    def failed(self) -> bool:
        return self.state == "failed"


def trials(view: JobView, runs: Iterable[PodRun]) -> list[Trial]:
    """The indexes in the order of the job file. `runs`: those of the job, in order of creation."""
    matrix = MATRIX.get(view.resource.metadata)
    retry = Retry.read(view.resource.metadata.annotations.get(RETRY_OF))
    pods = {pod.metadata.uid: pod for pod in view.pods}
    attempts: dict[tuple[int, str, int, int], list[PodRun]] = defaultdict(list)
    for run in runs:
        place = (run.job_global_index or 0, run.replicated_job, run.job_index or 0, run.completion_index or 0)
        attempts[place].append(run)
    before = originals(retry, min(view.wanted, MOST_TRIALS))
    found = []
    for (_, _, _, index), own in sorted(attempts.items()):
        last, was = own[-1], before[index] if index < len(before) else index
        parameters = matrix.parameters(was) if matrix is not None and was < matrix.size else {}
        found.append(_trial(str(was) if matrix is not None else label_of(last), parameters, own, pods))
    if matrix is not None:
        started = {trial.index for trial in found}
        found += [
            Trial(str(was), matrix.parameters(was))
            for was in before
            if was < matrix.size and str(was) not in started
        ]
        found.sort(key=lambda trial: int(trial.index))
    return found


def _trial(index: str, parameters: dict[str, str], own: list[PodRun], pods: dict[str, Pod]) -> Trial:
    last = own[-1]
    pod = pods.get(last.uid)
    return Trial(
        index=index,
        parameters=parameters,
        state=_state(last),
        exit_code=last.exit_code if last.exit_code is not None else last.failed_code,
        starts=sum(run.started is not None for run in own),
        report=report(pod.metadata.annotations.get(PROGRESS, "")) if pod is not None else None,
        result=(_result(pod) or last.failed_why)[:_LONGEST].strip(),
    )


def _state(run: PodRun) -> str:
    if run.phase == "Succeeded":
        return "succeeded"
    if run.failed_by_itself:
        return "failed"
    if run.phase in ("Failed", "Deleted"):
        return "stopped"
    return "running" if run.phase == "Running" else "waiting"


def _result(pod: Pod | None) -> str:
    """What the program wrote as its result; "" without."""
    for status in pod.status.container_statuses if pod is not None else ():
        if (end := status.state.terminated) is not None and end.message:
            return end.message
    return ""
