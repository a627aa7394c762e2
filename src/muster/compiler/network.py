"""Derives what a workload may reach, and what may reach it: all else is denied.

An edge between two workloads exists only if both declare it. A host outside of the cluster is reachable only
by name and port, and only names that are declared can be looked up. Without Cilium a NetworkPolicy is emitted
if it can say what is needed; it cannot name hosts.
"""

import hashlib
import ipaddress
from typing import Final

from muster import names
from muster.api.base import Object
from muster.compiler.draft import Draft
from muster.compiler.facts import Facts, SharedService, admits
from muster.compiler.workload import Endpoint, External, Resource, Service, Workload

#: What a gate is asked about endpoints (`security/requests.py`).
QUESTION: Final = "endpoint"
NAME: Final = "app.kubernetes.io/name"
#: Label that the workloads of one job share if they may reach each other.
PEERS: Final = "muster.dev/peers"
#: Port at which an ambient mesh's ztunnel takes traffic (HBONE).
_POD: Final = "k8s:"
_NAMESPACE: Final = "k8s:io.kubernetes.pod.namespace"
_DNS_PORTS: Final = ("UDP", "TCP")


def policies(workload: Workload, facts: Facts, draft: Draft) -> None:
    """Emits the network policy of a workload; what the cluster cannot enforce is a problem."""
    externals = [
        (resource, resource.what)
        for resource in _sorted(workload)
        if isinstance(resource.what, External) and resource.direction != "inbound"
    ]
    for resource, external in externals:
        for endpoint in external.endpoints:
            draft.origin(QUESTION, endpoint.address, resource.path)
        if external.entity:
            draft.origin(QUESTION, _entity(external), resource.path)
    calls, callers = _edges(workload, facts, draft)
    match facts.network:
        case "cilium":
            _cilium(workload, externals, calls, callers, draft)
        case "plain":
            _plain(workload, externals, calls, callers, draft)
        case "none":
            pass


def _sorted(workload: Workload) -> list[Resource]:
    return [workload.resources[name] for name in sorted(workload.resources)]


def _entity(external: External) -> str:
    return f"entity:{external.entity}" + (f":{external.entity_port}" if external.entity_port else "")


def _edges(workload: Workload, facts: Facts, draft: Draft) -> tuple[list[Service], list[Service]]:
    """Workloads that this one calls, and that call it. An edge that only one side declares is a problem."""
    calls: list[Service] = []
    callers: list[Service] = []
    me = (workload.namespace, workload.name)
    for resource in _sorted(workload):
        service = resource.what
        if not isinstance(service, Service):
            continue
        if resource.direction in ("outbound", "both"):
            shared = facts.services.get((service.namespace, service.name), SharedService())
            if admits(shared.callers, *me):
                calls.append(service)
            else:
                other = f"{service.namespace}/{service.name}"
                draft.problem(
                    resource.path,
                    f"{other} does not let {'/'.join(me)} in; both sides have to declare the connection",
                    patch=f"# on the Service {other}, by its owner\nmetadata:\n  annotations:\n"
                    f"    {names.ALLOWED_CALLERS}: {'/'.join(me)}",
                )
        if resource.direction in ("inbound", "both"):
            callers.append(service)
    return calls, callers


