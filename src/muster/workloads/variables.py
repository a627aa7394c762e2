"""Environment variables from the command line: `--env NAME[=VALUE]` and `--env-file FILE`.

A line of a file is NAME=VALUE, or NAME for a variable of the caller; `export` before it, quotes around the
value, empty lines and comments are permitted. Nothing is expanded. Later ones replace earlier ones, and
`--env` those of files.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from muster.api.base import Object
from muster.workloads.findings import JobFileError

#: Bytes of one file of variables: what Linux passes to a program in all is about 2 MiB.
MAX_BYTES: Final = 2**20
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_QUOTED: Final = re.compile(r"""(["'])(.*)\1""", re.DOTALL)


def given(said: Sequence[str], files: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `--env` and `--env-file`, by name.

    `environ`: where the values of those come from that are only named. Raises JobFileError with the first
    that is wrong.
    """
    found: dict[str, str] = {}
    for file in files:
        for line, text in _lines(file):
            name, value = _read(text, environ, file, line)
            quoted = _QUOTED.fullmatch(value)
            found[name] = quoted[2] if quoted else value
    for text in said:
        name, value = _read(text, environ, "--env")
        found[name] = value
    return found


def literal(text: str) -> str:
    """The text as Kubernetes reads it back: `$(NAME)` is a variable there, and `$$` a `$`."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def give(container: Object, env: Mapping[str, str]) -> None:
    """Adds the variables to a container, in the place of its own of the same names."""
    own = [each for each in container.get("env") or [] if each.get("name") not in env]
    container["env"] = [*own, *({"name": name, "value": literal(value)} for name, value in env.items())]


def _lines(file: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that are neither empty nor comments, with their numbers."""
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise JobFileError.of(file, f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise JobFileError.of(
            file, f"has more than {MAX_BYTES // 2**20} MiB of variables; mount a file instead"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise JobFileError.of(file, "is not UTF-8", line) from None
    for number, each in enumerate(text.split("\n"), 1):
        stripped = each.strip()
        if stripped and not stripped.startswith("#"):
            yield number, re.sub(r"export\s+", "", stripped, count=1) if _exports(stripped) else stripped


def _exports(line: str) -> bool:
    return re.match(r"export\s+[A-Za-z_]", line) is not None


def _read(text: str, environ: Mapping[str, str], file: str, line: int = 0) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    shown = f"{name[:80]}: " if not line else ""
    if not _NAME.fullmatch(name):
        told = f"{name[:80]!r} is not a name for a variable; write NAME=VALUE, or NAME for your own"
        raise JobFileError.of(file, told, line)
    if not separator:
        if name not in environ:
            raise JobFileError.of(file, f"{shown}{name[:80]} is not set here; write {name[:80]}=VALUE", line)
        value = environ[name]
    if "\0" in value:
        raise JobFileError.of(file, f"{shown}a value cannot hold a NUL", line)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise JobFileError.of(file, f"{shown}the value is not UTF-8", line) from None
    return name, value
