"""The error of a job file that cannot be used, and what its messages say of similar names."""

import difflib
from collections.abc import Iterable
from typing import Final

from muster.api.fields import Finding


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
        return cls([Finding((), message, file=file, line=line, column=column if line else 0)])


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
