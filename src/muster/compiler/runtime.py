"""Derives which programs a workload's pods may execute: a TracingPolicyNamespaced for Tetragon.

A container's programs are its entry point (the command, or what the image's configuration says), those of its
exec probes, and those that it names in `security.allowedBinaries`. Any other one is killed as it is executed.
If the entry point is not known, executions are only reported.
"""

from muster.api.base import Object
from muster.compiler.draft import Draft, unique
from muster.compiler.facts import Facts
from muster.compiler.workload import Container, Workload

ANY = "*"
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def entry(container: Container, facts: Facts) -> str:
    """The path of the program that a container starts; "" if it is not known."""
    image = facts.images.get(container.image)
    line = container.command or ((*image.entrypoint, *image.cmd) if image is not None else ())
    return line[0] if line and line[0].startswith("/") else ""


def own_binaries(container: Container, facts: Facts) -> list[str]:
    """What a container executes by its own definition: entry point and exec probes."""
    probes = (probe.get("exec", {}).get("command") or [""] for probe in container.probes.values())
    return unique(path for path in (entry(container, facts), *(str(p[0]) for p in probes)) if path)


def policy(workload: Workload, facts: Facts, draft: Draft) -> None:
    """Emits the policy of a workload, if the cluster has Tetragon."""
    if not facts.tetragon:
        return
    allowed = unique(
        path for each in workload.containers for path in (*own_binaries(each, facts), *each.security.binaries)
    )
    known = all(entry(each, facts) for each in workload.containers)
    enforced = known and ANY not in allowed
    selector: Object = {"matchActions": [{"action": "Sigkill" if enforced else "Post"}]}
    if paths := sorted(path for path in allowed if path != ANY):
        selector = {"matchArgs": [{"index": 0, "operator": "NotEqual", "values": paths}], **selector}
    draft.emit(
        "cilium.io/v1alpha1",
        "TracingPolicyNamespaced",
        f"allow-binaries-{workload.name}",
        workload.path,
        spec={
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": workload.name}},
            "kprobes": [
                {
                    "call": "security_bprm_check",
                    "syscall": False,
                    "args": [{"index": 0, "type": "linux_binprm", "label": "filename"}],
                    "selectors": [selector],
                }
            ],
        },
    )
