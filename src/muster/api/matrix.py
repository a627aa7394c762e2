"""The parameters of a sweep: a list of values for each variable; a trial for each combination.

The first variable changes slowest: with `{LR: [0.1, 0.01], SEED: [1, 2, 3]}`, trial 4 has LR 0.01 and SEED 2.
A trial is an index of an Indexed Job.
"""

from dataclasses import dataclass
from math import prod
from typing import Final

import msgspec

#: Trials of one sweep: what Kubernetes permits to a Job that counts the failures of each index.
MOST_TRIALS: Final = 10**5
#: Bytes of the lists as JSON; pods get them in their command, for which Linux permits 128 KiB.
MOST_BYTES: Final = 32 * 2**10


@dataclass(frozen=True, slots=True)
class Matrix:
    #: variable → its values, in the order of the file
    axes: dict[str, tuple[str, ...]]

    @property
    def size(self) -> int:
        """The number of trials, however large."""
        return prod(len(values) for values in self.axes.values())

    def stride(self, name: str) -> int:
        """How many consecutive trials have the same value of this variable."""
        names = list(self.axes)
        return prod(len(self.axes[each]) for each in names[names.index(name) + 1 :])

    def parameters(self, index: int) -> dict[str, str]:
        """The values of one trial."""
        return {name: values[index // self.stride(name) % len(values)] for name, values in self.axes.items()}

    def annotation(self) -> str:
        """The value of `muster.dev/matrix`."""
        return msgspec.json.encode(self.axes).decode()

    @classmethod
    def read(cls, text: str) -> "Matrix":
        """The matrix of an annotation, which anybody may have written. Raises ValueError."""
        if len(text) > MOST_BYTES:
            raise ValueError(f"is longer than {MOST_BYTES:,} characters")
        try:
            found = cls(msgspec.json.decode(text, type=dict[str, tuple[str, ...]]))
        except (msgspec.DecodeError, RecursionError):
            raise ValueError('is not JSON such as {"LR":["0.1","0.01"]}') from None
        if not 0 < found.size <= MOST_TRIALS:
            raise ValueError(f"has {found.size:,} trials; a sweep has 1 to {MOST_TRIALS:,}")
        return found
