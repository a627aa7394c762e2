"""Checks cosign's signatures in both formats: the legacy payload, and the Sigstore bundle with DSSE.

A signature is about a digest. What a signature says of names is ignored, as cosign's specification asks. A
keyless signature counts if the certificate chains to the configured root and names the identity, and if the
transparency log, by its own signature, has seen exactly this signature while the certificate was valid.

Sources: sigstore/cosign, specs/SIGNATURE_SPEC.md and BUNDLE_SPEC.md; secure-systems-lab/dsse, protocol.md;
in-toto/attestation, spec/v1/statement.md; sigstore/fulcio, oid-info.md.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding
from cryptography.x509.oid import ExtendedKeyUsageOID

from muster.security.images import trusted_root
from muster.security.images.trust import Authority, Key, Keyless, Keys, PublicKey

E = TypeVar("E", bound=x509.ExtensionType)

SIMPLE_SIGNING: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
#: Annotations of a layer of the legacy format.
SIGNATURE: Final = "dev.cosignproject.cosign/signature"
CERTIFICATE: Final = "dev.sigstore.cosign/certificate"
CHAIN: Final = "dev.sigstore.cosign/chain"
LOG_BUNDLE: Final = "dev.sigstore.cosign/bundle"

_IN_TOTO: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_PREDICATE: Final = "https://sigstore.dev/cosign/sign/v1"
_ISSUER: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_ISSUER_V1: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")


#: What cryptography raises for certificates that are not as they should be.
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


class Rejected(ValueError):
    """A signature that does not prove what it has to; the message says why."""


@dataclass(frozen=True, slots=True)
class Signed:
    """One signature of an image: what was signed, the signature, and what a keyless one adds."""

    #: the exact bytes that the signature covers
    message: bytes
    signature: bytes
    #: the digest that the message is about
    digest: str
    #: PEM of the signer's certificate and of intermediates; "" with a key
    certificate: str = ""
    chain: str = ""
    #: the transparency log's entry: body, integratedTime, logIndex, logID
    entry: Mapping[str, Any] | None = None
    promise: bytes = b""
    #: the whole bundle; "" in the legacy format
    bundle: bytes = b""


def legacy(blob: bytes, annotations: Mapping[str, str]) -> Signed:
    """A signature of the legacy format. `blob`: the layer, whose digest is checked already."""
    payload = _object(blob, "payload")
    critical = payload.get("critical")
    if not isinstance(critical, dict) or critical.get("type") != "cosign container image signature":
        raise Rejected("the payload is not a signature of an image")
    image = critical.get("image")
    digest = str(image.get("docker-manifest-digest", "")) if isinstance(image, dict) else ""
    entry, promise = None, b""
    if LOG_BUNDLE in annotations:
        log = _object(annotations[LOG_BUNDLE].encode(errors="replace"), "entry of the transparency log")
        entry, promise = _entry(log.get("Payload")), _decoded(log.get("SignedEntryTimestamp"), "promise")
    return Signed(
        message=blob,
        signature=_decoded(annotations.get(SIGNATURE), "signature"),
        digest=digest,
        certificate=annotations.get(CERTIFICATE, ""),
        chain=annotations.get(CHAIN, ""),
        entry=entry,
        promise=promise,
    )


def bundle(blob: bytes, digest: str) -> Signed:
    """A signature in a Sigstore bundle, if it is about `digest`."""
    content = _object(blob, "bundle")
    envelope = content.get("dsseEnvelope")
    if not isinstance(envelope, dict) or envelope.get("payloadType") != _IN_TOTO:
        raise Rejected("the bundle has no in-toto statement")
    payload = _decoded(envelope.get("payload"), "payload")
    statement = _object(payload, "statement")
    if statement.get("_type") != _STATEMENT or statement.get("predicateType") != _PREDICATE:
        raise Rejected("the statement is not a signature of an image")
    subjects = statement.get("subject")
    named = [
        each["digest"].get("sha256")
        for each in (subjects if isinstance(subjects, list) else [])
        if isinstance(each, dict) and isinstance(each.get("digest"), dict)
    ]
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or len(signatures) != 1 or not isinstance(signatures[0], dict):
        raise Rejected("the bundle has not exactly one signature")
    material = content.get("verificationMaterial")
    material = material if isinstance(material, dict) else {}
    certificate, entry, promise = "", None, b""
    if isinstance(written := material.get("certificate"), dict):
        der = _decoded(written.get("rawBytes"), "certificate")
        certificate = _pem(der)
        entry, promise = _log_entry(material.get("tlogEntries"))
    return Signed(
        message=_pae(payload),
        signature=_decoded(signatures[0].get("sig"), "signature"),
        digest=digest if digest.removeprefix("sha256:") in named else "",
        certificate=certificate,
        entry=entry,
        promise=promise,
        bundle=blob,
    )


def check(signed: Signed, digest: str, authority: Authority) -> None:
    """Raises `Rejected` unless the authority has signed this digest."""
    if signed.digest != digest:
        raise Rejected("the signature is about another image")
    match authority:
        case Key(key=key):
            _verify(key, signed.signature, signed.message)
        case Keyless(by=Keys() as keys):
            try:
                _keyless(signed, authority, keys)
            except Rejected:
                raise
            except _UNREADABLE as error:
                raise Rejected(f"a certificate cannot be read: {str(error)[:200]}") from None
        case Keyless(by=known):
            _rooted(signed, authority, known)


def _keyless(signed: Signed, authority: Keyless, keys: Keys) -> None:
    if not signed.certificate:
        raise Rejected("the signature has no certificate")
    leaf = x509.load_pem_x509_certificate(signed.certificate.encode())
    between = x509.load_pem_x509_certificates(signed.chain.encode()) if signed.chain else []
    _chains(leaf, between, keys.root, _logged(signed, keys.log))
    _identity(leaf, authority)
    key = leaf.public_key()
    if not isinstance(key, PublicKey):
        raise Rejected("the certificate's key is of an unknown kind")
    _verify(key, signed.signature, signed.message)


def _rooted(signed: Signed, authority: Keyless, known: Any) -> None:  # Any: the extra's Verifier
    if not signed.bundle:
        raise Rejected("the signature is of the older format, which a trustedRoot does not verify")
    try:
        kind, payload = trusted_root.verify(known, signed.bundle, lambda leaf: _identity(leaf, authority))
    except trusted_root.Unverified as error:
        raise Rejected(str(error)) from None
    if kind != _IN_TOTO or _pae(payload) != signed.message:
        raise Rejected("the bundle has no in-toto statement")


def _identity(leaf: x509.Certificate, authority: Keyless) -> None:
    """Raises unless the certificate names the identity that the authority stands for."""
    if (issuer := _issuer(leaf)) != authority.issuer:
        raise Rejected(f"the identity was issued by {issuer!r}, not {authority.issuer!r}")
    subjects = _subjects(leaf)
    if not any(authority.admits(subject) for subject in subjects):
        raise Rejected(f"was signed by {', '.join(subjects) or 'an identity without a name'}")


def _chains(
    leaf: x509.Certificate, between: list[x509.Certificate], root: x509.Certificate, when: datetime
) -> None:
    """Raises unless each certificate is issued by the next, the last by the root, all valid at `when`."""
    chain = [leaf, *(each for each in between if each != root), root]
    if len(chain) > 5:
        raise Rejected("the chain of certificates is too long")
    for below, (one, issuer) in enumerate(pairwise(chain)):
        try:
            one.verify_directly_issued_by(issuer)
        except (ValueError, TypeError, InvalidSignature):
            raise Rejected("the certificate does not chain to the configured root") from None
        allowed = _extension(issuer, x509.BasicConstraints)
        usage = _extension(issuer, x509.KeyUsage)
        if allowed is None or not allowed.ca or (usage is not None and not usage.key_cert_sign):
            raise Rejected("a certificate of the chain may not issue others")
        if allowed.path_length is not None and below > allowed.path_length:
            raise Rejected("a certificate of the chain may not issue those of other issuers")
    for one in chain:
        if not one.not_valid_before_utc <= when <= one.not_valid_after_utc:
            which = "the certificate" if one is leaf else "a certificate of the chain"
            raise Rejected(f"{which} was not valid when the image was signed")
        if any(
            each.critical and isinstance(each.value, x509.UnrecognizedExtension) for each in one.extensions
        ):
            raise Rejected("a certificate of the chain has a critical extension that is not known")
        purposes = _extension(one, x509.ExtendedKeyUsage)
        if (purposes is None and one is not leaf) or one is root:
            continue  # it may issue certificates for any purpose
        if purposes is None or ExtendedKeyUsageOID.CODE_SIGNING not in purposes:
            raise Rejected("the certificate is not one for signing code")
    own = _extension(leaf, x509.BasicConstraints)
    if own is not None and own.ca:
        raise Rejected("the certificate is one of an authority, not of an identity")


def _extension(certificate: x509.Certificate, kind: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _logged(signed: Signed, log: PublicKey) -> datetime:
    """When the log saw this signature. Raises unless the log has signed an entry about exactly it."""
    entry = signed.entry
    if entry is None and signed.bundle:
        raise Rejected("no transparency log says when it was signed; for logs of Rekor 2 write trustedRoot")
    if entry is None:
        raise Rejected("the signature has no entry of a transparency log")
    canonical = {key: entry[key] for key in ("body", "integratedTime", "logID", "logIndex")}
    message = json.dumps(canonical, sort_keys=True, separators=(",", ":")).encode()
    try:
        _verify(log, signed.promise, message)
    except Rejected:
        raise Rejected("the transparency log has not signed this entry") from None
    body = _object(_decoded(entry["body"], "body"), "entry of the transparency log")
    if not _about(body, signed):
        raise Rejected("the transparency log's entry is about another signature")
    return datetime.fromtimestamp(entry["integratedTime"], UTC)


def _about(body: Mapping[str, Any], signed: Signed) -> bool:
    """Whether an entry (hashedrekord, or dsse) is about this signature."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return False
    text = base64.b64encode(signed.signature).decode()
    if body.get("kind") == "hashedrekord":
        hashed = hashlib.sha256(signed.message).hexdigest()
        return (_at(spec, "signature", "content"), _at(spec, "data", "hash", "value")) == (text, hashed)
    if body.get("kind") == "dsse":
        signatures = spec.get("signatures")
        found = [_at(each, "signature") for each in signatures] if isinstance(signatures, list) else []
        return found == [text]
    return False


