"""The node group: RuntimeClasses, with the overhead and the scheduling constraints that they give to pods."""

from muster.api.base import Resource, Struct
from muster.api.core_v1 import Quantities, Toleration


class Overhead(Struct, frozen=True):
    pod_fixed: Quantities = {}


class Scheduling(Struct, frozen=True):
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class RuntimeClass(Resource, frozen=True):
    overhead: Overhead | None = None
    scheduling: Scheduling | None = None
