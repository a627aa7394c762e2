"""Names and their limits, as Kubernetes and JobSet check them.

A pod of a JobSet is `<jobset>-<type>-<job>-<index>-xxxxx`, its host the same without the five random
characters; all must be DNS labels. Sources: RFC 1035 and 1123; kubernetes-sigs/jobset,
pkg/webhooks/jobset_webhook.go.
"""

import re
from typing import Final

#: Characters of one DNS label, and of a label's value.
LABEL: Final = 63
#: Characters of a DNS name.
NAME: Final = 253

#: What the API server appends to a Job's pods.
_RANDOM: Final = "-xxxxx"
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_label(text: str) -> bool:
    """RFC 1035, of any length."""
    return _LABEL.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """RFC 1123 subdomain, of any length."""
    return _NAME.fullmatch(text) is not None


def longest_pod(jobset: str, replicated_job: str, replicas: int, completions: int) -> str:
    """The longest name among the pods of a replicated job."""
    return f"{jobset}-{replicated_job}-{max(0, replicas - 1)}-{max(0, completions - 1)}{_RANDOM}"
