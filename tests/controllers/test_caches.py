"""Caches and their indexes, against a plain search."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import ObjectMeta, OwnerReference, revision
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB, POD
from muster.controllers.caches import Cache, Caches, Index
from tests.tiers import examples

INDEX = Index(POD, "label", lambda pod: pod.metadata.labels.values())

PODS = st.builds(
    lambda name, owners, values: Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            labels=dict(enumerate_(values)),
            owner_references=[
                OwnerReference(api_version="v1", kind="Job", name=uid, uid=uid) for uid in owners
            ],
        )
    ),
    st.sampled_from("abc"),
    st.lists(st.sampled_from("uvw"), max_size=2),
    st.lists(st.sampled_from("xyz"), max_size=2),
)


def enumerate_(values: list[str]) -> list[tuple[str, str]]:
    return [(f"k{position}", value) for position, value in enumerate(values)]


@given(st.lists(st.tuples(PODS, st.booleans()), max_size=20))
@settings(max_examples=examples(100), deadline=None)
def test_indexes_agree_with_a_search_after_any_changes(changes: list[tuple[Pod, bool]]) -> None:
    cache: Cache[Pod] = Cache(POD, [INDEX])
    for pod, stays in changes:
        cache.change(cache.get(pod.key), pod if stays else None)
    items = sorted(cache.items.values(), key=lambda pod: pod.key)
    for uid in "uvw":
        owned = [pod for pod in items if any(ref.uid == uid for ref in pod.metadata.owner_references)]
        for namespace in ("ns", "other", ""):
            owner = Job(metadata=ObjectMeta(name="o", namespace=namespace, uid=uid))
            assert cache.owned_by(owner) == [
                pod for pod in owned if namespace in ("", pod.metadata.namespace)
            ]
    for value in "xyz":
        assert cache.by("label", value) == [pod for pod in items if value in pod.metadata.labels.values()]


def test_two_controllers_may_share_an_index_but_not_its_name() -> None:
    Caches([POD], [INDEX, INDEX])
    with pytest.raises(ValueError, match="two indexes of pods are called label"):
        Caches([POD], [INDEX, Index(POD, "label", lambda pod: [])])


def test_caches_tell_which_kind_is_behind() -> None:
    caches = Caches([POD, JOB])
    caches[POD].progress("7")
    caches[JOB].progress("5")
    caches[JOB].progress("4")  # never goes back
    assert caches.behind({POD: 7, JOB: 5}) is None
    assert caches.behind({POD: 7, JOB: 6}) is JOB


def test_a_revision_that_is_no_number_is_never_waited_for() -> None:
    assert (revision("12"), revision(""), revision("abc")) == (12, 0, 0)
