"""Keyless signatures that are verified by the trusted root of a Sigstore, with logs of Rekor 1 and 2."""

import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from muster.security.images import cosign, trust
from muster.security.images.cosign import Rejected
from tests.security.images import fakes
from tests.security.images.fakes import ISSUER, SUBJECT, Store
from tests.security.images.sigstore_instance import NOW, OPENSSL, Instance
from tests.security.images.test_verify import looked_up

pytest.importorskip("sigstore", reason="the extra sigstore is not installed")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")
DIGEST = fakes.digest(b"an image")
VERSIONS: list[Literal[1, 2]] = [1, 2]
Change = Callable[[dict[str, Any], Instance], None]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Instance:
    return Instance(tmp_path_factory.mktemp("sigstore"))


def authority(instance: Instance, **changes: str) -> trust.Authority:
    return trust.read(
        "team", {"match": {"images": ["**"]}, "authorities": [policy(instance, **changes)]}, {}
    ).authorities[0]


def policy(instance: Instance, **changes: str) -> dict[str, Any]:
    keyless = {"issuer": ISSUER, "subject": SUBJECT, "trustedRoot": instance.trusted_root(), **changes}
    return {"name": "build", "keyless": keyless}


def checked(bundle: Any, by: trust.Authority, digest: str = DIGEST) -> None:
    cosign.check(cosign.bundle(json.dumps(bundle).encode(), digest), digest, by)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_bundle_of_either_log_proves_who_signed(instance: Instance, version: Literal[1, 2]) -> None:
    store = Store()
    digest = store.image("v1")
    store.sign_bundle(digest, json.dumps(instance.bundle(digest, version)).encode())
    assert (await looked_up(store, "app:v1", policy(instance))).image.trusted
    found = await looked_up(store, "app:v1", policy(instance, subject="https://example.com/other"))
    assert f"was signed by {SUBJECT}" in found.image.reason


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"issuer": "https://other.example.com"}, "was issued by"),
        ({"subject": SUBJECT + "/more"}, "was signed by"),
        ({"begin": NOW - datetime.timedelta(hours=3)}, "certificate chain"),
        ({"begin": NOW + datetime.timedelta(hours=1)}, "certificate chain"),
        ({"sct": False}, "SCT"),
    ],
)
def test_a_certificate_that_proves_nothing(
    instance: Instance, version: Literal[1, 2], changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(Rejected, match=why):
        checked(instance.bundle(DIGEST, version, **changes), authority(instance))


def swap(*path: str) -> Change:
    """Puts a part of another bundle of the same image into a bundle."""

    def change(bundle: dict[str, Any], instance: Instance) -> None:
        other: Any = instance.bundle(DIGEST, 2)
        *parents, last = path
        for key in parents:
            bundle, other = bundle[key], other[key]
        bundle[last] = other[last]

    return change


def corrupt(part: str, value: Any) -> Change:
    def change(bundle: dict[str, Any], instance: Instance) -> None:
        bundle["verificationMaterial"]["tlogEntries"][0][part] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        swap("verificationMaterial", "certificate"),
        swap("verificationMaterial", "tlogEntries"),
        swap("verificationMaterial", "timestampVerificationData"),
        swap("dsseEnvelope"),
        swap("dsseEnvelope", "signatures"),
        lambda bundle, instance: bundle["verificationMaterial"].pop("timestampVerificationData"),
        lambda bundle, instance: bundle["verificationMaterial"].pop("tlogEntries"),
        lambda bundle, instance: bundle.pop("mediaType"),
        corrupt("canonicalizedBody", "e30="),
        corrupt("inclusionProof", None),
        corrupt("inclusionProof", {"treeSize": "9" * 40}),
        corrupt("kindVersion", {"kind": "hashedrekord", "version": "0.0.1"}),
        corrupt("logId", {"keyId": ""}),
        corrupt("integratedTime", "1" * 400),
    ],
)
def test_parts_of_other_bundles_and_what_is_malformed_prove_nothing(
    instance: Instance, change: Change
) -> None:
    bundle = instance.bundle(DIGEST, 2)
    checked(bundle, authority(instance))
    change(bundle, instance)
    with pytest.raises(Rejected):
        checked(bundle, authority(instance))


def test_another_image_another_instance_and_the_older_format_prove_nothing(
    instance: Instance, tmp_path: Path
) -> None:
    by = authority(instance)
    with pytest.raises(Rejected, match="another image"):
        checked(instance.bundle(DIGEST, 2), by, fakes.digest(b"another"))
    with pytest.raises(Rejected):
        checked(Instance(tmp_path).bundle(DIGEST, 2), by)
    blob, annotations = fakes.Authority().keyless(DIGEST)
    with pytest.raises(Rejected, match="older format"):
        cosign.check(cosign.legacy(blob, annotations), DIGEST, by)


def test_keys_alone_cannot_tell_when_a_bundle_of_rekor_2_was_signed(instance: Instance) -> None:
    by = trust.read(
        "p", {"match": {"images": ["**"]}, "authorities": [{"keyless": fakes.Authority().policy()}]}, {}
    )
    with pytest.raises(Rejected, match="for logs of Rekor 2 write trustedRoot"):
        checked(instance.bundle(DIGEST, 2), by.authorities[0])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"trustedRoot": "no JSON"}, r"trustedRoot: is not a trusted_root\.json"),
        ({"trustedRoot": "{}"}, r"trustedRoot: is not a trusted_root\.json"),
        ({"trustedRoot": ""}, "trustedRoot: takes text"),
        ({"rekorKey": "x"}, "takes trustedRoot, or rootCA and rekorKey"),
        ({"fulcio": "x"}, "the fields are issuer, rekorKey, rootCA, subject, subjectRegExp, trustedRoot"),
    ],
)
def test_trusted_roots_that_cannot_be_used(instance: Instance, changes: dict[str, str], why: str) -> None:
    with pytest.raises(trust.InvalidPolicy, match=why):
        authority(instance, **changes)


def test_without_the_extra_the_policy_says_what_to_install(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    with pytest.raises(trust.InvalidPolicy, match=r"trustedRoot: needs the extra sigstore: pip install"):
        authority(instance, trustedRoot=instance.trusted_root() + " ")


def test_equal_policies_are_equal(instance: Instance) -> None:
    assert authority(instance) == authority(instance)
