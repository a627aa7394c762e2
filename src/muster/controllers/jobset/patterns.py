"""Regular expressions of failure policies, matched in time linear in the text whatever the pattern.

Patterns come from users and are tried within the controller that serves everyone, so that a backtracking
matcher, which `(a+)+$` keeps busy for hours, will not do. Upstream has RE2. Here a pattern becomes a
Thompson automaton of at most `MOST_STATES` states, all of which advance together over at most
`LONGEST_TEXT` characters: some tenths of a second at worst.

The language is RE2's without Unicode classes and `\\Q…\\E`; like RE2 it has no back references and no
lookaround. Only whether a pattern is found is asked, so that greedy and lazy are the same.
Source: R. Cox, "Regular Expression Matching Can Be Simple And Fast" (2007).
"""

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

LONGEST_PATTERN: Final = 1000
#: What a Job says about its failure is some 200 characters; the rest of a longer text is not looked at.
LONGEST_TEXT: Final = 1000
MOST_STATES: Final = 500
_DEEPEST: Final = 50
_MOST_REPEATS: Final = 1000


class InvalidPattern(ValueError):
    """It is no regular expression, or one of a kind or size that is not taken."""


def found(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises InvalidPattern."""
    return _search(_compiled(pattern), text[:LONGEST_TEXT])


# -- the automaton -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    """Either takes a character, or asks about the position, or is a fork; without `out` it is the end."""

    out: list[int]
    takes: Callable[[str], bool] | None = None
    holds: Callable[[str, int], bool] | None = None


_END: Final = 0


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[list[_State], int]:
    if len(pattern) > LONGEST_PATTERN:
        raise InvalidPattern(f"has {len(pattern)} characters; at most {LONGEST_PATTERN} are taken")
    states = [_State([])]
    start = _Parser(pattern).parse()(states, _END)
    return states, start


def _search(automaton: tuple[list[_State], int], text: str) -> bool:
    states, start = automaton
    current: list[int] = []
    for position in range(len(text) + 1):
        reached = _closure(states, [*current, start], text, position)
        if _END in reached:
            return True
        if position < len(text):
            character = text[position]
            takers = ((state.takes, state.out[0]) for state in map(states.__getitem__, reached))
            current = [out for takes, out in takers if takes is not None and takes(character)]
    return False


def _closure(states: list[_State], seeds: list[int], text: str, position: int) -> set[int]:
    """All states that can be reached without taking a character."""
    reached: set[int] = set()
    while seeds:
        number = seeds.pop()
        if number in reached:
            continue
        reached.add(number)
        state = states[number]
        if state.takes is None and (state.holds is None or state.holds(text, position)):
            seeds.extend(state.out)
    return reached


# -- from pattern to automaton -----------------------------------------------------------------------

#: Adds its states in front of the given one and returns where to enter.
_Piece = Callable[[list[_State], int], int]


def _add(states: list[_State], state: _State) -> int:
    if len(states) >= MOST_STATES:
        raise InvalidPattern(f"is too large: more than {MOST_STATES} states")
    states.append(state)
    return len(states) - 1


def _taking(takes: Callable[[str], bool]) -> _Piece:
    return lambda states, out: _add(states, _State([out], takes=takes))


def _holding(holds: Callable[[str, int], bool]) -> _Piece:
    return lambda states, out: _add(states, _State([out], holds=holds))


def _sequence(pieces: list[_Piece]) -> _Piece:
    def build(states: list[_State], out: int) -> int:
        if not pieces:  # even nothing is a state: a repetition of it is bounded by their number
            return _add(states, _State([out]))
        for piece in reversed(pieces):
            out = piece(states, out)
        return out

    return build


def _either(pieces: list[_Piece]) -> _Piece:
    if len(pieces) == 1:
        return pieces[0]
    return lambda states, out: _add(states, _State([piece(states, out) for piece in pieces]))


def _repeated(piece: _Piece, least: int, most: int | None) -> _Piece:
    def build(states: list[_State], out: int) -> int:
        if most is None:
            fork = _add(states, _State([out]))
            states[fork].out.append(piece(states, fork))
            entry = fork
        else:
            entry = out
            for _ in range(most - least):
                entry = _add(states, _State([piece(states, entry), out]))
        for _ in range(least):
            entry = piece(states, entry)
        return entry

    return build


# -- the language ------------------------------------------------------------------------------------

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_CLASSES: Final = {
    "d": frozenset(string.digits),
    "w": _WORD,
    "s": frozenset("\t\n\f\r "),
}
_POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "blank": frozenset("\t "),
    "digit": frozenset(string.digits),
    "lower": frozenset(string.ascii_lowercase),
    "punct": frozenset(string.punctuation),
    "space": frozenset(string.whitespace),
    "upper": frozenset(string.ascii_uppercase),
    "word": _WORD,
    "xdigit": frozenset(string.hexdigits),
}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


def _boundary(text: str, position: int) -> bool:
    before = position > 0 and text[position - 1] in _WORD
    after = position < len(text) and text[position] in _WORD
    return before != after


def _begins(text: str, position: int) -> bool:
    return position == 0


def _ends(text: str, position: int) -> bool:
    return position == len(text)


def _begins_line(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"


def _ends_line(text: str, position: int) -> bool:
    return position == len(text) or text[position] == "\n"


_POSITIONS: Final[dict[str, Callable[[str, int], bool]]] = {
    "A": _begins,
    "z": _ends,
    "b": _boundary,
    "B": lambda text, position: not _boundary(text, position),
}


@dataclass(slots=True)
class _Item:
    """One member of a class: a range of characters, or a set, perhaps its complement."""

    low: str = ""
    high: str = ""
    of: frozenset[str] = frozenset()
    without: bool = False

    def has(self, character: str) -> bool:
        if self.low:
            return self.low <= character <= self.high
        return (character in self.of) != self.without


class _Parser:
    """Recursive descent. Flags `i`, `m`, `s` and `U` hold to the end of the group that they stand in."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._depth = 0

    def parse(self) -> _Piece:
        piece = self._alternatives()
        if self._at < len(self._text):
            raise InvalidPattern("has a ) without a (")
        return piece

    def _alternatives(self) -> _Piece:
        flags = self._flags
        found = [self._concatenation()]
        while self._skip("|"):
            found.append(self._concatenation())
        self._flags = flags
        return _either(found)

    def _concatenation(self) -> _Piece:
        pieces: list[_Piece] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            piece = self._atom()
            if piece is not None:
                pieces.append(self._quantified(piece))
        return _sequence(pieces)

    def _quantified(self, piece: _Piece) -> _Piece:
        bounds = self._bounds()
        if bounds is None:
            return piece
        self._skip("?")  # lazy
        if self._bounds() is not None:
            raise InvalidPattern("repeats a repetition; put the inner one into (?:…)")
        return _repeated(piece, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(sign):
                return bounds
        close = self._text.find("}", self._at)
        if not self._text.startswith("{", self._at) or close < 0:
            return None
        first, comma, second = self._text[self._at + 1 : close].partition(",")
        if not _is_count(first) or (second and not _is_count(second)):
            return None  # a brace that stands for itself
        least = int(first)
        most = (int(second) if second else None) if comma else least
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise InvalidPattern(f"has a repetition {self._text[self._at : close + 1]} that cannot be")
        self._at = close + 1
        return least, most

    def _atom(self) -> _Piece | None:
        """The next thing that can be repeated; None for flags, which are nothing by themselves."""
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return self._one_of(self._class())
            case ".":
                if "s" in self._flags:
                    return _taking(lambda one: True)
                return _taking(lambda one: one != "\n")
            case "^":
                return _holding(_begins_line if "m" in self._flags else _begins)
            case "$":
                return _holding(_ends_line if "m" in self._flags else _ends)
            case "*" | "+" | "?":
                raise InvalidPattern(f"has nothing for {character} to repeat")
            case "\\":
                if self._at < len(self._text) and (holds := _POSITIONS.get(self._text[self._at])) is not None:
                    self._at += 1
                    return _holding(holds)
                return self._one_of(_has([self._escaped()]))
        return self._one_of(_has([_Item(character, character)]))

    def _group(self) -> _Piece | None:
        outer = self._flags
        if self._skip("?"):
            if self._skip("P<") or self._skip("<"):
                name, closed, _ = self._text[self._at :].partition(">")
                if not closed or not name.isidentifier():
                    raise InvalidPattern("has a group whose name cannot be read")
                self._at += len(name) + 1
            elif self._set_flags():
                return None
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidPattern(f"has more than {_DEEPEST} groups within each other")
        piece = self._alternatives()
        self._depth -= 1
        if not self._skip(")"):
            raise InvalidPattern("has a ( without a )")
        self._flags = outer
        return piece

    def _set_flags(self) -> bool:
        """Reads `ims-ims`; True if they were all, as in `(?i)`; False if a group follows, as in `(?i:…)`."""
        off = False
        while True:
            character = self._next()
            match character:
                case ":" | ")":
                    return character == ")"
                case "-" if not off:
                    off = True
                case "i" | "m" | "s" | "U":
                    self._flags = self._flags - {character} if off else self._flags | {character}
                case _:
                    raise InvalidPattern(f"has (?{character}, which RE2 does not know either")

    def _class(self) -> Callable[[str], bool]:
        without = self._skip("^")
        items: list[_Item] = []
        while not items or not self._skip("]"):
            items += self._members()
        has = self._folded(_has(items))
        return (lambda one: not has(one)) if without else has

    def _members(self) -> Iterator[_Item]:
        for sign in ("[:^", "[:"):
            if self._text.startswith(sign, self._at):
                name, closed, _ = self._text[self._at + len(sign) :].partition(":]")
                if closed and name in _POSIX:
                    self._at += len(sign) + len(name) + 2
                    yield _Item(of=_POSIX[name], without=sign == "[:^")
                    return
        low = self._member()
        if not low.low or not self._text.startswith("-", self._at) or self._text[self._at + 1 :][:1] == "]":
            yield low
            return
        self._at += 1
        high = self._member()
        if not high.low or high.low < low.low:
            raise InvalidPattern("has a range of characters that cannot be")
        yield _Item(low.low, high.low)

    def _member(self) -> _Item:
        character = self._next()
        return self._escaped() if character == "\\" else _Item(character, character)

    def _escaped(self) -> _Item:
        character = self._next()
        if character.lower() in _CLASSES and character in "dDwWsS":
            return _Item(of=_CLASSES[character.lower()], without=character.isupper())
        if character == "x":
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            if len(digits) == 2 and all(digit in string.hexdigits for digit in digits):
                return _Item(chr(int(digits, 16)), chr(int(digits, 16)))
        elif character in _CONTROLS:
            return _Item(_CONTROLS[character], _CONTROLS[character])
        elif not (character.isascii() and character.isalnum()):
            return _Item(character, character)
        raise InvalidPattern(f"has \\{character}, which is not known")

    def _one_of(self, has: Callable[[str], bool]) -> _Piece:
        return _taking(self._folded(has))

    def _folded(self, has: Callable[[str], bool]) -> Callable[[str], bool]:
        if "i" not in self._flags:
            return has
        return lambda one: has(one) or has(one.lower()) or has(one.upper())

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise InvalidPattern("ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, sign: str) -> bool:
        if self._text.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False


def _has(items: list[_Item]) -> Callable[[str], bool]:
    if len(items) == 1:
        return items[0].has
    return lambda one: any(item.has(one) for item in items)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4
