"""What the module of a dialect registers, for the row of its dialect in `muster.api.groups`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.translate.group import ReadGroup, Touched
from muster.translate.identity import GroupKey
from muster.translate.world import World


class DialectReader(Protocol):
    """Reads one group again and again."""

    def read(self, touched: Touched) -> ReadGroup:
        """Returns the group as it is now. The first reading looks at everything, later ones at `touched`."""
        ...

    def renew(self, pod: Pod) -> None:
        """Takes in a newer state of a placed member on a node, if it keeps pods: all else is as it was."""
        ...


@dataclass(frozen=True, slots=True)
class Registration:
    """How the gangs of a dialect are read."""

    reader: Callable[[GroupKey, World], DialectReader]
    #: whether there is a gang of this namespace and name
    exists: Callable[[Dialect, str, str, World], bool]
    #: the groups that a group object may be a part of, besides that of its name. Any: an object of its kind
    others: Callable[[Dialect, Any, World], Iterable[GroupKey]] = lambda *_: ()
