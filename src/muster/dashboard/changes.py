"""What can be done with a job on its page, and by what a job is known that has been seen."""

from collections.abc import Sequence
from enum import Enum

from muster.api.marks import HOLD
from muster.app.views.job import JobView


class Change(Enum):
    """The value is the word in a form and in the address."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"


class Refused(Exception):
    """The job cannot be changed so; the message says why, and what is possible."""


def possible(view: JobView) -> Sequence[Change]:
    """What can be done with a job as it is."""
    if view.state.finished:
        return ()
    held = any(HOLD.text(bearer.metadata) is not None for bearer in view.bearers)
    return (Change.RELEASE if held else Change.HOLD, Change.CANCEL)


def identity(view: JobView) -> str:
    """What tells a job from a later one of its name: its uid. A group that only its pods name has theirs."""
    own = view.resource.metadata.uid
    return own or min((pod.metadata.uid for pod in view.pods), default="")
