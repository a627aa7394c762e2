"""The order that is kept is the order that sorting would make."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.gang import Code, GangId, Gate
from muster.core.gangs import BackOff, GangState, Wants
from muster.core.order import Line, first_claim
from tests.core.words import gang


def ordered(states: list[GangState], lapsed: set[GangId]) -> list[GangState]:
    def key(state: GangState) -> tuple[int, tuple[int, float, GangId]]:
        return (2 if state.id in lapsed else 0 if first_claim(state) else 1, state.rank)

    return sorted(states, key=key)


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_whoever_comes_changes_or_goes(seed: int) -> None:
    rng = random.Random(seed)
    line, wants = Line(), Wants()
    states: dict[GangId, GangState] = {}
    for _ in range(40):
        name = GangId(f"g{rng.randint(0, 12)}")
        if rng.random() < 0.2:
            states.pop(name, None)
            line.drop(name)
        else:
            state = states.setdefault(name, GangState(name))
            gate = Gate(Code.GATED, "") if rng.random() < 0.2 else None
            state.gang = gang(
                name,
                count=rng.randint(1, 3),
                submitted=float(rng.randint(0, 3)),
                priority=rng.randint(0, 2),
                gate=gate,
            )
            state.back_off = BackOff(9.0, "", frozenset(), True) if rng.random() < 0.2 else None
            wants.settle(state)
            line.put(state)
        lapsed = {gone for gone in states if rng.random() < 0.1}
        assert list(line.serve(lapsed, lambda state: False)) == ordered(list(states.values()), lapsed)
        assert len(line) == len(states)
    hopeless = {state.want for state in states.values() if state.plain and rng.random() < 0.5}
    served = list(line.serve(set(), lambda state: state.plain and state.want in hopeless))
    left = [state for state in states.values() if not (state.plain and state.want in hopeless)]
    assert served == ordered(left, set())


def test_one_refusal_passes_over_all_who_want_the_same() -> None:
    line, wants = Line(), Wants()
    for name, count in [("a", 2), ("b", 1), ("c", 2), ("d", 2), ("e", 1)]:
        state = GangState(GangId(name), gang(name, count=count))
        wants.settle(state)
        line.put(state)
    refused = set()
    looked_at = []
    for state in line.serve(set(), lambda state: state.want in refused):
        looked_at.append(state.id)
        if state.id == "a":
            refused.add(state.want)
    assert looked_at == ["a", "b", "e"]
