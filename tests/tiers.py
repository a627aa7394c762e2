"""Two tiers: `make test` is the quick one; `make test-full`, which CI runs, has all tests and all examples.

The quick tier is for the time between two edits (CONTRIBUTING.md says how long it takes). It leaves out
what is marked `full`, draws a tenth of the examples of each property, and forks the commands that the full
tier starts (`tests/cli/forked.py`). `make mutants` shows what that costs: it takes either tier.
"""

import os
from collections.abc import Sequence
from typing import Final

import pytest

FULL: Final = os.environ.get("MUSTER_TESTS", "") == "full"


def examples(number: int) -> int:
    """How many examples hypothesis draws in this tier, of the `number` that the full tier has.

    The first example is the simplest, and the next are small: four are the fewest that say something.
    """
    return number if FULL else max(number // 10, min(number // 4, 4), 1)


def sample(full: Sequence[object], quick: int) -> list[object]:
    """The parameters of a test: this tier has all, or the first `quick` of them."""
    return [*full[:quick], *(pytest.param(each, marks=pytest.mark.full) for each in full[quick:])]
