"""docs/reference/job-files.md is true: its files are read, its errors are ours, its Python runs."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import muster
from muster.workloads.check import check
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import load

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "job-files.md"
BLOCKS = re.findall(r"^```(\w+)( \w+)?\n(.*?)^```$", PAGE.read_text(), re.S | re.M)


def files() -> dict[str, str]:
    """The page's YAML by the name in its first line."""
    return {text.split("\n", 1)[0].removeprefix("# "): text for kind, _, text in BLOCKS if kind == "yaml"}


def errors() -> Iterator[tuple[str, str]]:
    """(name of the file, what the page says of it)."""
    for kind, mark, text in BLOCKS:
        if kind == "text" and not mark:
            yield text.split(":", 1)[0], text


def test_the_page_has_examples_of_each_sort() -> None:
    assert set(files()) >= {"train.yaml", "gang.yaml", "pair.yaml", "broken.yaml"}
    assert len(list(errors())) == 3


@pytest.mark.parametrize(("name", "text"), list(errors()))
def test_errors_are_as_shown(name: str, text: str) -> None:
    with pytest.raises(JobFileError) as caught:
        load(name, Options(suffix="3f9a1c20"), text=files()[name])
    assert str(caught.value) == text.strip()


@pytest.mark.parametrize("name", sorted(set(files()) - {name for name, _ in errors()}))
def test_files_are_read(name: str) -> None:
    assert load(name, text=files()[name]).primary


@pytest.mark.parametrize("page", ["gangs.md", "queues.md", "topology.md"])
def test_files_of_other_pages_are_read(page: str) -> None:
    text = (PAGE.parents[1] / "concepts" / page).read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.S | re.M)
    whole = [block for block in blocks if block.startswith("apiVersion: ")]
    assert whole
    for block in whole:
        load(page, Options(jobs=False), text=block)


def test_gangs_are_gangs() -> None:
    assert {
        n
        for n, text in files().items()
        if n in ("train.yaml", "gang.yaml", "pair.yaml") and load(n, text=text).gang
    } == {
        "gang.yaml",
        "pair.yaml",
    }


def test_check_says_what_is_shown() -> None:
    (shown,) = [text for kind, mark, text in BLOCKS if kind == "text" and mark]
    found = [*check(load("train.yaml", text=files()["train.yaml"]))]
    said = [f"{f.severity.value}: {f}" for f in sorted(found, key=lambda each: each.line or 0)]
    assert said == shown.strip().splitlines()


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.yaml").write_text(files()["train.yaml"])
    (text,) = [text for kind, _, text in BLOCKS if kind == "python"]
    test = doctest.DocTestParser().get_doctest(text, {}, "job-files.md", str(PAGE), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_compile_names_by_the_files_content(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(files()["gang.yaml"])
    first, again = muster.compile(file), muster.compile(file)
    file.write_text(files()["gang.yaml"] + "# more\n")
    assert first == again != muster.compile(file)
    assert muster.compile(file, mode="independent")[0]["metadata"]["labels"] == {"muster.dev/gang": "false"}
