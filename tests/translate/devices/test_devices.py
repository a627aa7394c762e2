"""Which devices count, and what pods are told that ask for a resource which exists as devices only."""

from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object, Resource
from muster.api.fields import convert
from muster.api.kinds import DEVICE_CLASS, NODE, RESOURCE_SLICE
from muster.api.resource_v1 import DeviceClass, ResourceSlice
from muster.app.plan.preflight import Preflight
from muster.app.snapshot import Snapshot
from muster.core.words.events import OutOfReach
from muster.core.words.gang import Code, GangId
from muster.runtime.mirror import Mirror
from muster.translate.devices import Devices
from muster.translate.devices.pools import usable
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from muster.workloads.snapshot import Objects, typed


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
            "nodeName": pool,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": each} for each in devices],
        },
    }


def a_slice(name: str, *devices: str, **more: Any) -> ResourceSlice:  # Any: fields of `resource_slice`
    return convert(resource_slice(name, devices or ("gpu-0",), **more), ResourceSlice)


def a_class(name: str = "gpu.nvidia.com", extended: str = "") -> DeviceClass:
    return convert(device_class(name, extended), DeviceClass)


def hints(devices: Devices, *objects: Resource) -> dict[str, str]:
    for each in objects:
        devices.change(None, each)
    event = devices.event()
    return dict(event.hints) if event is not None else {}


def test_a_resource_is_named_by_its_driver_its_class_and_its_extended_name() -> None:
    told = hints(Devices(), a_slice("s"), a_class(extended="example.com/gpu"))
    assert [*told] == [
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
        "example.com/gpu",
        "nvidia.com/gpu",
    ]
    assert told["nvidia.com/gpu"].startswith("driver gpu.nvidia.com publishes nvidia.com/gpu as devices")
    told = hints(Devices(), a_slice("s"), a_class(extended="nvidia.com/gpu"))
    assert told["nvidia.com/gpu"].startswith("DeviceClass gpu.nvidia.com has nvidia.com/gpu as devices")
    assert "run a device plug-in" in told["nvidia.com/gpu"]


def test_a_class_without_devices_hints_at_nothing() -> None:
    assert hints(Devices(), a_class(extended="nvidia.com/gpu")) == {}
    assert hints(Devices(), a_class(), a_slice("s", count=2)) == {}, "of an incomplete pool"


def test_a_class_of_another_driver_hints_at_nothing() -> None:
    assert "e.com/x" in hints(Devices(), a_slice("s"), a_class("c", "e.com/x"))
    of_another = hints(Devices(), a_slice("s", driver="nic.example.com"), a_class("c", "e.com/x"))
    assert [*of_another] == ["example.com/nic"]


def test_the_event_comes_only_when_it_differs() -> None:
    devices = Devices()
    slices = [a_slice("s", pool="n0"), a_slice("t", pool="n1")]
    assert hints(devices, *slices)
    devices.change(slices[0], a_slice("s", "a", "b", pool="n0"))
    devices.change(None, a_class("other"))
    devices.change(a_class("other"), None)
    devices.change(slices[1], None)
    assert devices.event() is None
    devices.change(a_slice("s", "a", "b", pool="n0"), None)
    assert devices.event() == OutOfReach(())


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
            told = devices.event() or told
    told = devices.event() or told
    anew = Devices()
    for obj in known.values():
        anew.change(None, obj)
    assert told == (anew.event() or OutOfReach(()))


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


@pytest.mark.parametrize(
    ("nodes", "devices", "asks", "code", "said"),
    [
        ([0], DEVICES, "nvidia.com/gpu", Code.NOTHING_MATCHES, True),
        ([0], DEVICES[:1], "nvidia.com/gpu", Code.NOTHING_MATCHES, True),
        ([0], DEVICES, "deviceclass.resource.kubernetes.io/gpu.nvidia.com", Code.NOTHING_MATCHES, True),
        ([0, 4], DEVICES, "nvidia.com/gpu", Code.NOTHING_MATCHES, True),
        ([0, 8], DEVICES, "nvidia.com/gpu", Code.INSUFFICIENT_CAPACITY, True),
        ([0, 8], [], "nvidia.com/gpu", Code.INSUFFICIENT_CAPACITY, False),
        ([0], DEVICES[1:], "nvidia.com/gpu", Code.NOTHING_MATCHES, False),
        ([0], DEVICES, "example.com/fpga", Code.NOTHING_MATCHES, False),
        ([16], DEVICES, "nvidia.com/gpu", None, False),
    ],
)
def test_a_gang_is_told_that_what_it_asks_for_exists_as_devices(
    nodes: list[int], devices: list[Object], asks: str, code: Code | None, said: bool
) -> None:
    found = cluster(*(node(f"n{i}", gpus) for i, gpus in enumerate(nodes)), *devices)
    why = submitted(found, asks).why(GangId("default/train"))
    assert (why.code if why is not None else None) is code
    assert ("as devices (dynamic resource allocation)" in (why.message if why is not None else "")) == said


def test_a_hint_that_comes_or_goes_is_told_to_gangs_that_wait_already() -> None:
    mirror = Mirror(frozenset({"muster"}))
    found = submitted(cluster(node("n0")))
    core = found.scheduler()
    core.decide(0.0)
    a, b = a_slice("s"), a_class(extended="nvidia.com/gpu")
    mirror.change(RESOURCE_SLICE, None, a)
    mirror.change(DEVICE_CLASS, None, b)
    for event in mirror.drain(0.0).events:
        core.apply(event)
    (wait,) = core.decide(1.0)
    assert "DeviceClass gpu.nvidia.com has nvidia.com/gpu as devices" in str(wait)
    mirror.change(RESOURCE_SLICE, a, None)
    for event in mirror.drain(2.0).events:
        core.apply(event)
    (wait,) = core.decide(2.0)
    assert "as devices" not in str(wait)


@pytest.mark.parametrize(("gpus", "said"), [(0, True), (1, False)])
def test_a_job_is_warned_before_it_is_submitted(gpus: int, said: bool) -> None:
    job = load("f.yaml", Options(suffix="0" * 8, mode="gang"), text=JOB % ("nvidia.com/gpu", 8))
    found: Preflight = Snapshot(cluster(node("n", gpus), *DEVICES), frozenset({"muster"})).preflight(
        job.objects
    )
    assert [*found.out_of_reach] == ["train"] * said
    assert found.never == []
    alone = Snapshot(cluster(node("n"), *DEVICES)).preflight(job.objects)
    (why,) = alone.misfits()
    assert "NothingMatches" in why, "nor is it said that there are no GPUs"
    assert "as devices" in why
