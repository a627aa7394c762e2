"""Kubernetes objects as plain YAML: JobSets, Jobs, pods with or without PodGroup, and supporting objects."""

from muster.workloads.kubernetes.format import FORMAT
from muster.workloads.kubernetes.objects import known

__all__ = ["FORMAT", "known"]
