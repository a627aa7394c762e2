"""Which pod fills which place: a table of the rule, and what must hold whatever comes and goes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import groups
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.core.words.gang import Place, PodId
from muster.translate.filling import Block
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.places import Claim, Filling, planned
from muster.translate.pods import completion_index
from muster.translate.world import World
from tests.tiers import examples
from tests.translate.cluster import grouped, job, pod, pod_group, read, world

# pods by name → fields; expected place of each. The block has places 4, 5, 6 of pod set "w".
CASES: dict[str, tuple[dict[str, Object], dict[str, int | None]]] = {
    "by index": ({"a": {"index": 2}, "b": {"index": 0}}, {"a": 6, "b": 4}),
    "an index beyond the slots takes the lowest free one": (
        {"a": {"index": 7}, "b": {"index": 0}},
        {"a": 5, "b": 4},
    ),
    "without an index the lowest free one": ({"a": {}, "b": {}}, {"a": 4, "b": 5}),
    "the annotation wins over the index": (
        {"a": {"index": 0, "plan": "1.1/w/6"}, "b": {"index": 2}},
        {"a": 6, "b": 4},
    ),
    "the first of two with one annotation": (
        {"a": {"plan": "1.1/w/5"}, "b": {"plan": "1.2/w/5"}},
        {"a": 5, "b": 4},
    ),
    "the first of two with one index": ({"a": {"index": 1}, "b": {"index": 1}}, {"a": 5, "b": 4}),
    "an annotation of another pod set or beyond the block is none": (
        {"a": {"plan": "1.1/x/5"}, "b": {"plan": "1.1/w/7"}, "c": {"plan": "nonsense"}},
        {"a": 4, "b": 5, "c": 6},
    ),
    "no free place": (
        {"a": {"index": 0}, "b": {"index": 1}, "c": {"index": 2}, "d": {"index": 3}},
        {"a": 4, "b": 5, "c": 6, "d": None},
    ),
}


@pytest.mark.parametrize(("pods", "expected"), CASES.values(), ids=CASES.keys())
def test_places(pods: dict[str, Object], expected: dict[str, int | None]) -> None:
    block, filling = Block("w", 4, 3), Filling(3)
    for name, fields in pods.items():
        one = pod(name, **fields)
        filling.put(PodId(name), Claim((0.0, name), block.offset(planned(one)), completion_index(one)))
    filling.settle()
    places = {name: filling.place_of.get(PodId(name)) for name in pods}
    assert {name: None if at is None else block.place(at).index for name, at in places.items()} == expected


def test_pods_that_are_of_no_job_have_no_slot() -> None:
    pods = grouped("a", index=2), grouped("b", index=0)
    group = read(GroupKey(groups.POD_GROUP, "ns", "g"), world(pod_group(), *pods))
    assert group is not None
    places = {member.pod.metadata.name: member.place for member in group.members.values()}
    assert {name: place and place.index for name, place in places.items()} == {"a": 0, "b": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3.12/w/7", Place("w", 7)), ("", None), ("3.12/w", None), ("3.12/w/x", None), ("3.12/w/-1", None)],
)
def test_the_annotation(text: str, expected: Place | None) -> None:
    assert planned(pod(plan=text)) == expected


KEY = GroupKey(groups.JOB, "ns", "j")
SLOTS = 4

pods = st.builds(
    lambda name, index, state, place: pod(
        f"p{name}",
        owner=job(),
        index=index,
        node="n" if state != "waiting" else "",
        phase="Running" if state in ("running", "leaving") else "Pending",
        deleting=state == "leaving",
        plan=f"1.1/main/{place}" if state in ("running", "leaving") else "",
        created=name % 3,
    ),
    name=st.integers(0, 7),
    index=st.none() | st.integers(0, 9),
    state=st.sampled_from(["waiting", "bound", "running", "leaving"]),
    place=st.integers(0, SLOTS),
)
worlds = st.lists(pods, max_size=7, unique_by=lambda pod: pod.metadata.name)


def gang(found: list[Pod]) -> World:
    return world(job(gang="true", parallelism=SLOTS, completions=10, completionMode="Indexed"), *found)


def read_places(found: World, before: Group | None = None) -> tuple[Group, dict[str, Place]]:
    group = read(KEY, found, before)
    assert group is not None
    return group, {
        member.pod.metadata.name: member.place
        for member in group.members.values()
        if member.place is not None
    }


@settings(max_examples=examples(40), deadline=None)
@given(worlds)
def test_no_two_live_pods_share_a_place_and_none_waits_beside_a_free_one(found: list[Pod]) -> None:
    group, places = read_places(gang(found))
    assert len(set(places.values())) == len(places)
    assert all(place in {Place("main", index) for index in range(SLOTS)} for place in places.values())
    assert len(places) == min(len(group.members), SLOTS)
    assert not group.retired & set(places.values())
    assert not group.leaving.keys() & group.members.keys()


@settings(max_examples=examples(40), deadline=None)
@given(worlds)
def test_a_place_that_is_written_on_a_bound_pod_is_that_pods(found: list[Pod]) -> None:
    _, places = read_places(gang(found))
    written: dict[Place, set[str]] = {}
    for one in found:
        place = planned(one)
        if one.metadata.deletion_timestamp is None and place is not None and place.index < SLOTS:
            written.setdefault(place, set()).add(one.metadata.name)
    holders = {place: name for name, place in places.items()}
    assert all(holders.get(place) in claimants for place, claimants in written.items())


@settings(max_examples=examples(40), deadline=None)
@given(worlds, worlds, st.sets(st.integers(0, 7)))
def test_places_stay_as_pods_come_and_go(found: list[Pod], new: list[Pod], gone: set[int]) -> None:
    group, places = read_places(gang(found))
    assert read_places(gang(found), group)[1] == places, "reading again changes nothing"
    stay = [one for one in found if one.metadata.name not in {f"p{number}" for number in gone}]
    names = {one.metadata.name for one in found}
    # those that come are not bound yet: an annotation would claim its place before them
    come = [one for one in new if one.metadata.name not in names and planned(one) is None]
    _, later = read_places(gang(stay + come), group)
    for one in stay:
        name = one.metadata.name
        if name in places:
            # two pods that were bound to one place: the second gets it when the first is gone
            assert later.get(name) in (places[name], planned(one))
