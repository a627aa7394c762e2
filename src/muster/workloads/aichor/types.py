"""Reads the types of an AIchor manifest: how many pods each has, and which resources a pod requests."""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Path
from muster.api.matrix import Matrix
from muster.names import GPU_PRODUCT
from muster.workloads.demand import MAX_PLACES, MAX_PODS
from muster.workloads.section import Section

#: AIchor's rule; in addition, the last character must be one that may end a container's name
_TYPE_NAME: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
#: Fields of Kubernetes and others, and those of a manifest that are meant.
_MEANT: Final = {"replicas": "count", "parallelism": "parallelisms"}
_MEANT_RESOURCES: Final = {
    "gpu": "accelerators: {gpu: {count: …}}",
    "gpus": "accelerators: {gpu: {count: …}}",
}
_FIELDS: Final = frozenset(("count", "completions", "parallelisms", "resources", "scheduling"))


@dataclass(frozen=True, slots=True)
class Resources:
    """The resource requests of one pod of a type. CPUs in cores, memory in GiB."""

    cpus: Fraction = Fraction(1)
    memory: Fraction = Fraction(2)
    cpu_limit_ratio: Fraction = Fraction(2)
    shm_gb: Fraction = Fraction(0)
    gpus: int = 0
    gpu_product: str = ""
    ephemeral_request: str = ""
    ephemeral_limit: str = ""
    selectors: dict[str, str] = field(default_factory=dict)
    tolerations: list[Object] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Type:
    """One group of jobs: `count` jobs of `completions` pods each, `parallelisms` of them at a time."""

    name: str
    count: int
    completions: int
    parallelisms: int
    resources: Resources

    @property
    def width(self) -> int:
        """Pods of one job that run at the same time."""
        return min(self.parallelisms, self.completions)


def read_types(spec: Section, ignored: list[Path], matrix: Matrix | None) -> tuple[list[Type], list[str]]:
    """The types in the order of the file, and the names of those without resources.

    `matrix`: the trials of a sweep, which are the completions of its one type.
    """
    section = spec.section("types")
    names = section.names()
    if spec and not names:
        spec.error(
            "types", "is missing or empty; name at least one group of jobs, such as worker: {count: 2}"
        )
    types: list[Type] = []
    without_resources: list[str] = []
    for name in _indented(section, names):
        if not _TYPE_NAME.fullmatch(name):
            section.error(
                name,
                f"{name!r} cannot name a type: use lowercase letters, digits and hyphens, "
                f"begin with a letter and do not end with a hyphen",
            )
        entry = section.section(name)
        count = entry.integer("count", 1)
        trials = matrix.size if matrix is not None else 1
        completions = entry.integer("completions", trials, minimum=1)
        parallelisms = entry.integer("parallelisms", trials, minimum=1)
        if matrix is not None and (count, completions) != (1, trials):
            wrong = "count" if count != 1 else "completions"
            entry.error(wrong, f"scheduling.matrix has {trials:,} trials in one Job; omit {wrong}")
        scheduling = entry.section("scheduling")
        if "topology" in scheduling:
            scheduling.error("topology", "a type has no topology of its own; write it in spec.scheduling")
        scheduling.close()
        demand = entry.section("resources")
        if not demand:
            without_resources.append(name)
        resources = _resources(demand, ignored)
        entry.close(_MEANT)
        types.append(Type(name, count, completions, parallelisms, resources))
    if matrix is not None and len(types) > 1:
        spec.error("types", "a sweep (scheduling.matrix) has one type")
    if sum(t.count * t.completions for t in types) > MAX_PODS:
        spec.error("types", f"has more than {MAX_PODS:,} pods in all; lower count or completions")
    elif sum(t.count * t.width for t in types) > MAX_PLACES:
        spec.error("types", f"has more than {MAX_PLACES:,} pods at a time; lower count or parallelisms")
    return types, without_resources


