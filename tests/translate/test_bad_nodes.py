"""The setting `badNodes` as the Lease of the scheduler has it: exact both ways, and harmless from anyone."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.translate.bad_nodes import BadNodes, read, written

SETTINGS = st.builds(
    BadNodes,
    failures=st.lists(st.sampled_from(("rejected", "startError", "exit")), max_size=3).map(tuple),
    exit_within=st.integers(0, 600).map(lambda n: f"{n}s"),
    jobs=st.integers(1, 1000),
    namespaces=st.integers(1, 1000),
    avoid_for=st.integers(0, 1440).map(lambda n: f"{n}m"),
    at_most=st.integers(0, 50).map(lambda n: f"{n}%"),
)
_SIMPLE = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20)
ODD = st.recursive(
    _SIMPLE | st.just("9" * 5000 + "%"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(("failures", "exitWithin", "jobs", "namespaces", "avoidFor", "atMost", "else"))


@given(SETTINGS)
def test_a_setting_is_read_as_it_was_written(setting: BadNodes) -> None:
    assert read(written(setting)) == setting


@given(st.dictionaries(FIELDS, ODD).map(lambda value: msgspec.json.encode(value).decode()) | st.text())
def test_whatever_a_lease_has_is_a_setting_within_its_bounds(text: str) -> None:
    found = read(text)
    assert not [*found.wrong()]
    rules = found.rules()
    assert 1 <= rules.origins <= 1000
    assert 1 <= rules.tenants <= 1000
    assert 0 <= rules.share <= 0.5
    assert 0 <= rules.lasts <= 86_400
    assert 0 <= found.counted().exits_within <= 600


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "[" * 10**5, "\ud800"),
        *('{"jobs": 0}', '{"jobs": "3"}', '{"failures": ["odd"]}', '{"avoidFor": "2d"}'),
        *('{"atMost": "51%"}', '{"atMost": "٣%"}', f'{{"atMost": "{"0" * 9999}%"}}'),
    ],
)
def test_a_value_that_no_scheduler_writes_is_as_none(text: str) -> None:
    assert read(text) == BadNodes()
