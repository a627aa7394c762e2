"""Pods that are still to be made are read as the API server will create them."""

import msgspec
import pytest

from muster.api import groups
from muster.api.base import Object, Resource
from muster.api.core_v1 import LimitRange, ResourceQuota
from muster.api.kinds import LIMIT_RANGE, RUNTIME_CLASS
from muster.api.node_v1 import RuntimeClass
from muster.core.words.gang import Code, Shape
from muster.translate.identity import GroupKey
from muster.translate.touched import keys_touched
from tests.translate.cluster import job, jobset, pod, pod_spec, read, world

JOB, JOBSET = GroupKey(groups.JOB, "ns", "j"), GroupKey(groups.JOBSET, "ns", "s")
SILENT: Object = {"containers": [{"name": "c"}], "runtimeClassName": "kata"}


def limit_range(cpu: str = "2", namespace: str = "ns") -> LimitRange:
    items = [{"type": "Container", "default": {"cpu": cpu}}]
    meta = {"name": "defaults", "namespace": namespace}
    return msgspec.convert({"metadata": meta, "spec": {"limits": items}}, LimitRange)


def runtime_class(name: str = "kata") -> RuntimeClass:
    scheduling = {"nodeSelector": {"kata": "yes"}}
    body = {"metadata": {"name": name}, "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": scheduling}
    return msgspec.convert(body, RuntimeClass)


def shape_of(key: GroupKey, *objects: Resource) -> Shape:
    group = read(key, world(*objects))
    assert group is not None
    return group.gang.pod_sets[0].shape


@pytest.mark.parametrize("key", [JOB, JOBSET])
def test_a_template_asks_for_what_its_pods_will_ask_for(key: GroupKey) -> None:
    one = job(gang="true", template={"spec": SILENT})
    owner = one if key is JOB else jobset(jobs={"w": {"template": {"spec": SILENT}}})
    assert shape_of(key, owner).requests == ()
    assert shape_of(key, owner, limit_range()).requests == (("cpu", 2000),)
    found = shape_of(key, owner, limit_range(), runtime_class())
    assert (found.requests, found.selector) == ((("cpu", 2250),), (("kata", "yes"),))
    assert shape_of(key, owner, limit_range(namespace="other"), runtime_class("gvisor")) == Shape(())


def test_a_pod_that_is_there_has_what_was_added_to_it() -> None:
    key = GroupKey(groups.POD, "ns", "a")
    assert shape_of(key, pod(spec=SILENT), limit_range(), runtime_class()) == Shape(())


def test_a_quota_charges_what_is_added() -> None:
    """Without the default its pods would state nothing, and be refused."""
    body = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"requests.cpu": "4"}}}
    quota = msgspec.convert(body, ResourceQuota)
    silent = job(gang="true", template={"spec": SILENT}, suspend=True, parallelism=1, completions=1)
    refused, charged = (read(JOB, world(silent, quota, *more)) for more in ((), (limit_range(),)))
    assert refused is not None
    assert refused.gang.gate is not None
    assert charged is not None
    assert charged.gang.pod_sets[0].quotas == (("q", (("requests.cpu", 2000),)),)
    assert charged.gang.gate is None or charged.gang.gate.code is not Code.QUOTA_EXCEEDED


def test_groups_are_read_again_when_what_is_added_changes() -> None:
    seen = world(job(gang="true", template={"spec": SILENT}), limit_range(), runtime_class())
    assert JOB in keys_touched(LIMIT_RANGE, None, limit_range(), seen)
    assert JOB in keys_touched(LIMIT_RANGE, limit_range("1"), limit_range(), seen)
    assert not keys_touched(LIMIT_RANGE, limit_range(), limit_range(), seen)
    assert not keys_touched(LIMIT_RANGE, None, limit_range(namespace="other"), seen)
    assert JOB in keys_touched(RUNTIME_CLASS, runtime_class(), None, seen)
    assert not keys_touched(RUNTIME_CLASS, None, runtime_class("gvisor"), seen)


def test_a_limit_range_that_has_gone_adds_nothing() -> None:
    seen = world(limit_range())
    spec = msgspec.convert(pod_spec(), type(pod().spec))
    assert seen.created(spec, "ns") != spec
    seen.drop(LIMIT_RANGE, "ns", "defaults")
    assert seen.created(spec, "ns") is spec
