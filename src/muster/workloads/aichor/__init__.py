"""AIchor manifests (`operator: jobset`), compiled to one JobSet each."""

from muster.workloads.aichor.format import FORMAT
from muster.workloads.aichor.variables import protected

__all__ = ["FORMAT", "protected"]
