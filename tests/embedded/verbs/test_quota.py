"""ResourceQuotas on the embedded API server: refusals at creation, and what their status says is used."""

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Object
from muster.api.core_v1 import Pod, ResourceQuota, ResourceQuotaStatus
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import ApiError, Forbidden, Invalid
from muster.translate import quotas
from tests.embedded.conftest import StillClock
from tests.embedded.objects import config, read

NOW = DeleteOptions(grace_period=0)


def quota(registry: Registry, hard: Object, name: str = "q", **spec: Any) -> None:
    registry.create(
        kinds.RESOURCE_QUOTA, "default", {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    )


def status(registry: Registry, name: str = "q") -> Any:
    return read(registry.get(kinds.RESOURCE_QUOTA, "default", name))["status"]


def pod(name: str, cpu: str | None = "1", **spec: Any) -> Object:
    requests = {"requests": {"cpu": cpu}} if cpu is not None else {}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "resources": requests}], **spec},
    }


def create(registry: Registry, obj: Object, kind: Any = kinds.POD) -> None:
    registry.create(kind, "default", obj)


def phase(registry: Registry, name: str, phase: str) -> None:
    registry.patch(kinds.POD, "default", name, {"status": {"phase": phase}}, subresource="status")


def test_a_pod_beyond_the_quota_is_refused_and_the_status_counts_the_others(registry: Registry) -> None:
    quota(registry, {"requests.cpu": "2", "pods": "10"})
    assert status(registry) == {
        "hard": {"requests.cpu": "2", "pods": "10"},
        "used": {"requests.cpu": "0", "pods": "0"},
    }
    create(registry, pod("a", "1500m"))
    with pytest.raises(Forbidden) as refused:
        create(registry, pod("b"))
    assert refused.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1500m, '
        "limited: requests.cpu=2"
    )
    create(registry, pod("c", "0.5"))
    assert status(registry)["used"] == {"requests.cpu": "2", "pods": "2"}


def test_what_ends_or_is_removed_is_given_back(registry: Registry) -> None:
    quota(registry, {"cpu": "1", "count/pods": "3"})
    create(registry, pod("a"))
    phase(registry, "a", "Failed")
    assert status(registry)["used"] == {"cpu": "0", "count/pods": "1"}, "its object is still there"
    create(registry, pod("b"))
    registry.delete(kinds.POD, "default", "b", NOW)
    registry.delete(kinds.POD, "default", "a", NOW)
    assert status(registry)["used"] == {"cpu": "0", "count/pods": "0"}


def test_a_pod_that_does_not_state_what_the_quota_counts_is_refused(registry: Registry) -> None:
    quota(registry, {"requests.cpu": "2", "limits.memory": "1Gi"})
    states = {"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Mi"}}}
    with pytest.raises(Forbidden, match=r"failed quota: q: must specify limits.memory for: d; requests.cpu"):
        create(
            registry,
            {
                "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "c", **states}, {"name": "d"}]},
            },
        )
    whole = {"resources": states["resources"], "containers": [{"name": "c"}]}
    create(registry, {"metadata": {"name": "a"}, "spec": whole})


def test_scopes_say_which_pods_count(registry: Registry) -> None:
    quota(registry, {"pods": "0"}, "long", scopes=["NotTerminating"])
    quota(registry, {"pods": "1"}, "short", scopes=["Terminating"])
    with pytest.raises(Forbidden, match="exceeded quota: long, requested: pods=1, used: pods=0"):
        create(registry, pod("a"))
    create(registry, pod("b", activeDeadlineSeconds=5))
    assert status(registry, "short")["used"] == {"pods": "1"}


@pytest.mark.parametrize(
    ("name", "kind", "body"),
    [
        ("count/configmaps", kinds.CONFIG_MAP, config()),
        ("configmaps", kinds.CONFIG_MAP, config()),
        ("count/podgroups.scheduling.x-k8s.io", kinds.POD_GROUP_X, {"metadata": {"name": "c"}}),
    ],
)
def test_objects_are_counted(registry: Registry, name: str, kind: Any, body: Object) -> None:
    create(registry, body, kind)
    quota(registry, {name: "2"})
    create(registry, {**body, "metadata": {"name": "d"}}, kind)
    with pytest.raises(Forbidden, match=f"exceeded quota: q, requested: {name}=1, used: {name}=2"):
        create(registry, {**body, "metadata": {"name": "e"}}, kind)
    registry.delete(kind, "default", "d")
    assert status(registry)["used"] == {name: "1"}


def test_a_quota_of_quotas_counts_itself(registry: Registry) -> None:
    quota(registry, {"resourcequotas": "1"})
    assert status(registry)["used"] == {"resourcequotas": "1"}
    with pytest.raises(Forbidden, match="exceeded quota: q"):
        quota(registry, {"pods": "1"}, "r")
    registry.patch(kinds.RESOURCE_QUOTA, "default", "q", {"spec": {"hard": {"resourcequotas": "2"}}})
    quota(registry, {"pods": "1"}, "r")
    assert status(registry)["used"] == {"resourcequotas": "2"}


