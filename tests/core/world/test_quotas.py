"""ResourceQuotas: only pods that are still to be created are checked, and only places keep quota."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.events import (
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    PodsBound,
    QueueChanged,
    QuotaChanged,
    QuotaRemoved,
)
from muster.core.words.gang import (
    Amounts,
    Code,
    GangId,
    Gather,
    Layer,
    NodeName,
    Place,
    PodId,
    PodSet,
    Queue,
    Strategy,
)
from tests.core.words import assigns, bind, gang, node, shape, started

REQUESTS: Amounts = (("pods", 1), ("requests.nvidia.com/gpu", 1))


def cluster(pods: int = 99, gpus: int = 99) -> Scheduler:
    muster = Scheduler()
    muster.apply(node("n", gpu=16))
    muster.apply(QuotaChanged("ml", "compute", (("pods", pods), ("requests.nvidia.com/gpu", gpus))))
    return muster


def submit(
    muster: Scheduler,
    name: str,
    count: int,
    *,
    uncreated: int | None = None,
    minimum: int | None = None,
    namespace: str = "ml",
) -> None:
    least = count if minimum is None else minimum
    there = count if uncreated is None else uncreated
    pods = PodSet("main", shape(gpu=1), count, least, uncreated=there, quotas=(("compute", REQUESTS),))
    muster.apply(GangSubmitted(replace(gang(name, pods, minimum=least), namespace=namespace)))


def refused(muster: Scheduler, name: str) -> str:
    explanation = muster.world.gangs[GangId(name)].explanation
    assert explanation is not None
    assert explanation.code is Code.QUOTA_EXCEEDED
    return explanation.message


def test_what_is_left_is_not_enough() -> None:
    muster = cluster(gpus=3)
    submit(muster, "g", 4)
    assert not assigns(muster.decide(0.0))
    assert refused(muster, "g") == (
        "ResourceQuota compute of namespace ml has 3 of requests.nvidia.com/gpu left; "
        "the pods that are to be created ask for 4"
    )
    muster.apply(QuotaRemoved("ml", "compute"))
    assert started(muster.decide(1.0)) == ["g"]


def test_pods_that_are_there_have_been_charged() -> None:
    muster = cluster(pods=0)
    submit(muster, "g", 4, uncreated=0)
    assert started(muster.decide(0.0)) == ["g"]


@pytest.mark.parametrize("count", [2, 4], ids=["wants the same", "wants something else"])
def test_a_gang_that_a_quota_refuses_delays_no_gang_whose_pods_are_created(count: int) -> None:
    muster = cluster(pods=1)
    submit(muster, "charged", 2)
    submit(muster, "created", count, uncreated=0)
    assert started(muster.decide(0.0)) == ["created"]
    assert refused(muster, "charged").startswith("ResourceQuota compute of namespace ml has 1 of pods left")


def test_pods_of_one_gang_are_charged_each_in_its_namespace() -> None:
    muster = cluster(pods=2)
    muster.apply(QuotaChanged("web", "compute", (("pods", 3), ("requests.nvidia.com/gpu", 3))))
    charges = (("compute", REQUESTS),)
    one = PodSet("a", shape(gpu=1), 2, 1, uncreated=2, quotas=charges)
    other = PodSet("b", shape(gpu=1), 4, 4, namespace="web", uncreated=4, quotas=charges)
    muster.apply(GangSubmitted(replace(gang("g", one, other, minimum=5), namespace="ml")))
    assert not assigns(muster.decide(0.0))
    assert refused(muster, "g").startswith("ResourceQuota compute of namespace web has 3 of pods left; ")
    least = replace(other, min_count=3)
    muster.apply(GangSubmitted(replace(gang("g", one, least, minimum=4), namespace="ml")))
    (assigned,) = assigns(muster.decide(1.0))
    assert sorted(place.pod_set for place in assigned.nodes) == ["a", "a", "b", "b", "b"]


def test_other_namespaces_have_their_own() -> None:
    muster = cluster(pods=0)
    submit(muster, "g", 4, namespace="web")
    assert started(muster.decide(0.0)) == ["g"]


def test_promised_places_are_kept_until_the_pods_are_there() -> None:
    muster = cluster(pods=6)
    submit(muster, "first", 4)
    submit(muster, "next", 4)
    (start,) = assigns(muster.decide(0.0))
    assert start.gang == "first"
    assert "has 6 of pods left, of which 4 are kept for gangs that start" in refused(muster, "next")
    # its pods are made and charged: what is left has gone down, and nothing is kept any more
    muster.apply(QuotaChanged("ml", "compute", (("pods", 2),)))
    submit(muster, "first", 4, uncreated=0)
    assert not assigns(muster.decide(1.0))
    assert "has 2 of pods left; the pods" in refused(muster, "next")
    bind(muster, start)
    muster.apply(QuotaChanged("ml", "compute", (("pods", 4),)))
    assert started(muster.decide(2.0)) == ["next"]


def test_a_started_gang_asks_for_more_in_a_queue_that_is_not_there() -> None:
    muster = cluster(pods=3)
    submit(muster, "g", 2)
    assert started(muster.decide(0.0)) == ["g"]
    pods = PodSet("main", shape(gpu=1), 4, 4, uncreated=4, quotas=(("compute", REQUESTS),))
    muster.apply(GangSubmitted(replace(gang("g", pods), namespace="ml", queue="gone")))
    assert not assigns(muster.decide(1.0))
    refused(muster, "g")


def test_nothing_keeps_quota_without_places() -> None:
    muster = cluster(pods=17)
    submit(muster, "large", 17)
    assert not assigns(muster.decide(0.0)), "the quota would do, the nodes do not"
    submit(muster, "small", 16)
    (start,) = assigns(muster.decide(1.0))
    assert start.gang == "small"
    muster.apply(GangRemoved(GangId("small")))
    submit(muster, "again", 16)
    assert started(muster.decide(2.0)) == ["again"], "what it kept is given back with its places"


def test_an_elastic_gang_is_as_large_as_its_quota() -> None:
    muster = cluster(gpus=5)
    submit(muster, "g", 8, minimum=2)
    (start,) = assigns(muster.decide(0.0))
    assert len(start.nodes) == 5


def test_nothing_is_left_of_what_it_would_like_beyond_its_minimum() -> None:
    muster = cluster(pods=2)
    muster.apply(node("n", gpu=16, labels={"rack": "a"}))
    muster.apply(LayersChanged((Layer("Rack", ("rack",)),)))
    pods = PodSet("main", shape(gpu=1), 4, 2, uncreated=4, quotas=(("compute", REQUESTS),))
    gathered = (Gather("Rack", Strategy.MUST_GATHER),)
    asked = replace(gang("g", pods, minimum=2), namespace="ml", gather=gathered)
    muster.apply(GangSubmitted(asked))
    (start,) = assigns(muster.decide(0.0))
    assert len(start.nodes) == 2
    assert muster.decide(1.0) == []


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(("pods", "starts"), [(0, []), (1, ["g"])])
def test_the_part_that_its_queue_admits_may_exceed_a_quota(pods: int, starts: list[str], begun: bool) -> None:
    """One of two pod sets would do: the queue has no GPU for the one, the quota no pod for the other."""
    muster = cluster(pods=pods)
    muster.apply(QuotaChanged("ml", "compute", (("pods", pods),)))
    muster.apply(QueueChanged(Queue("default", capability=(("nvidia.com/gpu", 0),))))
    created = PodSet("created", shape(gpu=1), 2, 0, uncreated=0)
    missing = PodSet("missing", shape(gpu=0, cpu=1), 1, 0, uncreated=1, quotas=(("compute", REQUESTS),))
    there = PodSet("there", shape(cpu=1), 1, 1)
    sets = [there, created, missing] if begun else [created, missing]
    if begun:
        runs = {PodId("g:there"): Place("there", 0)}
        muster.apply(PodsBound(runs, NodeName("n"), there.shape.requests, GangId("g")))
    muster.apply(GangSubmitted(replace(gang("g", *sets, minimum=1 + begun), namespace="ml")))
    assert started(muster.decide(0.0)) == starts
    if not starts:
        assert refused(muster, "g").startswith("ResourceQuota compute of namespace ml has 0 of pods left")


COUNTED = ("pods", "requests.cpu")


@st.composite
def several_sets(draw: st.DrawFn) -> tuple[PodSet, ...]:
    sets: list[PodSet] = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        count = draw(st.integers(1, 3))
        uncreated = draw(st.just(count) | st.integers(0, count))
        cost = tuple((resource, draw(st.integers(1, 3))) for resource in COUNTED if draw(st.booleans()))
        least = draw(st.integers(0, count))
        wants = shape(gpu=draw(st.integers(1, 2)))
        sets.append(PodSet(name, wants, count, least, uncreated=uncreated, quotas=(("compute", cost),)))
    return tuple(sets)


@given(several_sets(), st.data())
@settings(deadline=None)
def test_no_mix_of_pod_sets_starts_that_is_charged_more_than_is_left(
    sets: tuple[PodSet, ...], data: st.DataObject
) -> None:
    least = data.draw(st.integers(max(1, sum(p.min_count for p in sets)), sum(p.count for p in sets)))
    room = {resource: data.draw(st.integers(0, 9)) for resource in COUNTED}
    muster = Scheduler()
    muster.apply(node("n", gpu=data.draw(st.integers(1, 12))))
    muster.apply(QuotaChanged("ml", "compute", tuple(room.items())))
    muster.apply(GangSubmitted(replace(gang("g", *sets, minimum=least), namespace="ml")))
    for assigned in assigns(muster.decide(0.0)):
        started = Counter(place.pod_set for place in assigned.nodes)
        for resource in COUNTED:
            charged = sum(
                min(started[pod_set.name], pod_set.uncreated) * dict(pod_set.quotas[0][1]).get(resource, 0)
                for pod_set in sets
            )
            assert charged <= room[resource]
