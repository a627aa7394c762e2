"""The trials of a sweep are all combinations of its lists, each once, in the order of the file."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.matrix import MOST_TRIALS, Matrix

NAMES = st.from_regex(r"[A-Z]{1,3}", fullmatch=True)
AXES = st.dictionaries(
    NAMES, st.lists(st.text(max_size=3), min_size=1, max_size=4).map(tuple), min_size=1, max_size=4
)


@given(AXES)
def test_each_combination_is_a_trial(axes: dict[str, tuple[str, ...]]) -> None:
    matrix = Matrix(axes)
    trials = [tuple(matrix.parameters(index).values()) for index in range(matrix.size)]
    assert trials == list(itertools.product(*axes.values()))
    assert Matrix.read(matrix.annotation()) == matrix


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ('{"A":1}', "is not JSON"),
        ("[" * 30_000, "is not JSON"),
        ('{"A":[]}', "has 0 trials"),
        ('{"A":["' + "x" * 40_000 + '"]}', "is longer than"),
        (
            "{" + ",".join(f'"{n}":["1","2","3","4"]' for n in range(30)) + "}",
            "trials; a sweep has 1 to 100,000",
        ),
    ],
)
def test_an_annotation_that_anybody_wrote_is_bounded(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Matrix.read(text)
    assert MOST_TRIALS == 100_000
