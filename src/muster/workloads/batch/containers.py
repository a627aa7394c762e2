"""Reads the containers of a workload, each field checked for itself."""

import base64
import binascii
import re
from typing import Final, Literal

from muster.api.base import Object
from muster.compiler import spelling
from muster.compiler.workload import Container, File, Mount, Security
from muster.security.images.reference import InvalidReference, split
from muster.workloads import dns
from muster.workloads.batch import probes
from muster.workloads.batch.resources import any_of, strings
from muster.workloads.batch.source_files import MOST, Read
from muster.workloads.section import Section

#: Names of environment variables, of at most 253 characters.
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,252}")
_MODE: Final[Object] = {"type": ["string", "integer", "null"], "examples": ["0644"]}
_REFERENCE: Final = re.compile(r"\$\{resources\.([^}.]+)\}")
_PROFILES: Final = ("RuntimeDefault", "Localhost", "Unconfined")


def read(section: Section, source: Read, *, sidecar: bool) -> Container:
    """Returns the container of a section, which has the container's name. `source` reads its files."""
    name = str(section.path[-1])
    if not dns.is_label(name) or len(name) > dns.LABEL:
        section.error((), "a container's name has lowercase letters, digits and hyphens, at most 63")
    image = section.text("image")
    if not image:
        section.error("image", "is missing")
    else:
        try:
            image = split(image).text
        except InvalidReference as error:
            hint = "; placeholders are not expanded here" if "${" in image else ""
            section.error("image", f"is not an image reference: {error}{hint}")
    command = strings(section, "command")
    if command:
        command[0] = section.spelt(("command", 0), spelling.program, command[0] or " ")
    variables = section.texts("variables")
    for variable in variables:
        if not VARIABLE.fullmatch(variable):
            section.error(("variables", variable), "is not a name for a variable: letters, digits and _")
    files = section.section("files")
    mounts = section.section("volumes")
    limits, requests = _amounts(section)
    made = Container(
        name=name,
        path=section.path,
        image=image,
        command=tuple(command),
        args=tuple(strings(section, "args")),
        working_dir=section.spelt("workingDir", spelling.path),
        variables=variables,
        files=[_file(files.section(target), source) for target in files.names()],
        mounts=[_mount(mounts.section(target)) for target in mounts.names()],
        requests=requests,
        limits=limits,
        probes={each: probes.read(section.section(each)) for each in probes.PROBES if each in section},
        env_from=tuple(_sources(section)),
        security=_security(section.section("security")),
        sidecar=sidecar,
    )
    section.close()
    return made


def _amounts(section: Section) -> tuple[dict[str, str], dict[str, str]]:
    resources = section.section("resources")
    maps: list[dict[str, str]] = []
    for kind in ("limits", "requests"):
        amounts = resources.section(kind)
        maps.append({name: amounts.quantity(name) for name in amounts.names()})
        for name in maps[-1]:
            amounts.spelt(name, spelling.qualified, name)
    for name in ("cpu", "memory"):
        if name not in maps[0]:
            resources.error(("limits", name), "is missing; every container has limits of cpu and memory")
    resources.close()
    return maps[0], maps[1]


def _file(section: Section, source: Read) -> File:
    target = _target(section)
    given = [name for name in ("content", "binaryContent", "source") if name in section]
    if len(given) != 1:
        section.error((), "takes exactly one of content, binaryContent and source")
    text = section.text("content") if "content" in section else None
    binary: bytes | None = None
    if "binaryContent" in section:
        try:
            binary = base64.b64decode(section.text("binaryContent"), validate=True)
        except (binascii.Error, ValueError):
            section.error("binaryContent", "is not base64")
    if "source" in section:
        try:
            binary = source(section.text("source"))
            text, binary = binary.decode(), None
        except UnicodeDecodeError:
            pass  # not text, so nothing is expanded in it
        except ValueError as error:
            section.error("source", str(error))
    if max(len(text or ""), len(binary or b"")) > MOST:
        section.error((), f"is larger than {MOST // 1024} KiB; put it into a volume")
    expand: Literal["all", "none", "escaped"] = "all"
    if section.flag("noExpand"):
        expand = "none"
    elif section.flag("reverseExpand"):
        expand = "escaped"
    mode = _mode(section)
    section.close()
    return File(target, section.path, text, binary, mode, expand)


def _target(section: Section) -> str:
    """Where a file or volume is mounted: the key of its section."""
    target = section.spelt((), spelling.program, str(section.path[-1]) or " ")
    if ":" in target:
        section.error((), f"{target[:80]!r} has a colon, which no mount may have")
    return target


def _mode(section: Section) -> int | None:
    """A mode in octal, as text or as YAML writes octal numbers."""
    value = section.raw("mode", _MODE)
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"0?o?[0-7]{3,4}", value):
        value = int(value.replace("o", ""), 8)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 0o777:
        section.error("mode", 'is not an octal mode without setuid, setgid and sticky bits; such as "0644"')
        return None
    if value & 0o002:
        section.error("mode", f'{value:04o} lets every user write; such as "{value & ~0o002:04o}"')
    return value


def _mount(section: Section) -> Mount:
    target = _target(section)
    source = section.text("source")
    if match := _REFERENCE.fullmatch(source):
        source = match[1]
    medium = section.choice("medium", ("", "Memory"), "")
    made = Mount(
        target,
        section.path,
        source,
        section.spelt("path", spelling.relative),
        section.flag("readOnly"),
        medium,
        section.quantity("sizeLimit"),
    )
    section.close()
    return made


def _sources(section: Section) -> list[str]:
    names = []
    for each in section.sections("envFrom"):
        names.append(each.text("secretResource"))
        each.close()
    return names


def _security(section: Section) -> Security:
    binaries = strings(section, "allowedBinaries", any_of(spelling.program))
    user = section.integer("runAsUser", -1)
    group = section.integer("runAsGroup", -1)
    seccomp = section.choice("seccompProfile", _PROFILES, "RuntimeDefault")
    apparmor = section.choice("apparmorProfile", _PROFILES, "RuntimeDefault")
    files = [
        section.spelt("seccompLocalhostProfile", spelling.relative),
        section.spelt("apparmorLocalhostProfile", spelling.plain),
    ]
    for kind, profile, file in zip(("seccomp", "apparmor"), (seccomp, apparmor), files, strict=True):
        if (profile == "Localhost") != bool(file):
            section.error(f"{kind}LocalhostProfile", f"is given if, and only if, {kind}Profile is Localhost")
    made = Security(
        capabilities=_capabilities(section, "capabilities"),
        drop_capabilities=_capabilities(section, "dropCapabilities")
        if "dropCapabilities" in section
        else (spelling.ALL,),
        privileged=section.flag("privileged"),
        read_only_root=section.flag("readOnlyRootFilesystem", True),
        run_as_non_root=section.flag("runAsNonRoot", user != 0),
        run_as_user=user if user >= 0 else None,
        run_as_group=group if group >= 0 else None,
        allow_privilege_escalation=section.flag("allowPrivilegeEscalation", section.flag("privileged")),
        seccomp=seccomp,
        seccomp_file=files[0],
        apparmor=apparmor,
        apparmor_file=files[1],
        binaries=tuple(binaries),
    )
    section.close()
    return made


def _capabilities(section: Section, name: str) -> tuple[str, ...]:
    """Each once. Beside ALL the others say nothing."""
    found = tuple(dict.fromkeys(strings(section, name, spelling.capability)))
    return (spelling.ALL,) if spelling.ALL in found else found
