"""Matches regular expressions of failure policies by RE2, as JobSet does, in time linear in the text.

Patterns come from users and run inside the controller that serves all users. A backtracking matcher
would take hours for `(a+)+$`; RE2 does not, whatever the pattern. The length of the text and the memory that
RE2 may use for one pattern bound the time: at most a second for the worst known pattern.
"""

from functools import lru_cache
from typing import Any, Final

LONGEST_PATTERN: Final = 1000
#: Characters. Kubernetes refuses longer messages of conditions.
LONGEST_TEXT: Final = 32_768
#: Bytes of RE2's program and caches for one pattern.
_MOST_MEMORY: Final = 1 << 20


class InvalidPattern(ValueError):
    """The text is not a regular expression of RE2, or it exceeds a bound."""


def found(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the first LONGEST_TEXT characters. Raises InvalidPattern."""
    return _compiled(pattern).search(text[:LONGEST_TEXT]) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:  # Any: the library has no types
    import re2  # 25 ms, and most failure policies have no pattern

    if len(pattern) > LONGEST_PATTERN:
        raise InvalidPattern(f"has {len(pattern)} characters; at most {LONGEST_PATTERN} are allowed")
    options = re2.Options()
    options.max_mem = _MOST_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (reason,) = error.args
        raise InvalidPattern(f"is not a regular expression: {reason.decode(errors='replace')}") from None
