"""The demo's third scene: what the findings print is all that the job lacks."""

from pathlib import Path

from muster.api.fields import Severity
from muster.app.demo.gates import JOB, Workplace, fixed, runnable, written

EXAMPLE = Path(__file__).parents[3] / "examples" / "training.yaml"


def test_the_job_is_the_example() -> None:
    assert JOB.read_text() == EXAMPLE.read_text()


def test_everything_is_found_at_once_and_what_is_printed_fixes_it() -> None:
    first, second, last = fixed(Workplace(written()))
    severities = [each.severity for each in first.findings]
    assert severities == [Severity.ERROR] * 6 + [Severity.WARNING]
    assert (len(first.patches), len(first.permits)) == (1, 6)
    [endpoint] = second.findings
    assert "external endpoint access denied: 's3.us-east-1.amazonaws.com:443'" in endpoint.message
    assert last.findings == []


def test_with_its_permits_a_job_that_forgot_its_endpoint_has_one_finding() -> None:
    """Exercise 16.3: the gate teaches."""
    workplace = Workplace(written())
    workplace.permits += [each.fix for each in workplace.check() if each.severity is Severity.ERROR]
    [finding] = workplace.check()
    assert finding.fix.splitlines()[2].strip() == "s3-endpoint:"


def test_the_fixed_job_compiles_for_this_machine_under_the_same_policies() -> None:
    workplace = Workplace(written())
    fixed(workplace)
    made = {each["kind"] for each in runnable(workplace).objects}
    assert {"JobSet", "Secret", "ServiceAccount"} <= made
