"""A registry in memory, signatures as cosign makes them, and a certificate authority for keyless ones."""

import base64
import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from muster.security.images import cosign

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
SIGNED_AT: Final = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
ISSUER: Final = "https://issuer.example.com"
SUBJECT: Final = "https://example.com/team/app/build"

JSON = Mapping[str, Any]


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Store:
    """What a registry holds, for every repository alike."""

    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    #: whether the referrers API answers
    api: bool = True
    #: paths that were asked for, with the Authorization header
    asked: list[tuple[str, str]] = field(default_factory=list)

    def blob(self, content: bytes) -> JSON:
        self.blobs[digest(content)] = content
        return {"digest": digest(content), "size": len(content)}

    def manifest(self, content: JSON, tag: str = "") -> str:
        body = json.dumps(content).encode()
        self.manifests[digest(body)] = body
        if tag:
            self.manifests[tag] = body
        return digest(body)

    def image(self, tag: str = "", *, entrypoint: list[str] | None = None, several: bool = False) -> str:
        """Puts an image; `several`: behind an index, after two others. Returns its digest."""

        def made(entrypoint: list[str], tag: str = "") -> str:
            config = self.blob(json.dumps({"config": {"Entrypoint": entrypoint, "Cmd": ["-v"]}}).encode())
            return self.manifest(
                {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []}, tag
            )

        if not several:
            return made(entrypoint or ["/app"], tag)
        listed = [
            {
                "mediaType": MANIFEST,
                "digest": each,
                "size": 1,
                "platform": {"os": system, "architecture": architecture},
            }
            for each, system, architecture in (
                (made(["/other"]), "linux", "arm64"),
                (made(["/other.exe"]), "windows", "amd64"),
                (made(entrypoint or ["/app"]), "linux", "amd64"),
            )
        ]
        return self.manifest({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}, tag)

    def sign_legacy(self, of: str, layers: list[tuple[bytes, JSON]]) -> None:
        """Puts signatures where cosign put them before version 3."""
        described = [
            {"mediaType": cosign.SIMPLE_SIGNING, **self.blob(blob), "annotations": annotations}
            for blob, annotations in layers
        ]
        content = {"schemaVersion": 2, "mediaType": MANIFEST, "config": self._empty(), "layers": described}
        self.manifest(content, f"{of.replace(':', '-')}.sig")

    def sign_bundle(self, of: str, bundle: bytes) -> None:
        """Puts a bundle, and lists it under the fallback tag, as clients do without the API."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": cosign.BUNDLE,
            "config": self._empty(),
            "subject": {"mediaType": MANIFEST, "digest": of, "size": 1},
            "layers": [{"mediaType": cosign.BUNDLE, **self.blob(bundle)}],
        }
        made = self.manifest(manifest)
        entry = {"mediaType": MANIFEST, "digest": made, "size": 1, "artifactType": cosign.BUNDLE}
        self.manifest({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}, of.replace(":", "-"))

    def _empty(self) -> JSON:
        return {"mediaType": "application/vnd.oci.empty.v1+json", **self.blob(b"{}")}

    def application(self) -> web.Application:
        made = web.Application()
        made.router.add_get("/v2/{name:.+}/manifests/{version}", self._manifest)
        made.router.add_get("/v2/{name:.+}/blobs/{version}", self._blob)
        made.router.add_get("/v2/{name:.+}/referrers/{version}", self._referrers)
        return made

    def _note(self, request: web.Request) -> str:
        self.asked.append((request.path, request.headers.get("Authorization", "")))
        return request.match_info["version"]

    async def _manifest(self, request: web.Request) -> web.Response:
        return _answer(self.manifests.get(self._note(request)))

    async def _blob(self, request: web.Request) -> web.Response:
        return _answer(self.blobs.get(self._note(request)))

    async def _referrers(self, request: web.Request) -> web.Response:
        of = self._note(request)
        if not self.api:
            return _answer(None)
        return _answer(self.manifests.get(of.replace(":", "-"), b'{"manifests": []}'))


def _answer(content: bytes | None) -> web.Response:
    return web.Response(status=404) if content is None else web.Response(body=content)


def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(private: ec.EllipticCurvePrivateKey) -> str:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def sign(private: ec.EllipticCurvePrivateKey, message: bytes) -> bytes:
    return private.sign(message, ec.ECDSA(hashes.SHA256()))


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def payload(of: str) -> bytes:
    """What the legacy format signs."""
    critical = {
        "identity": {"docker-reference": "whatever"},
        "image": {"docker-manifest-digest": of},
        "type": "cosign container image signature",
    }
    return json.dumps({"critical": critical, "optional": None}).encode()


def legacy(private: ec.EllipticCurvePrivateKey, of: str) -> tuple[bytes, dict[str, str]]:
    blob = payload(of)
    return blob, {cosign.SIGNATURE: b64(sign(private, blob))}


def statement(of: str) -> bytes:
    return json.dumps(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"digest": {"sha256": of.removeprefix("sha256:")}}],
            "predicateType": "https://sigstore.dev/cosign/sign/v1",
        }
    ).encode()


def pae(body: bytes) -> bytes:
    type_ = b"application/vnd.in-toto+json"
    return b" ".join([b"DSSEv1", str(len(type_)).encode(), type_, str(len(body)).encode(), body])


def bundle(private: ec.EllipticCurvePrivateKey, of: str, material: JSON | None = None) -> bytes:
    body = statement(of)
    return json.dumps(
        {
            "mediaType": cosign.BUNDLE,
            "verificationMaterial": material or {"publicKey": {"hint": "k"}},
            "dsseEnvelope": {
                "payload": b64(body),
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [{"sig": b64(sign(private, pae(body)))}],
            },
        }
    ).encode()


@dataclass
class Authority:
    """A certificate authority and a transparency log."""

    root_key: ec.EllipticCurvePrivateKey = field(default_factory=key)
    log_key: ec.EllipticCurvePrivateKey = field(default_factory=key)

    @property
    def root(self) -> x509.Certificate:
        return _certificate("root", self.root_key, "root", self.root_key, ca=True)

    def leaf(
        self,
        of: ec.EllipticCurvePrivateKey,
        *,
        subject: str = SUBJECT,
        issuer: str = ISSUER,
        at: datetime.datetime = SIGNED_AT,
        by: ec.EllipticCurvePrivateKey | None = None,
    ) -> x509.Certificate:
        return _certificate("leaf", of, "root", by or self.root_key, subject=subject, issuer=issuer, at=at)

    def entry(self, message: bytes, signature: bytes, at: datetime.datetime = SIGNED_AT) -> dict[str, Any]:
        """An entry of the log about this signature."""
        record = {
            "kind": "hashedrekord",
            "spec": {
                "signature": {"content": b64(signature)},
                "data": {"hash": {"algorithm": "sha256", "value": hashlib.sha256(message).hexdigest()}},
            },
        }
        body = b64(json.dumps(record).encode())
        return {"body": body, "integratedTime": int(at.timestamp()), "logIndex": 7, "logID": "ab" * 32}

    def promise(self, entry: JSON) -> bytes:
        return sign(self.log_key, json.dumps(entry, sort_keys=True, separators=(",", ":")).encode())

    def keyless(self, of: str, **changes: Any) -> tuple[bytes, dict[str, str]]:
        """A keyless signature in the legacy format.

        `changes`: for `leaf`; `logged` is the log's time, `about` the message of the log's entry.
        """
        logged, about = changes.pop("logged", SIGNED_AT), changes.pop("about", None)
        private = key()
        blob, annotations = legacy(private, of)
        signature = base64.b64decode(annotations[cosign.SIGNATURE])
        entry = self.entry(blob if about is None else about, signature, logged)
        log = {"SignedEntryTimestamp": b64(self.promise(entry)), "Payload": entry}
        return blob, {
            **annotations,
            cosign.CERTIFICATE: self.leaf(private, **changes).public_bytes(Encoding.PEM).decode(),
            cosign.LOG_BUNDLE: json.dumps(log),
        }

    def bundle(self, of: str) -> bytes:
        """A keyless signature as a bundle."""
        private = key()
        plain = json.loads(bundle(private, of))
        signature = base64.b64decode(plain["dsseEnvelope"]["signatures"][0]["sig"])
        entry = self.entry(pae(statement(of)), signature)
        plain["verificationMaterial"] = {
            "certificate": {"rawBytes": b64(self.leaf(private).public_bytes(Encoding.DER))},
            "tlogEntries": [
                {
                    "logIndex": str(entry["logIndex"]),
                    "logId": {"keyId": b64(bytes.fromhex(entry["logID"]))},
                    "integratedTime": str(entry["integratedTime"]),
                    "inclusionPromise": {"signedEntryTimestamp": b64(self.promise(entry))},
                    "canonicalizedBody": entry["body"],
                }
            ],
        }
        return json.dumps(plain).encode()

    def policy(self, **changes: Any) -> dict[str, Any]:
        """The `keyless` of a TrustPolicy."""
        return {
            "issuer": ISSUER,
            "subject": SUBJECT,
            "rootCA": self.root.public_bytes(Encoding.PEM).decode(),
            "rekorKey": pem(self.log_key),
            **changes,
        }


def _certificate(
    name: str,
    of: ec.EllipticCurvePrivateKey,
    by_name: str,
    by: ec.EllipticCurvePrivateKey,
    *,
    ca: bool = False,
    subject: str = "",
    issuer: str = "",
    at: datetime.datetime = SIGNED_AT,
) -> x509.Certificate:
    span = datetime.timedelta(days=3650) if ca else datetime.timedelta(minutes=5)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by_name)]))
        .public_key(of.public_key())
        .serial_number(1)
        .not_valid_before(at - span)
        .not_valid_after(at + span)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if not ca:
        made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
    if subject:
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(subject)])
        made = made.add_extension(names, critical=True)
    if issuer:
        oid = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
        raw = b"\x0c" + bytes([len(issuer)]) + issuer.encode()
        made = made.add_extension(x509.UnrecognizedExtension(oid, raw), critical=False)
    return made.sign(by, hashes.SHA256())
