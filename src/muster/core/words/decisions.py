"""What the core decides, in order, and how it explains what waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core.words.devices import Allocation
from muster.core.words.gang import Code, GangId, NodeName, Place, PodId


@dataclass(frozen=True, slots=True)
class PodSetExplanation:
    """How far one pod set gets: of `wanted` more pods, `fits` could start now.

    `limited_by` counts nodes by what keeps the next pod off them: a resource's name, `selector`,
    `affinity`, `volume`, `features`, `taint`, `cordon`, `notReady`, `avoided`, `devices`, `ports`,
    `podAffinity`, `podAntiAffinity`, `spread`, `topology` or `quota`.
    """

    name: str
    wanted: int
    fits: int
    limited_by: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that the core has verified, and what it would do."""

    change: str
    effect: str


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When a gang is expected to start.

    `at` is None if it cannot be estimated; `basis` says what the time rests on, or why there is none.
    """

    at: float | None
    basis: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a gang waits: one code, numbers in the message, and what blocks it.

    `stage` is the step that refused it: `gate`, `placement` or `commit`.
    """

    code: Code
    stage: str
    message: str
    pod_sets: tuple[PodSetExplanation, ...] = ()
    blockers: tuple[GangId, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    expected_start: ExpectedStart | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """Places → nodes: a gang's start, more of its places, or replacements. Announced once, held from then on.

    For a place that was assigned before, the new node counts.
    """

    gang: GangId
    nodes: Mapping[Place, NodeName]
    #: for places that share a GPU: which device of the node
    devices: Mapping[Place, int] = field(default_factory=dict)
    #: for places whose pods have claims: the devices of the node that each claim gets
    claims: Mapping[Place, tuple[Allocation, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victim:
    """A whole gang (`pods` empty: all of it), or only its surplus pods."""

    gang: GangId
    pods: frozenset[PodId] = frozenset()
    #: resource-seconds that have to be done again (docs/concepts/preemption.md)
    work_lost: float = 0.0
    #: its queue is over its entitlement, and the beneficiary is of another queue; else its priority is lower
    reclaimed: bool = False


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict the victims for `beneficiary`, at `work_lost` resource-seconds; its Assign follows at once.

    The promises of a victim that is evicted as a whole are released with it, without a Release.
    """

    victims: tuple[Victim, ...]
    beneficiary: GangId
    work_lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Release:
    """These held places are released.

    The hold has timed out, the gang is gated or no longer needs the place in this form, or the node is gone
    or no longer has room for it. An Assign for the same places may follow in the same cycle.
    """

    gang: GangId
    places: frozenset[Place]


@dataclass(frozen=True, slots=True)
class Reserve:
    """Nodes promised to a gang from a time on."""

    gang: GangId
    nodes: Mapping[Place, NodeName]
    start: float


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason why a gang waits has changed; an unchanged reason is not repeated."""

    gang: GangId
    explanation: Explanation


Decision = Assign | Evict | Release | Reserve | Wait
