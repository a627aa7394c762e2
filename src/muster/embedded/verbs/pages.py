"""Lists in pages, and the tokens by which a client requests the next page."""

import base64
import binascii
from typing import NamedTuple

import msgspec

from muster.api.base import Object
from muster.embedded.api_errors import AnyKind
from muster.kube.errors import BadRequest


class Listing(NamedTuple):
    """One page: objects as JSON, the revision of the list, the token of the next page."""

    items: list[bytes]
    revision: int
    token: str = ""
    #: how many objects follow; None if selectors would have to be evaluated to know
    remaining: int | None = None

    def metadata(self) -> Object:
        """The `metadata` of the list."""
        meta: Object = {"resourceVersion": str(self.revision)}
        if self.token:
            meta["continue"] = self.token
            if self.remaining is not None:
                meta["remainingItemCount"] = self.remaining
        return meta

    def encode(self, kind: AnyKind) -> bytes:
        """The encoded list object of the response."""
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": self.metadata()}
        return msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(self.items) + b"]}"


def write_token(revision: int, after: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((revision, *after))).decode()


def read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        revision, namespace, name = msgspec.json.decode(
            base64.urlsafe_b64decode(token), type=tuple[int, str, str]
        )
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise BadRequest("continue key is not valid: use the token of a list as it is") from None
    return revision, (namespace, name)
