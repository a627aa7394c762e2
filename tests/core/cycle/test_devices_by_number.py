"""Resources that some nodes give out by number, and others have as devices: one amount, never both."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.saved import restored, saved
from muster.core.words.decisions import Assign, Evict
from muster.core.words.devices import (
    BY_NUMBER,
    Allocation,
    ClaimShape,
    DeviceAsk,
    DeviceId,
    DeviceKind,
    DeviceKindChanged,
    DeviceRequest,
    DevicesChanged,
    KindId,
)
from muster.core.words.events import Event, GangRemoved, GangSubmitted, PodsBound, PodsEnded, QueueChanged
from muster.core.words.gang import Code, GangId, NodeName, Place, PodSet, Queue, Shape
from muster.names import GPU
from tests.core.words import amounts, assigns, gang, node, pod, shape, waits

NIC = "example.com/nic"
KINDS = (
    DeviceKindChanged(KindId(0), DeviceKind(frozenset({GPU}), resources=frozenset({GPU}))),
    DeviceKindChanged(KindId(1), DeviceKind(frozenset({GPU}), tainted=True, resources=frozenset({GPU}))),
    DeviceKindChanged(KindId(2), DeviceKind(frozenset({NIC}), resources=frozenset({NIC}))),
)


def devices(on: str, *numbers: int) -> DevicesChanged:
    """So many devices of each kind."""
    kinds = [KindId(kind) for kind, n in enumerate(numbers) for _ in range(n)]
    return DevicesChanged(on, tuple((DeviceId(f"{on}/{i}"), kind) for i, kind in enumerate(kinds)))


def cluster(*facts: Event) -> Scheduler:
    made = Scheduler()
    told: list[Event] = [*KINDS, *(node(f.node, gpu=0) for f in facts if isinstance(f, DevicesChanged))]
    for each in [*told, *facts]:
        made.apply(each)
    return made


def claiming(count: int) -> Shape:
    claim = ClaimShape("c", (DeviceRequest("r", (DeviceAsk((GPU,), count),)),))
    return replace(shape(gpu=count), claims=(claim,))


def start(made: Scheduler, of: Shape, name: str = "g", count: int = 1, at: float = 0.0) -> Assign | None:
    made.apply(GangSubmitted(gang(name, count=count, of=of)))
    return next((each for each in assigns(made.decide(at)) if each.gang == name), None)


def had(assign: Assign | None) -> list[str]:
    assert assign is not None
    found = [device for some in assign.claims.values() for each in some for _, device in each.devices]
    assert len({*found}) == len(found)
    return sorted(found)


def test_a_gang_runs_on_nodes_of_both_sorts() -> None:
    made = cluster(devices("a", 3), node("b", gpu=4))
    assign = start(made, shape(gpu=2), count=3)
    assert assign is not None
    assert sorted(assign.nodes.values()) == ["a", "b", "b"]
    [place] = [place for place, on in assign.nodes.items() if on == "a"]
    assert assign.claims == {
        place: (Allocation(BY_NUMBER, ((GPU, DeviceId("a/0")), (GPU, DeviceId("a/1")))),)
    }
    assert start(made, shape(gpu=1), "h", 2) is None


def test_a_gang_that_lacks_a_device_does_not_start_in_part() -> None:
    made = cluster(devices("a", 3), node("b", gpu=4))
    assert start(made, shape(gpu=2), count=4) is None
    made.apply(devices("a", 4))
    assert [*map(len, next(iter(assigns(made.decide(1.0)))).claims.values())] == [1, 1]


def test_claims_and_numbers_draw_on_the_same_devices() -> None:
    made = cluster(devices("a", 4))
    assert had(start(made, claiming(2))) == ["a/0", "a/1"]
    assert had(start(made, shape(gpu=2), "h")) == ["a/2", "a/3"]
    assert start(made, shape(gpu=1), "i") is None
    assert start(made, claiming(1), "j") is None


def test_a_pod_may_have_a_claim_and_a_number() -> None:
    of = claiming(2)
    of = replace(of, requests=amounts({GPU: 3}))
    assign = start(cluster(devices("a", 3)), of)
    assert assign is not None
    [(claim, by_number)] = assign.claims.values()
    assert (claim.claim, len(claim.devices)) == ("c", 2)
    assert (by_number.claim, len(by_number.devices)) == (BY_NUMBER, 1)
    assert start(cluster(devices("a", 2)), of) is None


def test_a_node_gives_each_resource_out_in_one_way() -> None:
    """Numbers win; a pod may have one resource by number, and another as devices."""
    made = cluster(devices("a", 4, 0, 2))
    made.apply(node("a", gpu=1))
    assign = start(made, replace(shape(gpu=1), requests=amounts({GPU: 1, NIC: 1})))
    assert assign is not None
    [(by_number,)] = assign.claims.values()
    assert by_number.devices == ((NIC, DeviceId("a/4")),)
    assert start(made, shape(gpu=1), "h") is None


def test_a_node_may_change_over() -> None:
    made = cluster(devices("a", 2))
    made.apply(node("a", gpu=1))
    assert start(made, shape(gpu=2)) is None
    made.apply(node("a", gpu=0))
    [assign] = assigns(made.decide(1.0))
    assert had(assign) == ["a/0", "a/1"]
    made.apply(GangRemoved(GangId("g")))
    made.apply(DevicesChanged("a"))
    assert GPU not in dict(made.world.nodes.facts[NodeName("a")].capacity)
    made.apply(node("a", gpu=2))
    again = start(made, shape(gpu=2), "h", at=2.0)
    assert again is not None
    assert not again.claims


def test_what_has_become_devices_is_asked_of_gangs_that_wait() -> None:
    made = Scheduler()
    made.apply(node("a", gpu=0))
    assert start(made, shape(gpu=2)) is None
    for each in (*KINDS, devices("a", 2)):
        made.apply(each)
    [assign] = assigns(made.decide(1.0))
    assert had(assign) == ["a/0", "a/1"]


def test_no_share_is_put_on_a_device() -> None:
    made = cluster(devices("a", 2))
    assert start(made, shape(share=500)) is None
    made.apply(node("b", gpu=1))
    [assign] = assigns(made.decide(1.0))
    assert [*assign.nodes.values()] == ["b"]


def test_tainted_devices_are_not_had_by_number() -> None:
    made = cluster(devices("a", 1, 1))
    assert start(made, shape(gpu=2)) is None
    assert had(start(made, shape(gpu=1), "h")) == ["a/0"]


def test_a_pod_that_has_ended_leaves_its_devices_to_its_replacement() -> None:
    made, of = cluster(devices("a", 2)), shape(gpu=2)
    assign = start(made, of)
    assert assign is not None
    place = Place("main", 0)
    bound = PodsBound({pod("g", place): place}, NodeName("a"), of.requests, GangId("g"))
    made.apply(bound)
    made.decide(1.0)
    made.apply(PodsEnded((pod("g", place),), 2.0))
    [again] = assigns(made.decide(2.0))
    assert had(again) == ["a/0", "a/1"]


def test_queues_count_devices_as_the_resource() -> None:
    made = cluster(devices("a", 4))
    made.apply(QueueChanged(Queue("q", capability=amounts({GPU: 2}))))
    for name in "gh":
        made.apply(GangSubmitted(replace(gang(name, of=shape(gpu=2)), queue="q")))
    decisions = made.decide(0.0)
    assert [each.gang for each in assigns(decisions)] == ["g"]
    [wait] = waits(decisions)
    assert wait.explanation.code is Code.QUOTA_EXCEEDED


def test_a_gang_of_higher_priority_gets_the_devices_of_its_victim() -> None:
    made, of = cluster(devices("a", 2)), shape(gpu=1)
    assign = start(made, of, "low", 2)
    assert assign is not None
    for place in assign.nodes:
        made.apply(PodsBound({pod("low", place): place}, NodeName("a"), of.requests, GangId("low")))
    made.apply(GangSubmitted(gang("high", of=shape(gpu=2), priority=1)))
    decisions = made.decide(1.0)
    assert any(isinstance(each, Evict) for each in decisions)
    assert had(*assigns(decisions)) == ["a/0", "a/1"]


def test_a_saved_scheduler_knows_what_is_devices() -> None:
    made = cluster(devices("a", 3), node("b", gpu=1))
    start(made, shape(gpu=1), count=2)
    again = restored(saved(made))
    for each in (made, again):
        assert had(start(each, shape(gpu=2), "h", at=1.0)) in (["a/0", "a/1"], ["a/1", "a/2"])


@pytest.mark.parametrize(
    ("of", "code", "message"),
    [
        (shape(gpu=3), Code.FRAGMENTED, "no node has 3 GPUs free at once: the best node has 2"),
        (shape(gpu=5), Code.NOTHING_MATCHES, "a pod asks 5 GPUs; the largest matching node has 4"),
        (shape(gpu=4), Code.NOTHING_MATCHES, "no matching node has 4 GPUs, even if all of its devices were"),
        (
            shape(share=500),
            Code.NOTHING_MATCHES,
            "no matching node has a share of one device (nvidia.com/gpu)",
        ),
    ],
)
def test_why_a_gang_waits(of: Shape, code: Code, message: str) -> None:
    there = replace(devices("a", 3, 1), taken=(DeviceId("a/0"),))
    made = cluster(there)
    made.apply(GangSubmitted(gang("g", of=of)))
    [wait] = waits(made.decide(0.0))
    assert wait.explanation.code is code
    assert message in wait.explanation.message


number = st.integers(0, 4)
step = st.tuples(st.integers(1, 4), st.integers(1, 3), st.booleans(), st.booleans())


@given(
    st.lists(st.tuples(number, number), min_size=1, max_size=3),
    st.lists(step, max_size=6),
    st.randoms(use_true_random=False),
)
def test_each_pod_has_as_many_as_it_requests_in_one_way(nodes, asked, rng) -> None:  # type: ignore[no-untyped-def]
    """Nodes of both sorts, gangs with claims and with numbers, some of which end."""
    facts = {f"n{i}": devices(f"n{i}", has) for i, (has, _) in enumerate(nodes)}
    counted = {f"n{i}": gpu for i, (_, gpu) in enumerate(nodes)}
    made = Scheduler()
    told: list[Event] = [*KINDS, *(node(name, gpu=gpu) for name, gpu in counted.items()), *facts.values()]
    rng.shuffle(told)
    for each in told:
        made.apply(each)
    in_use: dict[str, str] = {}
    used = dict.fromkeys(counted, 0)
    running: dict[str, Assign] = {}
    shapes: dict[str, Shape] = {}
    for i, (pods, count, claims, ends) in enumerate(asked):
        name = f"g{i}"
        shapes[name] = claiming(count) if claims else shape(gpu=count)
        made.apply(GangSubmitted(gang(name, PodSet("main", shapes[name], pods, pods))))
        for assign in assigns(made.decide(float(i))):
            of, running[assign.gang] = shapes[assign.gang], assign
            for place, on in assign.nodes.items():
                own = [device for one in assign.claims.get(place, ()) for _, device in one.devices]
                by_devices = bool(of.claims) or not counted[on]
                assert len(own) == (dict(of.requests)[GPU] if by_devices else 0)
                for device in own:
                    assert device.startswith(f"{on}/")
                    assert device not in in_use
                    in_use[device] = assign.gang
                used[on] += dict(of.requests)[GPU]
                assert used[on] <= (counted[on] or len(facts[on].devices))
        if ends and running:
            gone = rng.choice(sorted(running))
            for on in running.pop(gone).nodes.values():
                used[on] -= dict(shapes[gone].requests)[GPU]
            in_use = {device: by for device, by in in_use.items() if by != gone}
            made.apply(GangRemoved(GangId(gone)))
