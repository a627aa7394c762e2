"""Reads objects as they were at an earlier revision, for the later pages of a list.

The store keeps only the current states, but each change records the state before it. The state of an object
at a revision is therefore the earlier state in its first later change, or its current state without one.
"""

from collections.abc import Iterator
from typing import Final

from muster.embedded.storage.store import Store

_ALL: Final = 1 << 31


def scan_at(
    store: Store, kind: str, namespace: str, after: tuple[str, str], revision: int
) -> Iterator[tuple[str, str, bytes]]:
    """(namespace, name, body) in order, from the first after `after`.

    Raises `Expired` if the store no longer keeps the changes since `revision`.
    """
    rows = store.scan(kind, namespace, after)
    if revision == store.revision:
        yield from rows
        return
    was: dict[tuple[str, str], bytes | None] = {}
    for event in store.since(kind, revision, _ALL):
        was.setdefault((event.namespace, event.name), event.previous)
    gone = sorted(
        (key, body)
        for key, body in was.items()
        if body is not None and key > after and (not namespace or key[0] == namespace)
    )
    position = 0
    for at, name, body in rows:
        while position < len(gone) and gone[position][0] < (at, name):
            (gone_at, gone_name), gone_body = gone[position]
            yield gone_at, gone_name, gone_body
            position += 1
        if (at, name) not in was:
            yield at, name, body
        elif position < len(gone) and gone[position][0] == (at, name):
            yield at, name, gone[position][1]
            position += 1
    for (gone_at, gone_name), gone_body in gone[position:]:
        yield gone_at, gone_name, gone_body
