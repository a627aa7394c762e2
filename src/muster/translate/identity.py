"""Names groups and gangs: the key by which a group is read, the core's id, the record's name."""

import hashlib
from collections.abc import Iterable, Set
from typing import Final, NamedTuple

from muster.api.groups import Dialect

#: A Gang's plans are named after it; this leaves room for them within the 253 characters of a name.
_LONGEST_RECORD: Final = 230


class GroupKey(NamedTuple):
    """The key by which a group is read. `stage` is the replicatedJob of a JobSet with an order, else ""."""

    dialect: Dialect
    namespace: str
    name: str
    stage: str = ""

    @property
    def record(self) -> str:
        """Returns the name of the Gang record: `<dialect>-<group>[.<stage>]`; a long one is cut and hashed.

        Neither a JobSet's name nor a replicatedJob's has a dot, so that stage `b` of JobSet `a` does not
        collide with the JobSet `a-b`.
        """
        name = f"{self.dialect.name}-{self.name}"
        if self.stage:
            name += f".{self.stage}"
        if len(name) <= _LONGEST_RECORD:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:10]
        return f"{name[: _LONGEST_RECORD - 11]}-{digest}"


def in_order(keys: Set[GroupKey]) -> Iterable[GroupKey]:
    """Returns these keys in an order that does not depend on hashes, which differ between processes."""
    return sorted(keys, key=lambda key: (key.dialect.name, *key[1:])) if len(keys) > 1 else keys
