"""What a Job of Volcano does when its pods end, as the policies of a JobSet and of its Jobs.

A JobSet learns of pods only through their Jobs. A pod that is evicted has the condition DisruptionTarget, or
ends by SIGTERM (143), as a deleted pod does. The Job of a task tells such ends from failures by its
podFailurePolicy, and the JobSet by the reason with which the Job fails. A pod that muster preempts belongs to
a gang that waits again as a whole, and counts for neither.

Volcano looks for a policy of an event among those of the pod's task first, then among those of the Job.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster import names
from muster.api.base import Object
from muster.api.fields import Path, Severity
from muster.api.volcano_v1alpha1 import LifecyclePolicy
from muster.workloads.findings import nearest
from muster.workloads.volcano.job import Report, Task, VolcanoJob

_FAILED: Final = ("PodFailed", "TaskFailed", "*")
_EVICTED: Final = ("PodEvicted", "*")
_COMPLETED: Final = "TaskCompleted"
#: Of a gang that runs in part, which muster never starts.
_PARTIAL: Final = "Unknown"
EVENTS: Final = ("PodFailed", "PodEvicted", _COMPLETED, "TaskFailed", _PARTIAL, "*")
_ENDS: Final = ("AbortJob", "TerminateJob")
_ON_END: Final = ("RestartJob", "RestartTask", "RestartPod", *_ENDS)
_UNLIMITED: Final = 2**31 - 1
#: What the kubelet says of a process that ends by SIGTERM.
_SIGTERM: Final = 143
_DISRUPTED: Final = "DisruptionTarget"
#: Actions after which a pod that was evicted is created again, and the others go on.
_ALONE: Final = ("", "RestartPod")


@dataclass(slots=True)
class Ends:
    """The policies of a JobSet, and by task what belongs into the spec of its Job."""

    failure: Object = field(default_factory=dict)
    success: Object = field(default_factory=dict)
    by_task: dict[str, Object] = field(default_factory=dict)


def ends(job: VolcanoJob, apart: frozenset[str], report: Report) -> Ends:
    """The policies of a Job. `apart`: the tasks each of whose pods is a Job of its own."""
    for at, policies in _all(job):
        for index, policy in enumerate(policies):
            _check((*at, index), policy, report)
    found = Ends(success=_success(job, apart, report))
    failed = {task.name: _action(job, task, _FAILED) for task in job.tasks}
    evicted = {task.name: _action(job, task, _EVICTED) for task in job.tasks}
    for task in job.tasks:
        found.by_task[task.name] = _of_task(job, task, failed[task.name], evicted[task.name], report)
    rules = [
        *_rules(evicted, failed, evicted=True),
        *_rules(failed, failed, evicted=False),
    ]
    restarts = any(rule["action"] != "FailJobSet" for rule in rules)
    found.failure = {"maxRestarts": max(0, job.max_retry - 1) if restarts else 0}
    if len({rule["action"] for rule in rules}) > 1 or any(rule["action"] == "RestartJob" for rule in rules):
        found.failure["rules"] = rules
    if job.min_success is not None:
        _min_success(job, found, report)
    return found


def _all(job: VolcanoJob) -> Iterator[tuple[Path, Sequence[LifecyclePolicy]]]:
    yield ("spec", "policies"), job.policies
    for task in job.tasks:
        yield (*task.path, "policies"), task.policies


def _events(policy: LifecyclePolicy) -> list[str]:
    return [*filter(None, [policy.event]), *policy.events]


def _check(at: Path, policy: LifecyclePolicy, report: Report) -> None:
    """Reports what of a policy a JobSet cannot do."""
    events = _events(policy)
    if policy.exit_code is not None:
        told = "a JobSet restarts or fails for any exit code; write event: PodFailed"
        report((*at, "exitCode"), told, Severity.ERROR)
        return
    if policy.timeout:
        told = "a JobSet acts at once; remove it"
        report((*at, "timeout"), told, Severity.ERROR)
    if not events:
        report(at, "needs an event", Severity.ERROR)
    for event in events:
        where = (*at, "event") if event == policy.event else (*at, "events")
        if event not in EVENTS:
            told = f"{event[:80]!r} is no event that a JobSet has{nearest(event, EVENTS)}"
            report(where, told, Severity.ERROR)
        elif event == _COMPLETED and policy.action != "CompleteJob":
            told = f"{event} → {policy.action[:80]}: the end of a task can only be that of the Job; "
            report((*at, "action"), f"{told}write CompleteJob", Severity.ERROR)
        elif event in (*_FAILED, *_EVICTED) and policy.action not in _ON_END:
            known = f"{', '.join(_ON_END[:-1])} or {_ON_END[-1]}"
            told = f"{event} → {policy.action[:80]} is more than a JobSet can do; write {known}"
            report((*at, "action"), told, Severity.ERROR)
    if policy.action == "AbortJob":
        told = "a JobSet that has failed cannot be resumed; submit it again"
        report((*at, "action"), told, Severity.NOTE)


def _action(job: VolcanoJob, task: Task, events: Sequence[str]) -> str:
    """What the Job does when a pod of the task ends in this way; "" if nothing."""
    for policy in (*task.policies, *job.policies):
        if any(event in events for event in _events(policy)):
            return policy.action
    return ""


def _of_task(job: VolcanoJob, task: Task, failed: str, evicted: str, report: Report) -> Object:
    """The backoffLimit and podFailurePolicy of the task's Job."""
    if task.restart_policy != "Never":
        # containers start again in place, and only a policy of TaskFailed bounds that
        counted = any(
            event in ("TaskFailed", "*")
            for each in (*task.policies, *job.policies)
            for event in _events(each)
        )
        limit = _UNLIMITED if not counted or task.max_retry < 0 else task.max_retry or job.max_retry
        if evicted not in _ALONE:
            told = (
                f"PodEvicted → {evicted} needs restartPolicy: Never; with OnFailure a pod that is deleted is "
                "created again alone"
            )
            report((*task.path, "template", "spec", "restartPolicy"), told, Severity.WARNING)
        return {"backoffLimit": limit}
    rules: list[Object] = [
        {"action": "Ignore", "onPodConditions": [{"type": names.PREEMPTED, "status": "True"}]}
    ]
    if evicted in _ALONE or _of_jobset(evicted) != _of_jobset(failed):
        action = "Ignore" if evicted in _ALONE else "FailJob"
        rules.append({"action": action, "onPodConditions": [{"type": _DISRUPTED, "status": "True"}]})
        rules.append({"action": action, "onExitCodes": {"operator": "In", "values": [_SIGTERM]}})
    limit = (task.max_retry if task.max_retry > 0 else job.max_retry) if failed == "RestartPod" else 0
    return {"backoffLimit": limit, "podFailurePolicy": {"rules": rules}}


