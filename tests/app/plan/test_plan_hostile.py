"""`muster plan`: whatever one object of a snapshot, or of what is proposed, holds, it is planned or named."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.kube.errors import Invalid
from muster.runtime.mirror import WATCHED
from muster.workloads.findings import JobFileError
from muster.workloads.snapshot import parse
from tests.app.plan.test_plan import plan
from tests.objects import CLUSTER
from tests.spoiled import Choose, spoiled
from tests.tiers import examples

OBJECTS = [{"apiVersion": k.api_version, "kind": k.kind, **body} for k, body in CLUSTER if k in WATCHED]
NOW = 1_800_000_000.0


def survives(choose: Choose, times: int) -> bool:
    """Whether the objects were planned with; else they were refused with what is wrong."""
    number = choose(range(len(OBJECTS)))
    bad = [*OBJECTS[:number], spoiled(OBJECTS[number], choose, times=times), *OBJECTS[number + 1 :]]
    form = choose([b"%b", b"%b", b"%b", b"---\n%b"])  # the last is YAML
    schedulers = choose([None, frozenset({"muster"}), frozenset({"other"})])
    content = form % json.dumps({"apiVersion": "v1", "kind": "List", "items": bad}).encode()
    good = json.dumps(OBJECTS).encode()
    snapshot, proposed = choose([(content, good), (good, content)])
    try:
        cluster, new = parse(snapshot, "cluster", WATCHED), parse(proposed, "new", WATCHED)
        decisions = plan(new, cluster, NOW, schedulers).decisions
    except (JobFileError, Invalid):
        return False
    msgspec.json.encode(decisions)
    return True


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), times=st.integers(1, 3))
def test_a_plan_survives_strange_objects_among_many(data: st.DataObject, times: int) -> None:
    def choose(values: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    survives(choose, times)


def test_the_objects_are_planned_as_they_are() -> None:
    assert survives(lambda values: values[0], 0)
