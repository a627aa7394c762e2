"""The context of a step: what its functions read, in one value."""

from dataclasses import dataclass

from muster.runtime.commit.places import Places
from muster.runtime.commit.view import GangView, Limits, RetryState
from muster.translate.group import Group


@dataclass(frozen=True, slots=True)
class Context:
    """A gang that has a group, at one moment; `now` is Unix time in seconds."""

    view: GangView
    group: Group
    places: Places
    state: RetryState
    now: float
    limits: Limits

    @property
    def suspended(self) -> bool:
        """Whether the gang's owner is suspended."""
        return self.group.owner is not None and self.group.owner.suspended


def context_of(view: GangView, group: Group, state: RetryState, now: float, limits: Limits) -> Context:
    return Context(view, group, Places(view, group), state, now, limits)
