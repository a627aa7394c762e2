"""Reads `spec.scheduling` of an AIchor manifest, muster's one extension: how a job starts and restarts.

Most fields are marks of `muster.api.marks` under another name, so their values are checked there.
"""

import re
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from muster import names
from muster.api import marks
from muster.api.base import Object
from muster.api.koordinator_v1alpha1 import GatherRule
from muster.api.matrix import MOST_BYTES, MOST_TRIALS, Matrix
from muster.workloads.aichor import variables
from muster.workloads.jobfile import Mode
from muster.workloads.section import Section
from muster.workloads.training import FRAMEWORKS

#: Fields that become annotations of the JobSet.
MARKED: Final[dict[str, marks.Mark[Any]]] = {  # Any: a mark of several types
    "runTime": marks.RUN_TIME,
    "checkpoint": marks.CHECKPOINT,
    "checkpointGrace": marks.CHECKPOINT_GRACE,
    "restartCost": marks.RESTART_COST,
    "minRunTime": marks.MIN_RUN_TIME,
    "preemptible": marks.PREEMPTIBLE,
    "onGpuAnomaly": marks.ON_GPU_ANOMALY,
    "progressRules": marks.PROGRESS_RULES,
    "onJobFailure": marks.ON_JOB_FAILURE,
}
#: Fields that become annotations of the pods: files, relative to the working directory.
FILES: Final = {"checkpointFile": names.CHECKPOINT_FILE, "progressFile": names.PROGRESS_FILE}
#: The JSON Schemas of a mark as a manifest may write it, and of the values of a parameter.
_MARKED: Final[Object] = {"type": ["string", "number", "boolean", "object", "null"]}
_VALUES: Final[Object] = {
    "type": ["array", "null"],
    "minItems": 1,
    "items": {"type": ["string", "number", "boolean"]},
}
#: A variable that a shell can set.
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scheduling:
    mode: Mode | None = None
    #: "" = none named
    queue: str = ""
    priority_class: str = ""
    #: rules for the network topology, as Koordinator writes them
    topology: tuple[GatherRule, ...] = ()
    #: the layer whose domains the job does not share with others; "" = none
    exclusive: str = ""
    #: the framework whose environment the pods get; "" = none
    training: str = ""
    #: the types whose pods train; empty = all
    trainers: tuple[str, ...] = ()
    #: how often each pod that fails is tried again; None = within the limit of the whole job
    retries: int | None = None
    #: the parameters of a sweep
    matrix: Matrix | None = None
    #: annotations of the JobSet, and of its pods
    marks: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def read_scheduling(spec: Section) -> Scheduling:
    section = spec.section("scheduling")
    mode = section.choice("mode", ("independent", "gang"), "")
    found: Mode | None = "gang" if mode == "gang" else "independent" if mode == "independent" else None
    read = Scheduling(
        mode=found,
        queue=section.text("queue"),
        priority_class=section.text("priorityClassName"),
        topology=tuple(_rule(rule) for rule in section.sections("topology")),
        exclusive=section.text("exclusive"),
        training=section.choice("training", FRAMEWORKS, ""),
        trainers=tuple(section.words("trainers")),
        retries=section.integer("retries", 0) if "retries" in section else None,
        matrix=_matrix(section.section("matrix")) if "matrix" in section else None,
        marks={
            mark.key: text
            for name, mark in MARKED.items()
            if (text := _marked(section, name, mark)) is not None
        },
        files={key: file for name, key in FILES.items() if (file := section.text(name))},
    )
    section.close()
    return read


def _marked(section: Section, name: str, mark: marks.Mark[Any]) -> str | None:  # Any: as above
    """The text of a mark; None if it is absent or wrong."""
    value = section.raw(name, _MARKED | ({"examples": mark.examples} if mark.form else {}))
    if value is None:
        return None
    if isinstance(value, dict):  # of rules
        value = " ".join(f"{key}={_text(each)}" for key, each in value.items())
    if isinstance(value, list):
        section.error(name, "takes text, not a list")
        return None
    text = _text(value)
    if advice := mark.advice(text):
        section.error(name, advice if text[:20] in advice else f"{text[:80]!r} cannot be honoured: {advice}")
        return None
    return text


def _text(value: Any) -> str:  # Any: a user's YAML
    return str(value).lower() if isinstance(value, bool) else str(value)


def _rule(section: Section) -> GatherRule:
    layer = section.text("layer")
    if section and not layer:
        section.error("layer", "is missing; write the name of a topology layer")
    multiple = section.integer("podCountMultiple", 1, minimum=1)
    strategy = section.choice("strategy", ("MustGather", "PreferGather"), "MustGather")
    section.close()
    return GatherRule(layer=layer, strategy=strategy, pod_count_multiple=multiple)


def _matrix(section: Section) -> Matrix | None:
    """The lists of a sweep; None if they cannot be used."""
    axes: dict[str, tuple[str, ...]] = {}
    if not section.names():
        section.error((), "is empty; write a list of values for each variable, such as LR: [0.1, 0.01]")
        return None
    for name in section.names():
        values = section.raw(name, _VALUES)
        if variables.protected(name):
            section.error(name, f"{name} is set for every pod and cannot be given; choose another name")
        elif not _VARIABLE.fullmatch(name):
            section.error(name, "is not a name for a variable; use letters, digits and _")
        elif not isinstance(values, list) or not values:
            section.error(name, f"takes a list of values, such as {name}: [0.1, 0.01]")
        elif (wrong := next((i for i, each in enumerate(values) if not _is_value(each)), None)) is not None:
            section.error((name, wrong), "takes text or a number")
        else:
            axes[name] = tuple(_text(value) for value in values)
    size = prod(len(values) for values in axes.values())
    if len(axes) < len(section.names()):
        return None
    matrix = Matrix(axes)
    if size > MOST_TRIALS:
        section.error((), f"has {size:,} trials; the most is {MOST_TRIALS:,}: shorten a list")
    elif len(matrix.annotation()) > MOST_BYTES:
        told = f"has more than {MOST_BYTES // 2**10} KiB; read the lists from a file by JOB_COMPLETION_INDEX"
        section.error((), told)
    else:
        return matrix
    return None


def _is_value(value: object) -> bool:
    return isinstance(value, str | int | float) and "\0" not in str(value)
