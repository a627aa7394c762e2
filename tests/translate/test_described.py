"""Gangs without a PodGroup: pods say what it would, and the oldest of them counts."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import groups
from muster.api.base import Resource
from muster.api.core_v1 import Pod
from muster.api.kinds import POD, POD_GROUP_SIGS
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.muster_v1alpha1 import Source
from muster.api.scheduling import PodGroup
from muster.core.words.gang import Code, Gate
from muster.translate.dialects import group_of
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.touched import keys_touched
from muster.translate.world import World
from tests.tiers import examples
from tests.translate.cluster import pod, pod_group, read, world

NAME, LEAST = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"
OLD_NAME, OLD_LEAST = (
    "pod-group.scheduling.sigs.k8s.io/name",
    "pod-group.scheduling.sigs.k8s.io/min-available",
)
A, B = (GroupKey(groups.KOORDINATOR, "ns", name) for name in "ab")
BOTH = json.dumps(["ns/b", "ns/a"])
LONELY = f"{GROUPS} names ns/b, which does not exist or has another list; write the same on all"


def member(name: str, gang: str = "a", least: str = "2", groups: str = "", **fields: Any) -> Pod:
    """Any: fields of a pod."""
    annotations = {NAME: gang, LEAST: least, GROUPS: groups} | fields.pop("annotations", {})
    return pod(name, annotations={key: text for key, text in annotations.items() if text}, **fields)


def sigs(name: str, minimum: int = 1, groups: str = "") -> PodGroup:
    return pod_group(name, minimum, annotations={GROUPS: groups} if groups else {})


def seen(*objects: Resource) -> World:
    """PodGroups are Koordinator's here."""
    found = World()
    for obj in objects:
        if isinstance(obj, Pod):
            found.put(POD, obj)
        elif isinstance(obj, PodGroup):
            found.put(POD_GROUP_SIGS, obj)
    return found


def the_gang(*objects: Resource, key: GroupKey = A) -> Group:
    group = read(key, seen(*objects))
    assert group is not None
    return group


