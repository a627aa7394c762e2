"""The documentation agrees with itself and with the code."""

import re
from pathlib import Path

import pytest
import typer.main

from muster.cli.main import app
from muster.core.words.gang import Code

ROOT = Path(__file__).parents[1]
#: A page of ours, an anchor, and a heading as in `docs/a/b.md ("A heading")` or `docs/a/b.md, "A heading"`.
NAMED = re.compile(
    r"(?<![\w/.-])(docs/(?:(?:start|guides|concepts|reference|internals|decisions)/)?[\w-]+\.md)(?:#([\w-]+))?"
    r"(?:(?: \(|,\s)\"([^\"]+)\")?"
)
ARCHITECTURE = ROOT / "docs/internals/architecture.md"
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


def test_every_page_and_heading_that_the_code_names_is_there() -> None:
    """`docs/section/page.md`, with an anchor or with a heading in parentheses, in messages and docstrings."""
    headings = {
        f"docs/{page.relative_to(ROOT / 'docs')}": re.findall(r"^#+ (.+)$", page.read_text(), re.M)
        for page in (ROOT / "docs").rglob("*.md")
    }
    here = Path(__file__)
    files = [
        *(file for each in ("src", "tests", "bench") for file in (ROOT / each).rglob("*.py") if file != here),
        *(ROOT / "charts").rglob("*.yaml"),
        *(
            ROOT / each
            for each in ("pyproject.toml", "Dockerfile", "Makefile", ".github/ISSUE_TEMPLATE/fault.yml")
        ),
    ]
    wrong = set()
    for file in files:
        for page, anchor, heading in NAMED.findall(file.read_text()):
            known = headings.get(page, [])
            if (
                page not in headings
                or (anchor and anchor not in map(_anchor, known))
                or (heading and heading not in known)
            ):
                wrong.add(f"{file.relative_to(ROOT)}: {page}{anchor} {heading}")
    assert wrong == set()


def _anchor(heading: str) -> str:
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_every_verb_is_described() -> None:
    page = (ROOT / "docs/reference/command-line.md").read_text()
    group = typer.main.get_command(app)
    verbs = set(getattr(group, "commands", {}))
    assert len(verbs) > 10
    assert {verb for verb in verbs if f"muster {verb}" not in page} == set()


def test_reasons_have_their_lines_in_the_order_in_which_they_apply() -> None:
    page = (ROOT / "docs/reference/names.md").read_text().partition("\n## Reason codes\n")[2]
    table = page.partition("| code | meaning |")[2].partition("\n\n")[0]
    told = [code for line in table.splitlines()[2:] for code in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert told == [code.value for code in Code]


def test_every_dependency_is_accounted_for() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs/internals/dependencies.md").read_text()
    wanted = {re.split(r"[<>=;\[ ]", each)[0] for each in project["dependencies"]}
    assert {each for each in wanted if not re.search(rf"\b{each} \d", page)} == set()


def test_the_places_where_sentences_are_made_true_exist() -> None:
    """The table of docs/internals/architecture.md names modules and packages below src/muster."""
    table = ARCHITECTURE.read_text().partition("## Where a sentence is made true")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_][a-z_/]*/|[a-z_/]+\.py)`", table)
    assert len(named) > 50
    below = [path for path in named if path != "src/muster/"]
    assert [path for path in below if not (ROOT / "src/muster" / path).exists()] == []


def test_the_map_of_the_core_is_the_core() -> None:
    """docs/internals/architecture.md names each package and top module of it, and nothing else."""
    page = ARCHITECTURE.read_text()
    drawn = next(block for block in page.split("```") if block.strip().startswith("words "))
    named = [line.split()[0] for line in drawn.splitlines() if re.match(r" [a-z]", line)]
    core = ROOT / "src/muster/core"
    there = [path.stem for path in core.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    assert sorted(named) == sorted({*there} - {"__init__"})
