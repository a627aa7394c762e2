"""Which scheduler names a scheduler must leave to another one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import ObjectMeta, Resource
from muster.names import LEASE, SCHEDULES
from muster.runtime.namesakes import taken


def policy(lease: str, names: str, second: int = 0) -> Resource:
    made = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    noted = {LEASE: lease, SCHEDULES: names}
    return Resource(metadata=ObjectMeta(name=f"{lease}-{second}", annotations=noted, creation_timestamp=made))


FIRST, SECOND = policy("a/s", "muster,lab", 1), policy("b/s", "muster", 2)


@pytest.mark.parametrize(
    ("names", "lease", "policies", "found"),
    [
        (["muster"], "b/s", [FIRST, SECOND], {"muster": "a/s"}),
        (["muster"], "a/s", [FIRST, SECOND], {}),
        (["other"], "b/s", [FIRST, policy("b/s", "other", 2)], {}),
        (["other", "lab"], "b/s", [FIRST, SECOND], {"lab": "a/s"}),
        (["muster"], "by hand/s", [FIRST, SECOND], {"muster": "a/s"}),
        (["muster"], "b/s", [SECOND, policy("b/s", "muster", 0), FIRST], {}),
        (["muster"], "b/s", [policy("b/s", "muster", 1), FIRST], {"muster": "a/s"}),
        (["muster"], "b/s", [Resource(), SECOND], {}),
        (["muster"], "b/s", [], {}),
    ],
    ids=[
        "the later one",
        "the earlier one",
        "names of their own",
        "one of several",
        "without a release",
        "its oldest policy counts",
        "at the same second, by name",
        "policies of others",
        "none",
    ],
)
def test_a_name_is_left_to_the_earlier_release(
    names: list[str], lease: str, policies: list[Resource], found: dict[str, str]
) -> None:
    assert taken(names, lease, policies) == found


@given(
    st.lists(
        st.builds(policy, st.sampled_from(["a/s", "b/s", "c/s"]), st.just("muster"), st.integers(0, 3)),
        min_size=1,
    )
)
def test_exactly_one_of_all_releases_with_a_name_serves_it(policies: list[Resource]) -> None:
    leases = {each.metadata.annotations[LEASE] for each in policies}
    (kept,) = [lease for lease in leases if not taken(["muster"], lease, policies)]
    assert all(taken(["muster"], lease, policies) == {"muster": kept} for lease in leases - {kept})
