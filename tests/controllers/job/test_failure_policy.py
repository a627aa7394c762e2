from typing import Any

import msgspec
import pytest

from muster.api.base import Object
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.controllers.job.failure_policy import Action, judge
from tests.controllers.job.cluster import job_object


def failed(exit_code: int = 1, init: int = 0, conditions: dict[str, str] | None = None) -> Pod:
    def ended(name: str, code: int) -> Object:
        return {"name": name, "state": {"terminated": {"exitCode": code}}}

    return msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "ml"},
            "status": {
                "phase": "Failed",
                "containerStatuses": [ended("main", exit_code)],
                "initContainerStatuses": [ended("init", init)],
                "conditions": [{"type": t, "status": s} for t, s in (conditions or {}).items()],
            },
        },
        Pod,
    )


def codes(operator: str, *values: int, container: str | None = None, action: str = "FailJob") -> Object:
    requirement: Object = {"operator": operator, "values": list(values)}
    if container:
        requirement["containerName"] = container
    return {"action": action, "onExitCodes": requirement}


def on(type_: str, status: str = "True", action: str = "Ignore") -> Object:
    return {"action": action, "onPodConditions": [{"type": type_, "status": status}]}


@pytest.mark.parametrize(
    ("rules", "pod", "action"),
    [
        ([], failed(), Action.COUNT),
        ([codes("In", 1, 2)], failed(2), Action.FAIL_JOB),
        ([codes("In", 1, 2)], failed(3), Action.COUNT),
        ([codes("NotIn", 1, 2)], failed(3), Action.FAIL_JOB),
        ([codes("NotIn", 1, 2)], failed(2), Action.COUNT),
        ([codes("NotIn", 1, 2)], failed(0, init=1), Action.COUNT),
        ([codes("In", 7)], failed(0, init=7), Action.FAIL_JOB),
        ([codes("In", 7, container="main")], failed(0, init=7), Action.COUNT),
        ([codes("In", 7, container="init")], failed(0, init=7), Action.FAIL_JOB),
        ([on("DisruptionTarget")], failed(conditions={"DisruptionTarget": "True"}), Action.IGNORE),
        ([on("DisruptionTarget")], failed(conditions={"DisruptionTarget": "False"}), Action.COUNT),
        ([on("Ready", "False")], failed(conditions={"Ready": "False"}), Action.IGNORE),
        ([codes("In", 1, action="Count"), codes("In", 1)], failed(1), Action.COUNT),
        ([codes("In", 1, action="Ignore"), codes("In", 1)], failed(1), Action.IGNORE),
        ([codes("In", 1, action="Later"), codes("In", 1)], failed(1), Action.FAIL_JOB),
        ([codes("In", 1, action="FailIndex"), codes("In", 1)], failed(1), Action.FAIL_JOB),
    ],
)
def test_the_first_rule_that_matches(rules: list[Object], pod: Pod, action: Action) -> None:
    job = msgspec.convert(job_object({"podFailurePolicy": {"rules": rules}}), Job)
    assert judge(job, pod, marked=False).action is action


def test_fail_index_where_indexes_have_limits() -> None:
    spec: dict[str, Any] = {
        "backoffLimitPerIndex": 1,
        "podFailurePolicy": {"rules": [codes("In", 1, action="FailIndex")]},
    }
    job = msgspec.convert(job_object(spec), Job)
    assert judge(job, failed(1), marked=False).action is Action.FAIL_INDEX


def test_the_cause_by_condition() -> None:
    rules = [codes("In", 99), on("ConfigIssue", action="FailJob")]
    job = msgspec.convert(job_object({"podFailurePolicy": {"rules": rules}}), Job)
    judgement = judge(job, failed(conditions={"ConfigIssue": "True"}), marked=False)
    assert judgement.message == "Pod ml/p has condition ConfigIssue matching FailJob rule at index 1"
