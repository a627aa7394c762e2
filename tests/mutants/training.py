"""Deliberate faults in what people who train models rely on: causes, environments, containers of pods."""

from typing import Final

from tests.mutants.faults import Fault

_FAILURES: Final = ("tests/api/test_failures.py",)
_CAUSE: Final = "one cause"

FAULTS: Final = (
    Fault(
        "the signal with which a Job stops a container hides the code with which it failed before",
        _CAUSE,
        "api/failures.py",
        "    ends = [] if last is None or last == now else",
        "    ends = [] if True else",
        _FAILURES,
    ),
    Fault(
        "a pod that was stopped counts as one that failed",
        _CAUSE,
        "api/failures.py",
        "            if not end.exit_code or _after_deletion(pod, end):",
        "            if not end.exit_code:",
        _FAILURES,
    ),
    Fault(
        "the condition keeps the pod whose status came first",
        _CAUSE,
        "controllers/jobset/reconcile.py",
        "corrected(message, observed.pods, jobset.status.restarts)",
        "message",
        ("tests/controllers/test_jobset.py",),
    ),
)
