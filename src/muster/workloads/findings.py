"""Findings about a job file: errors, warnings and notes, each with its line and field."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from muster.api.fields import Path, dotted
from muster.api.visible import visible, visible_lines


class Severity(Enum):
    ERROR = "error"
    #: the job runs, but perhaps not as the author means it
    WARNING = "warning"
    #: what muster did with the file
    NOTE = "note"
    #: what the author may want to add to the file
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about one place of a file. Line and column count from 1; 0 means the file as a whole."""

    file: str
    line: int
    column: int
    path: Path
    message: str
    severity: Severity = Severity.ERROR
    #: what to add, and to which file: a patch or a policy of several lines; "" if the message says it all
    fix: str = ""

    @property
    def field(self) -> str:
        """The field as people write it: `spec.types.worker.count`."""
        return dotted(self.path)

    def whole(self) -> str:
        """The finding with its fix, indented below it."""
        return "\n".join(
            [str(self), *(f"    {visible(line)}" for line in self.fix.rstrip("\n").split("\n") if self.fix)]
        )

    def among_errors(self) -> str:
        """Returns the whole finding, with its severity first unless it is an error."""
        return self.whole() if self.severity is Severity.ERROR else f"{self.severity.value}: {self.whole()}"

    def __str__(self) -> str:
        place = self.file if not self.line else f"{self.file}:{self.line}"
        told = f"{place}: {self.field}: {self.message}" if self.path else f"{place}: {self.message}"
        return visible_lines(told)


class JobFileError(ValueError):
    """A job file that cannot be used; `findings` has everything that is wrong with the file."""

    #: Errors that the message shows; further ones are counted.
    SHOWN: Final = 20

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        lines = [finding.among_errors() for finding in self.findings[: self.SHOWN]]
        if len(self.findings) > self.SHOWN:
            lines.append(f"and {len(self.findings) - self.SHOWN} more")
        super().__init__("\n".join(lines))

    @classmethod
    def of(cls, file: str, message: str, line: int = 0, column: int = 1) -> "JobFileError":
        """One error that belongs to no field."""
        return cls([Finding(file, line, column if line else 0, (), message)])


def similar(name: str, known: Iterable[str]) -> str:
    """Returns the known name that is most similar to this one, ignoring case; "" if none is similar."""
    folded = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint, `; did you mean count?`, or the list of known names if none is similar."""
    names = sorted(known)
    if close := similar(name, names):
        return f"; did you mean {close}?"
    return f"; known: {', '.join(names)}" if names else ""
