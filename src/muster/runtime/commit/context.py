"""The context of a step: what its functions read, in one value."""

from dataclasses import dataclass

from muster.runtime.commit.devices import DeviceClaims
from muster.runtime.commit.places import Places
from muster.runtime.commit.view import GangView, Limits, RetryState
from muster.translate.group import Group


@dataclass(frozen=True, slots=True)
class Context:
    """A gang that has a group, at one moment; `now` is Unix time in seconds."""

    view: GangView
    group: Group
    places: Places
    claims: DeviceClaims
    state: RetryState
    now: float
    limits: Limits

    @property
    def suspended(self) -> bool:
        """Whether the gang's owner is suspended."""
        return self.group.owner is not None and self.group.owner.suspended

    @property
    def last_error(self) -> str:
        """Returns the end of a message: the last error that was only retried; "" = there is none.

        The server's words about an object of another namespace name it, so they stay there.
        """
        state, own = self.state, self.group.namespaces
        if not state.trouble:
            return ""
        shown = self.view.names.everything or not state.trouble_in or state.trouble_in in own
        return f"; the last error: {state.trouble if shown else 'a write to another namespace has failed'}"


def context_of(view: GangView, group: Group, state: RetryState, now: float, limits: Limits) -> Context:
    places = Places(view, group)
    return Context(view, group, places, DeviceClaims(view, group, places), state, now, limits)
