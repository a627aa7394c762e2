"""What is kept is what its source says; what cannot be built says why."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import building
from tests.cluster.building import Missing
from tests.upstream.modules import ALL, ALLOCATOR, RECIPES, VOLCANO


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_program_is_kept_for_as_long_as_its_source_stays() -> None:
    before = VOLCANO.kept
    assert before is None
    made = building.built(VOLCANO.name, VOLCANO.source, Path.touch)
    assert made == VOLCANO.kept
    assert VOLCANO.built() == made, "it is not built again"
    for other in (
        replace(VOLCANO, module=VOLCANO.module.replace("1.14", "1.15")),
        replace(VOLCANO, files=VOLCANO.files[:1]),
    ):
        assert other.kept is None


def test_a_build_that_ends_early_leaves_nothing_that_counts() -> None:
    def fails(binary: Path) -> None:
        binary.touch()
        raise Missing("the module cannot be fetched")

    building.built(VOLCANO.name, "of an older version", Path.touch)
    with pytest.raises(Missing, match="cannot be fetched"):
        building.built(VOLCANO.name, VOLCANO.source, fails)
    assert building.kept(VOLCANO.name, "of an older version") is None
    assert VOLCANO.kept is None


def test_without_go_the_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Missing, match="there is no `go`"):
        ALL[1].built()


def test_each_recipe_is_of_a_program_and_pins_its_version() -> None:
    of = {each.name: each.module for each in (*ALL, ALLOCATOR)}
    assert len(of) == len(ALL) + 1
    for recipe in RECIPES.iterdir():
        assert of[recipe.name].replace("@", " ") in (recipe / "go.mod").read_text()
