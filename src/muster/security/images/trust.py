"""Trust policies: which images need a signature, and by which authorities.

A policy applies to the images that its globs match. Its authorities are public keys, or identities that a
certificate authority has certified for the moment of signing (keyless). All policies that apply have to be
met. An image that no policy applies to needs no signature; whether it may run is a question for the gates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import re2
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from muster.security.images import reference
from muster.security.images.trusted_root import Unavailable, verifier

if TYPE_CHECKING:
    from sigstore.verify import Verifier

PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey
#: Bytes of a key or certificate in PEM.
_MOST: Final = 2**16
#: Fields of a keyless authority without a trusted root.
_KEYS: Final = ("rootCA", "rekorKey")
#: Authorities of a policy; each is tried with each signature of an image.
_AUTHORITIES: Final = 100


class InvalidPolicy(ValueError):
    """A TrustPolicy that cannot be used; the message names the field."""


@dataclass(frozen=True, slots=True)
class Key:
    """Images signed with this key are trusted."""

    name: str
    key: PublicKey


@dataclass(frozen=True, slots=True)
class Keys:
    """What keyless signatures are verified with: the root of certificates, and the key of the log."""

    root: x509.Certificate
    #: of the transparency log, which says when the image was signed
    log: PublicKey


@dataclass(frozen=True, slots=True)
class Keyless:
    """Images signed by this identity are trusted, if the authority certified it for the moment of signing."""

    name: str
    issuer: str
    #: the whole subject, or an RE2 pattern for the whole subject
    subject: str
    pattern: Any  # Any: re2's patterns are untyped
    by: "Keys | Verifier"

    def admits(self, subject: str) -> bool:
        """Whether the certificate's subject is the one that the policy names."""
        return subject == self.subject if self.pattern is None else bool(self.pattern.fullmatch(subject))


Authority = Key | Keyless


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    name: str
    images: tuple[str, ...]
    authorities: tuple[Authority, ...]
    mode: Literal["any", "all"] = "any"
    action: Literal["enforce", "audit"] = "enforce"

    def applies(self, image: str) -> bool:
        """Whether the policy is about this `registry/repository`."""
        return any(reference.matches(glob, image) for glob in self.images)


def read(name: str, spec: Any, secrets: Mapping[str, str] | None) -> TrustPolicy:
    """The policy of a TrustPolicy's spec. Raises `InvalidPolicy`.

    `secrets`: PEM by `namespace/name/key`; None = only the form of the policy is checked, and authorities
    whose keys are in Secrets are left out.
    """
    spec = spec if isinstance(spec, dict) else {}
    match = spec.get("match")
    _only(spec, ("match", "mode", "action", "authorities"), "")
    _only(match, ("images",), "match.")
    images = tuple(_texts(match.get("images") if isinstance(match, dict) else None, "match.images"))
    if not images:
        raise InvalidPolicy("match.images: is missing; such as [ghcr.io/acme/**]")
    for index, glob in enumerate(images):
        try:
            reference.check_glob(glob)
        except reference.InvalidReference as error:
            raise InvalidPolicy(f"match.images[{index}]: {error}") from None
    written = spec.get("authorities")
    if not isinstance(written, list) or not written:
        raise InvalidPolicy("authorities: is missing; a policy names at least one")
    if len(written) > _AUTHORITIES:
        raise InvalidPolicy(f"authorities: has {len(written):,}; the most is {_AUTHORITIES}")
    found = [_authority(each, f"authorities[{index}]", secrets) for index, each in enumerate(written)]
    authorities = tuple(each for each in found if each is not None)
    mode, action = spec.get("mode", "any"), spec.get("action", "enforce")
    if mode not in ("any", "all"):
        raise InvalidPolicy("mode: is any or all")
    if action not in ("enforce", "audit"):
        raise InvalidPolicy("action: is enforce or audit")
    return TrustPolicy(name, images, authorities, mode, action)


