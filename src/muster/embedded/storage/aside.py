"""Sets aside objects in the store that cannot be read.

An earlier version may have accepted such an object, or a disk may have damaged it. If the cluster refused to
start because of one object, the user would lose thousands. Each start therefore reads every object once, and
an object that cannot be read counts as absent. It stays in the file under another kind, and the log names it.
"""

import logging
from typing import Final

import msgspec

from muster.api import kinds
from muster.api.fields import TOO_DEEP, too_deep
from muster.embedded.api_errors import AnyKind, resource
from muster.embedded.storage.store import Store
from muster.kube.decode import object_decoder

log = logging.getLogger(__name__)

#: Prefix of the kind of such an object in the store.
SET_ASIDE: Final = "set-aside/"


def set_aside(store: Store) -> None:
    """Sets aside every unreadable object of the store. Call it within a transaction."""
    for kind in kinds.ALL:
        key = resource(kind)
        for namespace, name, body in list(store.scan(key)):
            if why := unreadable(kind, body):
                aside = f"{SET_ASIDE}{store.revision}/{key}"
                log.error("%s %s/%s %s; it is set aside as kind %s", key, namespace, name, why, aside)
                store.execute(
                    "UPDATE objects SET kind = ? WHERE kind = ? AND namespace = ? AND name = ?",
                    (aside, key, namespace, name),
                )


def unreadable(kind: AnyKind, body: bytes) -> str:
    """Why an object cannot be served; "" if it can."""
    try:
        found = object_decoder(kind).decode(body)
        if too_deep(body):
            return TOO_DEEP
        return "" if found.metadata.name and found.metadata.uid else "has no name or no uid"
    except RecursionError:
        return TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"cannot be read: {error}"
