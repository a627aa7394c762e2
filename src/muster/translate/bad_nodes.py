"""When nodes are avoided because pods fail there at their start: the scheduler's setting `badNodes`.

The leading scheduler writes its setting into its Lease (`muster.dev/bad-nodes`). Commands that say what it
decides read it there. A value that cannot be used is as none: commands then say what the default would do.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from muster.api import duration
from muster.api.natural import natural
from muster.core.words.gang import Avoidance
from muster.translate.start_failures import Counted

#: Characters of a value in a Lease at most.
_LONGEST: Final = 1024


class BadNodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which failures of pods at their start count against their node, and when nodes are avoided."""

    failures: tuple[Literal["rejected", "startError", "exit"], ...] = ("rejected", "startError")
    #: after its container's start, for `exit`
    exit_within: str = "10s"
    #: so many jobs of so many namespaces have failed on a node that all avoid
    jobs: int = 3
    namespaces: int = 2
    avoid_for: str = "10m"
    #: how many of the nodes are avoided at most
    at_most: str = "5%"

    def rules(self) -> Avoidance:
        return Avoidance(
            origins=self.jobs,
            tenants=self.namespaces,
            lasts=float(duration.parse(self.avoid_for)),
            share=int(self.at_most.removesuffix("%")) / 100,
        )

    def counted(self) -> Counted:
        within = float(duration.parse(self.exit_within)) if "exit" in self.failures else 0.0
        return Counted("rejected" in self.failures, "startError" in self.failures, within)

    def wrong(self) -> Iterator[tuple[str, str]]:
        """Yields each field with a wrong value, and what to write instead; the others need none of it."""
        for name, text, most in (("exitWithin", self.exit_within, 600), ("avoidFor", self.avoid_for, 86_400)):
            try:
                seconds = duration.parse(text)
            except ValueError as error:
                yield name, str(error)
            else:
                if not 0 <= seconds <= most:
                    yield name, f"{text}: write at most {most}s"
        for name, number in (("jobs", self.jobs), ("namespaces", self.namespaces)):
            if not 1 <= number <= 1000:
                yield name, f"{number}: write 1 to 1000"
        if not self.at_most.endswith("%") or natural(self.at_most.removesuffix("%"), 50) is None:
            yield "atMost", f"{self.at_most!r}: write 0% to 50%"


def written(setting: BadNodes) -> str:
    """Returns the setting as a Lease has it."""
    return msgspec.json.encode(setting).decode()


def read(text: str) -> BadNodes:
    """Returns the setting that a Lease has; the default if it has none that could be a scheduler's."""
    try:
        found = msgspec.json.decode(text[: _LONGEST + 1], type=BadNodes)
    except ValueError:
        return BadNodes()
    return BadNodes() if any(found.wrong()) else found
