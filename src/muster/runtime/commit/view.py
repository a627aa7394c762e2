"""The inputs and outputs of a commit step: what it sees, what it keeps between steps, and what it returns."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.core.words.decisions import Explanation
from muster.core.words.devices import Allocation, DeviceId
from muster.core.words.events import Event
from muster.core.words.gang import GangId, NodeName, Place
from muster.runtime.commit.refreshes import Refresh
from muster.runtime.plan_record import Find, Plan, VictimRef
from muster.runtime.writes import Write
from muster.translate.disclosure import EVERYTHING, Disclosure
from muster.translate.group import Group, Owner

NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a commit, in seconds unless they say otherwise."""

    #: largest plan, in bytes of its blob, that is a field of its Gang (some 300 places): all watchers of
    #: Gangs receive it
    held_plan: int = 8_192

    #: time without progress (a pod appeared, a bind succeeded) after which muster gives the minimum up
    progress_timeout: float = 60.0
    #: the same while victims are leaving: includes their grace periods
    victim_timeout: float = 300.0
    #: pause after a failed commit: the first, doubled after each failure, and the longest
    back_off: tuple[float, float] = (5.0, 300.0)
    #: failed commits after which a gang waits for a change
    attempts: int = 5
    #: how long muster avoids the name of a node that has vanished
    exclusion: float = 300.0
    #: pause after the API server has refused a member of a gang that has not started: the first, which
    #: doubles after each refusal, and the longest. Not all is watched that admission may look at; with this
    #: bound a gang is complete 30 s after that changes
    refused: tuple[float, float] = (1.0, 28.0)
    #: how long a start that has begun waits for nodes once the core says that the rest does not fit
    unplaced: float = 1.0
    #: how often it is looked whether the claims of other pods, which are leaving, have been freed
    freeing: float = 0.5
    #: pause after a write whose outcome is unknown or for which the server had no time: first, longest
    retry: tuple[float, float] = (0.2, 10.0)
    #: least time between two writes of a Gang's status that only report, between two that only count, and
    #: between two that only bring the figures of a reason up to date (`refreshes`)
    report: float = 1.0
    count: float = 5.0
    figures: float = 5.0


@dataclass(frozen=True, slots=True)
class Victim:
    """A victim of the open plan as it is now."""

    recorded: VictimRef
    owner: Owner | None  # None = the pods are evicted one by one
    pods: tuple[Pod, ...]  # the recorded pods that still occupy a node
    plans: tuple[Plan, ...]  # the victim's own open plans, which end with it
    record: GangRecord | None = None
    group: Group | None = None
    key: str = ""  # identifies the gang that it makes room for (`runtime.consent`)


@dataclass(frozen=True, slots=True)
class Unfenced:
    """Why a gang must not be written to yet, and until when at least (seconds since the epoch)."""

    message: str
    until: float
    #: whether the gang's record is another scheduler's, so that nothing at all is written
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class GangView:
    """All that is known of a gang at one moment."""

    id: GangId
    epoch: int
    group: Group | None
    record: GangRecord | None
    plans: tuple[Plan, ...]  # open plans, by attempt
    assigned: Mapping[Place, NodeName]  # by the core; filled places may be among them
    nodes: Container[str]
    devices: Mapping[Place, int] = field(default_factory=dict)  # for assigned places that share a GPU
    #: for assigned places whose pods have claims: the devices that each claim is to have
    allocations: Mapping[Place, tuple[Allocation, ...]] = field(default_factory=dict)
    chosen: tuple[VictimRef, ...] = ()  # victims that the core has chosen and that are still there
    victims: tuple[Victim, ...] = ()  # of the plan with the highest attempt
    namesakes: tuple[Pod | None, ...] = ()  # the pods that now have the names the highest plan re-creates
    explanation: Explanation | None = None
    unfenced: Unfenced | None = None  # an earlier leader could still write to the gang
    refreshes: bool = False  # it is its turn to write its reason again
    owner_shared: bool = False  # other gangs of its owner have bound pods: another stage is running
    #: names of all nodes, also of those that muster must not use; None = not known
    present: Container[str] | None = None
    #: looks up claims, classes and pods by kind and `namespace/name`
    find: Find = lambda kind, key: None
    #: returns which ResourceClaims have a device, as `namespace/name`
    holders: Callable[[DeviceId], Sequence[str]] = lambda device: ()
    #: by class of devices, the resource as which these are counted; empty if pods get none by number
    by_number: Mapping[str, str] = field(default_factory=dict)
    #: which other gangs what is written may name
    names: Disclosure = EVERYTHING
    #: returns what the eviction of a victim loses, as fields of its entry in `status.preemptions`
    lost: Callable[[Victim], Object] = lambda victim: {}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A write that the API server refused because of the member or its claim, not because it was late."""

    message: str
    times: int  # in a row, on any nodes
    until: float  # from the second time on, the member is left alone until then
    #: what admission may have judged by (`judged`), None = a claim: once it changes, the bind is retried
    seen: object


@dataclass(frozen=True, slots=True)
class RetryState:
    """What a leader keeps of a gang between two steps. Losing it costs time, never correctness."""

    attempt: int = 0  # the last attempt that this leader made
    failures: int = 0  # commits undone since the gang last stood
    progress: tuple[int, int] | None = None  # how far the open plan has progressed
    since: float = 0.0  # time of the last progress
    giving_up: str = ""  # why the open plan is being undone
    until: float = 0.0  # the gang backs off until then
    recordable: bool = True  # its pods, for re-creation; False once recording has failed
    rejections: int = 0  # how often pods were re-created because their nodes had refused them
    recreate_at: float = 0.0  # when that may be done again
    unshown: int = 0  # consecutive plans that the server accepted and that no object shows
    #: by member (`refusals.member`), as its successor is refused for the same reasons, or by claim
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    #: by claim (`namespace/name`): the server refuses the write that frees its devices
    unfreed: Mapping[str, Refusal] = field(default_factory=dict)
    #: nodes for which this leader has had the volumes of claims made, by `namespace/name`
    volumes: Mapping[str, str] = field(default_factory=dict)
    retries: int = 0  # rounds of writes in a row of which one failed and is only retried
    retry_at: float = 0.0
    trouble: str = ""  # the last error that was only retried, and the namespace of that write
    trouble_in: str = ""
    reported_at: float = 0.0
    #: uids of open plans that this leader found when it started; other plans of older epochs arrived too late
    adopted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step.

    The writes go out in order, and the first failure ends the step; then the gang is stepped again.
    """

    state: RetryState
    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    wake: float = NEVER
    #: what of the status is to be written again once it is the gang's turn
    wants: Refresh | None = None
