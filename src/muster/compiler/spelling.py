"""The one spelling of each name that a gate is asked about, and that the emitted objects have.

A policy compares texts, so two spellings of one thing would be two answers: `SYS_ADMIN` and `sys_admin`,
`ml/db` and `ml/../ml/db`, `10.0.0.7` and `::ffff:10.0.0.7`. Each function here returns the one spelling of a
text, and raises `Misspelt` for a text that has none, with what to write instead. Readers of job files keep
only what these functions return, and `muster.security.ids` refuses policies that name anything else.
"""

import ipaddress
import re
import unicodedata
from typing import Final

#: Characters of a DNS name, and of one of its labels. Source: RFC 1035.
_NAME, _LABEL = 253, 63
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
#: A last label that resolvers read as a part of an IPv4 address. Source: WHATWG URL, "ends in a number".
_NUMERIC: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?)?")
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")
#: Bytes of a path on Linux.
_PATH: Final = 4095
#: Capabilities of Linux 6.12, without `CAP_`. Source: linux, include/uapi/linux/capability.h.
CAPABILITIES: Final = frozenset(
    (
        *("AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE"),
        *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL"),
        *("LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN"),
        *("NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP"),
        *("SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT"),
        *("SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM"),
    )
)
#: Every capability at once.
ALL: Final = "ALL"


class Misspelt(ValueError):
    """A text that names nothing, or not by its one spelling. The message continues that of a field."""


def name(text: str) -> str:
    """A name of an object of Kubernetes: a DNS subdomain (RFC 1123)."""
    if len(text) > _NAME or not all(_DNS_LABEL.fullmatch(each) for each in text.split(".")):
        raise Misspelt(f"{text[:80]!r} is not a name: lowercase letters, digits, hyphens and dots")
    return text


def queue(text: str) -> str:
    """The name of a queue."""
    try:
        return name(text)
    except Misspelt as error:
        raise Misspelt(f"is the name of a queue; {error}") from None


def label(text: str) -> str:
    """A name without dots, such as that of a namespace."""
    if len(text) > _LABEL or not _DNS_LABEL.fullmatch(text):
        raise Misspelt(f"{text[:80]!r} is not a name: lowercase letters, digits, hyphens, at most {_LABEL}")
    return text


def key(text: str) -> str:
    """A key of a Secret or ConfigMap."""
    if len(text) > _NAME or not _SEGMENT.fullmatch(text) or text in (".", ".."):
        raise Misspelt(f"{text[:80]!r} is not a key of a Secret: letters, digits and . _ -")
    return text


def value(text: str) -> str:
    """A value of a label."""
    if len(text) > _LABEL or not _VALUE.fullmatch(text):
        raise Misspelt(f"{text[:80]!r} is no value of a label: letters, digits and . _ -, at most {_LABEL}")
    return text


def qualified(text: str) -> str:
    """A key of a label or taint: a name, perhaps with a DNS name and a slash before it."""
    prefix, slash, rest = text.rpartition("/")
    if slash:
        name(prefix)
    if not rest:
        raise Misspelt(f"{text[:80]!r} is not a key, such as example.com/dedicated")
    value(rest)
    return text


def host(text: str) -> str:
    """A DNS name in lowercase, or an IP address in its short form; an IPv6 address may be in brackets."""
    if not text.isascii():
        raise Misspelt(f"{text[:80]!r} is not ASCII; write the name as DNS has it (xn--…)")
    if ":" in text:
        return _ipv6(text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text)
    found = text.lower()
    labels = found.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(found))
        except ValueError:
            raise Misspelt(f"{text[:80]!r} is no address; write four decimal numbers, as 10.0.0.7") from None
    if len(found) > _NAME or not all(len(each) <= _LABEL and _DNS_LABEL.fullmatch(each) for each in labels):
        raise Misspelt(f"{text[:80]!r} is no host: a name as DNS has it, without a final dot, or an address")
    return found


