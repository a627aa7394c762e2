"""Plans on record: what is written is read back, and it stays small."""

import base64
import json
import random
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang, GangPlan
from muster.core.words.decisions import Victim
from muster.core.words.events import PlanFound
from muster.core.words.gang import GangId, NodeName, Place, PodId
from muster.runtime.commit.view import Limits
from muster.runtime.plan_record import (
    MAX_BLOB,
    OwnerRef,
    PlacementPlan,
    Plan,
    PlanTooLarge,
    PodRef,
    RecordedPod,
    RecreationPlan,
    VictimRef,
    encode,
    found,
    mark,
    packed,
    plan_found,
)
from tests.spoiled import STRANGE, TEXTS, spoiled
from tests.tiers import examples


def plan(places: int) -> PlacementPlan:
    nodes = {Place("workers", i): NodeName(f"node-{i // 8:04}") for i in range(places)}
    return PlacementPlan(GangId("ns/g"), "jobset-g", "ns", epoch=7, attempt=3, nodes=nodes)


def read(body: dict[str, Any]) -> Plan:
    plan = found(msgspec.convert(body, GangPlan))
    assert plan is not None
    if isinstance(plan, PlacementPlan) and plan.unreadable:
        raise ValueError(plan.unreadable)
    return plan


def test_a_plan_is_read_back_as_it_was_written() -> None:
    places = {Place("a", 0): NodeName("n1"), Place("a", 2): NodeName("n0"), Place("b", 0): NodeName("n1")}
    victims = (
        VictimRef(
            GangId("ns/v"),
            OwnerRef("batch/v1", "Job", "ns", "v", "u1"),
            (PodRef("ns", "v-0", PodId("u2")),),
        ),
        VictimRef(GangId("ns/w"), None, (PodRef("ns", "w-0", PodId("u3")),), whole=False),
    )
    written = replace(plan(0), nodes=places, pods={Place("a", 2): PodId("u4")}, victims=victims)
    body = encode(written)
    assert body["metadata"] == {"name": "jobset-g-3", "namespace": "ns"}
    assert read(body) == written


def test_a_plan_in_its_gang_is_read_back_with_what_tells_it_from_its_successors() -> None:
    metadata = {"name": "jobset-g", "namespace": "ns", "uid": "u", "resourceVersion": "8"}
    read = found(msgspec.convert({"metadata": metadata, "plan": packed(plan(2))}, Gang))
    assert read == replace(plan(2), uid="u/7.3")
    assert read is not None
    assert read.held is not None
    assert read.held.metadata.resource_version == "8"
    assert found(msgspec.convert({"metadata": metadata}, Gang)) is None


def test_most_gangs_plans_are_small_enough_for_their_gang() -> None:
    source = random.Random(1)
    uids = {Place("workers", i): PodId(str(uuid.UUID(int=source.getrandbits(128)))) for i in range(300)}
    assert len(packed(replace(plan(300), pods=uids))["blob"]) < Limits().held_plan


def test_pods_to_recreate_are_read_back_and_alike_ones_take_little() -> None:
    body = {
        "spec": {
            "containers": [{"name": "main", "env": [{"name": "X" * 20, "value": str(i)} for i in range(60)]}]
        }
    }
    pods = tuple(RecordedPod(PodId(f"u{i}"), {"metadata": {"name": f"p{i}"}, **body}) for i in range(1000))
    written = RecreationPlan(GangId("ns/g"), "jobset-g", "ns", 7, 3, pods, "a pod was refused")
    blob = encode(written)
    assert read(blob) == written
    assert len(blob["spec"]["blob"]) < 50_000


def test_ten_thousand_places_fit_into_a_quarter_of_a_megabyte_with_their_uids() -> None:
    source = random.Random(1)
    uids = {
        Place("workers", i): PodId(str(uuid.UUID(int=source.getrandbits(128), version=4)))
        for i in range(10_000)
    }
    body = encode(replace(plan(10_000), pods=uids))
    assert len(body["spec"]["blob"]) < 270_000


def test_ten_thousand_pods_with_names_of_60_characters_may_be_victims_or_be_created_again() -> None:
    source = random.Random(1)

    def name(index: int) -> str:
        return f"a-training-job-of-a-team-with-long-names-worker-{index:06}-" + "".join(
            source.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5)
        )

    uids = [PodId(str(uuid.UUID(int=source.getrandbits(128), version=4))) for _ in range(10_000)]
    names = [name(index) for index in range(10_000)]
    assert len(names[0]) == 60
    victim = VictimRef(GangId("ns/v"), None, tuple(map(PodRef, ["ns"] * 10_000, names, uids)))
    pods = {Place("workers", i): uid for i, uid in enumerate(uids)}
    assert len(packed(replace(plan(10_000), pods=pods, victims=(victim,)))["blob"]) < MAX_BLOB
    bodies = ({"metadata": {"name": each}, "spec": {"containers": [{"name": "main"}]}} for each in names)
    recorded = tuple(map(RecordedPod, uids, bodies))
    recreation = RecreationPlan(GangId("ns/g"), "jobset-g", "ns", 7, 3, recorded, "refused")
    assert len(packed(recreation)["blob"]) < MAX_BLOB


