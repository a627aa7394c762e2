"""What docs/concepts/gangs.md says of its examples is so."""

import re
from pathlib import Path

import msgspec
import yaml

from muster.api import groups
from muster.api.base import Resource
from muster.api.kinds import BY_NAME
from muster.core.words.gang import Code, Gate
from muster.translate.identity import GroupKey
from muster.translate.world import World
from tests.translate.cluster import read

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "gangs.md"


def examples() -> World:
    world = World()
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S):
        for document in yaml.safe_load_all(block):
            kind = BY_NAME[document["apiVersion"], document["kind"]]
            found: Resource = msgspec.convert(document, kind.type)
            world.put(kind, found)
    return world


def test_the_job() -> None:
    group = read(GroupKey(groups.JOB, "default", "train"), examples())
    assert group is not None
    assert group.gang.id == "default/train"
    assert [(one.name, one.count, one.min_count) for one in group.gang.pod_sets] == [("main", 4, 4)]
    assert group.gang.pod_sets[0].shape.requests == (("cpu", 2000), ("nvidia.com/gpu", 1))


def test_the_podgroup() -> None:
    group = read(GroupKey(groups.POD_GROUP, "default", "pair"), examples())
    assert group is not None
    assert group.gang.gate == Gate(Code.MEMBERS_MISSING, "1 of 2 pods exist")
