import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.indexes import Indexes

sets = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0,1"),
        ([1, 3, 4, 5, 7], "1,3-5,7"),
        ([2, 0, 1], "0-2"),
        ([9, 10], "9,10"),
    ],
)
def test_text(indexes: list[int], text: str) -> None:
    assert str(Indexes.of(indexes)) == text
    assert Indexes.parse(text) == Indexes.of(indexes)


def test_adjacent_intervals_are_joined_and_those_beyond_the_limit_left_out() -> None:
    assert Indexes.parse("1,2,3-5") == Indexes(((1, 5),))
    assert Indexes.parse("1,3-5,7", below=5) == Indexes.of([1, 3, 4])


@pytest.mark.parametrize("text", ["a", "1,", "-1", "3-1", "3-3", "2,1", "1,1", "1-3,3", "1--2", "١", "1 ,2"])
def test_bad_text(text: str) -> None:
    with pytest.raises(ValueError, match="index"):
        Indexes.parse(text)


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("", []),
        ("0,2-3", [0, 2, 3]),
        ("junk", []),
        ("0,x,2-", [0]),
        ("3-1,4", [4]),
        ("5,1,1-2", [1, 2, 5]),
        ("-", []),
        ("8-12,20", [8, 9]),
    ],
)
def test_salvaging_indexes_omits_the_damaged_parts(text: str, indexes: list[int]) -> None:
    assert Indexes.salvage(text, below=10) == Indexes.of(indexes)


@given(sets, sets)
def test_as_sets(a: set[int], b: set[int]) -> None:
    one, other = Indexes.of(a), Indexes.of(b)
    assert Indexes.parse(str(one)) == Indexes.salvage(str(one), below=50) == one
    assert one | other == Indexes.of(a | b)
    assert one & other == Indexes.of(a & b)
    assert len(one) == len(a)
    assert {index for index in range(45) if index in one} == a
    assert list(one.missing(30)) == sorted(set(range(30)) - a)
