"""AIchor manifests (`operator: jobset`), compiled to one JobSet each."""

from muster.workloads.aichor.format import FORMAT

__all__ = ["FORMAT"]
