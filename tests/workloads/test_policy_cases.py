"""Test cases for policies: what they say, and that a request by its id is the one that a job makes."""

import pytest

from muster.security.policies import Policies
from muster.security.requests import of_id
from muster.workloads import policy_cases, source
from muster.workloads.findings import JobFileError
from tests.workloads.batch.jobs import TRAINING, compiled

CASES = """
policies: here
cases:
- {name: own, as: {namespace: ml}, action: AccessSecret, resource: "vault:ml/db", expect: allow}
- {name: other, as: {namespace: web}, action: AccessSecret, resource: "vault:ml/db", expect: deny}
- {name: wrong, as: {namespace: web}, action: AccessSecret, resource: "vault:ml/db", expect: allow}
"""
POLICY = """
permit (principal in Muster::Namespace::"ml", action == Muster::Action::"AccessSecret", resource)
when { resource.provider == "vault" && resource.path like "ml/*" };
"""


def test_cases_are_decided_in_order() -> None:
    directory, cases = policy_cases.read(source.parse(CASES, "cases.yaml")[0])
    assert directory == "here"
    results = policy_cases.decide(Policies({"p": POLICY}), cases)
    assert [result.passed for result in results] == [True, True, False]
    assert "no policy permits it" in results[2].reason
    assert results[2].case.line == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cases: []", "at least one case"),
        ("cases: [{action: Read, resource: x, expect: allow}]", "'Read' is not one of"),
        ("cases: [{action: DeployImag, resource: x, expect: allow}]", "did you mean DeployImage?"),
        ("cases: [{action: UseQueue, expect: allow}]", "cases[0].resource: is missing"),
        ("cases: [{action: UseQueue, resource: q, expect: maybe}]", "'maybe' is not one of"),
        ("cases: [{action: UseQueue, resource: q, expect: deny, whom: x}]", "unknown field"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(JobFileError) as caught:
        policy_cases.read(source.parse(text, "cases.yaml")[0])
    assert message in str(caught.value)


def test_a_request_by_its_id_is_the_one_that_a_job_makes() -> None:
    for _, request in compiled(TRAINING).requests:
        again = of_id(request.action, request.id)
        assert (again.type, dict(again.attributes)) == (request.type, dict(request.attributes))


def test_a_case_may_be_about_a_queue() -> None:
    text = """
    cases:
    - {as: {namespace: ml, queue: prod}, action: AuditOnly, resource: ml, expect: deny}
    - {as: {namespace: ml}, action: AuditOnly, resource: ml, expect: allow}
    """
    _, cases = policy_cases.read(source.parse(text, "cases.yaml")[0])
    policy = 'permit (principal, action, resource) unless { principal.queue == "prod" };'
    assert all(result.passed for result in policy_cases.decide(Policies({"p": policy}), cases))