def test_a_plan_that_is_too_large_is_refused_with_the_number() -> None:
    nodes = {
        Place("w", i): NodeName(f"{i * 7919 % 1_000_003:x}-{i * 104729 % 999_983:x}") for i in range(130_000)
    }
    with pytest.raises(
        PlanTooLarge, match=r"the plan for 130000 places takes \d+ bytes, more than the 1000000"
    ):
        encode(replace(plan(0), nodes=nodes))


def test_an_object_that_is_not_a_plan_is_an_error_with_its_name() -> None:
    body = encode(plan(2))
    body["spec"]["blob"] = "bm90IHpsaWI="
    with pytest.raises(ValueError, match="GangPlan ns/jobset-g-3: "):
        read(body)


@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_whatever_a_blob_holds_it_is_a_plan_within_bounds_or_a_value_error(data: st.DataObject) -> None:
    def choose(values: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(values))

    victims = (VictimRef(GangId("ns/v"), OwnerRef(*"abcde"), (PodRef("ns", "v", PodId("u")),), at=1.0),)
    pods = {Place("workers", i): PodId(str(uuid.UUID(int=i))) for i in range(2)}
    recorded = (RecordedPod(PodId("u"), {"metadata": {"name": "p"}}),)
    recreation = RecreationPlan(GangId("ns/g"), "jobset-g", "ns", 7, 3, recorded, "x")
    body = encode(choose([recreation, replace(plan(2), victims=victims, pods=pods)]))
    content = json.loads(zlib.decompress(base64.b64decode(body["spec"]["blob"])))
    strange = json.dumps(spoiled(content, choose, [*STRANGE, [[0, 2**40, 0]], [[0, 1, -1]]])).encode()
    body["spec"]["blob"] = base64.b64encode(zlib.compress(strange)).decode()
    try:
        found = read(body)
    except ValueError:
        return
    if isinstance(found, RecreationPlan):
        assert [each.name for each in found.pods] in (*([each] for each in TEXTS), ["p"])
    else:
        assert set(found.nodes.values()) <= {*content["nodes"], *(str(each) for each in STRANGE)}


@pytest.mark.parametrize(
    "text",
    [b"[" * 10**6, b'{"a":' * 10**6, b"", b"[]", b"null", b'"' + b"x" * (2**27) + b'"'],
    ids=["lists", "maps", "nothing", "list", "null", "a bomb"],
)
def test_a_blob_that_is_made_to_harm_is_no_plan(text: bytes) -> None:
    body = encode(plan(2))
    body["spec"]["blob"] = base64.b64encode(zlib.compress(text)).decode()
    with pytest.raises(ValueError, match="GangPlan ns/jobset-g-3: "):
        read(body)


def test_a_plan_of_more_places_than_any_gang_has_is_no_plan() -> None:
    body = encode(plan(2))
    content = {
        "gang": "ns/g",
        "nodes": ["n"],
        "places": {"w": [[0, 2**31 - 1, 0]]},
        "pods": {},
        "victims": [],
    }
    body["spec"]["blob"] = base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()
    with pytest.raises(ValueError, match="has 2147483647 places; a gang has at most 50000"):
        read(body)


def test_a_mark_names_epoch_attempt_and_place() -> None:
    assert mark(7, 3, Place("workers", 12)) == "7.3/workers/12"


def test_a_new_scheduler_knows_of_victims_that_are_still_there() -> None:
    def pod(name: str, uid: str, node: str = "n0") -> Pod:
        return msgspec.convert(
            {"metadata": {"name": name, "namespace": "ns", "uid": uid}, "spec": {"nodeName": node}}, Pod
        )

    there = {p.key: p for p in (pod("v-0", "u0"), pod("w-0", "anew"), pod("w-1", "u2"), pod("x-0", "u3", ""))}
    refs = {name: PodRef("ns", name, PodId(f"u{i}")) for i, name in enumerate(("v-0", "w-0", "w-1", "x-0"))}
    victims = (
        VictimRef(GangId("ns/v"), None, (refs["v-0"],), work_lost=60.0, reclaimed=True),
        VictimRef(GangId("ns/w"), None, (refs["w-0"], refs["w-1"]), whole=False),
        VictimRef(GangId("ns/x"), None, (refs["x-0"],)),
    )
    recorded = replace(plan(1), victims=victims)
    told = plan_found(GangId("ns/g"), recorded, lambda kind, key: there.get(key))
    assert told == PlanFound(
        GangId("ns/g"),
        recorded.nodes,
        (
            Victim(GangId("ns/v"), frozenset(), 60.0, reclaimed=True),
            Victim(GangId("ns/w"), frozenset({PodId("u2")})),
        ),
    )
