"""What the platform adds to a batch job: facts about the cluster, policies, and the submitting user."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from muster.compiler.facts import Facts, Image
from muster.compiler.fulfil import Values

if TYPE_CHECKING:
    from muster.security.policies import Policies

TargetName = Literal["muster", "volcano", "native"]


@dataclass(frozen=True, slots=True)
class Submitter:
    """The user that submits the job, such as `ml/alice`; "" if that is not known."""

    user: str = ""
    groups: tuple[str, ...] = ()


UNKNOWN: Final = Submitter()


@dataclass(frozen=True, slots=True)
class Stores:
    """Secrets of the embedded cluster, in files instead of a store such as Vault."""

    #: store → path → key → value
    values: Values = field(repr=False)
    #: the file of a store, for messages: `{store}` stands for its name
    file: str


@dataclass(frozen=True, slots=True)
class Platform:
    #: None = the defaults of where the job is to run
    facts: Facts | None = None
    #: None = everything is permitted, as on the embedded cluster
    policies: "Policies | None" = None
    submitter: Submitter = UNKNOWN
    target: TargetName = "muster"
    #: looks images up in their registries; None = their names are taken as they are
    look_up: Callable[[Sequence[str]], Mapping[str, Image]] | None = None
    #: reads the files of secrets; None = an External Secrets Operator reads its stores
    stores: Callable[[], Stores] | None = None


#: The embedded cluster: its user is its administrator.
EMBEDDED_PLATFORM: Final = Platform()
