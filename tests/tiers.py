"""Two tiers: `make test` is the quick one; `make test-full`, which CI runs, has all tests and all examples.

The quick tier is for the time between two edits, and takes some ten minutes on two cores. It leaves out
what is marked `full`, draws a quarter of the examples of each property, and forks the commands that the full
tier starts (`tests/cli/forked.py`). `make mutants` shows what that costs: it takes either tier.
"""

import os
from typing import Final

FULL: Final = os.environ.get("MUSTER_TESTS", "") == "full"


def examples(number: int) -> int:
    """How many examples hypothesis draws in this tier, of the `number` that the full tier has."""
    return number if FULL else max(number // 4, 1)
