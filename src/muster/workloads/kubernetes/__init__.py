"""Kubernetes objects as plain YAML: JobSets, Jobs, pods with or without PodGroup, and what they need."""

from muster.workloads.kubernetes.format import FORMAT
from muster.workloads.kubernetes.objects import known

__all__ = ["FORMAT", "known"]
