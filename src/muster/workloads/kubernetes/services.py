"""Refuses Services that the embedded cluster cannot offer: without virtual addresses no port is translated.

There a Service's name resolves to its pods, as that of a headless Service does everywhere.
"""

from collections.abc import Iterator, Sequence

from muster.api import kinds
from muster.api.base import Object
from muster.workloads.findings import Finding
from muster.workloads.jobfile import Options
from muster.workloads.kubernetes import templates
from muster.workloads.kubernetes.objects import Entry


def findings(entries: Sequence[Entry], options: Options) -> Iterator[Finding]:
    """Errors about ports of Services that differ from those of their pods."""
    if not (options.local and options.runs):
        return
    named = _named_ports(entries)
    for entry in entries:
        spec = entry.object.get("spec")
        if entry.kind is not kinds.SERVICE or not isinstance(spec, dict) or spec.get("clusterIP") == "None":
            continue
        for index, port in enumerate(spec.get("ports") or []):
            number, target = port.get("port"), port.get("targetPort", port.get("port"))
            known = named.get(target, {number}) if isinstance(target, str) else {target or number}
            if known == {number}:
                continue  # a name that no container of the file has may be of pods elsewhere
            yield entry.report(
                ("spec", "ports", index, "targetPort"),
                f"is {target}, and port is {number}: the embedded cluster translates no ports; a Service's "
                "name resolves to its pods; write the same port, or clusterIP: None and the pods' port",
            )


def _named_ports(entries: Sequence[Entry]) -> dict[str, set[object]]:
    """The numbers of the named ports of all containers in the file."""
    found: dict[str, set[object]] = {}
    for entry in entries:
        for _, template in templates.pods(entry):
            spec: Object = template.get("spec") or {}
            for container in (*(spec.get("containers") or []), *(spec.get("initContainers") or [])):
                for port in container.get("ports") or []:
                    found.setdefault(str(port.get("name", "")), set()).add(port.get("containerPort"))
    return found
