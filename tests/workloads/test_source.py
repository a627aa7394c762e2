"""YAML as JSON values with positions, and files that are not to be trusted."""

from pathlib import Path
from typing import Any

import pytest

from muster.workloads.findings import JobFileError, nearest
from muster.workloads.load import load
from muster.workloads.source import MAX_BYTES, MAX_NODES, Mark, parse, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2020-01-01", "2020-01-01"),  # not a date
        ("12:30", "12:30"),  # not base 60
        ("1:30.5", "1:30.5"),
        ("0x10", 16),
        ("010", 8),
        ("0b11", 3),
        ("1_000", 1000),
        ("-5", -5),
        ("1.5e+3", 1500.0),
        ("~", None),
        ("yes", True),
        ("off", False),
        ("'yes'", "yes"),
        ("=", "="),
        ("!!str 5", "5"),
        ("[1, [2]]", [1, [2]]),
    ],
)
def test_values_are_jsons(text: str, value: Any) -> None:
    assert parse(f"a: {text}", "f.yaml")[0].value == {"a": value}


def test_keys_are_text() -> None:
    assert parse("1: a\ntrue: b", "f.yaml")[0].value == {"1": "a", "true": "b"}


def test_aliases_and_merges_give_values_of_their_own() -> None:
    (document,) = parse("a: &a {x: 1, y: [2]}\nb: *a\nc: {<<: *a, x: 3}", "f.yaml")
    assert document.value == {"a": {"x": 1, "y": [2]}, "b": {"x": 1, "y": [2]}, "c": {"x": 3, "y": [2]}}
    document.value["a"]["y"].append(4)
    assert document.value["b"]["y"] == document.value["c"]["y"] == [2]


def test_of_several_merged_mappings_the_first_wins() -> None:
    (document,) = parse("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b], z: 3}", "f.yaml")
    assert document.value["c"] == {"x": 1, "y": 2, "z": 3}


def test_marks_name_the_key_or_what_is_nearest() -> None:
    (document,) = parse("a:\n  b:\n    - c: 1\n      d: 2\n", "f.yaml")
    assert document.mark() == Mark(1, 1)
    assert document.mark(("a", "b")) == Mark(2, 3)
    assert document.mark(("a", "b", 0, "d")) == Mark(4, 7)
    assert document.mark(("a", "b", 0, "missing", 3)) == Mark(3, 7)
    assert document.mark(("a", "b", 9)) == Mark(2, 3)


def test_empty_documents_are_left_out_and_the_others_know_their_lines() -> None:
    documents = parse("# nothing\n---\na: 1\n---\n---\nb: 2\n", "f.yaml")
    assert [(d.value, d.mark().line) for d in documents] == [({"a": 1}, 3), ({"b": 2}, 6)]


BILLION = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 0, "is empty"),
        ("# only a comment\n", 0, "is empty"),
        ("---\n---\n", 0, "is empty"),
        ("a: [1\n", 2, "is not YAML"),
        ("a: 'b\n", 2, "is not YAML"),
        ("\ta: 1", 1, "is not YAML"),
        ("a: *b", 1, "undefined alias"),
        ("a: 1\nb: \x01", 2, "is not YAML"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, "c is given twice, here and in line 3"),
        ("a: &a [*a]", 1, "alias of something it is part of"),
        (BILLION, 0, f"more than {MAX_NODES:,}"),
        (CHAIN, 100, "nested deeper"),
        ("[" * 100_000, 1, "nested deeper"),
        ("a: " * 200, 1, "is not YAML"),
        ("- 1\n" * (MAX_NODES + 1), 0, f"more than {MAX_NODES:,}"),
        ("a: .inf", 1, "not a number that fits"),
        ("a: .nan", 1, "not a number that fits"),
        ("a: 1" + "0" * 5000, 1, "not a number that fits"),
        ("a: 0x" + "f" * 5000, 1, "not a number that fits"),
        ("a: -9223372036854775809", 1, "not a number that fits"),
        ('a: "b\\0c"', 1, "a NUL character"),
        ("a: !!python/object/apply:os.system [true]", 1, "no meaning"),
        ("a: !!binary aGk=", 1, "the tag binary has no meaning"),
        ("? [a]\n: 1", 1, "a key that is not text"),
        ("a: {<<: 5}", 1, "<< takes a mapping"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_error_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(JobFileError) as caught:
        parse(text, "f.yaml")
    (finding,) = caught.value.findings
    assert finding.line == line
    assert words in finding.message
    assert str(finding).startswith(f"f.yaml:{line}: " if line else "f.yaml: ")


def test_a_file_of_50_mb_is_refused_by_its_size(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    with file.open("wb") as stream:
        stream.write(b"spec: {}\n")
        stream.truncate(50 * 2**20)
    with pytest.raises(JobFileError, match=r"is 50\.0 MiB, and a job file may have 8 MiB"):
        read(file)
    with pytest.raises(JobFileError, match="larger than a job file may be"):
        load("standard input", text=b" " * (MAX_BYTES + 1))


@pytest.mark.parametrize(("name", "words"), [("none.yaml", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_opened(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(JobFileError, match=words):
        read(tmp_path / name)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    file = tmp_path / "image.png"
    file.write_bytes(b"\x89PNG\n\x1a\n\xff")
    with pytest.raises(JobFileError, match=r"image\.png:1: is not text in UTF-8"):
        read(file)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert parse(read(file), "f.yaml")[0].value == {"a": 1}


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("cout", ["count", "completions"], "; did you mean count?"),
        ("Count", ["count"], "; did you mean count?"),
        ("xyz", ["count", "a"], "; known: a, count"),
        ("xyz", [], ""),
    ],
)
def test_the_nearest_name(name: str, known: list[str], said: str) -> None:
    assert nearest(name, known) == said


def test_an_error_shows_at_most_twenty_lines() -> None:
    inside = ", ".join(f"y{i}: 1" for i in range(15))
    text = f"spec: {{operator: jobset, command: x, types: {{w: }}, {inside}}}\n"
    text += "".join(f"x{i}: 1\n" for i in range(15))
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=text)
    assert len(caught.value.findings) == 30
    assert str(caught.value).splitlines()[-1] == "and 10 more"
