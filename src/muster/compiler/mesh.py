"""Derives what Istio enforces: who may call a workload, and which hosts it may reach, by identity.

A connection carries the identity of the client's ServiceAccount. A host outside of the cluster is a
ServiceEntry with a policy that allows this workload to use it. In ambient mode, traffic between members goes
through ztunnel at port 15008 (`HBONE`), so network policies have to allow that port; rules about hosts need a
waypoint in the namespace. The pods of a job with `training` are outside of the mesh, because their traffic
would be too much for its proxies. Source: istio/api, security/v1 and networking/v1.
"""

import hashlib
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from muster.api.base import Object
from muster.compiler.draft import NAME, Draft, one_protocol
from muster.compiler.facts import Facts
from muster.compiler.workload import Endpoint, Service, Workload

#: Port at which the ztunnel of an ambient mesh accepts traffic.
HBONE: Final = 15008
_SECURITY: Final = "security.istio.io/v1"
_POLICY: Final = "AuthorizationPolicy"
_OUTSIDE: Final = {"istio.io/dataplane-mode": "none", "sidecar.istio.io/inject": "false"}


def inside(workload: Workload, facts: Facts) -> bool:
    """Whether the workload's pods are members of the mesh."""
    return facts.istio and not (workload.outside_mesh or workload.host_network)


def outside(workload: Workload, facts: Facts) -> bool:
    """Whether there is a mesh, and the workload's pods are kept out of it."""
    return facts.istio and workload.outside_mesh


def labels(workload: Workload, facts: Facts) -> dict[str, str]:
    """Labels of pods that keep them out of the mesh; none for members."""
    return dict(_OUTSIDE) if outside(workload, facts) else {}


def policies(
    workload: Workload, facts: Facts, endpoints: Sequence[Endpoint], callers: Sequence[Service], draft: Draft
) -> None:
    """Emits an AuthorizationPolicy for callers, and a ServiceEntry with its policy for each host."""
    if not inside(workload, facts):
        return
    ports = sorted({str(target) for _, target, _ in workload.ports.values()})
    rules: list[Object] = [_rule([_identity(each.namespace, each.name, facts)], ports) for each in callers]
    if workload.gang:
        rules.append(
            _rule([_identity(workload.namespace, name, facts) for name in sorted(workload.gang)], [])
        )
    selector = {"matchLabels": {NAME: workload.name}}
    _authorize(workload.hashed("allow-to"), {"selector": selector}, rules, workload, draft)
    taken = [each for each in endpoints if each.protocol == "TCP"]
    for host, group in groupby(taken, key=lambda each: each.host):
        _host(workload, facts, host, list(group), draft)


def _host(workload: Workload, facts: Facts, host: str, endpoints: list[Endpoint], draft: Draft) -> None:
    """Emits the ServiceEntry of a host, a policy that denies it to all, and one that allows this workload.

    Istio knows one ServiceEntry of a host per namespace, so jobs share it, with the ports of all of them
    (`muster.compiler.draft.joined`), and the policy that denies. Istio's ambient mode does not merge entries
    of one host (istio/istio issues 51863 and 55776).
    """
    name = f"ext-{hashlib.sha256(f'{workload.namespace}/{host}'.encode()).hexdigest()[:8]}"
    ports: dict[int, str] = {}
    for each in endpoints:
        if (known := ports.setdefault(each.port, _protocol(each))) != _protocol(each):
            draft.problem(workload.path, one_protocol(host, each.port, known, _protocol(each)))
    spec: Object = {
        "hosts": [host],
        "exportTo": ["."],
        "location": "MESH_EXTERNAL",
        "ports": [
            {"number": port, "name": f"{protocol.lower()}-{port}", "protocol": protocol}
            for port, protocol in sorted(ports.items())
        ],
        "resolution": "NONE" if "*" in host else "DNS",
    }
    if endpoints[0].is_address:
        addressed = {"hosts": [f"{name}.external"], "addresses": [host], "endpoints": [{"address": host}]}
        spec |= {**addressed, "resolution": "STATIC"}
    entry = {"targetRefs": [{"group": "networking.istio.io", "kind": "ServiceEntry", "name": name}]}
    draft.emit_shared("networking.istio.io/v1", "ServiceEntry", name, workload.path, spec)
    draft.emit_shared(_SECURITY, _POLICY, name, workload.path, {**entry, "action": "ALLOW"})
    me = _identity(workload.namespace, workload.name, facts)
    rule = _rule([me], [str(port) for port in sorted(ports)])
    _authorize(workload.hashed("allow-ext", host), entry, [rule], workload, draft)


def _authorize(name: str, subject: Object, rules: list[Object], workload: Workload, draft: Draft) -> None:
    """Emits an AuthorizationPolicy; without rules it allows nothing."""
    draft.emit(
        _SECURITY,
        _POLICY,
        name,
        workload.path,
        spec={**subject, "action": "ALLOW", **({"rules": rules} if rules else {})},
    )


def _rule(principals: list[str], ports: list[str]) -> Object:
    rule: Object = {"from": [{"source": {"principals": principals}}]}
    if ports:
        rule["to"] = [{"operation": {"ports": ports}}]
    return rule


def _identity(namespace: str, name: str, facts: Facts) -> str:
    """Returns the SPIFFE identity of a workload, or Istio's pattern of several: a prefix or a suffix."""
    if namespace == "*":
        return f"{facts.trust_domain}/*" if name == "*" else f"*/sa/{name}"
    return f"{facts.trust_domain}/ns/{namespace}/sa/{name}"


def _protocol(endpoint: Endpoint) -> str:
    scheme = endpoint.url.partition("://")[0]
    return {"https": "TLS", "http": "HTTP"}.get(scheme, "TCP")
