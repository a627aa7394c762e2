"""A plan on record: the decision that a commit carries out, written before the commit's first effect.

There are two kinds: a `PlacementPlan` says which node each place of a gang gets, and which victims are
evicted for it; a `RecreationPlan` says which pods of a failed start are deleted and re-created. Both are
`GangPlan` objects. A GangPlan is deleted after the last effect, and never patched, so that a reader always
sees all of one decision. A small plan is a field of its Gang instead. It is set and removed together with the
Gang's status, which saves two writes for each gang that starts. These writes test what a scheduler
writes with each plan, and not the resourceVersion: the gang controller counts in the same object.

Everything but a plan's gang, epoch and attempt is one compressed string, because a plan may have ten thousand
places and etcd keeps objects small: nodes are named once and places refer to them by number; consecutive
indices of a pod set on one node cost a few bytes. 10,000 places take about 0.25 MB, most of it for the uids.
"""

import base64
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.core_v1 import Pod
from muster.api.fields import UNREADABLE
from muster.api.muster_v1alpha1 import Gang, GangPlan, OpenPlan
from muster.core.words.decisions import Victim
from muster.core.words.events import PlanFound
from muster.core.words.gang import MOST_PLACES, GangId, NodeName, Place, PodId
from muster.translate.pods import occupies

#: Looks up the object of a kind with this key (`namespace/name`), as known now.
Find = Callable[[AnyKind, str], Resource | None]
#: Largest blob, in bytes. A gang with a larger one is refused: etcd accepts 1.5 MiB per request.
MAX_BLOB: Final = 1_000_000
#: Largest decompressed blob, in bytes: a small blob can decompress to a very large text.
MAX_BODY: Final = 2**27
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class PlanTooLarge(ValueError):
    """Raised when a plan cannot be recorded, so it must not be carried out."""

    def __init__(self, places: str, size: int, most: int = MAX_BLOB) -> None:
        super().__init__(
            f"the plan for {places} takes {size} bytes, more than the {most} that one record may have; "
            "split the gang"
        )