def _authority(value: Any, at: str, secrets: Mapping[str, str] | None) -> Authority | None:  # Any: JSON
    if not isinstance(value, dict):
        raise InvalidPolicy(f"{at}: takes a mapping")
    _only(value, ("name", "key", "keyless"), f"{at}.")
    name = str(value.get("name", ""))[:253] or at
    if ("key" in value) == ("keyless" in value):
        raise InvalidPolicy(f"{at}: takes exactly one of key and keyless")
    if "key" in value:
        pem = _pem(value["key"], f"{at}.key", secrets)
        return Key(name, public_key(pem, f"{at}.key")) if pem is not None else None
    keyless, at = value["keyless"], f"{at}.keyless"
    if not isinstance(keyless, dict):
        raise InvalidPolicy(f"{at}: takes a mapping")
    _only(keyless, ("issuer", "subject", "subjectRegExp", *_KEYS, "trustedRoot"), f"{at}.")
    issuer, subject, expression = (str(keyless.get(k, "")) for k in ("issuer", "subject", "subjectRegExp"))
    if not issuer:
        raise InvalidPolicy(f"{at}.issuer: is missing; such as https://token.actions.githubusercontent.com")
    if bool(subject) == bool(expression):
        raise InvalidPolicy(f"{at}: takes exactly one of subject and subjectRegExp")
    try:
        pattern = re2.compile(expression) if expression else None
    except re2.error as error:
        raise InvalidPolicy(f"{at}.subjectRegExp: {error}") from None
    return Keyless(name, issuer, subject, pattern, _by(keyless, at))


def _by(keyless: Mapping[str, Any], at: str) -> "Keys | Verifier":  # Any: JSON
    if "trustedRoot" not in keyless:
        try:
            root = x509.load_pem_x509_certificate(_text(keyless.get("rootCA"), f"{at}.rootCA").encode())
        except InvalidPolicy:
            raise
        except ValueError:
            raise InvalidPolicy(f"{at}.rootCA: is not a certificate in PEM") from None
        return Keys(root, public_key(_text(keyless.get("rekorKey"), f"{at}.rekorKey"), f"{at}.rekorKey"))
    if any(key in keyless for key in _KEYS):
        raise InvalidPolicy(f"{at}: takes trustedRoot, or rootCA and rekorKey")
    try:
        return verifier(_text(keyless["trustedRoot"], f"{at}.trustedRoot"))
    except Unavailable as error:
        raise InvalidPolicy(f"{at}.trustedRoot: {error}") from None


def _pem(key: Any, at: str, secrets: Mapping[str, str] | None) -> str | None:  # Any: JSON
    _only(key, ("pem", "secretRef"), f"{at}.")
    if not isinstance(key, dict) or ("pem" in key) == ("secretRef" in key):
        raise InvalidPolicy(f"{at}: takes exactly one of pem and secretRef")
    if "pem" in key:
        return _text(key["pem"], f"{at}.pem")
    ref = key["secretRef"]
    if not isinstance(ref, dict):
        raise InvalidPolicy(f"{at}.secretRef: takes namespace, name and key")
    _only(ref, ("namespace", "name", "key"), f"{at}.secretRef.")
    if secrets is None:
        return None
    full = "/".join(str(ref.get(part, "")) for part in ("namespace", "name", "key"))
    if full not in secrets:
        raise InvalidPolicy(f"{at}.secretRef: there is no secret {full}")
    return secrets[full]


def public_key(pem: str, at: str) -> PublicKey:
    """A public key in PEM: ECDSA, Ed25519 or RSA of at least 2048 bits. Raises `InvalidPolicy`."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidPolicy(f"{at}: is not a public key in PEM") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < 2048:
        raise InvalidPolicy(f"{at}: an RSA key has at least 2048 bits")
    if not isinstance(key, PublicKey):
        raise InvalidPolicy(f"{at}: is neither ECDSA, Ed25519 nor RSA")
    return key


def _only(value: Any, fields: Sequence[str], at: str) -> None:  # Any: JSON
    """Raises `InvalidPolicy` for a field that is not one of these: it would demand something for nothing."""
    unknown = sorted(str(each) for each in value if each not in fields) if isinstance(value, dict) else []
    if unknown:
        known = (
            f"the fields are {', '.join(sorted(fields))}" if len(fields) > 1 else f"the field is {fields[0]}"
        )
        raise InvalidPolicy(f"{at}{unknown[0][:80]}: is not a field; {known}")


def _text(value: Any, at: str) -> str:  # Any: JSON
    if not isinstance(value, str) or not value or len(value) > _MOST:
        raise InvalidPolicy(f"{at}: takes text")
    return value


def _texts(value: Any, at: str) -> Iterable[str]:  # Any: JSON
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, str) and len(each) <= 1024 for each in value):
        raise InvalidPolicy(f"{at}: takes a list of texts")
    return value
