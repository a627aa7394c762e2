"""From bytes to lines that a terminal may show."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.app.views.lines import (
    BATCH,
    LEAST,
    LONGEST_LINE,
    WAITING,
    Lines,
    Output,
    Printed,
    Splitter,
    clean,
    plain,
    shown,
)
from tests.tiers import examples

ESC = "\x1b"
UNHURRIED = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain", "plain"),
        ("a\tb", "a\tb"),
        ("ünïcode ░█", "ünïcode ░█"),
        (f"{ESC}[31mred{ESC}[0m", f"{ESC}[31mred{ESC}[0m"),
        (f"{ESC}[38;2;1;2;3mrgb", f"{ESC}[38;2;1;2;3mrgb{ESC}[0m"),
        (f"{ESC}[2J{ESC}[Hclear", "clear"),
        (f"{ESC}[?25lhidden{ESC}[?1049h", "hidden"),
        (f"{ESC}]0;title\atext", "text"),
        (f"{ESC}]8;;http://x{ESC}\\link{ESC}]8;;{ESC}\\", "link"),
        (f"{ESC}]52;c;aGk=", ""),
        (f"{ESC}Pq#0~{ESC}\\sixel", "sixel"),
        (f"a{ESC}cb{ESC}(0c", "abc"),
        (f"{ESC}[A{ESC}[1;5Hup{ESC}[K", "up"),
        ("bell\a\b\x00\x7f", "bell"),
        ("\x9b31mc1\x90", "31mc1"),
        (f"{ESC}", ""),
        (f"{ESC}[31", "31"),
        (f"{ESC}[31m{ESC}[2Jboth", f"{ESC}[31mboth{ESC}[0m"),
    ],
)
def test_of_escape_sequences_only_colours_are_passed_on(line: str, expected: str) -> None:
    assert clean(line) == expected
    assert shown(line.encode()) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"dos\r", "dos"),
        (b"\r 10%\r 20%", " 20%"),
        (b" 10%\r 20%\r", " 20%"),
        (b"\r", ""),
        (b"\xff end", "\ufffd end"),
    ],
)
def test_of_a_line_that_is_written_over_the_last_state_counts(line: bytes, expected: str) -> None:
    assert shown(line) == expected


def test_a_line_that_is_written_over_keeps_its_time() -> None:
    splitter = Splitter(stamped=True)
    (line,) = [*splitter.feed(b"T 1%\r2"), *splitter.feed(b"%\r3%\r\x1b[2J4% done\n")]
    assert shown(line, stamped=True) == "T 4% done"
    assert shown(b"\x1b[2Jx", stamped=True) == "x"
    output = Output(terminal=True, stamped=True)
    source = output.source("a")
    output.feed(source, b"T x\ry\nU 1\r2")
    printed = output.take()
    assert printed is not None
    assert (printed.lines, printed.unfinished) == ((Lines("a", ("T y",)),), (("a", "U 2"),))


@UNHURRIED
@given(st.text())
def test_nothing_that_moves_a_terminals_cursor_is_left(text: str) -> None:
    left = plain(shown(text.replace("\n", "").encode(errors="replace")))
    assert not any((ord(sign) < 32 and sign != "\t") or 127 <= ord(sign) < 160 for sign in left)


@UNHURRIED
@given(st.binary(), st.lists(st.integers(1, 20), max_size=30))
def test_lines_do_not_depend_on_the_pieces_they_come_in(text: bytes, sizes: list[int]) -> None:
    whole, pieces = Splitter(), Splitter()
    expected = [shown(line) for line in [*whole.feed(text), whole.end()]]
    found: list[bytes] = []
    at = 0
    for size in sizes:
        found += pieces.feed(text[at : at + size])
        at += size
    found += [*pieces.feed(text[at:]), pieces.end()]
    assert [shown(line) for line in found] == expected


def test_a_line_without_an_end_is_broken_but_not_one_that_is_written_over() -> None:
    splitter = Splitter()
    assert splitter.feed(b"x" * (LONGEST_LINE + 1)) == [b"x" * (LONGEST_LINE + 1)]
    for number in range(100):
        assert splitter.feed(b"\r%0*d" % (LONGEST_LINE // 50, number)) == []
    assert splitter.end().strip(b"\r").lstrip(b"0") == b"99"


def taken(output: Output) -> list[Lines]:
    found: list[Lines] = []
    while (printed := output.take()) is not None:
        found += printed.lines
    return found


def test_a_file_gets_every_line_and_holds_up_its_source() -> None:
    output = Output(terminal=False)
    source = output.source("p")
    count = 0
    while not output.full(source):
        output.feed(source, b"line\n" * 1000 + b"unfinished")
        count += 1000
    assert output.waiting
    (lines,) = taken(output)
    assert (len(lines.texts), lines.missing) == (count, 0)
    assert (output.full(source), output.waiting) == (False, False)
    source.end()
    assert taken(output) == [Lines("p", ("unfinished",))]


def test_a_terminal_gets_the_newest_lines_and_the_number_of_the_others() -> None:
    output = Output(terminal=True)
    noisy, quiet = output.source("noisy"), output.source("quiet")
    output.feed(quiet, b"one\n")
    total = 0
    for _ in range(100):
        output.feed(noisy, b"".join(b"%d\n" % number for number in range(total, total + 1000)))
        assert not output.full(noisy)
        total += 1000
    first = output.take()
    assert first is not None
    assert Lines("quiet", ("one",)) in first.lines
    (lines,) = (lines for lines in first.lines if lines.pod == "noisy")
    assert len(lines.texts) == BATCH // 2, "pods share a batch"
    assert lines.texts[0] == str(lines.missing), "it is missing what came before"
    rest = taken(output)
    assert rest[-1].texts[-1] == str(total - 1), "the end is there"
    assert lines.missing + len(lines.texts) + sum(len(each.texts) for each in rest) == total


@UNHURRIED
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3000) | st.integers(0, 30), st.booleans())),
)
def test_each_line_is_shown_or_counted_and_what_waits_is_bounded(
    steps: list[tuple[int, int, bool]],
) -> None:
    output = Output(terminal=True)
    sources = [output.source(str(number)) for number in range(4)]
    fed, accounted, shown_last = [0] * 4, [0] * 4, [-1] * 4

    def account(printed: Printed | None) -> None:
        for lines in printed.lines if printed else ():
            pod = int(lines.pod)
            for number, text in enumerate(lines.texts, accounted[pod] + lines.missing):
                assert text == str(number), "gaps are where they are said to be"
            accounted[pod] += lines.missing + len(lines.texts)
            shown_last[pod] = accounted[pod] - 1

    for pod, count, take in steps:
        output.feed(sources[pod], b"".join(b"%d\n" % number for number in range(fed[pod], fed[pod] + count)))
        fed[pod] += count
        assert len(sources[pod]) <= WAITING[0]
        if take:
            account(output.take())
    while (printed := output.take()) is not None:
        account(printed)
    assert accounted == fed
    assert [last + 1 for last in shown_last] == fed, "the last line of each pod is always shown"


def test_long_lines_that_wait_are_bounded_by_their_bytes() -> None:
    output = Output(terminal=True)
    source = output.source("p")
    for _ in range(LEAST * 100):
        output.feed(source, b"x" * (LONGEST_LINE // 2) + b"\n")
    assert source.size <= WAITING[1] + LONGEST_LINE


def test_a_bar_is_shown_as_it_comes_and_gone_when_it_has_ended() -> None:
    output = Output(terminal=True)
    source = output.source("p")
    told = []
    for piece in (b"\r 10%", b"\r 20%", b"\x1b[K\r", b"\rdone\n", b""):
        output.feed(source, piece)
        told.append(output.take())
    assert told == [
        Printed((), (("p", " 10%"),)),
        Printed((), (("p", " 20%"),)),
        None,
        Printed((Lines("p", ("done",)),), ()),
        None,
    ]
