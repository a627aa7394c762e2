"""Kubernetes objects as plain YAML: JobSets, Jobs, pods with or without PodGroup, and what they need."""

from muster.workloads.kubernetes.format import FORMAT

__all__ = ["FORMAT"]
