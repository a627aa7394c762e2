"""Names and their limits, as Kubernetes and JobSet check them.

A pod of a JobSet is `<jobset>-<type>-<job>-<index>-xxxxx`. Its host name is the same without the five random
characters. All must be DNS labels. Sources: RFC 1035 and 1123; kubernetes-sigs/jobset,
pkg/webhooks/jobset_webhook.go.
"""

import re
from typing import Final

#: Longest DNS label, and longest value of a Kubernetes label, in characters.
LABEL: Final = 63
#: Longest DNS name in characters.
NAME: Final = 253

#: The suffix that the API server appends to the names of a Job's pods.
_RANDOM: Final = "-xxxxx"
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_label(text: str) -> bool:
    """Whether it is a label by RFC 1035, of any length."""
    return _LABEL.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Whether it is a subdomain by RFC 1123, of any length."""
    return _NAME.fullmatch(text) is not None


def longest_pod(jobset: str, replicated_job: str, replicas: int, completions: int) -> str:
    """The longest name of a replicated job's pods."""
    return f"{jobset}-{replicated_job}-{max(0, replicas - 1)}-{max(0, completions - 1)}{_RANDOM}"