@dataclass(frozen=True, slots=True)
class PodRef:
    """One particular pod: a successor of the same name has another uid."""

    namespace: str
    name: str
    uid: PodId

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class OwnerRef:
    """One particular Job or JobSet."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class VictimRef:
    """A victim on record: the `whole` gang, by suspending `owner` if it has one, or some pods, one by one."""

    gang: GangId
    owner: OwnerRef | None
    pods: tuple[PodRef, ...]
    whole: bool = True
    #: time of the decision (seconds since the epoch), and the work that it loses (resource-seconds)
    at: float = 0.0
    work_lost: float = 0.0
    #: True = reclaimed from a queue over its entitlement; False = of lower priority
    reclaimed: bool = False


@dataclass(frozen=True, slots=True)
class RecordedPod:
    """A pod that is deleted and re-created: its uid, and the whole object to create."""

    uid: PodId
    body: Object

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class _Header:
    """What a record says of every plan."""

    gang: GangId
    record: str  # name of the Gang
    namespace: str
    epoch: int
    attempt: int
    #: the Lease of the scheduler that the plan belongs to, as in the gang's record
    lease: str = field(default="", kw_only=True, compare=False)
    #: uid of the GangPlan object, "" before it is created
    uid: str = field(default="", kw_only=True)
    #: any name of the GangPlan object that the plan was read from; "" = as muster names its own
    named: str = field(default="", kw_only=True, compare=False)
    #: the Gang that holds the plan; None = the plan is a GangPlan object
    held: Gang | None = field(default=None, kw_only=True, compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.named or f"{self.record}-{self.attempt}"


@dataclass(frozen=True, slots=True)
class PlacementPlan(_Header):
    """A start of a gang. `nodes` includes the places that are carried over: it is the whole picture."""

    nodes: Mapping[Place, NodeName]
    pods: Mapping[Place, PodId] = field(default_factory=dict)  # where known when the plan was made
    victims: tuple[VictimRef, ...] = ()
    #: what is wrong with the record, if it could not be read; the plan then has no places
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class RecreationPlan(_Header):
    """The end of a failed start: pods to delete and re-create, as no controller would, and the failure."""

    pods: tuple[RecordedPod, ...]
    why: str
    #: whether only these pods are re-created, because their nodes refused them; the other members stay
    alone: bool = False


Plan = PlacementPlan | RecreationPlan


def plan_found(gang: GangId, plan: Plan, find: Find) -> PlanFound:
    """Returns the event that reports an open plan to a new core: its places, and its remaining victims."""
    if isinstance(plan, RecreationPlan):
        return PlanFound(gang, {})
    victims = []
    for victim in plan.victims:
        pods = frozenset(ref.uid for ref in victim.pods if occupying(ref, find) is not None)
        if pods:
            surplus = frozenset[PodId]() if victim.whole else pods
            victims.append(Victim(victim.gang, surplus, victim.work_lost, victim.reclaimed))
    return PlanFound(gang, plan.nodes, tuple(victims))


def occupying(ref: PodRef, find: Find) -> Pod | None:
    """Returns the pod if it still occupies a node. A new pod of the same name does not count."""
    pod = find(kinds.POD, ref.key)
    return pod if isinstance(pod, Pod) and pod.metadata.uid == ref.uid and occupies(pod) else None


def mark(epoch: int, attempt: int, place: Place) -> str:
    return f"{epoch}.{attempt}/{place}"


def packed(plan: Plan) -> Object:
    """Returns what of a plan is written, in its Gang or in a GangPlan; raises `PlanTooLarge`."""
    body = _pack(plan)
    blob = base64.b64encode(zlib.compress(body, 6)).decode()
    for size, most in ((len(blob), MAX_BLOB), (len(body), MAX_BODY)):
        if size > most:
            many = (
                f"{len(plan.nodes)} places" if isinstance(plan, PlacementPlan) else f"{len(plan.pods)} pods"
            )
            raise PlanTooLarge(many, size, most)
    return {"epoch": plan.epoch, "attempt": plan.attempt, "blob": blob}


def encode(plan: Plan) -> Object:
    """Returns the GangPlan object; raises `PlanTooLarge`."""
    return {
        "apiVersion": kinds.GANG_PLAN.api_version,
        "kind": kinds.GANG_PLAN.kind,
        "metadata": {"name": plan.name, "namespace": plan.namespace},
        "spec": {"gang": plan.record, **({"lease": plan.lease} if plan.lease else {}), **packed(plan)},
    }


def found(obj: GangPlan | Gang) -> Plan | None:
    """Returns the plan in an object, if there is one.

    A plan that cannot be read promises nothing, and says why; it is replaced, or undone like any other.
    """
    meta = obj.metadata
    if not isinstance(obj, Gang):
        return _decoded(obj, obj.spec.gang, obj.spec, uid=meta.uid, named=meta.name)
    if obj.plan is None:
        return None
    uid = f"{meta.uid}/{obj.plan.epoch}.{obj.plan.attempt}"
    return _decoded(obj, meta.name, obj.plan, uid=uid, held=obj)


def _decoded(
    obj: GangPlan | Gang, record: str, plan: OpenPlan, *, uid: str, named: str = "", held: Gang | None = None
) -> Plan:
    namespace = obj.metadata.namespace
    try:
        body = _BODY.decode(_inflated(base64.b64decode(plan.blob)))
        if not body.gang.startswith(f"{namespace}/"):
            raise ValueError(f"its gang {body.gang} is of another namespace")
        header = (GangId(body.gang), record, namespace, plan.epoch, plan.attempt)
        if body.remade:
            recorded = tuple(_recorded(uid, pod) for uid, pod in body.remade)
            return RecreationPlan(*header, recorded, body.why, body.alone, uid=uid, named=named, held=held)
        return PlacementPlan(
            *header,
            nodes=_unpack_places(body.places, body.nodes),
            pods=_unpack_pods(body.pods),
            victims=tuple(map(_victim, body.victims)),
            uid=uid,
            named=named,
            held=held,
        )
    except (*UNREADABLE, zlib.error) as error:
        header = (GangId(f"{namespace}/{record}"), record, namespace, plan.epoch, plan.attempt)
        wrong = f"{type(obj).__name__} {obj.key}: {error}"
        return PlacementPlan(*header, nodes={}, unreadable=wrong, uid=uid, named=named, held=held)


#: An index or a count of places or nodes; seconds since the epoch that are a valid date.
_Index = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Date = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class _Victim(msgspec.Struct, array_like=True):
    """A victim as it is recorded. Records of earlier versions end after `whole`."""

    gang: str
    owner: tuple[str, str, str, str, str] | None
    pods: list[tuple[str, str, str]]
    whole: bool
    at: _Date = 0.0
    work_lost: _Amount = 0.0
    reclaimed: bool = False


class _Body(msgspec.Struct):
    """The content of the blob."""

    gang: str
    nodes: list[str]
    #: by pod set, runs: first index, count, number of the node
    places: dict[str, list[tuple[_Index, _Index, _Index]]]
    #: by pod set, runs of indices, and the uids
    pods: dict[str, tuple[list[tuple[_Index, _Index]], str | list[str]]]
    victims: list[_Victim]
    remade: list[tuple[str, Object]] = []
    why: str = ""
    alone: bool = False


_BODY: Final = msgspec.json.Decoder(_Body)


def _inflated(blob: bytes) -> bytes:
    inflate = zlib.decompressobj()
    text = inflate.decompress(blob, MAX_BODY)
    if not inflate.eof:
        raise ValueError(f"is cut off, or has more than {MAX_BODY} bytes")
    return text


def _victim(victim: _Victim) -> VictimRef:
    return VictimRef(
        GangId(victim.gang),
        OwnerRef(*victim.owner) if victim.owner else None,
        tuple(PodRef(namespace, name, PodId(uid)) for namespace, name, uid in victim.pods),
        victim.whole,
        victim.at,
        victim.work_lost,
        victim.reclaimed,
    )


def _recorded(uid: str, pod: Object) -> RecordedPod:
    name = pod["metadata"]["name"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"a pod to be re-created has the name {name!r}")
    return RecordedPod(PodId(uid), pod)


def _pack(plan: Plan) -> bytes:
    body: Object = {"gang": plan.gang, "nodes": [], "places": {}, "pods": {}, "victims": []}
    if isinstance(plan, PlacementPlan):
        body["nodes"], body["places"] = _pack_places(plan.nodes)
        body["pods"] = _pack_pods(plan.pods)
        body["victims"] = list(map(_pack_victim, plan.victims))
    elif plan.pods:
        body |= {"remade": [(pod.uid, pod.body) for pod in plan.pods], "why": plan.why, "alone": plan.alone}
    return msgspec.json.encode(body)


def _pack_places(nodes: Mapping[Place, NodeName]) -> tuple[list[NodeName], dict[str, list[list[int]]]]:
    """Returns the nodes' names, and per pod set runs of places on one node: first index, count, node."""
    names = sorted(set(nodes.values()))
    number = {name: i for i, name in enumerate(names)}
    places: dict[str, list[list[int]]] = {}
    for place, node in sorted(nodes.items()):
        runs = places.setdefault(place.pod_set, [])
        if runs and runs[-1][2] == number[node] and runs[-1][0] + runs[-1][1] == place.index:
            runs[-1][1] += 1
        else:
            runs.append([place.index, 1, number[node]])
    return names, places


