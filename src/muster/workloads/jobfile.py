"""What every job file format compiles to: objects to create, and what there is to say about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import msgspec

from muster.api.base import Object
from muster.api.fields import Path
from muster.workloads.findings import Finding, Severity

Mode = Literal["gang", "independent"]


class Caller(msgspec.Struct, frozen=True):
    """The shell that submits: local processes run in its directory and environment."""

    cwd: str
    path: str = msgspec.field(name="PATH", default="")
    home: str = msgspec.field(name="HOME", default="")
    lang: str = msgspec.field(name="LANG", default="")

    def annotation(self) -> str:
        """The value of `muster.dev/caller`."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to a file."""

    #: makes names unique: eight hexadecimal digits
    suffix: str
    #: of objects that name none
    namespace: str = "default"
    #: --namespace: nor may they name another
    confined: bool = False
    #: --gang or --independent; None leaves it to the file
    mode: Mode | None = None
    queue: str | None = None
    #: --volume name=DIR
    volumes: Mapping[str, str] = field(default_factory=dict)
    #: for the embedded cluster: a missing image means the local environment
    local: bool = True
    #: where the embedded cluster keeps its state (`$MUSTER_HOME`)
    home: str = ""
    caller: Caller | None = None
    #: False: there may be none, only what jobs need
    jobs: bool = True
    #: False: it is only asked where the pods would go, so that nothing is needed that they need to run
    runs: bool = True


class Role(Enum):
    #: its end is the end of the run: a JobSet, a Job, a pod
    PRIMARY = "primary"
    #: what the jobs need: a ConfigMap, a PodGroup, …
    SUPPORT = "support"


@dataclass(frozen=True, slots=True)
class Item:
    """One object to create, and how its fields are found in the file."""

    object: Object
    role: Role
    #: the finding about a field of the object, at the place in the file where it comes from
    report: Callable[[Path, str, Severity], Finding]


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file ready to be submitted."""

    #: what the user calls the job
    name: str
    #: the format it was read as: "aichor" or "kubernetes"
    format: str
    #: in the order in which they are to be created
    items: tuple[Item, ...]
    #: warnings, notes and hints found while compiling
    notes: tuple[Finding, ...] = ()
    #: whether all of its jobs are gangs; None where some are and some are not
    gang: bool | None = False

    @property
    def objects(self) -> list[Object]:
        return [item.object for item in self.items]

    @property
    def primary(self) -> list[Object]:
        """The objects whose end is the end of the run."""
        return [item.object for item in self.items if item.role is Role.PRIMARY]
