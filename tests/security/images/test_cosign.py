"""Which chains of certificates prove an identity, as of the time of the signature."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.security.images.cosign import Rejected, _chains
from tests.security.images.fakes import SIGNED_AT, key

SPAN = timedelta(days=1)
SIGNS_CODE = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
SERVES = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
NO_AUTHORITY = x509.BasicConstraints(ca=False, path_length=None)
NOTHING_KNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\x05\x00")


def authority(length: int | None = None) -> x509.BasicConstraints:
    return x509.BasicConstraints(ca=True, path_length=length)


def usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, signs, signs, False, False)


def chain(
    *each: Sequence[x509.ExtensionType], late: int | None = None, critical: bool = False
) -> list[x509.Certificate]:
    """Certificates with these extensions, the root first, each issued by the one before it.

    `late`: the number of one that had expired when the image was signed.
    """
    made: list[x509.Certificate] = []
    first = key()
    issuer, by = "0", first
    for number, extensions in enumerate(each):
        own = key() if number else first
        until = SIGNED_AT - timedelta(hours=1) if number == late else SIGNED_AT + SPAN
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(str(number)))
            .issuer_name(_name(issuer))
            .public_key(own.public_key())
            .serial_number(number + 1)
            .not_valid_before(SIGNED_AT - SPAN)
            .not_valid_after(until)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=critical and extension is NOTHING_KNOWN)
        made.append(builder.sign(by, hashes.SHA256()))
        issuer, by = str(number), own
    return made


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def check(certificates: list[x509.Certificate]) -> None:
    root, *between, leaf = certificates
    _chains(leaf, between[::-1], root, SIGNED_AT)


@pytest.mark.parametrize(
    "certificates",
    [
        chain([authority()], [SIGNS_CODE]),
        chain([authority(0)], [SIGNS_CODE, NO_AUTHORITY]),
        chain([authority(1), usage(signs=True)], [authority(0), SIGNS_CODE, usage(signs=True)], [SIGNS_CODE]),
        chain([authority(), SERVES], [authority()], [SIGNS_CODE, NOTHING_KNOWN]),
    ],
    ids=["of the root", "of a root without other issuers", "of an intermediate", "what is not critical"],
)
def test_a_chain_that_proves_an_identity(certificates: list[x509.Certificate]) -> None:
    check(certificates)


@pytest.mark.parametrize(
    ("why", "certificates"),
    [
        ("of the chain was not valid when", chain([authority()], [authority()], [SIGNS_CODE], late=1)),
        ("of the chain was not valid when", chain([authority()], [SIGNS_CODE], late=0)),
        ("the certificate was not valid when", chain([authority()], [SIGNS_CODE], late=1)),
        ("not one for signing code", chain([authority()], [])),
        ("not one for signing code", chain([authority()], [SERVES])),
        ("not one for signing code", chain([authority()], [authority(), SERVES], [SIGNS_CODE])),
        ("one of an authority", chain([authority()], [authority(), SIGNS_CODE])),
        ("may not issue others", chain([authority()], [NO_AUTHORITY], [SIGNS_CODE])),
        ("may not issue others", chain([authority()], [], [SIGNS_CODE])),
        ("may not issue others", chain([authority()], [authority(), usage(signs=False)], [SIGNS_CODE])),
        ("those of other issuers", chain([authority(0)], [authority()], [SIGNS_CODE])),
        ("those of other issuers", chain([authority()], [authority(0)], [authority()], [SIGNS_CODE])),
        ("is not known", chain([authority()], [SIGNS_CODE, NOTHING_KNOWN], critical=True)),
        ("too long", chain(*[[authority()]] * 5, [SIGNS_CODE])),
        (
            "does not chain",
            [chain([authority()], [SIGNS_CODE])[0], chain([authority()], [SIGNS_CODE])[1]],
        ),
    ],
)
def test_a_chain_that_proves_nothing(why: str, certificates: list[x509.Certificate]) -> None:
    with pytest.raises(Rejected, match=why):
        check(certificates)