def _pack_victim(victim: VictimRef) -> tuple[object, ...]:
    owner = victim.owner
    return (
        victim.gang,
        owner and [owner.api_version, owner.kind, owner.namespace, owner.name, owner.uid],
        [(pod.namespace, pod.name, pod.uid) for pod in victim.pods],
        victim.whole,
        victim.at,
        victim.work_lost,
        victim.reclaimed,
    )


def _pack_pods(pods: Mapping[Place, PodId]) -> dict[str, list[Any]]:
    """Per pod set, runs of indices and the uids. UUIDs are bare digits, two of which compress into a byte."""
    packed: dict[str, list[Any]] = {}
    for place, uid in sorted(pods.items()):
        runs, uids = packed.setdefault(place.pod_set, [[], []])
        if runs and sum(runs[-1]) == place.index:
            runs[-1][1] += 1
        else:
            runs.append([place.index, 1])
        uids.append(uid)
    for both in packed.values():
        if all(map(_UUID.fullmatch, both[1])):
            both[1] = "".join(both[1]).replace("-", "")
    return packed


def _unpack_pods(
    packed: Mapping[str, tuple[list[tuple[int, int]], str | list[str]]],
) -> dict[Place, PodId]:
    _bound(count for runs, _ in packed.values() for _, count in runs)
    pods: dict[Place, PodId] = {}
    for pod_set, (runs, uids) in packed.items():
        if isinstance(uids, str):
            uids = [str(UUID(uids[i : i + 32])) for i in range(0, len(uids), 32)]
        places = (Place(pod_set, first + i) for first, count in runs for i in range(count))
        pods.update(zip(places, map(PodId, uids), strict=True))
    return pods


def _unpack_places(
    places: Mapping[str, list[tuple[int, int, int]]], names: list[str]
) -> dict[Place, NodeName]:
    _bound(count for runs in places.values() for _, count, _ in runs)
    return {
        Place(pod_set, first + i): NodeName(names[node])
        for pod_set, runs in places.items()
        for first, count, node in runs
        for i in range(count)
    }


def _bound(counts: Iterable[int]) -> None:
    if (total := sum(counts)) > MOST_PLACES:
        raise ValueError(f"has {total} places; a gang has at most {MOST_PLACES}")
