"""Refuses Services that the embedded cluster cannot offer: without virtual addresses no port is translated.

There a Service's name resolves to its pods, as that of a headless Service does everywhere.
"""

from collections.abc import Iterator, Mapping, Sequence

from muster.api import kinds
from muster.api.base import Object
from muster.api.fields import Finding
from muster.api.templates import pod_templates
from muster.workloads.jobfile import Options
from muster.workloads.kubernetes.objects import Entry


def findings(entries: Sequence[Entry], options: Options) -> Iterator[Finding]:
    """Errors about ports of Services that differ from those of their pods."""
    if not (options.local and options.runs):
        return
    named = _named_ports(entries)
    for entry in entries:
        spec = entry.object.get("spec")
        if entry.kind is kinds.SERVICE and isinstance(spec, dict):
            for error in translated(spec, named):
                yield entry.report(error.path, error.message)


def translated(spec: Object, named: Mapping[str, set[object]]) -> Iterator[Finding]:
    """The ports of a Service's spec, as its author wrote it, that differ from those of its pods.

    `named`: the numbers of named ports. A name that is not among them may be of pods elsewhere.
    """
    if spec.get("clusterIP") == "None":
        return
    for index, port in enumerate(spec.get("ports") or []):
        number, target = port.get("port"), port.get("targetPort", port.get("port"))
        known = named.get(target, {number}) if isinstance(target, str) else {target or number}
        if known != {number}:
            told = (
                f"is {target}, and port is {number}: the embedded cluster translates no ports; a Service's "
                "name resolves to its pods; write the same port, or clusterIP: None and the pods' port"
            )
            yield Finding(("spec", "ports", index, "targetPort"), told)


def _named_ports(entries: Sequence[Entry]) -> dict[str, set[object]]:
    """The numbers of the named ports of all containers in the file."""
    found: dict[str, set[object]] = {}
    for entry in entries:
        for _, template in pod_templates(entry.object, entry.kind):
            spec: Object = template.get("spec") or {}
            for container in (*(spec.get("containers") or []), *(spec.get("initContainers") or [])):
                for port in container.get("ports") or []:
                    found.setdefault(str(port.get("name", "")), set()).add(port.get("containerPort"))
    return found
