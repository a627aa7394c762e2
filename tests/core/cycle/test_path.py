"""How much of the core a reader has to know to follow one gang."""

import sys
from pathlib import Path
from types import FrameType

import muster.core
from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign
from muster.core.words.events import GangSubmitted
from tests.core.words import gang, node

CORE = str(Path(muster.core.__file__).parent)


def test_a_gang_on_an_empty_cluster_runs_through_few_modules() -> None:
    muster, modules = Scheduler(), set[str]()

    def called(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(CORE):
            modules.add(frame.f_code.co_filename.removeprefix(CORE))

    sys.setprofile(called)
    try:
        muster.apply(node("a", gpu=4))
        muster.apply(GangSubmitted(gang("ns/g", count=2)))
        [decision] = muster.decide(0.0)
    finally:
        sys.setprofile(None)
    assert isinstance(decision, Assign)
    assert len(modules) <= 26, sorted(modules)  # docs/decisions/0020-the-core-in-packages-of-one-question.md