def _cilium(
    workload: Workload,
    externals: list[tuple[Resource, External]],
    calls: list[Service],
    callers: list[Service],
    draft: Draft,
) -> None:
    endpoints = [endpoint for _, external in externals for endpoint in external.endpoints]
    hosts = sorted({each.host for each in endpoints if not _address(each.host)})
    services = sorted({f"{each.name}.{each.namespace}.svc.cluster.local" for each in calls})
    egress: list[Object] = []
    if hosts or services:
        looked_up = [{"matchName": name} for name in [*hosts, *services]]
        dns = {"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}
        ports = [{"port": "53", "protocol": protocol} for protocol in _DNS_PORTS]
        egress.append(
            {
                "toEndpoints": [{"matchLabels": dns}],
                "toPorts": [{"ports": ports, "rules": {"dns": looked_up}}],
            }
        )
    for endpoint in sorted(set(endpoints), key=lambda each: (each.host, each.port, each.protocol)):
        to: Object = (
            {"toCIDR": [_cidr(endpoint.host)]}
            if _address(endpoint.host)
            else {"toFQDNs": [{"matchName": endpoint.host}]}
        )
        if (rule := {**to, "toPorts": [_port(endpoint.port, endpoint.protocol)]}) not in egress:
            egress.append(rule)
    for _, external in externals:
        if external.entity:
            rule = {"toEntities": [external.entity]}
            if external.entity_port:
                rule["toPorts"] = [_port(external.entity_port, "TCP")]
            egress.append(rule)
    for service in calls:
        rule = {"toEndpoints": [{"matchLabels": _labels(service)}]}
        if service.port:
            rule["toPorts"] = [_port(service.port, "TCP")]
        egress.append(rule)
    ingress: list[Object] = [
        {
            "fromEndpoints": [{"matchLabels": _labels(service)}],
            **({"toPorts": [{"ports": _served(workload)}]} if workload.ports else {}),
        }
        for service in callers
    ]
    if workload.peers:
        peers = {"matchLabels": {_POD + PEERS: workload.peers}}
        egress.append({"toEndpoints": [peers]})
        ingress.append({"fromEndpoints": [peers]})
    draft.emit(
        "cilium.io/v2",
        "CiliumNetworkPolicy",
        _name("cnp", workload),
        spec={
            "endpointSelector": {"matchLabels": {_POD + NAME: workload.name}},
            "ingress": ingress,
            "egress": egress,
        },
    )


def _plain(
    workload: Workload,
    externals: list[tuple[Resource, External]],
    calls: list[Service],
    callers: list[Service],
    draft: Draft,
) -> None:
    egress: list[Object] = []
    for resource, external in externals:
        named = [each for each in external.endpoints if not _address(each.host)]
        if named or external.entity:
            what = ", ".join(each.address for each in named) or _entity(external)
            draft.problem(
                resource.path,
                f"{what}: this cluster has no Cilium, and a NetworkPolicy cannot name hosts; give addresses "
                f"(resolution: static), or run where Cilium is installed",
            )
        for endpoint in external.endpoints:
            if _address(endpoint.host):
                ports = [{"port": endpoint.port, "protocol": endpoint.protocol}]
                egress.append({"to": [{"ipBlock": {"cidr": _cidr(endpoint.host)}}], "ports": ports})
    if calls:
        ports = [{"port": 53, "protocol": protocol} for protocol in _DNS_PORTS]
        kube = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
        egress.append(
            {"to": [{**kube, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}], "ports": ports}
        )
    egress += [
        {"to": [_peer(each)], **({"ports": [{"port": each.port}]} if each.port else {})} for each in calls
    ]
    ingress: list[Object] = [{"from": [_peer(each)]} for each in callers]
    if workload.peers:
        peers = {"podSelector": {"matchLabels": {PEERS: workload.peers}}}
        egress.append({"to": [peers]})
        ingress.append({"from": [peers]})
    draft.emit(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        _name("np", workload),
        spec={
            "podSelector": {"matchLabels": {NAME: workload.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    )


def _labels(service: Service) -> Object:
    labels: Object = {} if service.name == "*" else {_POD + NAME: service.name}
    if service.namespace != "*":
        labels[_NAMESPACE] = service.namespace
    return labels


def _peer(service: Service) -> Object:
    peer: Object = {"namespaceSelector": {}}
    if service.namespace != "*":
        peer["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": service.namespace}}
    if service.name != "*":
        peer["podSelector"] = {"matchLabels": {NAME: service.name}}
    return peer


def _port(port: int, protocol: str) -> Object:
    return {"ports": [{"port": str(port), "protocol": protocol}]}


def _served(workload: Workload) -> list[Object]:
    return [
        {"port": str(target), "protocol": protocol}
        for _, (_, target, protocol) in sorted(workload.ports.items())
    ]


def _name(prefix: str, workload: Workload) -> str:
    return f"{prefix}-{hashlib.sha256(f'{workload.namespace}/{workload.name}'.encode()).hexdigest()[:8]}"


def _address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _cidr(host: str) -> str:
    return str(ipaddress.ip_network(host))


def s3_by_name(endpoint: Endpoint) -> bool:
    """Whether an endpoint is S3 by its path-style host, which buckets in host names do not match."""
    return endpoint.host.startswith("s3.") and endpoint.host.endswith(".amazonaws.com")