def test_a_gang_that_pods_describe() -> None:
    pods = [member(name) for name in "xyz"]
    group = the_gang(*pods)
    assert (group.gang.id, group.gang.min_count, group.gang.gate) == ("ns/a", 2, None)
    assert len(group.members) == 3
    assert group.record == "koordinator-a"
    assert group.source == Source("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "a", "")
    assert {group_of(one, seen(*pods)) for one in pods} == {A}


def test_or_by_labels_as_it_once_was_done() -> None:
    old = [pod(name, labels={OLD_NAME: "a", OLD_LEAST: "2"}) for name in "xy"]
    assert the_gang(*old).gang.min_count == 2
    assert the_gang(*old).gang.gate is None


def test_a_pod_that_names_a_podgroup_by_label_describes_no_gang() -> None:
    labelled = member("x", gang="b", labels={groups.KOORDINATOR.label: "a"})
    assert group_of(labelled, seen(labelled)) == A
    assert the_gang(labelled).gang.gate == Gate(
        Code.MEMBERS_MISSING,
        "there is no PodGroup a of scheduling.sigs.k8s.io, which its pods name (1 so far)",
    )


def test_a_podgroup_of_that_name_counts_and_when_it_goes_the_pods_do_again() -> None:
    found = seen(member("x", least="3"), member("y", least="3"))
    real = sigs("a", 2)
    found.put(POD_GROUP_SIGS, real)
    group = read(A, found)
    assert group is not None
    assert (group.gang.min_count, group.gang.gate, group.source.uid) == (2, None, "uid-a")
    found.drop(POD_GROUP_SIGS, "ns", "a")
    again = read(A, found)
    assert again is not None
    assert again.gang.gate == Gate(Code.MEMBERS_MISSING, "2 of 3 pods exist")
    for name in "xy":
        found.drop(POD, "ns", name)
    assert read(A, found) is None
    assert not found.groups_of(groups.KOORDINATOR)


def test_gangs_that_pods_alone_describe_are_one_if_all_of_them_say_so() -> None:
    pods = [member("x", "a", "1", BOTH), member("y", "b", "2", BOTH), member("z", "b", "2", BOTH)]
    group = the_gang(*pods)
    assert (group.gang.id, group.gang.min_count, group.gang.gate) == ("ns/a", 3, None)
    assert [(one.name.rpartition("-")[0], one.min_count) for one in group.gang.pod_sets] == [
        ("a@ns", 1),
        ("b@ns", 2),
    ]
    assert read(B, seen(*pods)) is None
    assert {group_of(one, seen(*pods)) for one in pods} == {A}


def test_a_gang_group_may_combine_a_podgroup_with_described_pods() -> None:
    labelled = pod("y", labels={groups.KOORDINATOR.label: "b"})
    group = the_gang(member("x", "a", "1", BOTH), sigs("b", 1, BOTH), labelled)
    assert (group.gang.min_count, group.gang.gate, len(group.members)) == (2, None, 2)
    group = the_gang(member("x", "a", "1", BOTH), sigs("b", 1), labelled)
    assert group.gang.gate == Gate(Code.INVALID, f"pod x: {LONELY}")


@pytest.mark.parametrize(
    ("pods", "code", "said"),
    [
        (
            [member("x", least="50001")],
            Code.INVALID,
            f"pod x: {LEAST} is '50001'; write how many pods must run together, at most 50000",
        ),
        (
            [member("x", least="")],
            Code.INVALID,
            f"pod x: {LEAST} is ''; write how many pods must run together",
        ),
        ([member("x", least="two")], Code.INVALID, f"pod x: {LEAST} is 'two'; write how many pods must run"),
        ([member("x", least="-2")], Code.INVALID, f"pod x: {LEAST} is '-2'; write how many"),
        ([member("x", least="9" * 90)], Code.INVALID, f"pod x: {LEAST} is '{'9' * 80}'; write how many"),
        (
            [member("x", least="1"), member("y", least="2", created=5)],
            Code.INVALID,
            f"pod y says '2' in {LEAST}, and pod x, the oldest, '1'; write the same on all",
        ),
        (
            [member("x", groups="", created=1), member("y", groups=BOTH, created=5)],
            Code.INVALID,
            f"pod y says in {GROUPS} what pod x, the oldest, does not; write the same on all",
        ),
        (
            [member("x", groups="[", created=5), member("y")],
            Code.INVALID,
            f"pod x says in {GROUPS} what pod y, the oldest, does not; write the same on all",
        ),
        (
            [member("x", groups="ns/b"), member("y", groups="ns/b")],
            Code.INVALID,
            f'pod x: {GROUPS} is \'ns/b\'; write a JSON list of namespace/name, as ["ns/a", "ns/other"]',
        ),
        (
            [member("x", groups='["ns/b"]'), member("y", groups='["ns/b"]')],
            Code.INVALID,
            f"pod x: {GROUPS} names other PodGroups and not ns/a itself",
        ),
        (
            [member("x", groups=BOTH), member("y", groups=BOTH)],
            Code.INVALID,
            f"pod x: {LONELY}",
        ),
        (
            [member("x", groups=BOTH), member("y", groups=BOTH), member("z", "b", "1")],
            Code.INVALID,
            f"pod x: {LONELY}",
        ),
        (
            [member("x", groups=BOTH), member("y", groups=BOTH), member("z", "b", "2", BOTH)],
            Code.MEMBERS_MISSING,
            "PodGroup ns/b: 1 of 2 pods exist",
        ),
        (
            [member("x", labels={"muster.dev/hold": "true"}), member("y")],
            Code.GATED,
            "held by muster.dev/hold",
        ),
    ],
)
def test_a_described_gang_with_a_fault_is_gated_with_the_reason(
    pods: list[Pod], code: Code, said: str
) -> None:
    for order in (pods, pods[::-1]):
        gate = the_gang(*order).gang.gate
        assert gate is not None
        assert (gate.code, gate.message[: len(said)]) == (code, said)


def test_a_list_of_itself_alone_says_nothing() -> None:
    group = the_gang(member("x", groups='["ns/a"]'), member("y"))
    assert (group.gang.gate, group.gang.id) == (None, "ns/a")


def test_a_pod_that_names_an_impossible_group_is_refused_alone() -> None:
    odd = member("x", gang="My Gang!")
    alone = GroupKey(groups.POD, "ns", "x")
    assert group_of(odd, world(odd)) == alone
    group = read(alone, world(odd))
    assert group is not None
    assert group.gang.gate == Gate(
        Code.INVALID, f"{NAME} is 'My Gang!'; write the gang's name in lower-case letters, digits, - and ."
    )


def test_a_late_pod_does_not_tear_running_pods_out_of_their_gang() -> None:
    """The oldest counts: it was so when the gang started, whichever pod was seen first."""
    pods = [member("x", "a", "1", BOTH, node="n"), member("y", "b", "1", BOTH, node="n")]
    late = member("late", "a", "1", json.dumps(["ns/0", "ns/a"]), created=9)
    for order in ([*pods, late], [late, *pods]):
        group = the_gang(*order)
        assert len(group.members) == 3
        assert group.gang.gate is not None
        assert group.gang.gate.message.endswith(
            f"pod late says in {GROUPS} what pod x, the oldest, does not; write the same on all"
        )
    found = seen(*pods, late)
    found.drop(POD, "ns", "x")
    assert group_of(late, found) == A


def test_foreign_pods_describe_nothing() -> None:
    ours = World(frozenset({"muster"}))
    theirs = member("x")
    ours.put(POD, theirs)
    assert not ours.groups_of(groups.KOORDINATOR)
    ours.drop(POD, "ns", "x")
    assert group_of(theirs, ours) is None


def test_every_gang_that_a_change_concerns_is_read_again() -> None:
    """Whatever comes in which order: after each change, what was told is what a fresh look shows."""
    zero = GroupKey(groups.KOORDINATOR, "ns", "0")
    keys = (zero, A, B)
    other = json.dumps(["ns/0", "ns/a"])
    young = member("young", "a", "1", other, created=5)
    changes: list[tuple[Any, Resource | None, Resource | None]] = [  # Any: kinds of two types
        (POD, None, young),
        (POD, None, member("old", "a", "1", BOTH)),
        (POD, None, member("y", "b", "1", BOTH)),
        (POD_GROUP_SIGS, None, sigs("a", 1, other)),
        (POD, None, member("zero", "0", "1", other)),
        (POD_GROUP_SIGS, sigs("a", 1, other), None),
        (POD, member("old", "a", "1", BOTH), member("old", "a", "1", other)),
        (POD, member("old", "a", "1", other), None),
        (POD, young, pod("young")),
    ]
    found, told = World(), dict[GroupKey, Group | None]()
    for kind, old, new in changes:
        if new is not None:
            found.put(kind, new)
        else:
            assert old is not None
            found.drop(kind, "ns", old.metadata.name)
        for key in keys_touched(kind, old, new, found):
            told[key] = read(key, found)
        assert {key: told.get(key) for key in keys} == {key: read(key, found) for key in keys}


_LISTS = ("", BOTH, json.dumps(["ns/0", "ns/a"]), json.dumps(["ns/b"]), "[")
_PODS = st.builds(
    lambda name, gang, least, groups, created: (
        pod(name, created=created) if not gang else member(name, gang, least, groups, created=created)
    ),
    st.sampled_from("xyz"),
    st.sampled_from(["", "a", "b", "0"]),
    st.sampled_from("12"),
    st.sampled_from(_LISTS),
    st.integers(0, 2),
)
_GROUPS = st.builds(sigs, st.sampled_from("ab"), st.integers(1, 2), st.sampled_from(_LISTS))


@given(st.lists(st.tuples(st.one_of(_PODS, _GROUPS), st.booleans()), max_size=12))
@settings(max_examples=examples(150), deadline=None)
def test_whatever_comes_and_goes_the_gangs_are_those_of_a_fresh_look(
    changes: list[tuple[Pod | PodGroup, bool]],
) -> None:
    """In any order; and each gang whose reading changes is touched."""
    found, told = World(), dict[GroupKey, Group]()
    there: dict[tuple[type, str], Pod | PodGroup] = {}
    for obj, comes in changes:
        kind: Any = POD if isinstance(obj, Pod) else POD_GROUP_SIGS  # Any: kinds of two types
        old, new = there.pop((type(obj), obj.metadata.name), None), obj if comes else None
        if new is not None:
            found.put(kind, new)
            there[type(obj), obj.metadata.name] = new
        elif old is not None:
            found.drop(kind, "ns", old.metadata.name)
        else:
            continue
        for key in keys_touched(kind, old, new, found):
            if (group := read(key, found)) is not None:
                told[key] = group
            else:
                told.pop(key, None)
        fresh = seen(*reversed(there.values()))
        every = {group_of(one, fresh) for one in there.values() if isinstance(one, Pod)}
        every |= {GroupKey(groups.KOORDINATOR, "ns", name) for name in "0ab"}
        looked = {key: group for key in every if key is not None and (group := read(key, fresh)) is not None}
        assert told == looked
        uids = [uid for group in looked.values() for uid in group.members]
        assert len(uids) == len(set(uids)), "no pod is in two gangs"


@pytest.mark.parametrize("described", [False, True], ids=["on the PodGroup", "on its pods"])
@pytest.mark.parametrize(
    ("key", "value", "warning"),
    [
        ("mode", "Strict", ""),
        ("mode", "NonStrict", ""),
        ("mode", "strict", "mode is 'strict'; write Strict or NonStrict, which are alike in muster"),
        ("match-policy", "once-satisfied", ""),
        ("match-policy", "waiting-and-running", ""),
        (
            "match-policy",
            "only-waiting",
            "match-policy: only-waiting is read as waiting-and-running",
        ),
        ("match-policy", "x" * 999, f"match-policy is {'x' * 80!r}; write once-satisfied, only-waiting or"),
        ("pod-group.scheduling.sigs.k8s.io/match-policy", "only-waiting", "is read as waiting-and-running"),
        ("total-number", "nine", ""),
        ("waiting-time", "1s", ""),
    ],
)
def test_modes_and_policies_that_are_read_otherwise_are_warned_of(
    key: str, value: str, warning: str, *, described: bool
) -> None:
    said = {key if "/" in key else f"gang.scheduling.koordinator.sh/{key}": value}
    pods = [member(name, annotations=said if described else {}) for name in ("p", "q")]
    gang = the_gang(*pods, *([] if described else [pod_group("a", 2, annotations=said)]))
    assert gang.gang.gate is None
    assert len(gang.warnings) == bool(warning)
    assert all(warning in one for one in gang.warnings)
