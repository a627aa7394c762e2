"""Looks up an image: its digest, its entry point, and whether the trust policies that apply are met.

1. The reference is resolved to a digest, which is what the pod will have, so a tag may move afterwards.
2. The configuration of the platform's manifest says what the image executes.
3. Signatures about the digest are read, in both of cosign's formats.
4. Each policy that applies is met by one of its authorities, or by all, as it says.

The signature is about the digest that the reference resolves to; of a multi-platform image that is the index.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.compiler.facts import Image
from muster.security.images import cosign, reference
from muster.security.images.reference import Reference
from muster.security.images.registry import Manifest, NotThere, Registry, RegistryError
from muster.security.images.trust import Authority, TrustPolicy

#: Signatures of one image that are read, and bytes of one, which has some certificates at most.
_MOST: Final = 32
_SIGNATURE: Final = 2**18
#: Words of an entry point or command.
_WORDS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Unmet:
    """A policy that is not met."""

    policy: str
    enforced: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Verified:
    image: Image
    unmet: tuple[Unmet, ...]
    #: whether every signature that the registry lists could be fetched
    complete: bool = True


async def look_up(
    text: str, registry: Registry, policies: Sequence[TrustPolicy], platform: tuple[str, str]
) -> Verified:
    """What is known of an image. `platform`: operating system and architecture, such as (linux, amd64).

    Raises `InvalidReference`, and `RegistryError` if the registry cannot say what the image is.
    """
    image = reference.parse(text)
    manifest = await registry.manifest(image, image.digest or image.tag)
    entrypoint, cmd = await _configuration(image, manifest, registry, platform)
    applying = [policy for policy in policies if policy.applies(image.name)]
    unmet: tuple[Unmet, ...] = ()
    complete = True
    if applying:
        signatures, problems, complete = await _signatures(image, manifest.digest, registry)
        unmet = tuple(_unmet(applying, signatures, problems, manifest.digest))
    denied = [each for each in unmet if each.enforced]
    reason = "; ".join(f"{each.policy}: {each.reason}" for each in denied)
    return Verified(Image(manifest.digest, entrypoint, cmd, not denied, reason), unmet, complete)


async def _configuration(
    image: Reference, manifest: Manifest, registry: Registry, platform: tuple[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Entry point and command of the platform's image."""
    content = manifest.content
    if isinstance(listed := content.get("manifests"), list):
        digest = next((str(each.get("digest")) for each in listed if _is_for(each, platform)), "")
        if not digest:
            raise RegistryError(f"{image.name} has no image for {'/'.join(platform)}")
        content = (await registry.manifest(image, digest)).content
    config = content.get("config")
    if not isinstance(config, dict):
        raise RegistryError(f"{image.name}: the manifest names no configuration")
    written = cosign.parsed(await registry.blob(image, str(config.get("digest")))).get("config")
    written = written if isinstance(written, dict) else {}
    return _words(written.get("Entrypoint")), _words(written.get("Cmd"))


def _is_for(descriptor: Any, platform: tuple[str, str]) -> bool:  # Any: JSON
    found = descriptor.get("platform") if isinstance(descriptor, dict) else None
    return isinstance(found, dict) and (found.get("os"), found.get("architecture")) == platform


def _words(value: Any) -> tuple[str, ...]:  # Any: JSON
    if isinstance(value, list) and len(value) <= _WORDS and all(isinstance(each, str) for each in value):
        return tuple(value)
    return ()


async def _signatures(
    image: Reference, digest: str, registry: Registry
) -> tuple[list[cosign.Signed], list[str], bool]:
    """Returns all signatures that can be read, why others cannot, and whether all could be fetched."""
    found: list[cosign.Signed] = []
    problems: list[str] = []
    complete = True
    for read in (_legacy, _bundles):
        try:
            async for blob, annotations in read(image, digest, registry):
                if len(found) + len(problems) >= _MOST:
                    problems.append(f"more than {_MOST} signatures; the others are not read")
                    break
                try:
                    found.append(
                        cosign.bundle(blob, digest)
                        if annotations is None
                        else cosign.legacy(blob, annotations)
                    )
                except cosign.Rejected as error:
                    problems.append(str(error))
        except NotThere:
            continue
        except RegistryError as error:
            problems.append(str(error))
            complete = False
    return found, problems, complete


async def _legacy(
    image: Reference, digest: str, registry: Registry
) -> AsyncIterator[tuple[bytes, dict[str, str] | None]]:
    manifest = await registry.manifest(image, f"{digest.replace(':', '-')}.sig")
    for layer in _listed(manifest.content.get("layers")):
        annotations = layer.get("annotations")
        if layer.get("mediaType") == cosign.SIMPLE_SIGNING and isinstance(annotations, dict):
            texts = {str(key): str(value) for key, value in annotations.items()}
            yield await registry.blob(image, str(layer.get("digest")), _SIGNATURE), texts


async def _bundles(
    image: Reference, digest: str, registry: Registry
) -> AsyncIterator[tuple[bytes, dict[str, str] | None]]:
    for descriptor in (await registry.referrers(image, digest))[:_MOST]:
        if descriptor.get("artifactType", cosign.BUNDLE) != cosign.BUNDLE:
            continue
        manifest = await registry.manifest(image, str(descriptor.get("digest")))
        for layer in _listed(manifest.content.get("layers")):
            if layer.get("mediaType") == cosign.BUNDLE:
                yield await registry.blob(image, str(layer.get("digest")), _SIGNATURE), None


def _listed(value: Any) -> Iterable[Mapping[str, Any]]:  # Any: JSON
    return [each for each in (value if isinstance(value, list) else [])[:_MOST] if isinstance(each, dict)]


def _unmet(
    policies: Sequence[TrustPolicy], signatures: Sequence[cosign.Signed], problems: list[str], digest: str
) -> Iterable[Unmet]:
    for policy in policies:
        reasons = [_why_not(authority, signatures, problems, digest) for authority in policy.authorities]
        missing = [reason for reason in reasons if reason]
        met = not missing if policy.mode == "all" else len(missing) < len(reasons)
        if not met:
            yield Unmet(policy.name, policy.action == "enforce", "; ".join(missing))


def _why_not(
    authority: Authority, signatures: Sequence[cosign.Signed], problems: list[str], digest: str
) -> str:
    """Why an authority has not signed the digest; "" if it has."""
    reasons = list(problems)
    for signed in signatures:
        try:
            cosign.check(signed, digest, authority)
        except cosign.Rejected as error:
            reasons.append(str(error))
        else:
            return ""
    told = ", ".join(dict.fromkeys(reasons)) or "the image is not signed"
    return f"not signed by {authority.name} ({told})"
