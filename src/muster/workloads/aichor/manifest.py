"""Reads the AIchor manifest 0.2.3 of `operator: jobset`: every field, typed and checked.

One model reads every 0.2.x, as AIchor itself does. Fields without a meaning outside AIchor (building an
image, cloning, TensorBoard) are checked as well and collected in `ignored`, so that the user is notified
once. `spec.scheduling` is muster's one extension.

Source: docs.aichor.ai, manifest overview and reference; facts in docs/job-files.md.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Path
from muster.api.koordinator_v1alpha1 import GatherRule
from muster.names import GPU_PRODUCT
from muster.workloads.aichor import variables
from muster.workloads.demand import MAX_PLACES, MAX_PODS
from muster.workloads.findings import Finding
from muster.workloads.jobfile import Mode
from muster.workloads.section import Section
from muster.workloads.source import Document
from muster.workloads.training import FRAMEWORKS

OPERATORS: Final = (
    "jobset",
    "kuberay",
    "pytorch",
    "jax",
    "xgboost",
    "vertexai",
    "tf",
    "batchjob",
    "ray",
    "slurm",
)

_API_VERSION: Final = re.compile(r"0\.2\.\d{1,3}")
#: AIchor's rule; in addition, the last character must be one that may end a container's name
_TYPE_NAME: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


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


@dataclass(frozen=True, slots=True)
class SharedVolume:
    mount_point: str
    size: Fraction


@dataclass(frozen=True, slots=True)
class ExistingVolume:
    name: str
    mount_point: str
    path: Path


@dataclass(frozen=True, slots=True)
class Manifest:
    name: str
    image: str
    command: str
    #: in the order of the file, which decides JOB_GLOBAL_INDEX
    types: tuple[Type, ...]
    env: dict[str, str]
    backoff_limit: int
    #: seconds over all restarts; None = no limit
    deadline: int | None
    shared_volume: SharedVolume | None
    existing_volumes: tuple[ExistingVolume, ...]
    mode: Mode | None
    #: rules for the network topology, as Koordinator writes them
    topology: tuple[GatherRule, ...]
    #: the layer whose domains the job does not share with others; "" = none
    exclusive: str
    #: the framework whose environment the pods get; "" = none
    training: str
    priority_class: str
    #: "" = none named
    queue: str
    #: fields that are present but have no meaning here
    ignored: tuple[Path, ...]
    #: types without resources, which got the default
    without_resources: tuple[str, ...]


def parse(document: Document) -> tuple[Manifest, list[Finding]]:
    """The manifest, and what is wrong with it. If there are errors, the manifest must not be used."""
    findings: list[Finding] = []
    ignored: list[Path] = []
    top = Section(document, document.value, (), findings)
    kind = top.text("kind", "AIchorManifest")
    if kind != "AIchorManifest":
        top.error("kind", f"is {kind!r}; an AIchor manifest has kind: AIchorManifest")
    version = top.text("apiVersion", "0.2.3")
    if not _API_VERSION.fullmatch(version):
        top.error("apiVersion", f"is {version!r}; supported: 0.2.3 and the other 0.2.x")
    name = top.text("name", "experiment")
    _builder(top, ignored)
    _clone(top, ignored)

    if "spec" not in top:
        top.error("spec", "is missing; it holds operator, command and types")
    spec = top.section("spec")
    if _of_another_operator(spec):
        # another operator's types differ, so further findings would mislead
        return _nothing(name), findings
    command = spec.text("command")
    if spec and not command.strip():
        spec.error(
            "command", 'is missing; write the shell line that each pod runs, such as "python3 main.py"'
        )
    image = spec.text("image")
    deadline = spec.seconds("timeout")
    active_deadline = spec.integer("activeDeadlineSeconds", 0, minimum=1)
    restart = spec.section("restartPolicy")
    backoff_limit = restart.integer("backoffLimit", 0)
    restart.close()
    scheduling = _scheduling(spec)
    shared, existing = _storage(spec, ignored)
    _without_meaning(spec, ignored)
    env = _env(spec)
    types, without_resources = _types(spec, ignored)
    spec.close()
    top.close()
    manifest = Manifest(
        name=name,
        image=image,
        command=command,
        types=tuple(types),
        env=env,
        backoff_limit=backoff_limit,
        deadline=deadline if deadline is not None else active_deadline or None,
        shared_volume=shared,
        existing_volumes=tuple(existing),
        mode=scheduling.mode,
        topology=scheduling.topology,
        exclusive=scheduling.exclusive,
        training=scheduling.training,
        priority_class=scheduling.priority_class,
        queue=scheduling.queue,
        ignored=tuple(ignored),
        without_resources=tuple(without_resources),
    )
    return manifest, findings


def _nothing(name: str) -> Manifest:
    return Manifest(name, "", "", (), {}, 0, None, None, (), None, (), "", "", "", "", (), ())


def _of_another_operator(spec: Section) -> bool:
    operator = spec.text("operator")
    if not operator and spec:
        spec.error("operator", 'is missing; write operator: "jobset"')
    elif operator in OPERATORS and operator != "jobset":
        spec.error("operator", f"not supported yet: {operator}; supported: jobset")
        return True
    elif operator and operator != "jobset":
        spec.error("operator", f"{operator!r} is not an operator; supported: jobset")
    return False


def _builder(top: Section, ignored: list[Path]) -> None:
    builder = top.section("builder")
    if builder:
        ignored.append(builder.path)
    for text in ("image", "dockerfile", "context", "target", "registry"):
        builder.text(text)
    builder.section("buildArgs").names()
    skip = builder.section("skipBuild")
    skip.flag("enabled")
    skip.text("experimentID")
    skip.flag("failIfNotFound")
    skip.close()
    builder.close()


def _clone(top: Section, ignored: list[Path]) -> None:
    clone = top.section("clone")
    if clone:
        ignored.append(clone.path)
    clone.integer("depth", 1, minimum=1)
    clone.flag("includeDotGit")
    if not isinstance(clone.raw("submodules"), bool):
        clone.choice("submodules", ("false", "true", "recursive"), "false")
    clone.close()


def _without_meaning(spec: Section, ignored: list[Path]) -> None:
    """Collects fields of `spec` that AIchor reads and a user's own cluster does not."""
    for name in ("tensorboard", "debug"):
        section = spec.section(name)
        if section:
            ignored.append(section.path)
        known = ("enabled", "usePVC") if name == "tensorboard" else ("jupyter", "vscode")
        for each in known:
            section.raw(each)
        section.close()
    for name in ("engineName", "rayVersion"):
        if spec.text(name):
            ignored.append((*spec.path, name))


