"""ResourceQuotas hold the total of a group before its pods exist, and charge no pod twice."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Object
from muster.api.groups import INCUBATOR, SIGS_DEV, VOLCANO, Dialect
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.quota import status as recount
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from tests.embedded.conftest import StillClock
from tests.embedded.objects import read

NOW: Final = DeleteOptions(grace_period=0)
NAME: Final = "scheduling.k8s.io/group-name"


def quota(registry: Registry, hard: Object, **spec: Any) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    registry.create(kinds.RESOURCE_QUOTA, "default", body)


def used(registry: Registry) -> dict[str, str]:
    found: dict[str, str] = read(registry.get(kinds.RESOURCE_QUOTA, "default", "q"))["status"]["used"]
    return found


def group(registry: Registry, total: Object, name: str = "g", row: Dialect = INCUBATOR) -> None:
    body = {"metadata": {"name": name}, "spec": {"minMember": 2, "totalResources": total}}
    registry.create(row.kind, "default", body)


def pod(registry: Registry, name: str, cpu: int = 1, of: str = "g") -> None:
    annotations = {NAME: of} if of else {}
    resources = {"requests": {"cpu": str(cpu)}}
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }
    registry.create(kinds.POD, "default", body)


def end(registry: Registry, name: str) -> None:
    registry.patch(kinds.POD, "default", name, {"status": {"phase": "Succeeded"}}, subresource="status")


@pytest.mark.parametrize("row", [INCUBATOR, SIGS_DEV])
def test_quota_is_held_before_any_pod_exists_and_no_pod_is_charged_twice(
    registry: Registry, row: Dialect
) -> None:
    quota(registry, {"requests.cpu": "4", "pods": "9"})
    group(registry, {"cpu": 3}, row=row)
    assert used(registry) == {"requests.cpu": "3", "pods": "0"}
    pod(registry, "stranger", of="")
    with pytest.raises(
        Forbidden, match=r"exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=4"
    ):
        pod(registry, "another", of="")
    for name in "abc":
        pod(registry, name)
    assert used(registry) == {"requests.cpu": "4", "pods": "4"}
    with pytest.raises(Forbidden, match="exceeded quota"):
        pod(registry, "above-the-total")
    registry.delete(kinds.POD, "default", "a", NOW)
    assert used(registry)["requests.cpu"] == "4", "it is held for its successor"
    end(registry, "b")
    assert used(registry)["requests.cpu"] == "3", "a pod that has ended needs none any more"
    registry.delete(row.kind, "default", "g", NOW)
    assert used(registry)["requests.cpu"] == "2"


def test_a_group_beyond_the_quota_is_refused(registry: Registry) -> None:
    quota(registry, {"cpu": "4"})
    with pytest.raises(Forbidden, match="exceeded quota: q, requested: cpu=5, used: cpu=0, limited: cpu=4"):
        group(registry, {"cpu": 5})
    group(registry, {"cpu": 3})
    with pytest.raises(Forbidden, match="exceeded quota"):
        group(registry, {"cpu": 2}, "h")
    assert used(registry) == {"cpu": "3"}


def test_pods_that_exist_already_are_part_of_the_total(registry: Registry) -> None:
    pod(registry, "a", 2)
    quota(registry, {"cpu": "4", "pods": "3", "count/pods": "8", "limits.cpu": "9"})
    group(registry, {"cpu": 3, "pods": 2, "nvidia.com/gpu": 1, "limits.cpu": "1500m"})
    assert used(registry) == {"cpu": "3", "pods": "2", "count/pods": "2", "limits.cpu": "1500m"}


def test_a_group_that_waited_too_long_gives_back_what_is_held(registry: Registry) -> None:
    quota(registry, {"cpu": "4"})
    group(registry, {"cpu": 4})
    released = {"status": {"conditions": [{"type": "QuotaReleased", "status": "True"}]}}
    registry.patch(INCUBATOR.kind, "default", "g", released)
    assert used(registry) == {"cpu": "0"}
    pod(registry, "a")
    assert used(registry) == {"cpu": "1"}


def test_a_group_whose_name_an_earlier_one_has_holds_nothing(registry: Registry) -> None:
    quota(registry, {"cpu": "4"})
    group(registry, {"cpu": 3})
    registry.create(VOLCANO.kind, "default", {"metadata": {"name": "g"}, "spec": {"minMember": 1}})
    assert used(registry) == {"cpu": "0"}
    registry.delete(VOLCANO.kind, "default", "g", NOW)
    assert used(registry) == {"cpu": "3"}


def test_a_quota_with_scopes_holds_nothing(registry: Registry) -> None:
    quota(registry, {"cpu": "4"}, scopes=["NotTerminating"])
    group(registry, {"cpu": 9})
    assert used(registry) == {"cpu": "0"}


@pytest.mark.parametrize("total", [{"cpu": "-1"}, {"cpu": "many"}, {"cpu": "1e400"}, {"cpu": [1]}])
def test_a_total_that_is_no_amount_is_refused(registry: Registry, total: Object) -> None:
    with pytest.raises(Invalid, match="totalResources"):
        group(registry, total)


def test_a_total_stays_as_it_was_admitted(registry: Registry) -> None:
    quota(registry, {"cpu": "4"})
    group(registry, {"cpu": 1})
    with pytest.raises(Invalid, match="immutable"):
        registry.patch(INCUBATOR.kind, "default", "g", {"spec": {"totalResources": {"cpu": 400}}})
    registry.patch(INCUBATOR.kind, "default", "g", {"spec": {"minMember": 1}})
    assert used(registry) == {"cpu": "1"}


_WRITES: Final = st.lists(
    st.one_of(
        st.tuples(
            st.just("group"), st.sampled_from("gh"), st.integers(0, 4), st.sampled_from([INCUBATOR, SIGS_DEV])
        ),
        st.tuples(
            st.just("no group"), st.sampled_from("gh"), st.just(0), st.sampled_from([INCUBATOR, SIGS_DEV])
        ),
        st.tuples(st.just("pod"), st.sampled_from("pqr"), st.integers(0, 3), st.sampled_from(["g", "h", ""])),
        st.tuples(st.just("no pod"), st.sampled_from("pqr"), st.just(0), st.just("")),
        st.tuples(st.just("end"), st.sampled_from("pqr"), st.just(0), st.just("")),
        st.tuples(st.just("move"), st.sampled_from("pqr"), st.just(0), st.sampled_from(["g", "h"])),
    ),
    max_size=12,
)


@given(_WRITES)
def test_what_is_used_is_what_a_recount_says(writes: Sequence[tuple[str, str, int, Any]]) -> None:
    store = Store(":memory:")
    registry = Registry(store, clock=StillClock())
    quota(registry, {"requests.cpu": "5", "pods": "9"})
    created = True
    for what, name, amount, other in writes:
        with suppress(Forbidden, NotFound, AlreadyExists, Invalid, Conflict):
            match what:
                case "group":
                    group(registry, {"cpu": amount}, name, other)
                case "no group":
                    registry.delete(other.kind, "default", name, NOW)
                case "pod":
                    pod(registry, name, amount, other)
                case "no pod":
                    registry.delete(kinds.POD, "default", name, NOW)
                case "end":
                    end(registry, name)
                case _:
                    body = {"metadata": {"annotations": {NAME: other}}}
                    registry.patch(kinds.POD, "default", name, body)
        found = read(registry.get(kinds.RESOURCE_QUOTA, "default", "q"))
        assert recount(store, found)["used"] == found["status"]["used"]
        created = created and what in ("pod", "group")
        assert not created or int(found["status"]["used"]["requests.cpu"]) <= 5
    store.close()
