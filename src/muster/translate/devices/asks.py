"""What the claims of pods ask of devices: so that devices are told apart by it, and expressions evaluated."""

from collections.abc import Iterable, Set
from typing import Final

from muster.core.words.devices import ClaimShape
from muster.translate.devices.claims import Asked
from muster.translate.devices.kinds import Wanted

#: Different claims that are kept before those are forgotten that no gang has, and so many at most: a cluster
#: has a few templates. Gangs with others wait.
MANY: Final = 1_000
MOST: Final = 2 * MANY


class Asks:
    def __init__(self) -> None:
        #: by expression that holds of no device, why
        self.faults: dict[str, str] = {}
        #: whether `wanted` may have changed since this was cleared
        self.changed = False
        self._asked: dict[ClaimShape, Asked] = {}

    def add(self, asked: Iterable[Asked]) -> bool:
        """Takes in what claims ask for. False: there is no room for it."""
        for each in asked:
            if each.shape not in self._asked:
                if len(self._asked) >= MOST:
                    return False
                self._asked[each.shape] = each
                self.changed = True
        return True

    @property
    def many(self) -> bool:
        """Whether it is time to forget what no gang asks for."""
        return len(self._asked) > MANY

    def keep(self, shapes: Set[ClaimShape]) -> None:
        """Forgets all but these."""
        kept = {shape: each for shape, each in self._asked.items() if shape in shapes}
        self.changed |= len(kept) < len(self._asked)
        self._asked = kept

    def want(self, wanted: Wanted) -> None:
        """Adds what is asked for."""
        for each in self._asked.values():
            wanted.add(each)