class _Scheduling(NamedTuple):
    """muster's own extension."""

    mode: Mode | None
    queue: str
    priority_class: str
    topology: tuple[GatherRule, ...]
    exclusive: str
    training: str


def _scheduling(spec: Section) -> _Scheduling:
    scheduling = spec.section("scheduling")
    mode = scheduling.choice("mode", ("independent", "gang"), "")
    found: Mode | None = "gang" if mode == "gang" else "independent" if mode == "independent" else None
    read = _Scheduling(
        found,
        scheduling.text("queue"),
        scheduling.text("priorityClassName"),
        tuple(_rule(rule) for rule in scheduling.sections("topology")),
        scheduling.text("exclusive"),
        scheduling.choice("training", FRAMEWORKS, ""),
    )
    scheduling.close()
    return read


def _rule(section: Section) -> GatherRule:
    layer = section.text("layer")
    if section and not layer:
        section.error("layer", "is missing; write the name of a topology layer")
    multiple = section.integer("podCountMultiple", 1, minimum=1)
    strategy = section.choice("strategy", ("MustGather", "PreferGather"), "MustGather")
    section.close()
    return GatherRule(layer=layer, strategy=strategy, pod_count_multiple=multiple)


def _storage(spec: Section, ignored: list[Path]) -> tuple[SharedVolume | None, list[ExistingVolume]]:
    storage = spec.section("storage")
    shared_volume = None
    if "sharedVolume" in storage:
        section = storage.section("sharedVolume")
        shared_volume = SharedVolume(_mount_point(section), section.number("sizeGB", Fraction(0), least=0))
        for name in ("sizeGB", "storageClass", "accessMode"):
            if name in section:
                ignored.append((*section.path, name))
        section.text("storageClass")
        section.text("accessMode")
        section.close()
    existing = []
    for section in storage.sections("attachExistingPVCs"):
        name = section.text("name")
        if not name:
            section.error("name", "is missing; write the name of the volume")
        existing.append(ExistingVolume(name, _mount_point(section), section.path))
        section.close()
    storage.section("sharedVolume")
    storage.close()
    return shared_volume, existing


def _mount_point(section: Section) -> str:
    mount_point = section.text("mountPoint")
    if not mount_point.startswith("/") or ":" in mount_point:
        section.error("mountPoint", "takes an absolute directory, such as /mnt/shared")
    return mount_point


def _env(spec: Section) -> dict[str, str]:
    section = spec.section("env")
    env = {}
    for name in section.names():
        if variables.protected(name):
            section.error(name, f"{name} is set for every pod and cannot be given; choose another name")
        elif not _ENV_NAME.fullmatch(name):
            section.error(name, "is not a name for a variable; use letters, digits and _")
        env[name] = section.text(name)
    return env


def _types(spec: Section, ignored: list[Path]) -> tuple[list[Type], list[str]]:
    section = spec.section("types")
    names = section.names()
    if spec and not names:
        spec.error(
            "types", "is missing or empty; name at least one group of jobs, such as worker: {count: 2}"
        )
    types: list[Type] = []
    without_resources: list[str] = []
    for name in names:
        if not _TYPE_NAME.fullmatch(name):
            section.error(
                name,
                f"{name!r} cannot name a type: use lowercase letters, digits and hyphens, "
                f"begin with a letter and do not end with a hyphen",
            )
        entry = section.section(name)
        count = entry.integer("count", 1)
        completions = entry.integer("completions", 1, minimum=1)
        parallelisms = entry.integer("parallelisms", 1, minimum=1)
        scheduling = entry.section("scheduling")
        if "topology" in scheduling:
            scheduling.error("topology", "a type has no topology of its own; write it in spec.scheduling")
        scheduling.close()
        demand = entry.section("resources")
        if not demand:
            without_resources.append(name)
        resources = _resources(demand, ignored)
        entry.close()
        types.append(Type(name, count, completions, parallelisms, resources))
    if sum(t.count * t.completions for t in types) > MAX_PODS:
        spec.error("types", f"has more than {MAX_PODS:,} pods in all; lower count or completions")
    elif sum(t.count * t.width for t in types) > MAX_PLACES:
        spec.error("types", f"has more than {MAX_PLACES:,} pods at a time; lower count or parallelisms")
    return types, without_resources


def _resources(section: Section, ignored: list[Path]) -> Resources:
    cpus = section.number("cpus", Fraction(1))
    ratio = section.number("ramRatio", Fraction(2))
    memory = section.number("memory", cpus * ratio)
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
        shm_gb=section.number("shmSizeGB", Fraction(0), least=0),
        gpus=gpus,
        gpu_product=product,
        ephemeral_request=request,
        ephemeral_limit=limit,
        selectors=selectors,
        tolerations=[_toleration(each) for each in section.sections("extraTolerations")],
    )
    section.close()
    return resources


def _accelerators(section: Section) -> tuple[int, str]:
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
