"""The certificate with which pages are served on a cluster, read again when its files have changed.

A certificate that a Secret brings is renewed while the pod runs. If the new one cannot be read, the old one
is served, and the log says why.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

#: Seconds between two looks at the files.
LOOK: Final = 60.0


class BadCertificate(Exception):
    """The files of a certificate cannot be used; the message says why."""


@dataclass(slots=True)
class Certificate:
    """Raises BadCertificate if the files are not a certificate, with its chain, and its key."""

    chain: Path
    key: Path
    context: ssl.SSLContext = field(init=False, repr=False)
    _seen: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        self._seen, self.context = self._now(), self._read()

    def renew(self) -> None:
        """Reads the files if they have changed since they were last read."""
        try:
            seen = self._now()
            if seen == self._seen:
                return
            self._read()  # both files are renewed, one after the other: only a pair is taken
            self.context.load_cert_chain(self.chain, self.key, password=_no_password)
        except (BadCertificate, OSError) as error:
            log.error("the certificate is as it was: %s", error)
            return
        self._seen = seen
        log.info("%s has been read again", self.chain)

    async def follow(self) -> None:
        """Renews it until cancelled."""
        while True:
            await asyncio.sleep(LOOK)
            self.renew()

    def _now(self) -> tuple[float, float]:
        try:
            return self.chain.stat().st_mtime, self.key.stat().st_mtime
        except OSError as error:
            raise BadCertificate(f"{error.filename}: cannot be read: {error.strerror}") from None

    def _read(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            made.load_cert_chain(self.chain, self.key, password=_no_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            text = f"{self.chain} and {self.key} are no certificate and its key, as PEM without a password"
            raise BadCertificate(f"{text}: {error}") from None
        return made


def _no_password() -> bytes:
    """In place of a question at the terminal."""
    return b""
