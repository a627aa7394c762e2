"""The posture `audit`: what it covers, that it has to be permitted, and that it ends."""

from datetime import UTC, datetime, timedelta

import pytest

from muster.api.fields import Severity
from muster.compiler import Facts
from muster.security.policies import Policies
from muster.security.posture import judge
from muster.security.requests import Request
from tests.security.test_policies import ALL, SECRET, WHO
from tests.workloads.batch.jobs import TRAINING, compiled

NOW = datetime(2026, 11, 23, tzinfo=UTC)
UNTIL = "2026-12-01T00:00:00Z"
AUDIT = 'permit(principal, action == Muster::Action::"AuditOnly", resource == Muster::Namespace::"ml");'


def facts(until: str = UNTIL, now: datetime = NOW) -> Facts:
    return Facts(audits={"ml": until}, now=now)


def test_what_no_policy_permits_is_a_warning_with_its_permit() -> None:
    judged = judge(Policies({"audit": AUDIT}), WHO, [SECRET], facts())
    assert not judged.denied
    [warning] = judged.warnings
    assert warning.severity is Severity.WARNING
    assert "no policy permits it; only reported" in warning.message
    assert UNTIL in warning.message
    assert "AccessSecret" in warning.fix
    assert judged.until == datetime(2026, 12, 1, tzinfo=UTC)


def test_the_posture_has_to_be_permitted_and_the_warning_says_how() -> None:
    judged = judge(Policies(), WHO, [SECRET], facts())
    assert [each.message for each in judged.denied] == [
        "secret access denied: 'vault:ml/db': no policy permits it"
    ]
    [warning] = judged.warnings
    assert "audit denied: 'ml'" in warning.message
    assert 'Muster::Namespace::"ml"' in warning.fix
    permitted = judge(Policies({"audit": warning.fix}), WHO, [SECRET], facts())
    assert not permitted.denied


def test_a_posture_may_be_forbidden_for_a_queue() -> None:
    no = """
        forbid(principal, action == Muster::Action::"AuditOnly", resource)
        when { principal.queue like "prod*" };
    """
    policies = Policies({"audit": AUDIT, "production": no})
    assert not judge(policies, WHO, [SECRET], facts()).denied
    judged = judge(policies, WHO.__class__("ml", "job", "work", queue="prod-1"), [SECRET], facts())
    assert judged.denied
    assert "forbidden by production" in judged.warnings[0].message


def test_what_a_policy_forbids_stays_denied() -> None:
    no = 'forbid(principal, action == Muster::Action::"AccessSecret", resource);'
    judged = judge(Policies({"audit": AUDIT, "no": no}), WHO, [SECRET], facts())
    assert [each.message for each in judged.denied] == [
        "secret access denied: 'vault:ml/db': forbidden by no"
    ]
    assert not judged.warnings


def test_what_is_forbidden_stays_denied_beside_what_is_only_reported() -> None:
    no = 'forbid(principal, action == Muster::Action::"AccessSecret", resource);'
    judged = judge(
        Policies({"audit": AUDIT, "no": no}), WHO, [SECRET, Request("UseQueue", "Queue", "q")], facts()
    )
    [denied] = judged.denied
    assert "forbidden by no" in denied.message
    [warning] = judged.warnings
    assert "queue denied: 'q'" in warning.message


def test_a_policy_that_fails_stays_a_denial() -> None:
    broken = "forbid(principal, action, resource) when { 9223372036854775807 + 1 > 0 };"
    judged = judge(Policies({"audit": AUDIT, "broken": broken}), WHO, [SECRET], facts())
    assert "a policy failed" in judged.denied[0].message
    assert judged.denied[0].fix == "", "no permit would help"


INEFFECTIVE = [
    ("2026-11-22T00:00:00Z", "which has passed"),
    ("2026-11-23T00:00:00Z", "which has passed"),
    ("2027-11-23T00:00:00Z", "more than 90 days"),
    ("2026-12-01T00:00:00", "no time zone"),
    ("soon", "is not a time such as"),
    ("", "is not a time such as"),
]


@pytest.mark.parametrize(("until", "reason"), INEFFECTIVE)
def test_an_audit_without_a_valid_end_denies_and_says_why(until: str, reason: str) -> None:
    judged = judge(Policies({"audit": AUDIT}), WHO, [SECRET], facts(until))
    assert len(judged.denied) == 1
    [warning] = judged.warnings
    assert reason in warning.message
    assert (judged.until is not None) is ("90 days" in reason), "only one that is too long begins by itself"


def test_an_audit_that_is_not_needed_gets_no_warning() -> None:
    assert judge(Policies({"all": ALL}), WHO, [SECRET], facts("soon")).warnings == ()


def test_the_chapters_job_is_compiled_with_every_denial_as_a_warning_until_the_end() -> None:
    policies = Policies({"audit": AUDIT})
    during = compiled(TRAINING, policies=policies, facts=facts())
    assert not during.problems
    assert during.jobs
    denied = compiled(TRAINING, policies=Policies()).problems
    assert len([each for each in during.warnings if each.severity is Severity.WARNING]) == len(denied)
    assert during.until is not None
    after = compiled(TRAINING, policies=policies, facts=facts(now=during.until + timedelta(seconds=1)))
    assert {each.fix for each in after.problems} == {each.fix for each in denied}
    assert not after.jobs
