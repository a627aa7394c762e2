"""CronJobs: defaults and what is accepted, as the API server has it.

Source: kubernetes, the API reference of batch/v1 and KEP-3140.
"""

from typing import Final

from muster.api.base import Object
from muster.api.batch_v1 import CronJobSpec
from muster.api.fields import Finding, convert
from muster.api.rules import job
from muster.api.rules.metadata import shown

LONGEST_NAME: Final = 52
#: Stands for the uid of a Job that does not exist yet.
_ANY_UID: Final = "00000000-0000-0000-0000-000000000000"


def default(obj: Object) -> Object:
    """Completes a CronJob in place."""
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    return obj


def validate(obj: Object, old: Object | None) -> list[Finding]:
    """What Kubernetes checks of a CronJob. A schedule that is never due is accepted: its controller says so.

    An update is checked for what it changes: a stored CronJob stays editable.
    """
    spec = convert(obj.get("spec") or {}, CronJobSpec, ("spec",))
    errors: list[Finding] = []
    before = (old or {}).get("spec") or {}
    now: Object = obj.get("spec") or {}
    if any(now.get(field) != before.get(field) for field in ("schedule", "timeZone")):
        errors += _due(spec, now)
    name = obj["metadata"].get("name") or ""
    if old is None and len(name) > LONGEST_NAME:
        message = (
            f"Invalid value: {shown(name)}: must be no more than {LONGEST_NAME} characters, since its "
            f"Jobs append 11; shorten it by {len(name) - LONGEST_NAME}"
        )
        errors.append(Finding(("metadata", "name"), message))
    if spec.concurrency_policy not in ("Allow", "Forbid", "Replace"):
        errors.append(
            _error(
                "concurrencyPolicy",
                f"Unsupported value: {shown(spec.concurrency_policy)}: write Allow, Forbid or Replace",
            )
        )
    for field, value in (
        ("startingDeadlineSeconds", spec.starting_deadline_seconds or 0),
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ):
        if value < 0:
            errors.append(_error(field, f"Invalid value: {value}: must be greater than or equal to 0"))
    template: Object = {
        "metadata": {"name": obj["metadata"].get("name") or ""},
        "spec": dict(spec.job_template.spec),
    }
    inner = job.validate(
        job.default({**template, "metadata": {**template["metadata"], "uid": _ANY_UID}}), None
    )
    return [
        *errors,
        *(Finding(("spec", "jobTemplate", *error.path), error.message) for error in inner),
    ]


def _due(spec: CronJobSpec, stated: Object) -> list[Finding]:
    from muster.api.schedule import InvalidSchedule, NeverDue, parse  # cronsim takes 28 ms to load

    errors: list[Finding] = []
    if not spec.schedule:
        errors.append(_error("schedule", "Required value"))
    if stated.get("timeZone") == "":
        errors.append(
            _error("timeZone", "Invalid value: write a name such as Europe/Berlin, or leave it out")
        )
    for field, of in (
        ("schedule", (spec.schedule or "@daily", "")),
        ("timeZone", ("@daily", spec.time_zone)),
    ):
        try:
            parse(*of)
        except NeverDue:
            pass
        except InvalidSchedule as error:
            errors.append(_error(field, f"Invalid value: {str(error).removeprefix('timeZone: ')}"))
    return errors


def _error(field: str, message: str) -> Finding:
    return Finding(("spec", field), message)
