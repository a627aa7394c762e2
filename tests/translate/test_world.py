"""The world's indexes equal a scan over all objects, whatever came and went."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from muster.api import groups
from muster.api.base import Object, controller_of
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB, JOBSET, POD, POD_GROUP_SIGS, POD_GROUP_X
from muster.translate.world import World
from tests.tiers import examples
from tests.translate.cluster import child, job, jobset, pod, pod_spec


def volume(claim: str) -> Object:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


OWNERS = [None, job("one"), job("two")]
pods = st.builds(
    lambda name, owner, groups, claims: pod(
        name, owner=OWNERS[owner], labels=groups, spec=pod_spec(volumes=[*map(volume, claims)])
    ),
    name=st.sampled_from("abcd"),
    owner=st.integers(0, 2),
    groups=st.dictionaries(st.sampled_from(sorted(groups.LABELS)), st.sampled_from("gh")),
    claims=st.lists(st.sampled_from("cd"), max_size=2),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.booleans(), pods), max_size=20))
def test_indexes_equal_a_scan(changes: list[tuple[bool, Pod]]) -> None:
    world, known = World(), dict[str, Pod]()
    for put, one in changes:
        name = one.metadata.name
        before = known.get(name)
        if put:
            assert world.put(POD, one) == before
            known[name] = one
        else:
            assert world.drop(POD, "ns", name) == before
            known.pop(name, None)
    everything = [known[name] for name in sorted(known)]
    assert list(map(world.pods.get, sorted(world.pods))) == everything
    for owner in (job("one"), job("two")):
        controlled = ((one, controller_of(one)) for one in everything)
        assert world.pods_of(owner) == [
            one for one, ref in controlled if ref is not None and ref.uid == owner.metadata.uid
        ]
    for kind in (POD_GROUP_X, POD_GROUP_SIGS):
        for group in "gh":
            found = {**world.pods_in(kind, "ns", group), **world.strangers_in(kind, "ns", group)}
            assert [found[name] for name in sorted(found)] == [
                one for one in everything if groups.named(one) == (groups.BY_KIND[kind], group, False)
            ]
    for claim in "cd":
        users = sorted((user for user, _ in world.users_of(("ns", claim))), key=lambda one: one.metadata.name)
        assert users == [one for one in everything if volume(claim) in one.spec.volumes]


def test_jobs_and_jobsets_use_the_claims_of_their_templates() -> None:
    made = {"spec": pod_spec(volumes=[volume("c"), volume("c")])}
    world, one, two = World(), job("one", template=made), jobset("one", {"a": {"template": made}, "b": {}})
    for _ in range(2):
        world.put(JOB, one)
        world.put(JOBSET, two)
    assert [*world.users_of(("ns", "c"))] == [(one, JOB), (two, JOBSET)]
    world.put(JOBSET, jobset("one", {"a": {}}))
    world.drop(JOB, "ns", "one")
    assert not [*world.users_of(("ns", "c"))]


def test_jobs_by_their_jobset() -> None:
    parent = jobset(jobs={"a": {}, "b": {}})
    world = World()
    for one in (child(parent, "b"), child(parent, "a"), job()):
        world.put(JOB, one)
    assert [one.metadata.name for one in world.jobs_of(parent)] == ["s-a-0", "s-b-0"]
    world.drop(JOB, "ns", "s-a-0")
    assert [one.metadata.name for one in world.jobs_of(parent)] == ["s-b-0"]


def test_a_pod_of_another_namespace_only_says_whose_it_is() -> None:
    world, own = World(), pod("j-0", owner=job())
    stranger = replace(own, metadata=replace(own.metadata, namespace="other", uid="uid-stranger"))
    for one in (stranger, own):
        world.put(POD, one)
    assert world.pods_of(job()) == [own]