def _verify(key: PublicKey, signature: bytes, message: bytes) -> None:
    try:
        match key:
            case ec.EllipticCurvePublicKey():
                key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
            case ed25519.Ed25519PublicKey():
                key.verify(signature, message)
            case _:
                key.verify(signature, message, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        raise Rejected("the signature was not made with this key") from None


def _issuer(leaf: x509.Certificate) -> str:
    for oid, offset in ((_ISSUER, 2), (_ISSUER_V1, 0)):
        try:
            value = leaf.extensions.get_extension_for_oid(oid).value
        except x509.ExtensionNotFound:
            continue
        if isinstance(value, x509.UnrecognizedExtension):
            raw = value.value
            # the newer extension is a DER UTF8String: tag, length, text
            if offset and (len(raw) < 2 or raw[0] != 0x0C or raw[1] != len(raw) - 2):
                raise Rejected("the certificate's issuer cannot be read")
            return raw[offset:].decode(errors="replace")
    return ""


def _subjects(leaf: x509.Certificate) -> list[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [
        *names.get_values_for_type(x509.RFC822Name),
        *names.get_values_for_type(x509.UniformResourceIdentifier),
    ]


def _log_entry(entries: Any) -> tuple[Mapping[str, Any] | None, bytes]:  # Any: JSON
    """The one entry of a bundle, in the form that the log signs."""
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], dict):
        return None, b""
    entry = entries[0]
    if "inclusionPromise" not in entry:  # of Rekor 2, which says no time
        return None, b""
    try:
        form = {
            "body": entry["canonicalizedBody"],
            "integratedTime": int(entry["integratedTime"]),
            "logIndex": int(entry["logIndex"]),
            "logID": base64.b64decode(entry["logId"]["keyId"], validate=True).hex(),
        }
        promise = entry["inclusionPromise"]["signedEntryTimestamp"]
    except (LookupError, TypeError, ValueError):
        raise Rejected("the entry of the transparency log is incomplete") from None
    return _entry(form), _decoded(promise, "promise")


def _entry(value: Any) -> Mapping[str, Any]:  # Any: JSON
    if (
        isinstance(value, dict)
        and isinstance(value.get("body"), str)
        and isinstance(value.get("logID"), str)
        and all(type(value.get(key)) is int for key in ("integratedTime", "logIndex"))
        and 0 <= value["integratedTime"] < 2**33
    ):
        return value
    raise Rejected("the entry of the transparency log is incomplete")


def _pae(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(_IN_TOTO), _IN_TOTO.encode(), len(payload), payload)


def _pem(der: bytes) -> str:
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n"


def _object(content: bytes, what: str) -> dict[str, Any]:  # Any: JSON
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise Rejected(f"the {what} is not JSON") from None
    if not isinstance(value, dict):
        raise Rejected(f"the {what} is not a JSON object")
    return value


def _decoded(text: Any, what: str) -> bytes:  # Any: JSON
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Rejected(f"the {what} is not base64") from None


def parsed(content: bytes) -> dict[str, Any]:  # Any: JSON
    """A JSON object; empty if it is none."""
    try:
        return _object(content, "content")
    except Rejected:
        return {}


def _at(value: Any, *path: str) -> Any:  # Any: JSON
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
