"""Objects in which one place or several, anywhere, hold something that does not belong there.

`spoiled` takes a `choose`, so that hypothesis can draw and shrink, and a seeded generator can go on and on.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

#: One of a sequence. Any: of whatever it holds
Choose = Callable[[Sequence[Any]], Any]


def nested(depth: int) -> Any:
    """A list in a map in a list, so deep."""
    value: Any = "x"
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value


NUMBERS: Final[list[Any]] = [
    0,
    -1,
    1,
    2**31 - 1,
    -(2**31),
    2**31,
    2**32 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    10**19,
    10**300,
    1.5,
    1e308,
    -0.0,
    49_999,
    50_001,
    3_000_017,
]
TEXTS: Final[list[Any]] = [
    "",
    "x",
    "-1",
    "0",
    "1",
    "3-1",
    "0-4000000000",
    "1,1",
    "true",
    "False",
    "²",
    "٣",
    "é\0",
    "9" * 19,
    "9" * 400,
    "9" * 5000,
    "1e999",
    "-1e-999",
    "8Ei",
    "9" * 400 + "%",
    "120%",
    "-5%",
    "nan",
    "inf",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+14:00",
    "2026-01-01T00:00:00",
    "999999999d",
    "36500d",
    "../../../etc",
    "/",
    "a/b/c",
    "NotIn",
    "Gt",
    "*",
    "{}",
    "[]",
    "[[" * 2000,
    '["ns/x"]',
    "{" * 90 + "}" * 90,
    "x" * 300,
]
LISTS: Final[list[Any]] = [[], [None], ["x"], [[]], [{}], [2**70], ["x"] * 3]
MAPS: Final[list[Any]] = [
    {},
    {"x": None},
    {"x": {}},
    {"x": ["y"]},
    {"a b": "c"},
    {"name": 1},
    {"name": "x"},
    {"name": ""},
    {"": ""},
    {"x": 2**70},
    {"cpu": "9" * 30},
    {"cpu": -1},
    {"nvidia.com/gpu": "8Ei"},
    {"matchLabels": {"x": "y"}},
]
STRANGE: Final[list[Any]] = [
    None,
    True,
    False,
    *NUMBERS,
    *TEXTS,
    *LISTS,
    *MAPS,
    nested(60),
    nested(200),
    nested(900),
]


#: What stands where a time should: the first and last that a `datetime` can be, and what is none.
TIMES: Final = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "1969-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59",
    "9999-99-99T99:99:99Z",
    "-0001-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00.1234567890123Z",
    "2026-06-30T23:59:60Z",
)


def with_times(valid: Any, usual: str, choose: Choose) -> Any:
    """A copy of a JSON value in which strange times stand wherever the time `usual` stood."""
    match valid:
        case dict():
            return {key: with_times(value, usual, choose) for key, value in valid.items()}
        case list():
            return [with_times(value, usual, choose) for value in valid]
        case _:
            return choose(TIMES) if valid == usual else valid


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*path, key))


def spoiled(valid: Any, choose: Choose, strange: Sequence[Any] = STRANGE, times: int = 1) -> Any:
    """A copy of a JSON value with strange ones in its places: anywhere, in at most `times` of them."""
    result = json.loads(json.dumps(valid))  # no part of which is in two places
    paths = list(places(valid))
    chosen = [choose(paths) for _ in range(times)]
    for path in sorted(chosen, key=len, reverse=True):  # what is within another goes with it
        if not path:
            return choose(strange)
        at = result
        for key in path[:-1]:
            at = at[key]
        if (inner := _written(at[path[-1]])) is not None and choose([False, True]):
            at[path[-1]] = json.dumps(spoiled(inner, choose, strange))
        else:
            # what has the right type gets further
            alike = [value for value in strange if type(value) is type(at[path[-1]])] or strange
            at[path[-1]] = choose(choose([strange, alike, alike]))
    return result


def _written(text: Any) -> Any:
    """The JSON object or list that a text is, as in some annotations; None for any other."""
    if not isinstance(text, str) or text[:1] not in ("{", "[") or len(text) > 1000:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
