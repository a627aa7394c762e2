"""The table of faults is true of the source as it is. `make mutants` itself takes minutes."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import __main__ as mutants
from tests.mutants.__main__ import FAULTS, Outcome
from tests.mutants.faults import SOURCE, Fault, outdated


def test_each_fault_has_its_place_in_the_source_and_tests_that_are_there() -> None:
    assert outdated(FAULTS) == []
    assert [test for fault in FAULTS for test in fault.tests if not (SOURCE.parent / test).exists()] == []
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1


def test_each_fault_is_a_program() -> None:
    for fault in FAULTS:
        compile(fault.applied((SOURCE / "muster" / fault.file).read_text()), fault.name, "exec")


def test_a_fault_whose_place_is_gone_says_what_to_do() -> None:
    fault = Fault("x", "y", "core/words/gang.py", "no such line", "", ())
    assert outdated([fault]) == [
        "x: its text is found 0 times in core/words/gang.py; bring tests/mutants/faults.py up to date"
    ]
    with pytest.raises(ValueError, match="found 2 times"):
        Fault("x", "y", "core/words/gang.py", "a", "b", ()).applied("a a")


def test_each_module_of_the_commit_has_a_fault() -> None:
    paths = (SOURCE / "muster/runtime/commit").glob("[a-z]*.py")  # `__init__.py` has only the description
    modules = {f"runtime/commit/{path.name}" for path in paths}
    assert modules - {fault.file for fault in FAULTS} == set()


RUNS = {
    "assert True": Outcome.SURVIVED,
    "assert False": Outcome.CAUGHT,
    "__import__('os')._exit(1)": Outcome.BROKEN,
    "while True: pass": Outcome.HANGS,
}


@pytest.mark.full
@pytest.mark.parametrize(("body", "outcome"), RUNS.items(), ids=RUNS)
def test_only_a_test_that_fails_is_a_catch(body: str, outcome: Outcome, tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    limit = "@pytest.mark.timeout(1)\n" if outcome is Outcome.HANGS else ""
    test.write_text(f"import pytest\n\n{limit}def test_it():\n    {body}\n")
    assert mutants._tested(SOURCE, [str(test)], full=False) is outcome


def test_the_quick_tier_may_let_one_of_ten_pass_and_the_full_tier_none() -> None:
    assert [mutants.enough(quick, full, 20, both=True) for quick, full in ((18, 2), (18, 1), (17, 3))] == [
        True,
        False,
        False,
    ]
    assert [mutants.enough(quick, 0, 20, both=False) for quick in (18, 17)] == [True, False]
    assert mutants.enough(0, 2, 2, both=True, chosen=True)
    assert not mutants.enough(0, 2, 2, both=False, chosen=True)


def test_words_that_choose_no_fault_run_no_test(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main(["--help"]) == 2
    assert "no fault's name contains --help" in capsys.readouterr().out


@pytest.mark.full
def test_a_run_that_takes_too_long_is_no_catch(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_it():\n    while True: pass\n")
    assert mutants._tested(SOURCE, [str(test)], False, 2) is Outcome.HANGS
