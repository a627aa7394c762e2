"""How each dialect registers its reader, for its row in `muster.api.groups`.

A *reader* translates the group of one key: the group object, its pods and the objects that these refer to
become a `Group`. The reader keeps its state between calls, so a changed pod costs one pod, whatever the
size of the gang.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.translate.group import ReadGroup, Touched
from muster.translate.identity import GroupKey
from muster.translate.world import World


class DialectReader(Protocol):
    """The reader of one group."""

    def read(self, touched: Touched) -> ReadGroup:
        """Returns the group as of now. The first call reads all objects, later calls those in `touched`."""
        ...

    def renew(self, pod: Pod) -> None:
        """Replaces a pod that has a place and a node by its newer state, from which the same group is read.

        A reader that keeps no pods does nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class Registration:
    """How the gangs of a dialect are read."""

    #: makes the reader of a group
    reader: Callable[[GroupKey, World], DialectReader]
    #: whether a gang of this dialect, namespace and name exists
    exists: Callable[[Dialect, str, str, World], bool]
    #: the other groups that a group object may be part of, besides the one of its name. Any: an object of
    #: its kind
    others: Callable[[Dialect, Any, World], Iterable[GroupKey]] = lambda *_: ()
