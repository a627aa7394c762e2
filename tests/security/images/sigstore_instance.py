"""A Sigstore in memory: an authority, logs and a clock of its own, and bundles as cosign makes them with it.

The form of certificates with their SCT is that of RFC 6962; of the log's entries, that of Rekor 1 (`dsse`
0.0.1, with a time that the log promises) and of Rekor 2 (`hashedrekord` 0.0.2, with a timestamp of RFC 3161).
Timestamps are made by the program openssl.
"""

import base64
import datetime
import hashlib
import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any, Final, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.security.images.fakes import ISSUER, SUBJECT

OPENSSL: Final = shutil.which("openssl")
NOW: Final = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
_HOUR: Final = datetime.timedelta(hours=1)
_SCTS: Final = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_CONFIG: Final = """\
[tsa]
default_tsa = own
[own]
serial = {0}/serial
signer_cert = {0}/tsa.pem
signer_key = {0}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256
ess_cert_id_alg = sha256
"""


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def der(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


class Instance:
    """`where`: a directory for the files of openssl."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._root_key, self._tsa_key, self._ct_key, self._v1_key = (
            ec.generate_private_key(ec.SECP256R1()) for _ in range(4)
        )
        self._v2_key = ed25519.Ed25519PrivateKey.generate()
        self._root = self._certificate("root", self._root_key, self._root_key)
        self._tsa = self._certificate("tsa", self._tsa_key, self._root_key, self._root)
        (where / "serial").write_text("01\n")
        (where / "tsa.pem").write_bytes(self._tsa.public_bytes(Encoding.PEM))
        private = self._tsa_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (where / "tsa.key").write_bytes(private)
        (where / "tsa.cnf").write_text(_CONFIG.format(where))

    def trusted_root(self, **changes: Any) -> str:
        """The `trusted_root.json` of this instance."""
        since = {"start": (NOW - _HOUR * 24).isoformat()}

        def log(url: str, key: Any, details: str) -> Any:
            public = {"rawBytes": text(der(key)), "keyDetails": details, "validFor": since}
            named = {"keyId": text(hashlib.sha256(der(key)).digest())}
            return {"baseUrl": url, "hashAlgorithm": "SHA2_256", "publicKey": public, "logId": named}

        def authority(*certificates: x509.Certificate) -> Any:
            chain = [{"rawBytes": text(each.public_bytes(Encoding.DER))} for each in certificates]
            subject = {"organization": "example.com", "commonName": "example"}
            return {
                "subject": subject,
                "uri": "https://ca.example.com",
                "certChain": {"certificates": chain},
                "validFor": since,
            }

        content = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [
                log("https://v1.example.com", self._v1_key, "PKIX_ECDSA_P256_SHA_256"),
                log("https://v2.example.com", self._v2_key, "PKIX_ED25519"),
            ],
            "certificateAuthorities": [authority(self._root)],
            "ctlogs": [log("https://ct.example.com", self._ct_key, "PKIX_ECDSA_P256_SHA_256")],
            "timestampAuthorities": [authority(self._tsa, self._root)],
        }
        return json.dumps({**content, **changes})

    def bundle(
        self,
        of: str,
        version: Literal[1, 2],
        *,
        subject: str = SUBJECT,
        issuer: str = ISSUER,
        begin: datetime.datetime = NOW - _HOUR / 2,
        sct: bool = True,
        stamped: bool = True,
    ) -> dict[str, Any]:
        """A bundle about the digest `of`, whose entry is in a log of Rekor `version`.

        `begin`: from when on the certificate is valid, for an hour. Without `sct` it is in no log;
        without `stamped` a bundle of Rekor 2 has no timestamp.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = self._leaf(key, subject, issuer, begin, sct=sct)
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": of.removeprefix("sha256:")}}],
            "predicateType": "https://sigstore.dev/cosign/sign/v1",
        }
        payload, kind = json.dumps(statement).encode(), b"application/vnd.in-toto+json"
        pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
        signature = key.sign(pae, ec.ECDSA(hashes.SHA256()))
        certificate = leaf.public_bytes(Encoding.DER)
        material: dict[str, Any] = {"certificate": {"rawBytes": text(certificate)}}
        if version == 1:
            material["tlogEntries"] = [self._entry_v1(payload, signature, leaf)]
        else:
            material["tlogEntries"] = [self._entry_v2(pae, signature, certificate)]
        if version == 2 and stamped:
            stamps = [{"signedTimestamp": text(self._timestamp(signature))}]
            material["timestampVerificationData"] = {"rfc3161Timestamps": stamps}
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": material,
            "dsseEnvelope": {
                "payload": text(payload),
                "payloadType": kind.decode(),
                "signatures": [{"sig": text(signature)}],
            },
        }

    def _entry_v1(self, payload: bytes, signature: bytes, leaf: x509.Certificate) -> Any:
        verifier = text(leaf.public_bytes(Encoding.PEM))
        hashed = hashlib.sha256(payload).hexdigest()
        spec = {
            "envelopeHash": {"algorithm": "sha256", "value": "0" * 64},
            "payloadHash": {"algorithm": "sha256", "value": hashed},
            "signatures": [{"signature": text(signature), "verifier": verifier}],
        }
        body = json.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}).encode()
        at, name = int(NOW.timestamp()), hashlib.sha256(der(self._v1_key)).digest()
        promised = {"body": text(body), "integratedTime": at, "logID": name.hex(), "logIndex": 0}
        message = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        promise = self._v1_key.sign(message, ec.ECDSA(hashes.SHA256()))
        return {
            **self._included(body, "v1.example.com", self._v1_key),
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(at),
            "inclusionPromise": {"signedEntryTimestamp": text(promise)},
        }

    def _entry_v2(self, pae: bytes, signature: bytes, certificate: bytes) -> Any:
        verifier = {
            "x509Certificate": {"rawBytes": text(certificate)},
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
        }
        spec = {
            "hashedRekordV002": {
                "data": {"algorithm": "SHA2_256", "digest": text(hashlib.sha256(pae).digest())},
                "signature": {"content": text(signature), "verifier": verifier},
            }
        }
        body = json.dumps({"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": spec}).encode()
        return {
            **self._included(body, "v2.example.com", self._v2_key),
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.2"},
        }

    @staticmethod
    def _included(
        body: bytes, origin: str, key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
    ) -> Any:
        """The proof that a log holds the entry: it is its only one, so its hash is that of the tree."""
        root, name = hashlib.sha256(b"\0" + body).digest(), hashlib.sha256(der(key)).digest()
        note = f"{origin}\n1\n{text(root)}\n"
        if isinstance(key, ed25519.Ed25519PrivateKey):
            signed = key.sign(note.encode())
        else:
            signed = key.sign(note.encode(), ec.ECDSA(hashes.SHA256()))
        return {
            "logIndex": "0",
            "logId": {"keyId": text(name)},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": text(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n— {origin} {text(name[:4] + signed)}\n"},
            },
            "canonicalizedBody": text(body),
        }

    def _timestamp(self, message: bytes) -> bytes:
        assert OPENSSL is not None
        asked, answer, data = (self._where / each for each in ("query", "answer", "data"))
        data.write_bytes(message)
        query = ["-query", "-data", str(data), "-sha256", "-cert", "-out", str(asked)]
        reply = ["-reply", "-config", "tsa.cnf", "-queryfile", str(asked), "-out", str(answer)]
        for words in (query, reply):
            subprocess.run([OPENSSL, "ts", *words], check=True, capture_output=True, cwd=self._where)
        return answer.read_bytes()

    def _leaf(
        self,
        key: ec.EllipticCurvePrivateKey,
        subject: str,
        issuer: str,
        begin: datetime.datetime,
        *,
        sct: bool,
    ) -> x509.Certificate:
        identity = x509.UniformResourceIdentifier(subject)
        named = issuer.encode()
        builder = self._builder("", key, self._root, begin, begin + _HOUR)
        builder = (
            builder.add_extension(x509.SubjectAlternativeName([identity]), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(
                x509.UnrecognizedExtension(_ISSUER, bytes([0x0C, len(named)]) + named), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root_key.public_key()),
                critical=False,
            )
        )
        if sct:
            unlogged = builder.sign(self._root_key, hashes.SHA256())
            listed = self._sct(unlogged.tbs_certificate_bytes)
            builder = builder.add_extension(x509.UnrecognizedExtension(_SCTS, listed), critical=False)
        return builder.sign(self._root_key, hashes.SHA256())

    def _sct(self, tbs: bytes) -> bytes:
        """The list of one SCT of a certificate without it (RFC 6962, sections 3.2 and 3.3)."""
        at = struct.pack(">Q", int(NOW.timestamp() * 1000))
        issuer = hashlib.sha256(der(self._root_key)).digest()
        entry = struct.pack(">H", 1) + issuer + len(tbs).to_bytes(3, "big") + tbs
        signed = self._ct_key.sign(b"\0\0" + at + entry + b"\0\0", ec.ECDSA(hashes.SHA256()))
        name = hashlib.sha256(der(self._ct_key)).digest()
        one = b"\0" + name + at + b"\0\0" + b"\4\3" + struct.pack(">H", len(signed)) + signed
        listed = struct.pack(">HH", len(one) + 2, len(one)) + one
        return b"\4" + (bytes([len(listed)]) if len(listed) < 128 else bytes([0x81, len(listed)])) + listed

    def _certificate(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        by: ec.EllipticCurvePrivateKey,
        issuer: x509.Certificate | None = None,
    ) -> x509.Certificate:
        builder = self._builder(name, key, issuer, NOW - _HOUR * 24, NOW + _HOUR * 24 * 365)
        if issuer is None:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            builder = builder.add_extension(_usage(signs=False), critical=True)
            builder = builder.add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        else:
            stamps = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
            builder = builder.add_extension(stamps, critical=True)
            builder = builder.add_extension(_usage(signs=True), critical=True)
        return builder.sign(by, hashes.SHA256())

    @staticmethod
    def _builder(
        name: str,
        key: ec.EllipticCurvePrivateKey,
        issuer: x509.Certificate | None,
        begin: datetime.datetime,
        end: datetime.datetime,
    ) -> x509.CertificateBuilder:
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
        return (
            x509.CertificateBuilder()
            .subject_name(own)
            .issuer_name(own if issuer is None else issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
        )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=not signs,
        crl_sign=not signs,
        encipher_only=False,
        decipher_only=False,
    )
