"""Which devices count, and what pods are told that ask for a resource which exists as devices only."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.api.base import Object, Resource
from muster.api.fields import convert
from muster.api.kinds import DEVICE_CLASS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from muster.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from muster.app.plan.preflight import Preflight
from muster.app.snapshot import Snapshot
from muster.core.words.devices import DeviceKind, DeviceKindChanged, DeviceKindRemoved, DevicesChanged, KindId
from muster.core.words.events import OutOfReach
from muster.core.words.gang import Code, GangId
from muster.kube.decode import decode
from muster.runtime.mirror import Mirror
from muster.translate.devices import Devices
from muster.translate.devices.pools import usable
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.snapshot import Objects, typed
from tests.tiers import examples


def device_class(name: str = "gpu.nvidia.com", extended: str = "") -> Object:
    spec = {"extendedResourceName": extended} if extended else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "uid": name},
        "spec": {**spec, "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }


def resource_slice(
    name: str,
    devices: Sequence[str] = ("gpu-0", "gpu-1"),
    *,
    pool: str = "n0",
    node: str = "",
    generation: int = 1,
    count: int = 1,
    driver: str = "gpu.nvidia.com",
) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "driver": driver,
            "nodeName": node or pool,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": each} for each in devices],
        },
    }


def a_slice(name: str, *devices: str, **more: Any) -> ResourceSlice:  # Any: fields of `resource_slice`
    return convert(resource_slice(name, devices or ("gpu-0",), **more), ResourceSlice)


def a_class(name: str = "gpu.nvidia.com", extended: str = "") -> DeviceClass:
    return convert(device_class(name, extended), DeviceClass)


def hint(devices: Devices) -> OutOfReach | None:
    return next((each for each in devices.events() if isinstance(each, OutOfReach)), None)


def hints(devices: Devices, *objects: Resource) -> dict[str, str]:
    for each in objects:
        devices.change(None, each)
    event = hint(devices)
    of_resources = (each for each in event.hints if "still being evaluated" not in each[1]) if event else ()
    return dict(of_resources)


def test_a_driver_hints_at_its_resource_unless_a_class_stands_for_it() -> None:
    told = hints(Devices(), a_slice("s"), a_class(extended="example.com/gpu"))
    assert [*told] == ["nvidia.com/gpu"]
    assert told["nvidia.com/gpu"].startswith("driver gpu.nvidia.com publishes nvidia.com/gpu as devices")
    assert "write extendedResourceName: nvidia.com/gpu into its DeviceClass" in told["nvidia.com/gpu"]
    assert hints(Devices(), a_slice("s"), a_class(extended="nvidia.com/gpu")) == {}


def test_a_class_without_devices_hints_at_nothing() -> None:
    assert hints(Devices(), a_class(extended="nvidia.com/gpu")) == {}
    assert hints(Devices(), a_class(), a_slice("s", count=2)) == {}, "of an incomplete pool"


def test_the_event_comes_only_when_it_differs() -> None:
    devices = Devices()
    slices = [a_slice("s", pool="n0"), a_slice("t", pool="n1")]
    assert hints(devices, *slices)
    devices.change(slices[0], a_slice("s", "a", "b", pool="n0"))
    devices.change(None, a_class("other"))
    devices.change(a_class("other"), None)
    devices.change(slices[1], None)
    assert hint(devices) is None
    devices.change(a_slice("s", "a", "b", pool="n0"), None)
    assert hint(devices) == OutOfReach(())


@pytest.mark.parametrize(
    ("slices", "names"),
    [
        ([("a", {}), ("b", {"generation": 2})], ["b"]),
        ([("a", {"count": 2}), ("b", {"count": 2})], ["a", "b"]),
        ([("a", {"count": 2})], []),
        ([("a", {"count": 2}), ("b", {"count": 1})], []),
        ([("a", {"count": 0})], []),
        ([("a", {}), ("b", {"generation": 2, "count": 2})], []),
        ([("a", {"generation": 7}), ("b", {"generation": 1})], ["a"]),
        ([("a", {"count": 2, "devices": ["x"]}), ("b", {"count": 2, "devices": ["x"]})], []),
        ([("a", {"devices": ["x", "x"]})], []),
        ([], []),
    ],
)
def test_only_a_complete_newest_generation_counts(
    slices: list[tuple[str, dict[str, Any]]], names: list[str]
) -> None:
    made = {}
    for name, more in slices:
        devices = more.pop("devices", [f"{name}-0"])
        made[name] = a_slice(name, *devices, **more)
    assert [each.metadata.name for each in usable(made)] == names


#: Generations, counts and devices of some slices.
Drawn = list[tuple[int, int, list[str]]]
DRAWN: Final = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.lists(st.sampled_from("xyz"), max_size=2)), max_size=3
)


@settings(max_examples=examples(300))
@given(DRAWN, DRAWN)
@example([(1, 1, ["x"])], [(999, 1, ["x"])])
def test_no_other_node_says_what_a_node_has_that_says_all_itself(own: Drawn, others: Drawn) -> None:
    """A kubelet, or a driver, may write slices of its own node only, but gives their pools any name."""

    def made(node: str, drawn: Drawn) -> dict[str, ResourceSlice]:
        each = (
            (f"{node}{i}", generation, count, names) for i, (generation, count, names) in enumerate(drawn)
        )
        return {
            name: a_slice(name, *names, pool="p", node=node, generation=generation, count=count)
            for name, generation, count, names in each
        }

    alone, both = usable(made("n", own)), usable(made("n", own) | made("other", others))
    if alone:
        assert tuple(each for each in both if each.spec.node_name == "n") == alone


def test_a_pool_of_several_nodes_counts_once_all_its_slices_are_there() -> None:
    slices = {each: a_slice(each, f"gpu-{each}", pool="p", node=each, count=2) for each in ("a", "b")}
    assert usable(slices) == (slices["a"], slices["b"])
    assert usable({"a": slices["a"]}) == ()


SLICES: Final = st.builds(
    lambda name, pool, driver, generation, count, devices: a_slice(
        name, *devices, pool=pool, driver=driver, generation=generation, count=count
    ),
    st.sampled_from("abc"),
    st.sampled_from(["n0", "n1"]),
    st.sampled_from(["gpu.nvidia.com", "x", "a.b"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.lists(st.sampled_from("xy"), max_size=2),
)
CLASSES: Final = st.builds(a_class, st.sampled_from(["k", "l"]), st.sampled_from(["", "e.com/a", "b.com/a"]))


@given(st.lists(st.tuples(SLICES | CLASSES, st.booleans(), st.booleans()), max_size=12))
def test_any_history_tells_what_the_objects_as_they_are_tell(
    changes: list[tuple[Resource, bool, bool]],
) -> None:
    devices, known = Devices(), dict[tuple[type, str], Resource]()
    told = OutOfReach(())
    for obj, gone, asked in changes:
        key = type(obj), obj.metadata.name
        before = known.pop(key, None)
        if not gone:
            known[key] = obj
        if before is not None or not gone:
            devices.change(before, None if gone else obj)
        if asked:
            told = hint(devices) or told
    told = hint(devices) or told
    anew = Devices()
    for obj in known.values():
        anew.change(None, obj)
    assert told == (hint(anew) or OutOfReach(()))


class Told:
    """Devices, and what a core knows of them."""

    def __init__(self) -> None:
        self.devices = Devices()
        self.kinds: dict[KindId, DeviceKind] = {}
        self.nodes: dict[str, DevicesChanged] = {}

    def drain(self) -> int:
        """How many events about devices there were."""
        events = [each for each in self.devices.events() if not isinstance(each, OutOfReach)]
        for event in events:
            if isinstance(event, DeviceKindChanged):
                self.kinds[event.id] = event.kind
                continue
            if isinstance(event, DeviceKindRemoved):
                del self.kinds[event.id]
                continue
            assert all(kind in self.kinds for _, kind in event.devices), "kinds come first"
            self.nodes.pop(event.node, None)
            if event.devices:
                self.nodes[event.node] = event
        return len(events)

    def answer(self) -> int:
        """Answers as the expression of `device_class` would; returns how often it was evaluated."""
        asked = self.devices.questions()
        for expression, found in asked:
            self.devices.tell(expression, found, [each.driver == "gpu.nvidia.com" for each in found])
        return sum(len(found) for _, found in asked)

    @property
    def known(self) -> dict[str, list[tuple[str, DeviceKind, bool]]]:
        """By node its devices, without the numbers of their kinds."""
        return {
            name: [(id_, self.kinds[kind], id_ in node.taken) for id_, kind in node.devices]
            for name, node in self.nodes.items()
        }


def a_claim(name: str, *devices: str) -> ResourceClaim:
    results = [{"driver": "gpu.nvidia.com", "pool": "n0", "device": each} for each in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    return convert({"metadata": {"name": name, "namespace": "ns"}, "status": status}, ResourceClaim)


CLAIMS: Final = st.builds(
    lambda name, devices: a_claim(name, *devices),
    st.sampled_from("pq"),
    st.lists(st.sampled_from("xy"), max_size=2),
)


@given(st.lists(st.tuples(SLICES | CLASSES | CLAIMS, st.booleans(), st.integers(0, 3)), max_size=12))
def test_after_any_history_the_core_knows_the_devices_as_they_are(
    changes: list[tuple[Resource, bool, int]],
) -> None:
    told, known = Told(), dict[tuple[type, str], Resource]()
    for obj, gone, then in changes:
        key = type(obj), obj.metadata.name
        before = known.pop(key, None)
        if not gone:
            known[key] = obj
        if before is not None or not gone:
            told.devices.change(before, None if gone else obj)
        if then:
            told.drain()
        if then > 1:
            told.answer()
    anew = Told()
    for obj in known.values():
        anew.devices.change(None, obj)
    for each in (told, anew):
        each.drain()
        each.answer()
        each.drain()
        assert (each.drain(), each.devices.asks) == (0, False), "nothing is left to tell"
    assert told.known == anew.known
    assert bool(told.known) <= any(isinstance(each, DeviceClass) for each in known.values())


def test_without_a_class_the_core_is_told_of_no_devices_and_nothing_is_asked() -> None:
    told = Told()
    told.devices.change(None, a_slice("s"))
    told.devices.change(None, a_claim("c", "gpu-0"))
    assert (told.drain(), told.devices.asks) == (0, False)
    told.devices.change(None, a_class())
    assert told.drain() == 2
    assert told.answer() == 1
    told.drain()
    [(_, kind, taken)] = told.known["n0"]
    assert kind.answers == {"deviceclass/gpu.nvidia.com"}
    assert taken
    told.devices.change(a_class(), None)
    assert told.drain() == 1
    assert told.known == {}


def test_an_expression_is_evaluated_once_for_devices_that_it_does_not_tell_apart() -> None:
    told = Told()
    told.devices.change(None, a_class())
    for number in range(9):
        told.devices.change(None, a_slice(f"s{number}", "a", "b", pool=f"n{number}"))
    told.drain()
    assert told.answer() == 1
    told.devices.change(None, a_slice("more", pool="n9"))
    told.drain()
    assert told.answer() == 0


def test_a_class_or_a_claim_that_cannot_be_read_gives_no_device_away() -> None:
    told = Told()
    told.devices.change(None, a_slice("s"))
    spoiled = {"kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {"selectors": 7}}
    told.devices.change(None, decode(DEVICE_CLASS, msgspec.json.encode(spoiled)))
    told.devices.change(None, a_class())
    told.devices.change(None, claim := a_claim("c", "gpu-0"))
    meta = {"name": "c", "namespace": "ns"}
    body = msgspec.json.encode({"metadata": meta, "status": {"allocation": 7}})
    told.devices.change(claim, decode(RESOURCE_CLAIM, body))
    told.drain()
    told.answer()
    told.drain()
    [(_, kind, taken)] = told.known["n0"]
    assert kind.answers == {"deviceclass/gpu.nvidia.com"}
    assert taken


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {muster.dev/gang: "true"}}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      schedulerName: muster
      restartPolicy: Never
      containers:
      - {name: c, image: i, command: [x], resources: {limits: {%s: %d}}}
"""


