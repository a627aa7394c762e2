"""The documentation agrees with itself and with the code."""

import re
from pathlib import Path

import pytest
import typer.main

from muster import names
from muster.cli.main import app
from muster.core.words.gang import Code

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert not missing


def test_every_file_and_module_that_is_named_is_there() -> None:
    """In pages, docstrings and comments. Decisions and the changelog may name what is gone."""
    python = {path for each in ("src", "tests", "bench") for path in (ROOT / each).rglob("*.py")}
    paths = {f"/{path.relative_to(ROOT)}": path.read_text() for path in python}
    modules = {re.sub(r"^/(src/)?|(/__init__)?\.py$", "", path): text for path, text in paths.items()}
    told = [page for page in PAGES if "decisions" not in page.parts and page.name != "CHANGELOG.md"]

    def there(name: str) -> bool:
        if name.endswith(".py"):
            return any(path.endswith(f"/{name}") for path in paths)
        words = name.split(".")
        if len(words) == 1 or words[0] not in ("muster", "tests", "bench") or name.startswith("muster.dev"):
            return True
        size = max(size for size in range(len(words) + 1) if not size or "/".join(words[:size]) in modules)
        return size == len(words) or words[size] in modules.get("/".join(words[:size]), "")

    named = {
        (file, each) for file in [*told, *python] for each in re.findall(r"`([\w./]+)`", file.read_text())
    }
    assert {f"{file.relative_to(ROOT)}: {each}" for file, each in named if not there(each)} == set()


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_every_verb_is_described() -> None:
    page = (ROOT / "docs/command-line.md").read_text()
    group = typer.main.get_command(app)
    verbs = set(getattr(group, "commands", {}))
    assert len(verbs) > 10
    assert {verb for verb in verbs if f"muster {verb}" not in page} == set()


def test_every_key_has_its_line() -> None:
    page = (ROOT / "docs/names.md").read_text()
    keys = {
        value for value in vars(names).values() if isinstance(value, str) and value.startswith("muster.dev/")
    }
    assert len(keys) > 10
    assert {key for key in keys if f"`{key}" not in page} == set()


def test_every_reason_has_its_line() -> None:
    page = (ROOT / "docs/names.md").read_text()
    assert {code.value for code in Code if f"`{code.value}`" not in page} == set()


def test_every_dependency_is_accounted_for() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs/dependencies.md").read_text()
    wanted = {re.split(r"[<>=;\[ ]", each)[0] for each in project["dependencies"]}
    assert {each for each in wanted if not re.search(rf"\b{each} \d", page)} == set()


def test_the_map_of_the_core_is_the_core() -> None:
    """docs/architecture.md names every package and top module of it, and nothing that is not there."""
    page = (ROOT / "docs/architecture.md").read_text()
    drawn = next(block for block in page.split("```") if block.strip().startswith("words "))
    named = [line.split()[0] for line in drawn.splitlines() if re.match(r" [a-z]", line)]
    core = ROOT / "src/muster/core"
    there = [path.stem for path in core.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert sorted(named) == sorted({*there} - {"__init__"})