def _ipv6(text: str) -> str:
    """The short form of RFC 5952; that of IPv4 if the address only wraps one."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise Misspelt(f"{text[:80]!r} is not an address") from None
    if address.scope_id is not None:
        raise Misspelt(f"{text[:80]!r} has a zone, which is of one machine; remove it")
    return str(address.ipv4_mapped or address)


def is_address(found: str) -> bool:
    """Whether a host, as `host` returns it, is an IP address."""
    return ":" in found or _NUMERIC.fullmatch(found.rpartition(".")[2]) is not None


def authority(found: str, port: int | str) -> str:
    """`host:port`, with an IPv6 address in brackets."""
    return f"[{found}]:{port}" if ":" in found and not found.startswith("entity:") else f"{found}:{port}"


def endpoint(found: str, port: int | str, protocol: str) -> str:
    """The id of an endpoint: `host:port`, for UDP `host:port/UDP`."""
    return authority(found, port) + ("" if protocol in ("TCP", "*") else f"/{protocol}")


def store_path(text: str) -> str:
    """A path in a store of secrets: segments that a store can only read as they are written."""
    segments = text.split("/")
    if len(text) > _NAME or not all(_SEGMENT.fullmatch(each) for each in segments):
        raise Misspelt(
            f"is the path in the store: letters, digits and . _ / -, no empty names; not {text[:80]!r}"
        )
    if {".", ".."} & set(segments):
        raise Misspelt(f"{text[:80]!r} has a segment . or ..; write the path that is meant")
    return text


def path(text: str) -> str:
    """An absolute path, without `.`, empty segments and a final slash.

    What `..` means depends on links, so it is refused.
    """
    _printable(text, "path")
    if not text.startswith("/"):
        raise Misspelt(f"{text[:80]!r} is not an absolute path, such as /usr/bin/{text[:40].lstrip('./')}")
    return "/" + _segments(text)


def program(text: str) -> str:
    """The absolute path of a program."""
    found = path(text)
    if found == "/":
        raise Misspelt(f"{text[:80]!r} is a directory")
    return found


def relative(text: str) -> str:
    """A path below a directory, as `path`."""
    _printable(text, "path")
    if text.startswith("/"):
        raise Misspelt(f"{text[:80]!r} is absolute; write it relative, as {text[:40].lstrip('/')}")
    if not (found := _segments(text)):
        raise Misspelt(f"{text[:80]!r} is the directory itself; leave it out")
    return found


def _segments(text: str) -> str:
    segments = [each for each in text.split("/") if each not in ("", ".")]
    if ".." in segments:
        raise Misspelt(f"{text[:80]!r} has a segment ..; write the path that is meant")
    return "/".join(segments)


def plain(text: str) -> str:
    """A name that only one part of the system reads, such as that of a profile: visible, without spaces."""
    _printable(text, "name")
    if any(each.isspace() for each in text):
        raise Misspelt(f"{text[:80]!r} has a space")
    return text


def _printable(text: str, what: str) -> None:
    """Raises `Misspelt` for what a reader of a policy cannot see, and for a second form of a letter."""
    if not text or len(text.encode()) > _PATH:
        raise Misspelt(f"{text[:80]!r} is not a {what}: it has 1 to {_PATH:,} bytes")
    if not text.isprintable():
        raise Misspelt(f"{text[:80]!r} has a character that cannot be seen; remove it")
    if not unicodedata.is_normalized("NFC", text):
        raise Misspelt(f"{text[:80]!r} is not in Unicode's normal form C; write letters and accents as one")


def capability(text: str) -> str:
    """A capability in uppercase, without `CAP_`, or `ALL`."""
    found = text.upper().removeprefix("CAP_") if text.isascii() else ""
    if found != ALL and found not in CAPABILITIES:
        raise Misspelt(f"{text[:80]!r} is not a capability of Linux, such as NET_ADMIN")
    return found


#: Source: kubernetes, pkg/apis/core/validation (SysctlContainSlashFmt).
_SYSCTL: Final = re.compile(r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")


def sysctl(text: str) -> str:
    """A kernel parameter with dots between its parts. A dot within a part is a slash, as sysctl(8) has it."""
    if len(text) > _NAME or not _SYSCTL.fullmatch(text):
        raise Misspelt(f"{text[:80]!r} is not a kernel parameter, such as net.core.somaxconn")
    first = re.search("[./]", text)
    return text.translate({ord("."): "/", ord("/"): "."}) if first and first[0] == "/" else text


#: Source: KEP-5471 adds operators that compare numbers; batch jobs have none.
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def toleration(key: str, value: str | None, effect: str) -> str:
    """The id of a toleration: `key:effect`, or `key=value:effect`; `*` is any. A `value` of None is any."""
    return f"{key or '*'}{'' if value is None else f'={value}'}:{effect or '*'}"
