"""What is told once."""

from pathlib import Path

import pytest

from muster.app.wiring import told
from muster.app.wiring.told import first_time


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_each_subject_is_told_once() -> None:
    assert [first_time(each) for each in ("a", "b", "a", "b")] == [True, True, False, False]


def test_the_oldest_subjects_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "MOST", 2)
    assert [first_time(each) for each in ("a", "b", "c", "c", "a")] == [True, True, True, False, True]


@pytest.mark.parametrize("content", ["", "{}", "[1]", "nothing"])
def test_a_file_that_cannot_be_read_is_written_anew(home: Path, content: str) -> None:
    home.mkdir(mode=0o700)
    (home / "told.json").write_text(content)
    assert [first_time("a"), first_time("a")] == [True, False]


def test_without_a_directory_to_write_in_it_is_told_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "file"))
    assert [first_time("a"), first_time("a")] == [True, True]
