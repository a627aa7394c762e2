"""What a commit sees, what it remembers, and what it answers."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.core.decisions import Explanation
from muster.core.events import Event
from muster.core.gang import GangId, NodeName, Place, PodId
from muster.runtime.plan import Leaving, Plan
from muster.runtime.writes import Write
from muster.translate.group import Group, Owner

NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a commit, in seconds unless they say otherwise."""

    #: without progress (a pod appeared, a bind succeeded) before the minimum is given up
    patience: float = 60.0
    #: the same while victims are leaving: their grace periods count
    victims: float = 300.0
    #: pause after a failed commit: the first, doubled each time, and the longest
    back_off: tuple[float, float] = (5.0, 300.0)
    #: failed commits after which a gang waits for a change
    attempts: int = 5
    #: how long a node that refused a member, or a member that two nodes refused, is left alone
    exclusion: float = 300.0
    #: pause after a write whose fate is unknown or that the server had no time for
    retry: tuple[float, float] = (0.2, 10.0)
    #: between two writes of the same Gang's status that only tell
    tell: float = 1.0


@dataclass(frozen=True, slots=True)
class Victim:
    """A victim of the open plan as it is now."""

    recorded: Leaving
    owner: Owner | None  # None = pods go one by one
    pods: tuple[Pod, ...]  # of those recorded, what still occupies a node
    plans: tuple[Plan, ...]  # its own open plans, which end with it
    record: GangRecord | None = None
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """Why a gang must not be written to yet, and until when at least (seconds since the epoch)."""

    message: str
    until: float


@dataclass(frozen=True, slots=True)
class GangView:
    """All that is known of a gang at one moment."""

    id: GangId
    epoch: int
    group: Group | None
    record: GangRecord | None
    plans: tuple[Plan, ...]  # open ones, by attempt
    assigned: Mapping[Place, NodeName]  # by the core; filled places may be among them
    nodes: Container[str]
    devices: Mapping[Place, int] = field(default_factory=dict)  # of assigned places that share a GPU
    called: tuple[Leaving, ...] = ()  # victims that the core has named, as far as they are still there
    victims: tuple[Victim, ...] = ()  # of the highest plan
    remade: tuple[Pod | None, ...] = ()  # who has the names of the pods that the highest plan makes anew
    explanation: Explanation | None = None
    fenced: Fenced | None = None  # an earlier leader could still write to it
    owner_shared: bool = False  # other gangs of its owner have bound pods: another stage is running


@dataclass(frozen=True, slots=True)
class Refusal:
    """A member whose bind the API server refused, not for being late but for what it is."""

    nodes: frozenset[NodeName]
    message: str
    until: float  # left alone until then


@dataclass(frozen=True, slots=True)
class Memory:
    """What a leader remembers of a gang between two looks. Losing it costs time, never correctness."""

    attempt: int = 0  # the last that this leader made
    failures: int = 0  # commits undone since the gang last stood
    progress: tuple[int, int] | None = None  # how far the open plan has come
    since: float = 0.0  # when it last came further
    giving_up: str = ""  # why the open plan is being undone
    until: float = 0.0  # the gang backs off
    recordable: bool = True  # its pods, to make them anew: not if that has failed already
    refusals: Mapping[PodId, Refusal] = field(default_factory=dict)
    retries: int = 0
    retry_at: float = 0.0
    told_at: float = 0.0
    #: uids of open plans that this leader found when it began; other plans of older epochs came too late
    adopted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """Writes go out in order, and the first that fails ends the step; then the gang is looked at again."""

    memory: Memory
    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    wake: float = NEVER