def _indented(section: Section, names: list[str]) -> list[str]:
    """Reports fields beside the empty type that they belong to, and returns the names that are types.

    A type may have the name of a field: its value is then a mapping of such fields.
    """
    values = {name: section.raw(name) for name in names}
    fields = [
        name
        for name, value in values.items()
        if name in _FIELDS and value is not None and not (isinstance(value, dict) and value.keys() <= _FIELDS)
    ]
    empty = next((name for name in names if values[name] is None), None)
    if empty is None or not fields:
        return names
    verb = "is" if len(fields) == 1 else "are"
    section.error(empty, f"is empty; {verb} {' and '.join(fields)} meant to be indented below it?")
    return [name for name in names if name not in fields]


def _resources(section: Section, ignored: list[Path]) -> Resources:
    cpus = section.number("cpus", Fraction(1))
    ratio = section.number("ramRatio", Fraction(2))
    memory = section.number("memory", cpus * ratio, gib=True)
    if section and ("ramRatio" in section) == ("memory" in section):
        section.error(
            "memory" if "memory" in section else (),
            "ramRatio and memory are both given; keep one"
            if "memory" in section
            else "has neither ramRatio (GiB per CPU) nor memory (GiB); write one of them",
        )
    gpus, product = _accelerators(section.section("accelerators"))
    rdma = section.section("rdma")
    rdma.raw("devices")
    rdma.close()
    if rdma:
        ignored.append(rdma.path)
    request, limit = section.quantity("ephemeralStorageRequest"), section.quantity("ephemeralStorageLimit")
    if request and limit and quantity.parse(limit) < quantity.parse(request):
        section.error("ephemeralStorageLimit", f"is {limit}, less than the request of {request}")
    selectors = section.texts("extraSelectors")
    if product and selectors.get(GPU_PRODUCT, product) != product:
        section.section("extraSelectors").error(GPU_PRODUCT, f"contradicts the GPU's product, {product}")
    resources = Resources(
        cpus=cpus,
        memory=memory,
        cpu_limit_ratio=section.number("cpuLimitRatio", Fraction(2), least=1),
        shm_gb=section.number("shmSizeGB", Fraction(0), least=0, gib=True),
        gpus=gpus,
        gpu_product=product,
        ephemeral_request=request,
        ephemeral_limit=limit,
        selectors=selectors,
        tolerations=[_toleration(each) for each in section.sections("extraTolerations")],
    )
    section.close(_MEANT_RESOURCES)
    return resources


def _accelerators(section: Section) -> tuple[int, str]:
    given = section.raw("gpu")
    if isinstance(given, int) and not isinstance(given, bool):
        section.error("gpu", f"takes a mapping, not the number {given}; write gpu: {{count: {given}}}")
        section.close()
        return given, ""
    gpu = section.section("gpu")
    count = gpu.integer("count", 0, maximum=1_000)
    gpu.choice("type", ("gpu",), "gpu")
    product = gpu.text("product")
    gpu.close()
    if "tpu" in section:
        section.error("tpu", "TPUs belong to the operator kuberay, which is not supported yet")
    section.close()
    return count, product


def _toleration(section: Section) -> Object:
    toleration: Object = {}
    for name in ("key", "value"):
        if text := section.text(name):
            toleration[name] = text
    toleration["operator"] = section.choice("operator", ("Equal", "Exists"), "Equal")
    if effect := section.choice("effect", ("NoSchedule", "PreferNoSchedule", "NoExecute"), ""):
        toleration["effect"] = effect
    if "tolerationSeconds" in section:
        toleration["tolerationSeconds"] = section.integer("tolerationSeconds", 0)
    if toleration["operator"] == "Exists" and "value" in toleration:
        section.error("value", "has no meaning with operator: Exists; remove it")
    if toleration["operator"] == "Equal" and "key" not in toleration:
        section.error("key", "is missing; name the taint's key, or write operator: Exists")
    section.close()
    return toleration
