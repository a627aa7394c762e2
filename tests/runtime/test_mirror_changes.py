"""A mirror that has seen objects come, change and go shows what one shows that has only seen what is left.

The latter is what the next leader has. Some of the objects are spoiled. All that the core has been told must
come to the same, too, and each gang that shows something else than before must be visited. Two things alone
depend on the past (`muster.translate.places`, `muster.translate.podgroup.places`): the places of pods that no
annotation binds, and the places that are kept for pods that have been lost.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec
from hypothesis import example, given, seed, settings
from hypothesis import strategies as st
from msgspec import structs

from muster.api import kinds
from muster.api.base import AnyKind, Resource
from muster.api.kinds import POD
from muster.core.words import events
from muster.core.words.devices import DeviceKindChanged, DeviceKindRemoved, DevicesChanged
from muster.core.words.gang import Code, GangId, PodId
from muster.kube.decode import decode
from muster.names import CHECKPOINT, EXCLUSIVE, GANG, HOLD, PLAN, PRIORITY, QUEUE
from muster.runtime.mirror import WATCHED, Changes, Mirror
from muster.translate.group import Group
from tests.objects import CLUSTER, TIME
from tests.spoiled import STRANGE as ANY
from tests.spoiled import places
from tests.tiers import examples

#: Where something is written in an object, and what. Any: JSON
Path = tuple[str | int, ...]
Edit = tuple[Path, Any]
Items = dict[tuple[AnyKind, str], Resource]


def owned(kind: str, name: str, number: int = 1) -> list[Any]:
    api = {"Job": "batch/v1", "JobSet": "jobset.x-k8s.io/v1alpha2", "DaemonSet": "apps/v1"}[kind]
    return [
        {
            "apiVersion": api,
            "kind": kind,
            "name": name,
            "uid": uid(kind, f"ns/{name}", number),
            "controller": True,
        }
    ]


def uid(kind: str, key: str, number: int) -> str:
    return f"{kind}-{key}-{number}"


def base() -> Iterator[tuple[str, tuple[AnyKind, Any]]]:
    for kind, body in CLUSTER:
        if kind in WATCHED:
            body = copy.deepcopy(body)
            for owner in body["metadata"].get("ownerReferences", ()):
                owner["uid"] = uid(owner["kind"], f"ns/{owner['name']}", 1)
            yield f"{kind.kind} {body['metadata']['name']}", (kind, body)


GPU: Final[Any] = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
RESULT: Final[Any] = {"request": "r", "driver": "gpu.x", "pool": "n0", "device": "gpu-0"}
#: A pod of PodGroup x has a claim from a template, which has been made.
OF_DEVICES: Final[list[tuple[AnyKind, Any]]] = [
    (kinds.DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {}}),
    (
        kinds.RESOURCE_SLICE,
        {
            "metadata": {"name": "slice"},
            "spec": {
                "driver": "gpu.x",
                "nodeName": "n0",
                "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
            },
        },
    ),
    (
        kinds.RESOURCE_CLAIM_TEMPLATE,
        {"metadata": {"name": "t", "namespace": "ns"}, "spec": {"spec": {"devices": GPU}}},
    ),
    (
        kinds.RESOURCE_CLAIM,
        {
            "metadata": {
                "name": "made",
                "namespace": "ns",
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": "claiming",
                        "uid": uid("Pod", "ns/claiming", 1),
                        "controller": True,
                    }
                ],
            },
            "spec": {"devices": GPU},
            "status": {
                "allocation": {"devices": {"results": [RESULT]}},
                "reservedFor": [
                    {"resource": "pods", "name": "claiming", "uid": uid("Pod", "ns/claiming", 1)}
                ],
            },
        },
    ),
    (
        kinds.POD,
        {
            "metadata": {
                "name": "claiming",
                "namespace": "ns",
                "labels": {"scheduling.x-k8s.io/pod-group": "x"},
                "creationTimestamp": TIME,
            },
            "spec": {
                "schedulerName": "muster",
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
                "containers": [{"name": "c"}],
            },
            "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]},
        },
    ),
]

BASE: Final = dict(base()) | {
    f"{kind.kind} {body['metadata']['name']}": (kind, body) for kind, body in OF_DEVICES
}
#: What a world keeps by kind: it has an entry for each kind even if there is no object.
BY_KIND: Final = ("_objects", "_groups", "_using", "_asking", "_in_namespace")
NAMES: Final = ["x", "k", "l", "job", "set", "bare"]
#: Values that may be anywhere; the long ones are for other tests.
STRANGE: Final = [value for value in ANY if len(str(value)) < 50]
KOORDINATOR: Final = "gang.scheduling.koordinator.sh/"
GROUPS: Final = ['["ns/k", "ns/l"]', '["ns/k", "ns/x"]', '["ns2/k", "ns/l"]', "["]
OWNERS: Final = [
    [],
    owned("Job", "job"),
    owned("Job", "job", 2),
    owned("Job", "set-w-0"),
    owned("JobSet", "set"),
    owned("JobSet", "staged"),
    owned("DaemonSet", "d"),
]
CONDITIONS: Final = [[], *([{"type": each, "status": "True"}] for each in ("Complete", "Failed", "Ready"))]
#: What may be written where, in objects that have the field or whose kind is named.
EDITS: Final[list[tuple[str, Path, Sequence[Any]]]] = [
    ("", ("metadata", "name"), NAMES),
    ("", ("metadata", "namespace"), ["ns2"]),
    ("", ("metadata", "labels"), [{}, {"app": "y"}, {"team": "x"}]),
    ("", ("metadata", "annotations"), [{}]),
    ("", ("metadata", "labels", GANG), ["true", "false", "x"]),
    ("", ("metadata", "labels", QUEUE), ["a", "b"]),
    ("", ("metadata", "annotations", HOLD), ["true"]),
    ("", ("metadata", "annotations", PRIORITY), ["high"]),
    ("", ("metadata", "annotations", EXCLUSIVE), ["rack"]),
    ("", ("metadata", "annotations", KOORDINATOR + "groups"), GROUPS),
    ("Job JobSet Pod", ("metadata", "deletionTimestamp"), [TIME]),
    ("Job Pod", ("metadata", "ownerReferences"), OWNERS),
    ("Pod", ("metadata", "labels", "scheduling.x-k8s.io/pod-group"), [*NAMES, ""]),
    ("Pod", ("metadata", "labels", "pod-group.scheduling.sigs.k8s.io"), [*NAMES, ""]),
    ("Pod", ("metadata", "annotations", KOORDINATOR + "name"), ["x", "k", "l"]),
    ("Pod", ("metadata", "annotations", KOORDINATOR + "min-available"), ["1", "2", "x"]),
    ("Pod", ("metadata", "annotations", PLAN), ["1.1/main/0", "1.1/main/1", "1.1/w/1", "2.1/x"]),
    ("Pod", ("metadata", "annotations", CHECKPOINT), [TIME]),
    ("Pod", ("spec", "schedulerName"), ["other", "default-scheduler", ""]),
    ("Pod", ("spec", "nodeName"), ["n0", "n1", ""]),
    ("Pod", ("spec", "schedulingGates"), [[], [{"name": "g"}]]),
    ("Pod", ("spec", "priority"), [9]),
    ("Job JobSet", ("spec", "suspend"), [True]),
    ("", ("spec", "parallelism"), [1, 3]),
    ("", ("spec", "minMember"), [0, 2]),
    ("", ("spec", "networkTopologySpec"), [[], [{"topologyLayer": "zone", "labelKey": ["zone"]}]]),
    ("", ("spec", "hard"), [{"pods": "1"}]),
    ("", ("spec", "minAvailable"), [1]),
    ("", ("spec", "selector"), [{}]),
    ("", ("spec", "gang"), ["podgroup-x", "koordinator-k"]),
    ("", ("status", "phase"), ["Pending", "Running", "Succeeded", "Failed"]),
    ("", ("status", "conditions"), CONDITIONS),
    ("", ("status", "used"), [{"pods": "2"}]),
    ("", ("status", "allocation"), [None, {"devices": {"results": [{**RESULT, "device": "gpu-1"}]}}]),
    ("", ("status", "reservedFor"), [None, [{"resource": "pods", "name": "x", "uid": "x"}]]),
    ("", ("status", "resourceClaimStatuses"), [[], [{"name": "gpu"}]]),
    ("", ("spec", "resourceClaims"), [[{"name": "gpu", "resourceClaimName": "made"}], []]),
    ("ResourceClaim", ("spec", "devices"), [{"requests": [{"name": "r", "exactly": {"count": 2}}]}]),
    ("ResourceClaimTemplate", ("spec", "spec", "devices"), [{"requests": []}]),
]
AROUND: Final = [
    "ClusterNetworkTopology default",
    "PriorityClass high",
    "Namespace ns",
    "ResourceQuota quota",
]
FAMILIES: Final = [
    ["JobSet set", "JobSet staged", "Job set-w-0", "Pod set-w-0-0", *AROUND],
    ["Job job", "Pod job-0", "Job set-w-0", "Pod set-w-0-0", "Gang job-job", "GangPlan job-job-1", *AROUND],
    ["PodGroup x", "Pod x-0", "Namespace ns"],
    ["PodGroup x", *(f"{kind.kind} {body['metadata']['name']}" for kind, body in OF_DEVICES)],
    ["PodGroup x", "PodGroup k", "Pod x-0", "Pod k-0", "Pod l-0", "Pod bare", *AROUND],
    [*BASE],
]


class Change(NamedTuple):
    """An object is put as it is in `BASE`, or as it was last put, but for some edits; or it goes."""

    what: str
    edits: list[Edit]
    further: bool
    gone: bool
    #: which of several objects that have had its name one after the other
    number: int


@cache
def editable(what: str) -> list[tuple[Path, Sequence[Any]]]:
    kind, body = BASE[what]
    return [
        (path, values)
        for of, path, values in EDITS
        if kind.kind in of.split() or (not of and (path[-1] in body.get(path[0], ()) or len(path) > 2))
    ]


@cache
def everywhere(what: str) -> list[Path]:
    return [path for path in places(BASE[what][1]) if path]


def written(what: str, edits: list[Edit]) -> Any:
    body = copy.deepcopy(BASE[what][1])
    for path, value in edits:
        at: Any = body
        with suppress(TypeError, AttributeError, IndexError):  # an earlier edit has removed the place
            for key in path[:-1]:
                at = at.setdefault(key, {}) if isinstance(at, dict) else at[key]
            at[path[-1]] = copy.deepcopy(value)
    return body


@st.composite
def change(draw: st.DrawFn, family: list[str]) -> Change:
    what = draw(st.sampled_from(family))
    meant = draw(st.lists(st.sampled_from(editable(what)), max_size=3))
    edits = [(path, draw(st.sampled_from(values))) for path, values in meant]
    if BASE[what][0] is POD and draw(st.booleans()):
        edits.append((("spec", "nodeName"), draw(st.sampled_from(["n0", "n1"]))))
    if draw(st.integers(0, 9)) == 9:
        edits.append((draw(st.sampled_from(everywhere(what))), draw(st.sampled_from(STRANGE))))
    return Change(
        what,
        edits,
        further=draw(st.booleans()),
        gone=draw(st.integers(0, 4)) == 4,
        number=1 + (draw(st.integers(0, 5)) == 5),
    )


#: What changes from one drain to the next.
ROUNDS: Final = st.sampled_from(FAMILIES).flatmap(
    lambda family: st.lists(st.lists(change(family), min_size=1, max_size=10), min_size=1, max_size=20)
)


class Watched:
    """A mirror, and all that it has told the core."""

    def __init__(self, schedulers: frozenset[str] | None, *, whole: bool) -> None:
        self.mirror = Mirror(schedulers, whole=whole)
        self.told: dict[tuple[object, ...], Any] = {}

    def drain(self) -> Changes:
        found = self.mirror.drain(0.0)
        for event in found.events:
            self._take(event)
        return found

    def _take(self, event: events.Event) -> None:
        told = self.told
        match event:
            case events.PodsBound():
                told.update((("pod", pod), replace(event, pods={pod: event.pods[pod]})) for pod in event.pods)
            case events.PodsEnded():
                for pod in event.pods:
                    del told["pod", pod]
            case events.GangSubmitted():
                told["gang", event.gang.id] = event.gang
            case events.GangRemoved():
                del told["gang", event.gang]
                told.pop(("retired", event.gang), None)
            case events.PlacesRetired():
                told["retired", event.gang] = event.places
            case events.NodeChanged():
                told["node", event.name] = event
            case events.NodeRemoved():
                del told["node", event.name]
            case events.QueueChanged():
                told["queue", event.queue.name] = event
            case events.QueueRemoved():
                del told["queue", event.name]
            case events.QuotaChanged():
                told["quota", event.namespace, event.name] = event
            case events.QuotaRemoved():
                del told["quota", event.namespace, event.name]
            case events.BudgetChanged():
                told["budget", event.namespace, event.name] = event
            case events.BudgetRemoved():
                del told["budget", event.namespace, event.name]
            case events.StartFailed():
                pass  # told once
            case events.LayersChanged():
                told["layers",] = event.layers
            case events.OutOfReach():
                told.pop(("hints",), None)
                if event.hints:
                    told["hints",] = event.hints
            case DeviceKindChanged() | DeviceKindRemoved():
                pass  # numbers of kinds depend on the past
            case DevicesChanged():
                shown = [device for device, _ in event.devices], event.taken
                told.pop(("devices", event.node), None)
                if event.devices:
                    told["devices", event.node] = shown
            case _:
                raise AssertionError(f"a mirror tells no {event}")

    def shown(self) -> dict[str, object]:
        """All that does not depend on the past."""
        mirror = self.mirror
        gangs = {*mirror.groups, *mirror.planned()}
        told = {key: replace(e, pods={}) if key[0] == "pod" else e for key, e in self.told.items()}
        return {
            "groups": {gang: _shown(group) for gang, group in mirror.groups.items()},
            "plans": {gang: [(plan.name, plan.epoch) for plan in mirror.plans(gang)] for gang in gangs},
            "planned": mirror.planned(),
            "owners": {owner: sorted(gangs) for owner, gangs in mirror._of_owner.items()},
            "nodes": mirror.nodes,
            "layers": mirror.world.layers.chain,
            "told": {
                key: event for key, event in told.items() if key[0] not in ("gang", "retired", "layers")
            },
        }

    def agrees(self) -> None:
        """The core has been told of the groups as they are shown."""
        groups = {gang: group for gang, group in self.mirror.groups.items() if not group.finished}
        assert self._told("gang") == {gang: group.gang for gang, group in groups.items()}
        retired = {gang: group.retired for gang, group in groups.items() if group.retired}
        assert {gang: places for gang, places in self._told("retired").items() if places} == retired
        bound = self._told("pod")
        for gang, group in groups.items():
            for pod in (*group.members, *group.leaving):
                if pod in bound:
                    place = group.members[pod].place if pod in group.members else None
                    assert (bound[pod].gang, bound[pod].pods[pod]) == (gang, place)

    def _told(self, what: str) -> dict[Any, Any]:
        return {key[1]: event for key, event in self.told.items() if key[0] == what}


def _shown(group: Group) -> dict[str, object]:
    """A group, apart from the places of its members, and those that are kept for pods that have been lost."""
    gang = group.gang
    taken = {place.pod_set for place in (*group.members.filled, *group.members.ready)}
    kept = {one.name for one in gang.pod_sets if group.source.kind == "PodGroup"} - taken
    shown = {field.name: getattr(group, field.name) for field in fields(group)}
    shown |= {f"gang.{field.name}": getattr(gang, field.name) for field in fields(gang)}
    shown["members"] = {pod: member.pod for pod, member in group.members.items()}
    shown["leaving"] = dict(group.leaving)
    shown["set_groups"] = {name: of for name, of in group.set_groups.items() if name not in kept}
    shown["gang.pod_sets"] = [
        (one.name, one.shape, one.labels, one.quotas) for one in gang.pod_sets if one.name not in kept
    ]
    if group.source.kind != "PodGroup" or gang.gate is None or gang.gate.code is not Code.INVALID:
        del shown["gang.gate"]  # what is missing depends on the places that are kept
    for what in ("gang", "retired", "gang.min_count"):
        del shown[what]
    return shown


def plain(what: str, *edits: Edit, gone: bool = False) -> Change:
    return Change(what, [*edits], further=False, gone=gone, number=1)


def foreign(name: str, *, gone: bool = False) -> Change:
    """A pod of PodGroup k, for a scheduler that is not muster."""
    return plain("Pod k-0", (("metadata", "name"), name), (("spec", "schedulerName"), "other"), gone=gone)


#: A PodGroup is no gang while only pods of another scheduler name it.
OF_ANOTHER: Final = [
    [plain("PodGroup k")],
    [foreign("x")],
    [foreign("y")],
    [foreign("x", gone=True)],
    [foreign("y", gone=True)],
    [foreign("x"), plain("Pod k-0")],
    [plain("Pod k-0", gone=True)],
]


@seed(0)
@example(rounds=OF_ANOTHER, schedulers=frozenset({"muster"}), whole=False)
@settings(max_examples=examples(250), database=None)
@given(
    rounds=ROUNDS,
    schedulers=st.sampled_from([None, frozenset({"muster"}), frozenset({"other", "muster"})]),
    whole=st.booleans(),
)
def test_what_a_mirror_shows_does_not_depend_on_what_has_been(
    rounds: list[list[Change]], schedulers: frozenset[str] | None, whole: bool
) -> None:
    seen, versions = Watched(schedulers, whole=whole), count(1)
    items: Items = {}
    edits: dict[str, list[Edit]] = {}
    ended: set[str] = set()
    before: dict[GangId, tuple[object, ...]] = {}
    for some in rounds:
        for each in some:
            edits[each.what] = [*(edits.get(each.what, ()) if each.further else ()), *each.edits]
            put(each, edits[each.what], seen.mirror, items, ended, str(next(versions)))
        changes = seen.drain()
        now = {gang: _visible(group) for gang, group in seen.mirror.groups.items()}
        unlike = {gang for gang in before.keys() | now if before.get(gang) != now.get(gang)}
        assert unlike <= changes.gangs.keys(), "each of them must be visited"
        before = now
        new = Watched(schedulers, whole=whole)
        for kind, key in sorted(items, key=lambda one: (WATCHED.index(one[0]), one[1])):
            new.mirror.change(kind, None, items[kind, key])
        new.drain()
        assert seen.shown() == new.shown()
        seen.agrees()
        new.agrees()
    for (kind, _), item in items.items():
        seen.mirror.change(kind, item, None)
    seen.drain()
    assert [*seen.told] in ([], [("layers",)])
    for part in (seen.mirror, seen.mirror.world, seen.mirror._allowances):
        for name, value in vars(part).items():
            if name == "selected_namespaces":
                continue  # a cache with a bound, cleared when a namespace changes
            kept = [one for one in value.values() if one] if name in BY_KIND else value
            assert not isinstance(value, dict | set) or not kept, name


def _visible(group: Group) -> tuple[object, ...]:
    """What the committer may act on, apart from states of pods that say nothing new."""
    places: dict[PodId, object] = {
        pod: (member.place, member.pod.spec) for pod, member in group.members.items()
    }
    return places, group.gang, group.owner, group.retired, group.finished, group.warnings


def put(
    change: Change, edits: list[Edit], mirror: Mirror, items: Items, ended: set[str], version: str
) -> None:
    """Tells the mirror of a change, as a reflector would. No two objects ever have the same uid."""
    kind, _ = BASE[change.what]
    try:
        found = decode(kind, json.dumps(written(change.what, edits)).encode())
    except (msgspec.DecodeError, RecursionError):
        return  # it is no object of anybody
    old = items.get(key := (kind, found.key))
    if change.gone:
        if old is not None:
            ended.add(old.metadata.uid)
            mirror.change(kind, items.pop(key), None)
        return
    uids = (uid(kind.kind, found.key, number) for number in count(change.number))
    mine = next(one for one in uids if one not in ended)
    meta = structs.replace(found.metadata, uid=mine, resource_version=version)
    if old is not None and old.metadata.uid == meta.uid:
        meta = structs.replace(meta, creation_timestamp=old.metadata.creation_timestamp)
    elif old is not None:
        ended.add(old.metadata.uid)
        mirror.change(kind, old, None)
        old = None
    items[key] = structs.replace(found, metadata=meta)
    mirror.change(kind, old, items[key])
