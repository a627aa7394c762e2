"""What a mirror that watches notes besides the changes of what it mirrors."""

from typing import Any

import msgspec
import pytest

from muster.api.base import Resource
from muster.api.core_v1 import Pod
from muster.api.kinds import ADMITTING, POD
from muster.controllers.caches import Cache
from muster.controllers.gang import POD_INDEX
from muster.core.words.events import PodsBound
from muster.kube.informers import Informers
from muster.runtime.watched import WatchedMirror


def policy(version: int, generation: int) -> Resource:
    meta = {"name": "approval", "uid": "u", "resourceVersion": str(version), "generation": generation}
    return msgspec.convert({"metadata": meta}, Resource)


@pytest.mark.parametrize("number", range(len(ADMITTING)))
def test_a_change_of_admission_is_noted_and_the_status_of_a_policy_is_none(number: int) -> None:
    client: Any = None  # Any: nothing is asked
    informers = Informers(client)
    mirror = WatchedMirror(informers, admitting=ADMITTING)
    noted = []
    for new in (policy(1, 1), policy(2, 1), policy(3, 2), None):
        mirror.readmitted = False
        mirror.changed.clear()
        informers[ADMITTING[number]]._change("approval", new)
        assert mirror.readmitted is mirror.changed.is_set()
        noted.append(mirror.readmitted)
    assert noted == [True, False, True, True]


CHECK = msgspec.convert(
    {
        "metadata": {"name": "c", "namespace": "checks", "uid": "c"},
        "spec": {"schedulerName": "a-providers-own", "nodeName": "n", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    },
    Pod,
)


def test_pods_that_are_there_already_when_a_replica_begins_to_lead_are_victims_by_its_settings() -> None:
    client: Any = None  # Any: nothing is asked
    informers = Informers(client)
    informers[POD]._change("checks/c", CHECK)
    mirror = WatchedMirror(informers, frozenset({"muster"}), victims=frozenset({"checks"}))
    (bound,) = [event for event in mirror.drain(0.0).events if isinstance(event, PodsBound)]
    assert bound.gang == "checks/c"


def test_a_process_keeps_each_object_once() -> None:
    """The caches of controllers and the mirror have indexes over the reflector's objects, not copies."""
    client: Any = None  # Any: nothing is asked
    informers = Informers(client)
    mirror, cache = WatchedMirror(informers), Cache[Pod](POD, [POD_INDEX])
    informers[POD].subscribe(cache.change)
    for version in ("1", "2"):
        meta = msgspec.structs.replace(CHECK.metadata, resource_version=version)
        informers[POD]._change(CHECK.key, msgspec.structs.replace(CHECK, metadata=meta))
        mirror.drain(0.0)
        held = informers[POD].items[CHECK.key]
        assert held.metadata.resource_version == version
        assert mirror.world.pods["checks", "c"] is cache.items[CHECK.key] is held
        (group,) = mirror.groups.values()
        (member,) = group.members.values()
        assert member.pod is held
