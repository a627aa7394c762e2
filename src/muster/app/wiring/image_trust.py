"""Trust in images on a real cluster: TrustPolicies, the keys that they refer to, and what registries say.

The controller of BatchJobs asks about images and is answered at once with what is known; `run` looks up the
rest. Nothing is decided about a job while a look-up of its images is open, or a policy that matches one of
them cannot be read.

Keys and credentials are in Secrets of muster's own namespace. Credentials are sent to their registry only.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from muster.api.fields import Finding
from muster.api.kinds import SECRET
from muster.api.muster_v1alpha1 import BatchJob, TrustPolicy
from muster.app.wiring.batch_jobs import Found
from muster.app.wiring.settings import BatchJobs
from muster.controllers.driver import Signal
from muster.controllers.policy import Judged
from muster.kube import proxies
from muster.kube.client import Client
from muster.kube.clock import Clock, back_off, first
from muster.kube.errors import ApiError, Forbidden, NotFound, Unanswered, Unreachable
from muster.security.images import credentials, reference, trust
from muster.security.images.connections import Connections
from muster.security.images.lookups import UNMET, Lookups, Unknown
from muster.security.images.reference import InvalidReference, Reference
from muster.security.images.registry import Registry, RegistryError
from muster.security.images.trust import InvalidPolicy
from muster.security.images.verify import Verified, look_up

log = logging.getLogger(__name__)

#: The platform that the cluster's pods run on: it selects from multi-platform images.
_PLATFORM: Final = ("linux", "amd64")
#: Seconds between two reads of the Secrets.
LOOK: Final = 30.0
#: The same while one could not be read yet: the first pause, doubled each time, and the longest.
RETRY: Final = (1.0, LOOK)
#: Most Secrets that TrustPolicies may refer to.
_SECRETS: Final = 1_000
_DOCKER: Final = ".dockerconfigjson"


class ImageTrust:
    """Says what is known of the images of BatchJobs. `changed` is sent with the jobs to decide again."""

    def __init__(self, settings: BatchJobs, namespace: str, clock: Clock, changed: Signal) -> None:
        self._settings, self._clock, self._changed = settings, clock, changed
        self._secrets = Secrets(namespace, settings.registry_secrets, clock, changed)
        self._registries = Registries(self._secrets)
        self._lookups = Lookups(self._registries, clock, changed.send)
        self._read: dict[tuple[str, int, str], trust.TrustPolicy | str] = {}

    def judge(self, policy: TrustPolicy) -> Judged | None:
        """What is wrong with a policy; None if its Secrets have not been read yet."""
        read = self._policy(policy)
        if any(self._secrets.pending(name) for _, name in _secrets_of(policy)):
            return None
        return Judged((read,)) if isinstance(read, str) else Judged()

    def find(self, job: BatchJob, policies: Sequence[TrustPolicy], images: Sequence[str]) -> Found:
        """Returns what is known of the job's images. A tag keeps the digest that the job's status has."""
        current = job.status.observed_generation == job.metadata.generation
        pins = {_text(each.image): each.digest for each in job.status.images} if current else {}
        applying: dict[str, list[TrustPolicy]] = {}
        for image in images:
            about = [policy for policy in policies if _is_about(policy, image)]
            if about or image in pins or self._settings.images == "all":
                applying[image] = about
        found: dict[str, Verified] = {}
        undecided: list[str] = []
        for image, about in applying.items():
            read = {policy.metadata.name: self._policy(policy) for policy in about}
            if bad := [f"TrustPolicy {name}: {each}" for name, each in read.items() if isinstance(each, str)]:
                undecided += bad
                continue
            known = self._lookups.known(
                _pinned(image, pins.get(image, "")),
                [each for each in read.values() if not isinstance(each, str)],
                "/".join(map(str, map(self._version, about))),
                job.key,
            )
            if isinstance(known, Unknown):
                undecided.append(f"image {image}: {known.reason}")
            else:
                found[image] = known
        unmet = any(each.unmet for each in found.values())
        return Found(
            {image: each.image for image, each in found.items()},
            tuple((image, each.image.digest) for image, each in sorted(found.items()) if each.image.digest),
            tuple(
                Finding((), f"image {image} does not meet TrustPolicy {each.policy} (audit): {each.reason}")
                for image, verified in sorted(found.items())
                for each in verified.unmet
                if not each.enforced
            ),
            self._clock.now() + timedelta(seconds=UNMET) if unmet else None,
            "; ".join(dict.fromkeys(undecided)),
        )

    async def run(self, client: Client) -> None:
        """Reads Secrets and looks images up, until cancelled."""
        loopback = self._settings.loopback_registries
        async with Connections(loopback=loopback) as connections, asyncio.TaskGroup() as group:
            self._registries.connections = connections
            group.create_task(self._secrets.run(client))
            await self._secrets.looked.wait()
            group.create_task(self._lookups.run())

    def _policy(self, policy: TrustPolicy) -> trust.TrustPolicy | str:
        """The policy, or what is wrong with it."""
        meta = policy.metadata
        for namespace, name in _secrets_of(policy):
            if namespace != self._secrets.namespace:
                return f"secretRef: only Secrets of the namespace {self._secrets.namespace} are read"
            self._secrets.want(name)
            if self._secrets.pending(name):
                return f"its Secret {namespace}/{name} is being read"
        key = self._version(policy)
        if key not in self._read:
            if len(self._read) > _SECRETS:
                self._read.clear()
            spec: dict[str, Any] = msgspec.to_builtins(policy.spec)
            try:
                self._read[key] = trust.read(meta.name, spec, self._secrets.texts())
            except InvalidPolicy as error:
                self._read[key] = f"spec.{error}"
        return self._read[key]

    def _version(self, policy: TrustPolicy) -> tuple[str, int, str]:
        """Returns a value that changes whenever the policy or its keys do."""
        keys = self._secrets.digest(name for _, name in _secrets_of(policy))
        return policy.metadata.uid, policy.metadata.generation, keys


class Secrets:
    """Reads the Secrets of one namespace that are asked for, by name, every `LOOK` seconds."""

    def __init__(self, namespace: str, logins: Sequence[str], clock: Clock, changed: Signal) -> None:
        self.namespace, self._logins, self._clock, self._changed = namespace, logins, clock, changed
        #: set once each Secret of credentials has been read, or found missing
        self.looked = asyncio.Event()
        self._wanted = dict.fromkeys(logins)
        self._more = asyncio.Event()
        #: name → key → value; None if there is no such Secret
        self._known: dict[str, dict[str, bytes] | None] = {}

    def want(self, name: str) -> None:
        """Reads this Secret from now on."""
        if name not in self._wanted and len(self._wanted) < _SECRETS:
            self._wanted[name] = None
            self._more.set()

    def pending(self, name: str) -> bool:
        """Whether the Secret is wanted and has not been read yet."""
        return name in self._wanted and name not in self._known

    def digest(self, names: Iterable[str]) -> str:
        """A digest of what these Secrets hold."""
        return hashlib.sha256(repr([self._known.get(name) for name in names]).encode()).hexdigest()

    def texts(self) -> Mapping[str, str]:
        """Every text, by `namespace/name/key`."""
        return {
            f"{self.namespace}/{name}/{key}": value.decode(errors="replace")
            for name, content in self._known.items()
            for key, value in (content or {}).items()
        }

    def logins(self) -> Mapping[str, tuple[str, str]]:
        """Registry → (user, password)."""
        found: dict[str, tuple[str, str]] = {}
        for name in self._logins:
            found |= credentials.read((self._known.get(name) or {}).get(_DOCKER, b""))
        return found

    async def run(self, client: Client) -> None:
        """Reads what is wanted, at once and then every `LOOK` seconds, until cancelled.

        What the API server fails to answer is asked for again earlier: look-ups wait for credentials.
        """
        failures = 0
        while True:
            self._more.clear()
            before = dict(self._known)
            for name in list(self._wanted):
                await self._look(client, name)
            if self._known != before:
                self._changed.send()
            pause = LOOK
            if any(map(self.pending, self._wanted)):
                pause, failures = back_off(RETRY, failures), failures + 1
            if not any(map(self.pending, self._logins)):
                self.looked.set()
            await first(self._clock.sleep(pause), self._more.wait())

    async def _look(self, client: Client, name: str) -> None:
        try:
            secret = await client.get(SECRET, self.namespace, name)
            self._known[name] = {key: _decoded(value) for key, value in secret.data.items()}
        except (NotFound, Forbidden) as error:
            if self._known.get(name, ()) is not None:
                log.warning("secret %s/%s: %s", self.namespace, name, error)
            self._known[name] = None
        except (ApiError, Unanswered, Unreachable) as error:
            log.warning("secret %s/%s cannot be read: %s", self.namespace, name, error)


class Registries:
    """Queries registries over HTTP."""

    connections: Connections

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def digest(self, image: Reference) -> str:
        return (await self._registry(image).manifest(image, image.tag)).digest

    async def verify(self, image: Reference, policies: Sequence[trust.TrustPolicy]) -> Verified:
        try:
            return await look_up(image.pinned(image.digest), self._registry(image), policies, _PLATFORM)
        except InvalidReference as error:
            raise RegistryError(str(error)) from None

    def _registry(self, image: Reference) -> Registry:
        """Returns a client with the credentials of this image's registry, and no others."""
        login = self._secrets.logins().get(image.registry)
        own = {image.registry: login} if login is not None else {}
        return Registry(self.connections, own, proxies=proxies.of_environment())


def _pinned(image: str, digest: str) -> str:
    try:
        return reference.parse(image).pinned(digest) if digest else image
    except InvalidReference:
        return image


def _text(image: str) -> str:
    """The image's one spelling; a status may have another one, of an older version."""
    try:
        return reference.split(image).text
    except InvalidReference:
        return image


def _is_about(policy: TrustPolicy, image: str) -> bool:
    """Whether the policy has to be met. What names no image may be any image."""
    try:
        name = reference.split(image).name
    except InvalidReference:
        return True
    return any(reference.matches(glob, name) for glob in policy.spec.match.images)


def _secrets_of(policy: TrustPolicy) -> list[tuple[str, str]]:
    """Namespace and name of the Secrets that a policy refers to."""
    found: list[tuple[str, str]] = []
    for authority in policy.spec.authorities:
        key = authority.get("key")
        ref = key.get("secretRef") if isinstance(key, dict) else None
        if not isinstance(ref, dict):
            continue
        name = ref.get("name")
        if isinstance(name, str) and 0 < len(name) <= 253 and "/" not in name:
            found.append((str(ref.get("namespace", "")), name))
    return found


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
