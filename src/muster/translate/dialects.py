"""The registry of dialects: to which group a pod belongs, and which groups a change touches.

A dialect is a module with `read(key, world, before) -> Group | None`. Adding one adds its file, a
member of `Dialect`, and a line in `_READ` here.
"""

from typing import Any

from muster.api.base import Kind, Resource
from muster.api.core_v1 import Pod
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.world import World


def read(key: GroupKey, world: World, before: Group | None = None) -> Group | None:
    """The group as the world shows it now; None = there is no such gang (any more).

    `before` is the last reading: members without an annotation keep the places they had in it.
    """
    raise NotImplementedError


def group_of(pod: Pod, world: World) -> GroupKey | None:
    """The group of a pod; None = not ours to place, or its owner has not been seen yet."""
    raise NotImplementedError


def keys_touched(kind: Kind[Any], old: Resource | None, new: Resource | None, world: World) -> set[GroupKey]:
    """Groups to read again after `world` has taken in the change from `old` to `new`. Any: any kind."""
    raise NotImplementedError
