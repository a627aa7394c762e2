"""Nothing that the command line says for people controls their terminal."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from muster.cli import show
from muster.cli.options import Output
from muster.cli.say import folded, redrawn, say, say_styled

HOSTILE = st.text(
    st.one_of(
        st.sampled_from("\x00\x07\x08\r\x1b\x7f\x9b\u202e\u2066\u200b\ufeff"),
        st.characters(codec="utf-8"),
    )
)
of_capsys = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@of_capsys
@given(HOSTILE, st.booleans())
def test_what_is_said_is_visible(capsys: pytest.CaptureFixture[str], text: str, err: bool) -> None:
    say(text, err=err)
    say_styled([Text(text, "red"), Text.assemble(("error: ", "red"), text)], err=err)
    said = capsys.readouterr()
    assert harmless(said.out + said.err)
    assert (said.out == "") is err


@of_capsys
@given(HOSTILE)
def test_what_is_redrawn_is_visible(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with redrawn() as show_instead:
        show_instead([Text(text), Text.assemble(("WHY: ", "red"), text)])
    assert harmless(capsys.readouterr().out)


def test_texts_have_one_way_to_the_terminal() -> None:
    """Apart from output for programs, and the output of jobs, which is their own bytes."""
    root = Path(say.__code__.co_filename).parent
    ways = re.compile(r"\bConsole\(|\bprint\(|sys\.std(out|err)\.(buffer\.)?write")
    found = {path.name for path in root.glob("*.py") if ways.search(path.read_text())}
    assert found == {"say.py", "show.py", "logs.py"}


@of_capsys
@given(HOSTILE)
def test_a_cell_is_visible_and_on_one_line(capsys: pytest.CaptureFixture[str], text: str) -> None:
    show.table(["NAME", "NOTE"], [[text, text]])
    said = capsys.readouterr().out
    assert harmless(said)
    assert said.count("\n") == 2


@of_capsys
@given(HOSTILE, st.sampled_from([Output.JSON, Output.YAML]))
def test_output_for_programs_says_the_same_with_escapes(
    capfdbinary: pytest.CaptureFixture[bytes], text: str, output: Output
) -> None:
    show.machine({"name": text}, output)
    said = capfdbinary.readouterr().out.decode()
    assert harmless(said)
    read = json.loads(said) if output is Output.JSON else yaml.safe_load(said)
    assert read == {"name": text}


WORDS = st.lists(st.text("ab·漢", min_size=1, max_size=30), min_size=1, max_size=20)
COMMAND = st.sampled_from([[], ["`muster cancel a b c`"], ["write:", "muster run -- python3 train.py"]])


@given(st.integers(0, 6), WORDS, COMMAND, st.integers(20, 90))
def test_a_sentence_is_folded_at_its_words(
    indent: int, words: list[str], command: list[str], columns: int
) -> None:
    first, *others = [*words, *command]  # a command is copied, and stays on one line
    lines = [" " * indent + first]
    for each in others:
        if cell_len(longer := f"{lines[-1]} {each}") <= columns:
            lines[-1] = longer
        else:
            lines.append(" " * (indent + 2) + each)
    assert folded(" " * indent + " ".join([first, *others]), columns).split("\n") == lines


@given(WORDS)
def test_without_a_terminal_a_sentence_is_one_line(words: list[str]) -> None:
    assert folded(" ".join(words), None) == " ".join(words)
