"""Reads the AIchor manifest 0.2.3 of `operator: jobset`: every field, typed and checked.

One model reads every 0.2.x, as AIchor itself does. Fields without a meaning outside AIchor (building an
image, cloning, TensorBoard) are checked as well and collected in `ignored`, so that the user is notified
once. `spec.scheduling` is muster's one extension.

Source: docs.aichor.ai, manifest overview and reference; facts in docs/reference/job-files.md.
"""

import json
import re
import shlex
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from muster.api.fields import Finding, Path
from muster.workloads.aichor import variables
from muster.workloads.aichor.scheduling import Scheduling, read_scheduling
from muster.workloads.aichor.types import Type, read_types
from muster.workloads.section import Section
from muster.workloads.source import Document

#: The operator whose manifests muster runs.
SUPPORTED: Final = "jobset"
OPERATORS: Final = (
    SUPPORTED,
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

KIND: Final = "AIchorManifest"
_API_VERSION: Final = re.compile(r"0\.2\.\d{1,3}")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


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
    #: failures over the whole job; None = not given
    backoff_limit: int | None
    #: seconds over all restarts; None = no limit
    deadline: int | None
    shared_volume: SharedVolume | None
    existing_volumes: tuple[ExistingVolume, ...]
    #: muster's own extension
    scheduling: Scheduling
    #: fields that are present but have no meaning here
    ignored: tuple[Path, ...]
    #: types without resources, which got the default
    without_resources: tuple[str, ...]


def parse(document: Document) -> tuple[Manifest, list[Finding]]:
    """The manifest, and what is wrong with it. If there are errors, the manifest must not be used."""
    findings: list[Finding] = []
    return read(Section(document, document.value, (), findings)), findings


def read(top: Section) -> Manifest:
    """The manifest of a whole file. If there are findings, it must not be used."""
    ignored: list[Path] = []
    kind = top.text("kind", KIND)
    if kind != KIND:
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
        return _nothing(name)
    command = _command(spec)
    image = spec.text("image")
    deadline = spec.seconds("timeout")
    active_deadline = spec.integer("activeDeadlineSeconds", 0, minimum=1)
    restart = spec.section("restartPolicy")
    backoff_limit = restart.integer("backoffLimit", 0) if "backoffLimit" in restart else None
    restart.close()
    scheduling = read_scheduling(spec)
    shared, existing = _storage(spec, ignored)
    _without_meaning(spec, ignored)
    env = _env(spec)
    types, without_resources = read_types(spec, ignored, scheduling.matrix)
    if scheduling.matrix is not None:
        for variable in scheduling.matrix.axes.keys() & env.keys():
            spec.error(("env", variable), "is a list in scheduling.matrix, too; keep one")
    spec.close()
    top.close()
    return Manifest(
        name=name,
        image=image,
        command=command,
        types=tuple(types),
        env=env,
        backoff_limit=backoff_limit,
        deadline=deadline if deadline is not None else active_deadline or None,
        shared_volume=shared,
        existing_volumes=tuple(existing),
        scheduling=scheduling,
        ignored=tuple(ignored),
        without_resources=tuple(without_resources),
    )


def _nothing(name: str) -> Manifest:
    return Manifest(name, "", "", (), {}, 0, None, None, (), Scheduling(), (), ())


def _of_another_operator(spec: Section) -> bool:
    operator = spec.text("operator")
    if not operator and spec:
        spec.error("operator", 'is missing; write operator: "jobset"')
    elif operator in OPERATORS and operator != SUPPORTED:
        spec.error("operator", f"not supported yet: {operator}; supported: jobset")
        return True
    elif operator and operator != SUPPORTED:
        spec.error("operator", f"{operator!r} is not an operator; supported: jobset")
    return False


def _command(spec: Section) -> str:
    given = spec.raw("command")
    if isinstance(given, list):
        line = shlex.join(str(each).lower() if isinstance(each, bool) else str(each) for each in given[:100])
        example = line if given and len(line) <= 200 else "python3 main.py"
        spec.error("command", f"takes one shell line, not a list; write {json.dumps(example)}")
        return ""
    command = spec.text("command")
    if spec and not command.strip() and (given is None or isinstance(given, str)):
        spec.error(
            "command", 'is missing; write the shell line that each pod runs, such as "python3 main.py"'
        )
    return command


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


def _storage(spec: Section, ignored: list[Path]) -> tuple[SharedVolume | None, list[ExistingVolume]]:
    storage = spec.section("storage")
    shared_volume = None
    if "sharedVolume" in storage:
        section = storage.section("sharedVolume")
        shared_volume = SharedVolume(
            _mount_point(section), section.number("sizeGB", Fraction(0), least=0, gib=True)
        )
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
