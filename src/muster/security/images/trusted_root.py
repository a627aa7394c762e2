"""Verifies a Sigstore bundle by a trusted root: what an instance of Sigstore says of its own keys.

The library sigstore does it, an extra of muster. It checks the chain of certificates and their SCTs, that the
transparency log holds the entry, and when the signature was made: by the log's promise (Rekor 1), or by a
timestamp of RFC 3161 (Rekor 2, whose entries have no time).

Sources: sigstore/architecture-docs, client-spec.md; sigstore/protobuf-specs, sigstore_trustroot.proto.
"""

import logging
import os
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from cryptography import x509

if TYPE_CHECKING:
    from sigstore.verify import Verifier

#: Most characters of the library's message.
_LONGEST: Final = 200
#: Takes a certificate; raises ValueError unless it is the identity that is asked for.
Identity = Callable[[x509.Certificate], None]


class Unverified(ValueError):
    """A bundle that does not prove what it has to; the message says why."""


class Unavailable(ValueError):
    """The trusted root cannot be used; the message says why."""


@lru_cache(32)
def verifier(trusted_root: str) -> "Verifier":
    """The verifier for the content of a `trusted_root.json`, one for equal content. Raises `Unavailable`."""
    try:
        from sigstore.models import TrustedRoot
        from sigstore.verify import Verifier
    except ImportError:
        raise Unavailable("needs the extra sigstore: pip install 'muster-scheduler[sigstore]'") from None
    logging.getLogger("sigstore").setLevel(logging.ERROR)
    # the library reads files only, and a container may have no place for one
    with os.fdopen(os.memfd_create("trusted_root.json"), "wb") as file:
        file.write(trusted_root.encode())
        file.flush()
        try:
            return Verifier(trusted_root=TrustedRoot.from_file(f"/proc/self/fd/{file.fileno()}"))
        except Exception as error:  # hostile or mistyped: the library has no one error for it
            raise Unavailable(f"is not a trusted_root.json of Sigstore: {_told(error)}") from None


def verify(known: "Verifier", bundle: bytes, identity: Identity) -> tuple[str, bytes]:
    """The type and the payload that the bundle signs. Raises `Unverified`."""
    from sigstore.errors import VerificationError
    from sigstore.models import Bundle

    class Policy:
        def verify(self, cert: x509.Certificate) -> None:
            try:
                identity(cert)
            except ValueError as error:
                raise VerificationError(str(error)) from None

    try:
        return known.verify_dsse(Bundle.from_json(bundle), Policy())
    except Exception as error:  # the bundle is hostile, and the library has no one error for it
        raise Unverified(_told(error)) from None


def _told(error: Exception) -> str:
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__
