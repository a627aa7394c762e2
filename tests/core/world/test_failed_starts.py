"""Which nodes are avoided because pods have failed there, and by whom."""

from hypothesis import given
from hypothesis import strategies as st

from muster.core.words.events import StartFailed
from muster.core.words.gang import Avoidance, NodeName
from muster.core.world.failed_starts import ANYWHERE, FailedStarts

RULES = Avoidance()


def failed(node: str, origin: str = "a", tenant: str = "", at: float = 0.0) -> StartFailed:
    return StartFailed(NodeName(node), origin, tenant or f"ns-{origin}", at, f"{origin} on {node}")


def known(*events: StartFailed, now: float = 0.0, nodes: int = 100) -> FailedStarts:
    memory = FailedStarts(RULES)
    for event in events:
        memory.record(event)
    memory.settle(now, nodes)
    return memory


def test_an_origin_keeps_off_a_node_for_twice_as_long_each_time_and_then_uses_it_last() -> None:
    memory = known(failed("n", at=0.0))
    assert memory.of("a") == (("n",), ())
    assert memory.of("b") == ANYWHERE
    assert memory.due == 60
    memory.settle(60.0, 100)
    assert memory.of("a") == ((), ("n",))
    memory.record(failed("n", at=70.0))
    memory.settle(70.0, 100)
    memory.settle(189.0, 100)
    assert memory.of("a") == (("n",), ())
    memory.settle(190.0, 100)
    assert memory.of("a") == ((), ("n",))
    memory.settle(70.0 + RULES.remembered, 100)
    assert memory.of("a") == ANYWHERE
    assert memory == FailedStarts(RULES, _size=100)


def test_a_failure_of_a_pod_that_was_bound_before_and_a_repeated_event_count_once() -> None:
    memory = known(failed("n", at=0.0), failed("n", at=0.0), failed("n", at=59.0))
    assert memory.due == 60


def test_a_node_is_avoided_by_all_if_origins_of_several_tenants_failed_there_only() -> None:
    three = [failed("n", origin, at=float(at)) for at, origin in enumerate("abc")]
    memory = known(*three[:2])
    assert not memory.suspects
    memory = known(*three)
    assert memory.avoided == {"n"}
    assert memory.accused(NodeName("n")) == (
        "node n is avoided: pods of 3 jobs of 3 namespaces failed there at their start"
    )
    memory.settle(2.0 + RULES.lasts, 100)
    assert not memory.avoided
    assert not memory.suspects
    everywhere = [failed(node, origin, at=3.0) for origin in "abc" for node in "mo"]
    assert not known(*three, *everywhere).suspects, "their jobs fail wherever they run"


def test_one_tenant_alone_accuses_no_node_however_many_jobs_it_has() -> None:
    assert not known(*(failed("n", f"job-{n}", "team") for n in range(50))).suspects


def test_of_more_suspects_than_the_share_the_worst_are_avoided_and_the_rest_used_last() -> None:
    events = [failed(node, f"{node}-{n}") for node, times in (("m", 3), ("n", 4)) for n in range(times)]
    assert known(*events, nodes=40).avoided == {"m", "n"}
    memory = known(*events, nodes=39)
    assert (set(memory.avoided), set(memory.last)) == ({"n"}, {"m"})
    memory = known(*events, nodes=10)
    assert (set(memory.avoided), set(memory.last)) == (set(), {"m", "n"})
    assert memory.settle(0.0, 40)[1] == {"m", "n"}


def test_a_node_that_is_repaired_starts_afresh() -> None:
    memory = known(*(failed("n", origin) for origin in "abc"), failed("m"))
    memory.forget(NodeName("n"))
    origins, nodes = memory.settle(1.0, 100)
    assert origins == {"a", "b", "c"}
    assert nodes == {"n"}
    assert not memory.avoided
    assert memory.of("a") == (("m",), ())
    assert memory.of("b") == ANYWHERE


EVENTS = st.lists(
    st.tuples(
        st.sampled_from("klmnop"),
        st.integers(0, 9),
        st.integers(0, 2),
        st.integers(0, 400),
        st.integers(1, 60),
        st.booleans(),
    ),
    max_size=40,
)


@given(EVENTS)
def test_never_more_than_the_share_and_nothing_is_kept_for_ever(
    steps: list[tuple[str, int, int, int, int, bool]],
) -> None:
    memory, now = FailedStarts(RULES), 0.0
    for node, origin, tenant, later, nodes, forgets in steps:
        now += later
        before = {o: memory.of(str(o)) for o in range(10)}
        avoided, last = memory.avoided, memory.last
        if forgets:
            memory.forget(NodeName(node))
        else:
            memory.record(failed(node, str(origin), f"ns-{tenant}", now))
        changed, moved = memory.settle(now, nodes)
        assert len(memory.avoided) <= RULES.share * nodes
        assert memory.avoided.isdisjoint(memory.last)
        assert memory.avoided | memory.last == memory.suspects.keys()
        assert moved == (avoided ^ memory.avoided) | (last ^ memory.last)
        assert all(memory.of(str(o)) == before[o] for o in range(10) if str(o) not in changed)
        assert now < memory.due
        assert all(suspect.tenants >= RULES.tenants for suspect in memory.suspects.values())
    memory.settle(now + RULES.remembered + RULES.longest, 10)
    assert memory == FailedStarts(RULES, _size=memory._size)


def test_a_node_of_which_all_was_forgotten_is_told_without_numbers() -> None:
    assert FailedStarts().accused(NodeName("n")) == "node n is avoided: pods failed there at their start"
