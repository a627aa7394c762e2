"""Credentials of the embedded cluster: a self-signed authority, one bearer token, a kubeconfig.

All of them are in the cluster's home, readable by its owner only. They are created once, so that clients that
have read the kubeconfig keep working after restarts. The private keys never leave the directory. The
authority's own key is not kept at all, since it signs a single certificate.
"""

import base64
import ipaddress
import os
import secrets
import ssl
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import yaml

VALID: Final = timedelta(days=3650)


def ensure(home: Path, now: datetime) -> None:
    """Creates the token and the certificate, unless they exist and are valid for another month."""
    if not token_file(home).exists():
        write_private(token_file(home), secrets.token_urlsafe(32))
    if not _valid(home, now):
        _make_certificate(home, now)


def token_file(home: Path) -> Path:
    return home / "token"


def authority_file(home: Path) -> Path:
    return home / "ca.crt"


def client_context(home: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority_file(home)))


def write_kubeconfig(home: Path, server: str) -> Path:
    """Writes the kubeconfig (0600) for kubectl and every other client; returns its path."""
    path = home / "kubeconfig"
    authority = base64.b64encode(authority_file(home).read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "muster",
        "clusters": [
            {"name": "muster", "cluster": {"server": server, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "muster", "user": {"token": token_file(home).read_text()}}],
        "contexts": [
            {"name": "muster", "context": {"cluster": "muster", "user": "muster", "namespace": "default"}}
        ],
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False))
    return path


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner may read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:  # a full disk, for one
        temporary.unlink(missing_ok=True)
        raise


def _valid(home: Path, now: datetime) -> bool:
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate((home / "server.crt").read_bytes())
        return (
            authority_file(home).exists()
            and (home / "server.key").exists()
            and certificate.not_valid_after_utc > now + timedelta(days=30)
        )
    except (OSError, ValueError):
        return False


def _make_certificate(home: Path, now: datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    start = now - timedelta(hours=1)

    def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("muster"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(now + VALID)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )

    usage = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    authority = (
        builder("muster", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(**{**usage, "key_cert_sign": True, "digital_signature": True}), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    server = (
        builder("muster-server", server_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = server_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    # The certificate is written last, so that the next start creates again what a crash left incomplete.
    write_private(home / "server.key", private)
    write_private(authority_file(home), authority.public_bytes(pem).decode())
    write_private(home / "server.crt", server.public_bytes(pem).decode())
