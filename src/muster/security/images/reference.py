"""Image references: registry, repository, tag, digest.

`split` is the one parser: of the gates, of what decides which trust policies are about an image, and of the
verifier. `parse` also requires a digest that the verifier can check. Source: distribution/reference,
reference.go. A name without a registry is one of docker.io.
"""

import re
from dataclasses import dataclass
from typing import Final

from muster.compiler import spelling

_REPOSITORY: Final = re.compile(
    r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*", re.ASCII
)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
#: Algorithm, colon, hexadecimal digits. Runtimes refuse uppercase ones.
_ANY_DIGEST: Final = re.compile(r"[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-f]+", re.ASCII)
_REGISTRY: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?", re.ASCII)
_HTTPS: Final = 443
_DOCKER: Final = "docker.io"
#: Other names of docker.io.
_ALIASES: Final = {"index.docker.io": _DOCKER, "registry-1.docker.io": _DOCKER}
#: Characters of a reference.
_MOST: Final = 1024


class InvalidReference(ValueError):
    """A text that names no image."""


@dataclass(frozen=True, slots=True)
class Reference:
    registry: str
    repository: str
    #: "" if a digest is given, which alone decides what is pulled
    tag: str = ""
    #: "" or `sha256:…`
    digest: str = ""

    @property
    def name(self) -> str:
        """Registry and repository."""
        return f"{self.registry}/{self.repository}"

    @property
    def text(self) -> str:
        """The one spelling of the reference."""
        return self.pinned(self.digest) if self.digest else f"{self.name}:{self.tag}"

    def pinned(self, digest: str) -> str:
        """The reference with this digest instead of its tag."""
        return f"{self.name}@{digest}"


def parse(text: str) -> Reference:
    """The parts of a reference; the tag is `latest` if neither tag nor digest is given.

    Raises `InvalidReference`.
    """
    image = split(text)
    if "@" in text and not is_digest(image.digest):
        raise InvalidReference(
            f"{image.digest[:80]!r} is not a digest; a digest is sha256: and 64 hexadecimal digits"
        )
    return image


def split(text: str) -> Reference:
    """The parts of a reference, as `parse`, whatever the digest's kind and length.

    All spellings of an image have the same parts: what a policy says of ghcr.io counts for GHCR.io:0443, too,
    and a tag beside a digest, which no runtime reads, is dropped. Raises `InvalidReference`.
    """
    if len(text) > _MOST:
        raise InvalidReference(f"has {len(text)} characters; the most is {_MOST}")
    name, at, digest = text.partition("@")
    if at and not _ANY_DIGEST.fullmatch(digest):
        raise InvalidReference(f"{digest[:80]!r} is not a digest such as sha256:…, in lowercase")
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, path = one_name(first), rest
    else:
        registry, path = _DOCKER, name
    path, colon, tag = path.partition(":")
    if registry == _DOCKER and "/" not in path:
        path = f"library/{path}"
    if not _REPOSITORY.fullmatch(path):
        raise InvalidReference(f"{name[:80]!r} names no image; such as registry.example.com/team/app")
    if colon and not _TAG.fullmatch(tag):
        raise InvalidReference(f"{tag[:80]!r} is not a tag")
    return Reference(registry, path, "" if digest else tag or "latest", digest)


def one_name(registry: str) -> str:
    """The one name of a registry: its host as `spelling.host`, without the port of https, the main one of its
    names. Raises `InvalidReference`.
    """
    match = _REGISTRY.fullmatch(registry)
    port = int(match[2] or _HTTPS) if match is not None else 0
    if match is None or not 0 < port < 2**16:
        raise InvalidReference(f"{registry[:80]!r} is not a registry, such as registry.example.com:5000")
    try:
        host = spelling.host(match[1])
    except spelling.Misspelt as error:
        raise InvalidReference(f"the registry {error}") from None
    plain = _ALIASES.get(host, host) if port == _HTTPS else spelling.authority(host, port)
    return f"[{plain}]" if port == _HTTPS and ":" in plain else plain


def check_glob(glob: str) -> None:
    """Raises `InvalidReference` for a glob that no image can match, with what to write instead."""
    registry, slash, path = glob.partition("/")
    if registry == "**":
        return
    if not slash or not ("*" in registry or "." in registry or ":" in registry or registry == "localhost"):
        raise InvalidReference(
            f"{glob[:80]!r} does not begin with a registry; write for example docker.io/{glob[:80]}"
        )
    written = registry.lower().removesuffix(":443") if "*" in registry else one_name(registry)
    if registry != written:
        raise InvalidReference(f"{glob[:80]!r}: write {written[:80]} for {registry[:80]}")
    if ":" in path or "@" in path or glob != glob.lower():
        raise InvalidReference(f"{glob[:80]!r} matches no image; write lowercase, without tag and digest")


def is_digest(text: str) -> bool:
    """Whether the text is a SHA-256 digest as registries write it."""
    return _DIGEST.fullmatch(text) is not None


def matches(glob: str, name: str) -> bool:
    """Whether `registry/repository` matches, segment by segment.

    `*` is one segment or a part of one, and `**` any number of segments, so `ghcr.io/acme/**` does not match
    `ghcr.io/acme-evil/x`.
    """
    return _matches(glob.split("/"), name.split("/"))


def _matches(globs: list[str], segments: list[str]) -> bool:
    """Dynamic programming over both lists, so that a hostile glob takes no longer than their product."""
    reached = [index == 0 for index in range(len(segments) + 1)]
    for glob in globs:
        if glob == "**":
            for index in range(1, len(segments) + 1):
                reached[index] = reached[index] or reached[index - 1]
            continue
        reached = [False] + [
            reached[index] and _segment(glob, segment) for index, segment in enumerate(segments)
        ]
    return reached[-1]


def _segment(glob: str, segment: str) -> bool:
    first, *middle = glob.split("*")
    if not middle:
        return glob == segment
    last = middle.pop()
    if len(segment) < len(first) + len(last) or not segment.startswith(first) or not segment.endswith(last):
        return False
    rest = segment[len(first) : len(segment) - len(last)]
    for part in middle:
        found = rest.find(part)
        if found < 0:
            return False
        rest = rest[found + len(part) :]
    return True