def test_a_dry_run_and_a_refused_write_charge_nothing(registry: Registry) -> None:
    quota(registry, {"pods": "1"})
    with registry.dry_run():
        create(registry, pod("a"))
    assert status(registry)["used"] == {"pods": "0"}
    made = list(
        registry.together([partial(registry.create, kinds.POD, "default", pod(name)) for name in "ab"])
    )
    assert [type(each) for each in made] == [bytes, Forbidden]
    assert status(registry)["used"] == {"pods": "1"}


def test_a_charge_is_written_before_its_pod_and_a_refund_after_it(registry: Registry) -> None:
    """A reader that follows both kinds never sees more left than there is."""
    quota(registry, {"pods": "1"})
    start = registry.store.revision
    create(registry, pod("a"))
    registry.delete(kinds.POD, "default", "a")
    charged, back = registry.store.since("resourcequotas", start, 9)
    made, gone = registry.store.since("pods", start, 9)
    assert charged.revision < made.revision < gone.revision < back.revision


def test_quotas_of_a_store_that_an_earlier_version_wrote_are_counted_when_it_is_opened(
    clock: StillClock,
) -> None:
    store = Store(":memory:")
    registry = Registry(store, clock=clock)
    quota(registry, {"pods": "3"})
    create(registry, pod("a"))
    with store.transaction():
        raw = registry.get(kinds.RESOURCE_QUOTA, "default", "q")
        store.put(
            "resourcequotas", "default", "q", {k: v for k, v in read(raw).items() if k != "status"}, raw
        )
    assert status(Registry(store, clock=clock))["used"] == {"pods": "1"}
    store.close()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"hard": {"request.cpu": "1"}}, "request.cpu"),
        ({"hard": {"pods": "-1"}}, "must not be negative"),
        ({"hard": {"pods": "1"}, "scopes": ["Sometimes"]}, "Sometimes"),
    ],
)
def test_a_quota_that_would_count_nothing_is_refused(registry: Registry, spec: Object, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        create(registry, {"metadata": {"name": "q"}, "spec": spec}, kinds.RESOURCE_QUOTA)
    quota(
        registry,
        {"pods": "1", "requests.nvidia.com/gpu": "1", "hugepages-2Mi": "1Mi", "count/jobs.batch": "1"},
    )
    with pytest.raises(Invalid, match=r"spec.scopes: Invalid value: field is immutable"):
        registry.patch(kinds.RESOURCE_QUOTA, "default", "q", {"spec": {"scopes": ["Terminating"]}})


NAMES = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.sampled_from([None, "0", "300m", "1", "2"])),
        st.tuples(st.just("bind"), NAMES, st.none()),
        st.tuples(st.just("phase"), NAMES, st.sampled_from(["Running", "Succeeded", "Failed"])),
        st.tuples(st.just("delete"), NAMES, st.none()),
        st.tuples(st.just("deadline"), NAMES, st.none()),
        st.tuples(st.just("hard"), st.sampled_from(["all", "short"]), st.sampled_from(["1", "3"])),
    ),
    max_size=24,
)


@given(STEPS)
def test_whatever_happens_the_status_is_what_counting_all_pods_gives(
    steps: list[tuple[str, str, Any]],
) -> None:
    store = Store(":memory:")
    registry = Registry(store, clock=StillClock())
    create_node = {"metadata": {"name": "node-0"}, "status": {"capacity": {"cpu": "8"}}}
    registry.create(kinds.NODE, "", create_node)
    quota(registry, {"requests.cpu": "3", "pods": "3"}, "all")
    quota(registry, {"count/pods": "3", "limits.cpu": "3"}, "short", scopes=["Terminating"])
    for what, name, value in steps:
        before = {each: status(registry, each)["used"] for each in ("all", "short")}
        try:
            match what:
                case "create":
                    create(registry, pod(name, value))
                case "bind":
                    registry.bind("default", name, {"target": {"name": "node-0"}})
                case "phase":
                    phase(registry, name, value)
                case "delete":
                    registry.delete(kinds.POD, "default", name, NOW)
                case "deadline":
                    registry.patch(kinds.POD, "default", name, {"spec": {"activeDeadlineSeconds": 5}})
                case "hard":
                    hard = dict.fromkeys(status(registry, name)["hard"], value)
                    registry.patch(kinds.RESOURCE_QUOTA, "default", name, {"spec": {"hard": hard}})
        except ApiError:
            assert {each: status(registry, each)["used"] for each in before} == before
        pods = [msgspec.json.decode(body, type=Pod) for _, _, body in store.scan("pods")]
        for each in ("all", "short"):
            found = msgspec.json.decode(
                registry.get(kinds.RESOURCE_QUOTA, "default", each), type=ResourceQuota
            )
            uncounted = msgspec.structs.replace(found, status=ResourceQuotaStatus())
            assert quotas.counts_itself(found)
            assert quotas.room(found, ()) == quotas.room(uncounted, pods)
    store.close()
