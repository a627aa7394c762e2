"""The division of an entitlement, against slow water."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.words.gang import Queue
from muster.core.world.queues.account import Division, Terms, entitle, pour, tree

names = st.sampled_from("abcdef")
small = st.integers(0, 30)


@st.composite
def terms(draw: st.DrawFn) -> Terms:
    capability = draw(st.none() | small)
    guarantee = draw(small) if draw(st.booleans()) else 0
    deserved = draw(st.none() | small)
    return Terms(draw(st.integers(1, 5)), draw(small), guarantee, deserved, capability)


def slowly(pool: int, limits: dict[str, int], weights: dict[str, int]) -> dict[str, Fraction]:
    """Pour into every vessel that is not full yet, as fast as it is wide, until the next one is full."""
    shares = {name: Fraction(0) for name in limits}
    left = Fraction(pool)
    while left and (open_ := [name for name in limits if shares[name] < limits[name]]):
        width = sum(weights[name] for name in open_)
        step = min(left / width, *((limits[name] - shares[name]) / weights[name] for name in open_))
        for name in open_:
            shares[name] += step * weights[name]
        left -= step * width
    return shares


@given(st.integers(0, 100), st.dictionaries(names, st.tuples(small, st.integers(1, 5))))
def test_water_finds_its_level(pool: int, vessels: dict[str, tuple[int, int]]) -> None:
    limits = {name: limit for name, (limit, _) in vessels.items()}
    weights = {name: weight for name, (_, weight) in vessels.items()}
    shares, exact = pour(pool, limits, weights), slowly(pool, limits, weights)
    assert sum(shares.values()) == min(pool, sum(limits.values()))
    for name in vessels:
        assert abs(shares[name] - exact[name]) < 1
        assert shares[name] <= limits[name]


@given(small, st.dictionaries(names, terms()))
def test_no_more_than_there_is_whatever_the_order(amount: int, queues: dict[str, Terms]) -> None:
    shares = Division(queues).of(amount)
    assert sum(shares.values()) <= amount
    assert all(share >= 0 for share in shares.values())
    for name, of in queues.items():
        if of.capability is not None:
            assert shares[name] <= of.capability
    assert Division(dict(sorted(queues.items(), reverse=True))).of(amount) == shares


@given(small, st.dictionaries(names, terms()))
def test_what_is_promised_is_given_if_it_is_there(amount: int, queues: dict[str, Terms]) -> None:
    shares = Division(queues).of(amount)
    kept = {name: of.capped(of.guarantee) for name, of in queues.items()}
    if sum(kept.values()) <= amount:
        assert all(shares[name] >= kept[name] for name in queues)
    promised = {
        name: max(of.capped(of.deserved), kept[name]) if of.deserved is not None else kept[name]
        for name, of in queues.items()
    }
    if sum(promised.values()) <= amount:
        assert all(shares[name] == promised[name] for name, of in queues.items() if of.deserved is not None)
        asked = {
            name: max(of.capped(of.asked), kept[name]) for name, of in queues.items() if of.deserved is None
        }
        assert all(shares[name] <= most for name, most in asked.items())
        if any(shares[name] < most for name, most in asked.items()):
            assert sum(shares.values()) == amount, "no queue goes short while something is left"


@pytest.mark.parametrize(
    ("amount", "queues", "expected"),
    [
        pytest.param(16, {"a": Terms(3, 16), "b": Terms(1, 4)}, {"a": 12, "b": 4}, id="weights 3:1"),
        pytest.param(16, {"a": Terms(3, 16), "b": Terms(1, 8)}, {"a": 12, "b": 4}, id="b asks for more"),
        pytest.param(16, {"a": Terms(3, 16), "b": Terms(1, 0)}, {"a": 16, "b": 0}, id="b is not there"),
        pytest.param(16, {"a": Terms(3, 4), "b": Terms(1, 16)}, {"a": 4, "b": 12}, id="a leaves some"),
        pytest.param(
            16,
            {"a": Terms(1, 9), "b": Terms(1, 9), "c": Terms(1, 9)},
            {"a": 6, "b": 5, "c": 5},
            id="a third each",
        ),
        pytest.param(
            16, {"a": Terms(1, 16, guarantee=6), "b": Terms(1, 16)}, {"a": 11, "b": 5}, id="a guarantee first"
        ),
        pytest.param(
            16,
            {"a": Terms(1, 0, guarantee=6), "b": Terms(1, 16)},
            {"a": 6, "b": 10},
            id="a guarantee is kept",
        ),
        pytest.param(
            16, {"a": Terms(1, 0, deserved=6), "b": Terms(1, 16)}, {"a": 6, "b": 10}, id="deserved, not asked"
        ),
        pytest.param(
            16, {"a": Terms(9, 16, capability=2), "b": Terms(1, 16)}, {"a": 2, "b": 14}, id="a hard cap"
        ),
        pytest.param(
            6,
            {"a": Terms(1, 9, deserved=8), "b": Terms(1, 9, deserved=4)},
            {"a": 4, "b": 2},
            id="half is gone",
        ),
        pytest.param(
            6,
            {"a": Terms(1, 9, guarantee=4), "b": Terms(1, 9, deserved=9)},
            {"a": 4, "b": 2},
            id="a guarantee is cut last",
        ),
        pytest.param(0, {"a": Terms(1, 9, guarantee=4)}, {"a": 0}, id="nothing is there"),
    ],
)
def test_divide(amount: int, queues: dict[str, Terms], expected: dict[str, int]) -> None:
    assert Division(queues).of(amount) == expected


def in_rounds(amount: int, queues: dict[str, Terms], all_of_it: bool) -> dict[str, int]:
    """What each gets if one round is poured after the other: what a queue is to have, and then more of it."""
    has = dict.fromkeys(queues, 0)
    weights = {name: of.weight for name, of in queues.items()}
    kept = {name: of.capped(of.guarantee) for name, of in queues.items()}
    due = {name: of.capped(of.deserved) for name, of in queues.items() if of.deserved is not None}
    asked = {name: of.capped(of.asked) for name, of in queues.items()}
    rounds = [(kept, kept), (due, {name: max(n - kept[name], 0) for name, n in due.items()})]
    rounds.append(({name: n for name, n in asked.items() if name not in due}, weights))
    if all_of_it:
        deserving = {name: of.deserved for name, of in queues.items() if of.deserved}
        rounds.append(({name: asked[name] for name in deserving}, deserving))
        rounds.append(({name: n for name, n in asked.items() if name not in deserving}, weights))
    for upto, widths in rounds if amount else ():
        poured = pour(amount, {name: max(n - has[name], 0) for name, n in upto.items()}, widths)
        amount -= sum(poured.values())
        has |= {name: has[name] + more for name, more in poured.items()}
        if not amount:
            break
    return has


@given(st.lists(st.integers(0, 120)), st.dictionaries(names, terms()), st.booleans())
def test_one_division_divides_any_amount(
    amounts: list[int], queues: dict[str, Terms], all_of_it: bool
) -> None:
    division = Division(queues, all_of_it=all_of_it)
    for amount in amounts:
        assert division.of(amount) == in_rounds(amount, queues, all_of_it)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.lists(st.integers(1, 9), max_size=3))
def test_siblings_that_state_parts_divide_what_as_many_of_weight_1_get(
    parts: list[int], weights: list[int]
) -> None:
    """The parts may be of any size, bytes as well as GPUs: others lose nothing by it."""
    stated = [Queue(f"p{n}", parts=(("cpu", part * 10**9),), weight=7) for n, part in enumerate(parts)]
    others = [Queue(f"w{n}", weight=weight) for n, weight in enumerate(weights)]
    entitled = _entitled([*stated, *others], 10**6)
    plain = _entitled([Queue(f"p{n}") for n in range(len(parts))] + others, 10**6)
    assert sum(entitled[q.name] for q in stated) == pytest.approx(
        sum(plain[q.name] for q in stated), abs=len(plain)
    )
    for queue, part in zip(stated, parts, strict=True):
        whole = sum(entitled[q.name] for q in stated)
        assert entitled[queue.name] == pytest.approx(whole * part / sum(parts), abs=len(plain))


def _entitled(rules: list[Queue], amount: int) -> dict[str, int]:
    """What queues below root are entitled to if each asks for everything."""
    root, accounts = tree({rule.name: rule for rule in rules}, {})
    root.entitled = {"cpu": amount}
    for account in accounts.values():
        account.wanted["cpu"] = amount
    entitle(root)
    return {name: account.entitled["cpu"] for name, account in accounts.items()}


@given(st.integers(0, 20), st.integers(0, 9), st.integers(0, 30), st.none() | st.integers(0, 30))
def test_a_queue_without_siblings_is_as_one_whose_siblings_ask_for_nothing(
    amount: int, guarantee: int, asked: int, deserved: int | None
) -> None:
    terms = Terms(1, asked, guarantee, deserved, 25)
    alone, beside = Division({"a": terms}), Division({"a": terms, "b": Terms(1, 0)})
    assert alone.of(amount)["a"] == beside.of(amount)["a"]
