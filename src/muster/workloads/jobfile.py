"""The result of compiling a job file of any format: objects to create, and findings about them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal

import msgspec

from muster.api.base import Object
from muster.api.fields import Finding, Path, Severity
from muster.names import SCHEDULER
from muster.workloads.platform import EMBEDDED_PLATFORM, Platform

Mode = Literal["gang", "independent"]


class Caller(msgspec.Struct, frozen=True):
    """The shell that submits the job: local processes run in its directory and environment."""

    cwd: str
    path: str = msgspec.field(name="PATH", default="")
    home: str = msgspec.field(name="HOME", default="")
    lang: str = msgspec.field(name="LANG", default="")

    def annotation(self) -> str:
        """The value of `muster.dev/caller`."""
        return msgspec.json.encode(self).decode()


#: Characters of the annotation that names a source; a path has at most 4,096 bytes.
_LONGEST: Final = 24_576
#: Characters of the command line that are recorded.
LONGEST_COMMAND: Final = 1_024


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a job comes from: jobs of equal names may be those of other files, or of other people."""

    #: the absolute path of its file; "-" is standard input, and "" a command without a file
    file: str
    #: who submitted it, as `user@host`
    by: str
    #: the command line, without values of variables, and the directory in which it was given
    command: str = ""
    cwd: str = ""
    #: what was checked out there, and whether tracked files were changed; None: not known
    commit: str = ""
    dirty: bool | None = None
    #: the copy of that directory in which its pods run; "" = the directory itself
    copy: str = ""
    #: what ends the names that muster has generated, in full or its first `GENERATED` characters
    suffix: str = ""

    def generated(self, name: str, stem: str) -> bool:
        """Whether muster generated this name of an object from the stem, or that of a retry of the object.

        An author may write a name that looks alike, such as `exp-20261128`.
        """
        return self.suffix != "" and any(
            re.fullmatch(r"(-[1-9]\d*)?(-r[1-9]\d*)?", name.removeprefix(begin), re.ASCII)
            for each in (self.suffix, self.suffix[:GENERATED])
            if name.startswith(begin := f"{stem}-{each}")
        )

    def same(self, other: "Source | None") -> bool:
        """Whether both are the same file of the same person, whatever it contained."""
        return other is not None and (self.file, self.by) == (other.file, other.by)

    def annotation(self) -> str:
        """The value of `muster.dev/submitted-from`."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def read(text: str | None) -> "Source | None":
        """The source that an annotation names; None if there is none, or it cannot be read.

        Anybody may write the annotation: it is bounded, also in depth.
        """
        try:
            return msgspec.json.decode(text or "", type=Source) if len(text or "") <= _LONGEST else None
        except (msgspec.DecodeError, RecursionError):
            return None

    def __str__(self) -> str:
        file = {"": "a command", "-": "standard input"}.get(self.file, self.file)
        return f"{file}, submitted by {self.by}"


#: Names from generateName, as API servers make them: most characters of the author's, and those that follow.
PREFIX: Final = 58
GENERATED: Final = 5


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line adds to a file."""

    #: ends generated names, so that they are unique; "" = the first eight digits of the text's SHA-256
    suffix: str = ""
    #: namespace of objects that do not name one
    namespace: str = "default"
    #: --namespace: objects must not name another namespace
    confined: bool = False
    #: --gang or --independent; None: the file decides
    mode: Mode | None = None
    #: --queue: takes precedence over the file
    queue: str | None = None
    #: --volume name=DIR
    volumes: Mapping[str, str] = field(default_factory=dict)
    #: --env and --env-file: take precedence over the file
    env: Mapping[str, str] = field(default_factory=dict)
    #: for the embedded cluster: a missing image means the local environment
    local: bool = True
    #: where the embedded cluster keeps its state (`$MUSTER_HOME`), and shared volumes
    home: str = ""
    caller: Caller | None = None
    #: False: the file may have no jobs, as queues and the like may be submitted alone
    jobs: bool = True
    #: False: only placement is requested; images, commands and volumes may be missing
    runs: bool = True
    #: whether Jobs of Volcano are left to the cluster's own controllers for them
    volcano: bool = False
    #: the schedulerName of pods that the command makes members of a gang, if they have none
    scheduler: str = SCHEDULER
    #: what the platform adds to batch jobs: facts, policies, the submitting user
    platform: Platform = EMBEDDED_PLATFORM


PLAIN: Final = Options()


class Role(Enum):
    #: the run ends when it ends: a JobSet, a Job, a pod
    PRIMARY = "primary"
    #: needed by the jobs: a ConfigMap, a PodGroup, …
    SUPPORT = "support"


@dataclass(frozen=True, slots=True)
class Item:
    """One object to create, and how its fields are found in the file."""

    object: Object
    role: Role
    #: returns a finding about a field of the object, at its place in the file
    report: Callable[[Path, str, Severity], Finding]
    #: whether it is deleted with the file's job
    owned: bool = False
    #: the kind that its author wrote, if that is compiled; "" if it is the object's
    written: str = ""


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file ready to be submitted."""

    #: the user's name for the job
    name: str
    #: the format that the file was read as: "aichor", "kubernetes" or "batch"
    format: str
    #: in creation order
    items: tuple[Item, ...]
    #: warnings, notes and hints found while compiling
    notes: tuple[Finding, ...] = ()
    #: what ends generated names, as in `Options`
    suffix: str = ""
    #: whether all of the file's jobs are gangs; None if only some are
    gang: bool | None = False
    #: the kind that its author wrote, if it is compiled to other kinds: BatchJob or LatticeJob
    kind: str = ""

    @property
    def objects(self) -> list[Object]:
        return [item.object for item in self.items]

    @property
    def primary(self) -> list[Object]:
        """The objects whose end is the end of the run."""
        return [item.object for item in self.items if item.role is Role.PRIMARY]
