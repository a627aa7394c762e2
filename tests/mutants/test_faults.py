"""The table of faults is true of the source as it is. `make mutants` itself takes minutes."""

from collections import Counter

import pytest

from tests.mutants.faults import FAULTS, SOURCE, Fault, outdated


def test_each_fault_has_its_place_in_the_source_and_tests_that_are_there() -> None:
    assert outdated(FAULTS) == []
    assert [test for fault in FAULTS for test in fault.tests if not (SOURCE.parent / test).exists()] == []
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1


def test_a_fault_whose_place_is_gone_says_what_to_do() -> None:
    fault = Fault("x", "y", "core/gang.py", "no such line", "", ())
    assert outdated([fault]) == [
        "x: its text is found 0 times in core/gang.py; bring tests/mutants/faults.py up to date"
    ]
    with pytest.raises(ValueError, match="found 2 times"):
        Fault("x", "y", "core/gang.py", "a", "b", ()).applied("a a")
