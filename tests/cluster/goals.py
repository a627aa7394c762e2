"""Times with a goal. The tests print them; `python -m bench.kubernetes --figures failures` judges them."""

import os
from pathlib import Path
from typing import Final

import msgspec

#: names the file that the times are added to
VARIABLE: Final = "MUSTER_TEST_TIMES"


class Took(msgspec.Struct, frozen=True):
    """What happened, in how many seconds, and in how many it should."""

    what: str
    seconds: float
    most: float


def note(what: str, seconds: float, most: float) -> None:
    """Tells a time, and judges nothing: it depends on what else the machine does."""
    print(f"{what}: {seconds:.2f} s; the goal is {most:.0f} s")
    if path := os.environ.get(VARIABLE):
        with Path(path).open("ab") as file:
            file.write(msgspec.json.encode(Took(what, seconds, most)) + b"\n")