def node(name: str, gpus: int = 0) -> Object:
    has = {"cpu": "64", "memory": "1Ti", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    status = {"allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]}
    meta = {"name": name, "uid": name}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def cluster(*objects: Object) -> Objects:
    return typed(objects, (NODE, DEVICE_CLASS, RESOURCE_SLICE))


def submitted(cluster: Objects, asks: str = "nvidia.com/gpu", count: int = 8) -> Snapshot:
    from muster.runtime.mirror import WATCHED

    job = load("f.yaml", Options(suffix="0" * 8, mode="gang"), text=JOB % (asks, count))
    objects = [{**each, "metadata": {"uid": "u", **each["metadata"]}} for each in job.objects]
    cluster.items |= typed(objects, WATCHED).items
    return Snapshot(cluster, frozenset({"muster"}))


DEVICES: Final = [resource_slice("s"), device_class(extended="nvidia.com/gpu")]


SAID: Final = "write extendedResourceName: nvidia.com/gpu into its DeviceClass"


@pytest.mark.parametrize(
    ("nodes", "devices", "asks", "count", "code", "message"),
    [
        ([0], DEVICES, "nvidia.com/gpu", 1, None, ""),
        ([0], DEVICES, "deviceclass.resource.kubernetes.io/gpu.nvidia.com", 1, None, ""),
        ([0], DEVICES, "nvidia.com/gpu", 2, Code.INSUFFICIENT_CAPACITY, "4 GPUs asked as 2 × 2; 2 are free"),
        ([0], DEVICES, "nvidia.com/gpu", 8, Code.NOTHING_MATCHES, "the largest matching node has 2"),
        ([0, 2], DEVICES, "nvidia.com/gpu", 2, None, ""),
        ([1], DEVICES, "nvidia.com/gpu", 2, Code.NOTHING_MATCHES, "the largest matching node has 1"),
        ([0], DEVICES[:1], "nvidia.com/gpu", 1, Code.NOTHING_MATCHES, SAID),
        ([0, 2], DEVICES[:1], "nvidia.com/gpu", 2, Code.INSUFFICIENT_CAPACITY, SAID),
        ([0], DEVICES[1:], "nvidia.com/gpu", 1, Code.NOTHING_MATCHES, "the largest matching node has 0"),
        ([0], DEVICES, "example.com/fpga", 1, Code.NOTHING_MATCHES, "has 0"),
    ],
)
def test_a_gang_may_have_what_nodes_have_as_devices(
    nodes: list[int], devices: list[Object], asks: str, count: int, code: Code | None, message: str
) -> None:
    """Nodes have so many GPUs by number; n0 has two devices. A node has them in one way."""
    pytest.importorskip("cel_expr_python", reason="the extra `devices` is not installed")
    found = cluster(*(node(f"n{i}", gpus) for i, gpus in enumerate(nodes)), *devices)
    why = submitted(found, asks, count).why(GangId("default/train"))
    assert (why.code if why is not None else None) is code
    assert message in (why.message if why is not None else "")
    assert (SAID in (why.message if why is not None else "")) == (message == SAID)


def test_a_hint_that_comes_or_goes_is_told_to_gangs_that_wait_already() -> None:
    mirror = Mirror(frozenset({"muster"}))
    found = submitted(cluster(node("n0")))
    core = found.scheduler()
    core.decide(0.0)
    a = a_slice("s")
    mirror.change(RESOURCE_SLICE, None, a)
    for event in mirror.drain(0.0).events:
        core.apply(event)
    (wait,) = core.decide(1.0)
    assert SAID in str(wait)
    mirror.change(RESOURCE_SLICE, a, None)
    for event in mirror.drain(2.0).events:
        core.apply(event)
    (wait,) = core.decide(2.0)
    assert "as devices" not in str(wait)


@pytest.mark.parametrize(("gpus", "said"), [(0, True), (1, False)])
def test_a_job_is_warned_before_it_is_submitted(gpus: int, said: bool) -> None:
    job = load("f.yaml", Options(suffix="0" * 8, mode="gang"), text=JOB % ("nvidia.com/gpu", 8))
    there = [*DEVICES[:1], device_class(extended="example.com/other")]
    found: Preflight = Snapshot(cluster(node("n", gpus), *there), frozenset({"muster"})).preflight(
        job.objects
    )
    assert [*found.out_of_reach] == ["train"] * said
    assert found.never == []
    alone = Snapshot(cluster(node("n"), *there)).preflight(job.objects)
    (why,) = alone.misfits()
    assert "NothingMatches" in why, "nor is it said that there are no GPUs"
    assert "as devices" in why


def test_why_a_class_has_no_devices_is_told_to_those_who_ask_for_its_resource() -> None:
    devices = Devices()
    assert hints(devices, a_slice("s"), a_class(extended="nvidia.com/gpu")) == {}
    for expression, found in devices.questions():
        devices.tell(expression, found, [False] * len(found), "it is INT")
    assert hints(devices)["nvidia.com/gpu"].startswith("DeviceClass gpu.nvidia.com has no devices: it is INT")
    for expression, found in [("device.driver == 'gpu.nvidia.com'", [])]:
        devices.tell(expression, found, [])
    assert hints(devices) == {}