def _rules(of: dict[str, str], failed: dict[str, str], *, evicted: bool) -> Iterator[Object]:
    """The rules of the JobSet for the tasks whose Jobs fail, by what it does then."""
    tasks: dict[str, list[str]] = {}
    for name, action in of.items():
        if evicted and (action in _ALONE or _of_jobset(action) == _of_jobset(failed[name])):
            continue
        tasks.setdefault(_of_jobset(action), []).append(name)
    for action, targets in tasks.items():
        rule: Object = {"name": f"{'evicted' if evicted else 'failed'}{action}", "action": action}
        if evicted:
            rule["onJobFailureReasons"] = ["PodFailurePolicy"]
        yield rule | {"targetReplicatedJobs": targets}


def _of_jobset(action: str) -> str:
    """What the JobSet does when a Job fails: in Volcano, a job of which a pod has failed never succeeds."""
    return {"RestartJob": "RestartJobSet", "RestartTask": "RestartJob"}.get(action, "FailJobSet")


def _success(job: VolcanoJob, apart: frozenset[str], report: Report) -> Object:
    """The success policy: which tasks complete the Job; {} if all do together."""

    def completes(policies: Sequence[LifecyclePolicy]) -> bool:
        return any(_COMPLETED in _events(each) and each.action == "CompleteJob" for each in policies)

    of_job = completes(job.policies)
    tasks = [task for task in job.tasks if of_job or completes(task.policies)]
    if len(tasks) == len(job.tasks) == 1:
        return {}
    if len(tasks) > 1 and (many := next((t for t in tasks if t.name in apart and t.replicas > 1), None)):
        told = (
            f"{_COMPLETED} → CompleteJob cannot be that of several tasks with the plugin pytorch: the first "
            f"pod of {many.name} would complete the Job; write it on one task"
        )
        report(("spec", "policies"), told, Severity.ERROR)
    if not tasks:
        return {}
    return {
        "operator": "All" if len(tasks) == 1 else "Any",
        "targetReplicatedJobs": [task.name for task in tasks],
    }


def _min_success(job: VolcanoJob, found: Ends, report: Report) -> None:
    """Lets the Job of the only task complete with so many pods."""
    task, wanted = job.tasks[0], job.min_success
    if wanted == job.pods or wanted is None:
        return
    if len(job.tasks) > 1 or task.restart_policy != "Never":
        told = (
            f"is {wanted} of {job.pods} pods: a JobSet counts those of one task, with restartPolicy: Never; "
            "write the policy TaskCompleted → CompleteJob on the task that decides"
        )
        report(("spec", "minSuccess"), told, Severity.ERROR)
        return
    found.by_task[task.name] |= {
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": task.replicas - wanted,
        "successPolicy": {"rules": [{"succeededCount": wanted}]},
    }
