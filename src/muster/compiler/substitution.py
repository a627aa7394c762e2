"""Placeholders as Score has them: `${resources.db.host}`, `$$` for one `$`, `$${…}` for a literal `${…}`.

A path is split at dots; `\\.` is a dot in a name. Source: score-go, framework/substitution.go. Beyond Score,
`${secret.X.Y}` is another way to write `${resources.X.Y}`. What is expanded is never expanded again, so a
value cannot smuggle in a placeholder.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

_PLACEHOLDER: Final = re.compile(r"\$((?:\$?{([^}]*)})|\$)")
_DOT: Final = re.compile(r"(?<!\\)\.")
_ROOTS: Final = ("metadata", "resources", "secret")


@dataclass(frozen=True, slots=True)
class Reference:
    """One placeholder: the root `metadata` or `resources`, and the names behind it."""

    root: Literal["metadata", "resources"]
    names: tuple[str, ...]
    #: as written, with its braces
    text: str


class UnknownRoot(ValueError):
    """A placeholder that begins with neither `metadata` nor `resources`."""


Part = str | Reference


def parse(text: str, expand: Literal["all", "none", "escaped"] = "all") -> list[Part]:
    """Literal texts and references in order; neighbouring literals are joined. Raises `UnknownRoot`.

    `escaped` exchanges the roles of `${…}` and `$${…}`, for files whose own language uses `${…}`.
    """
    if expand == "none":
        return [text] if text else []
    parts: list[Part] = []
    literal: list[str] = []
    # Behind the last brace nothing is a placeholder, so each "${" that is tried meets its brace: linear time.
    at, end = 0, text.rfind("}") + 1
    for match in _PLACEHOLDER.finditer(text, 0, end):
        literal.append(text[at : match.start()])
        at = match.end()
        whole, inner = match[0], match[2]
        if inner is None:
            literal.append("$" if expand == "all" else whole)
        elif whole.startswith("$$") == (expand == "escaped"):
            parts += [*_joined(literal), _reference(inner)]
            literal.clear()
        else:
            literal.append("${" + inner + "}")
    rest = text[end:].replace("$$", "$") if expand == "all" else text[end:]
    return [*parts, *_joined([*literal, text[at:end], rest])]


def _joined(texts: list[str]) -> list[Part]:
    text = "".join(texts)
    return [text] if text else []


def _reference(inner: str) -> Reference:
    root, *names = (part.replace("\\.", ".") for part in _DOT.split(inner))
    if root not in _ROOTS or not names:
        raise UnknownRoot(
            f"${{{inner}}} is unknown: a placeholder is ${{resources.NAME.KEY}}, ${{secret.NAME.KEY}} or "
            f"${{metadata.FIELD}}; write $${{{inner}}} for the text itself"
        )
    return Reference("metadata" if root == "metadata" else "resources", tuple(names), "${" + inner + "}")
