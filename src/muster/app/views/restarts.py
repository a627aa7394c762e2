"""Messages about failures after which a job continues: who failed first, how, and what happens next.

A gang restarts as a whole, which its JobSet counts. Other pods are replaced by their Job or restart in place;
both count against the Job's `backoffLimit`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from muster.api import kinds
from muster.api.batch_v1 import JOB_NAME, Job
from muster.api.core_v1 import Pod
from muster.api.failures import Failure, Verdict, failures
from muster.api.jobset_v1alpha2 import JobSet
from muster.app.views.failures import judged
from muster.app.views.job import JobView
from muster.app.views.pods import ends_by_probes, label
from muster.controllers.job import backoff

#: pods named at a time; further ones are counted
NAMED: Final = 5


class Restarts:
    """Reports each failure once."""

    def __init__(self) -> None:
        self._restarts: dict[str, int] = {}  # by uid of the JobSet
        self._known: set[tuple[object, ...]] = set()  # failures: pod, container, time
        self._failed: Counter[tuple[str, bool]] = Counter()  # by `namespace/name` of the Job, in place or not

    def look(
        self, view: JobView, seen: Iterable[Pod], jobs: Mapping[str, Job]
    ) -> tuple[list[str], Failure | None]:
        """Messages about new failures, and the first failure of a gang that the last message says restarts.

        `seen` are all pods so far, `jobs` by namespace and name.
        """
        told, first = [*self._pods(view, jobs), *self._probes(view)], None
        resource = view.resource
        if isinstance(resource, JobSet):
            count, uid = resource.status.restarts, resource.metadata.uid
            if count > self._restarts.get(uid, count):
                why = judged(view, seen).verdict
                told.append(_restart(resource, why))
                first = why.first if why is not None else None
            self._restarts[uid] = count
        return _few(told), first

    def _probes(self, view: JobView) -> list[str]:
        """Messages about containers that a probe ended and that returned 0: nothing else tells of it."""
        told = []
        for pod in view.pods:
            for name, end in ends_by_probes(pod):
                identity = (pod.metadata.uid, name, end.finished_at)
                if identity not in self._known:
                    self._known.add(identity)
                    told.append(f"{label(pod)} was ended and returned 0: {end.message}")
        return told

    def _pods(self, view: JobView, jobs: Mapping[str, Job]) -> list[str]:
        told = []
        for pod in view.pods:
            for failure in failures(pod):
                identity = (failure.uid, failure.container, failure.at or failure.start)
                if failure.code is None or identity in self._known:
                    continue
                self._known.add(identity)
                key, in_place = (
                    f"{pod.metadata.namespace}/{pod.metadata.labels.get(JOB_NAME, '')}",
                    failure.times > 0,
                )
                self._failed[key, in_place] += 1
                job = jobs.get(key) if not in_place or pod.spec.restart_policy == "OnFailure" else None
                soon = ""
                if job is not None:
                    if not in_place:
                        soon = f" within {backoff.delay(self._failed[key, in_place]).total_seconds():.0f} s"
                    left = _left(job, self._failed[key, in_place], in_place=in_place)
                else:  # nothing counts how often a sidecar, or a container of a bare pod, starts again
                    left = "" if in_place and not pod.terminal else None
                if left is not None and (in_place or view.kind is not kinds.POD):
                    how = "and starts again" if in_place else f"and is replaced{soon}"
                    told.append(", ".join(filter(None, [f"{_failed(failure)} {how}", left])))
        return told


def _few(told: list[str]) -> list[str]:
    return told[:NAMED] + ([f"… and {len(told) - NAMED} more failed"] if len(told) > NAMED else [])


def _restart(jobset: JobSet, verdict: Verdict | None) -> str:
    """The verdict, and which restart follows: `…; 3 others with code 1, 12 ms later: restart 2 of 3`."""
    policy, status = jobset.spec.failure_policy, jobset.status
    most, counted = policy.max_restarts if policy else 0, status.restarts_count_towards_max
    which = f"restart {status.restarts}"
    if counted == status.restarts:
        which += f" of {most}"
    else:  # a rule lets others not count
        which += f", {_more('restart', most - counted)}"
    if verdict is None:
        return which
    why = f" ({verdict.first.why})" if verdict.first.why and verdict.first.code is not None else ""
    return f"{verdict}{why}: {which}"


def _failed(failure: Failure) -> str:
    code = "" if failure.code is None else f" with exit code {failure.code}"
    return f"{failure.source} failed{code}" + (f" ({failure.why})" if failure.why else "")


def _left(job: Job, failed: int, *, in_place: bool) -> str | None:
    """How many more failures the Job allows; None if this one ends it, "" if a count does not decide that.

    A Job fails once more than `backoffLimit` pods have failed, or once containers have started again as often
    as `backoffLimit` says, but at least once.
    """
    spec = job.spec
    if job.status.failure is not None:
        return None
    if spec.pod_failure_policy is not None or spec.backoff_limit_per_index is not None:
        return "" if in_place else None
    if in_place:
        left = max(spec.backoff_limit, 1) - 1 - failed
    else:
        left = spec.backoff_limit - max(failed, job.status.failed)
    return _more("failure", left) if left >= 0 else None


def _more(what: str, left: int) -> str:
    if left <= 0:
        return f"no more {what} is allowed"
    return f"1 more {what} is allowed" if left == 1 else f"{left} more {what}s are allowed"
