"""Derives what a workload may reach, and what may reach it; everything else is denied.

A connection between two workloads exists only if both declare it. A host outside of the cluster is reachable
only by name and port, and with Cilium only declared names can be looked up. Without Cilium a NetworkPolicy is
emitted if it can express what is needed. It cannot name hosts; a mesh (`muster.compiler.mesh`) can.
"""

import ipaddress
from dataclasses import dataclass
from typing import Final

from muster import names
from muster.api.base import Object
from muster.compiler import mesh
from muster.compiler.draft import NAME, Draft
from muster.compiler.facts import Facts, SharedService, admits
from muster.compiler.workload import Endpoint, External, Resource, Service, Workload

#: What a gate is asked about endpoints (`security/requests.py`).
QUESTION: Final = "endpoint"
#: The same about Services that are called, as `namespace/name:port`, and about callers, as `namespace/name`.
CALL: Final = "service"
CALLER: Final = "caller"
_POD: Final = "k8s:"
_NAMESPACE: Final = "k8s:io.kubernetes.pod.namespace"
#: Without it Cilium selects pods of the policy's own namespace only.
_ANY_NAMESPACE: Final[Object] = {"matchExpressions": [{"key": _NAMESPACE, "operator": "Exists"}]}
_KUBE_NAMESPACE: Final = "kubernetes.io/metadata.name"
_DNS_PORTS: Final = [{"port": "53", "protocol": protocol} for protocol in ("UDP", "TCP")]


@dataclass(frozen=True, slots=True)
class Reach:
    """What a workload may reach, and what may reach it."""

    externals: list[tuple[Resource, External]]
    calls: list[tuple[Service, SharedService]]
    callers: list[Service]

    @property
    def endpoints(self) -> list[Endpoint]:
        """The endpoints outside of the cluster, each once, in a fixed order."""
        found = {each for _, external in self.externals for each in external.endpoints}
        return sorted(found, key=lambda each: (each.host, each.port, each.protocol, each.name))


def policies(workload: Workload, facts: Facts, draft: Draft) -> None:
    """Emits the network policies of a workload; what the cluster cannot enforce is a problem."""
    externals = [
        (resource, resource.what)
        for resource in _sorted(workload)
        if isinstance(resource.what, External) and resource.direction != "inbound"
    ]
    for resource, external in externals:
        for endpoint in external.endpoints:
            draft.origin(QUESTION, endpoint.id, resource.path)
        if external.entity:
            draft.origin(QUESTION, _entity(external), resource.path)
    reach = Reach(externals, *_edges(workload, facts, draft))
    _service(workload, reach, draft)
    match facts.network:
        case "cilium":
            _cilium(workload, facts, reach, draft)
        case "plain":
            _plain(workload, facts, reach, draft)
        case "none":
            pass
    mesh.policies(workload, facts, reach.endpoints, reach.callers, draft)


def _sorted(workload: Workload) -> list[Resource]:
    return [workload.resources[name] for name in sorted(workload.resources)]


def _entity(external: External) -> str:
    return f"entity:{external.entity}" + (f":{external.entity_port}" if external.entity_port else "")


def _edges(
    workload: Workload, facts: Facts, draft: Draft
) -> tuple[list[tuple[Service, SharedService]], list[Service]]:
    """Returns the Services that this workload calls, and its callers. One-sided connections are problems."""
    calls: list[tuple[Service, SharedService]] = []
    callers: list[Service] = []
    me = f"{workload.namespace}/{workload.name}"
    for resource in _sorted(workload):
        service = resource.what
        if not isinstance(service, Service):
            continue
        if resource.direction in ("inbound", "both"):
            callers.append(service)
            draft.origin(CALLER, f"{service.namespace}/{service.name}", resource.path)
        if resource.direction == "inbound":
            continue
        other = f"{service.namespace}/{service.name}"
        shared = facts.services.get((service.namespace, service.name))
        if "*" in other:
            draft.problem(
                (*resource.path, "id"), f"{other} names no single Service; only direction: inbound takes *"
            )
        elif shared is None or not admits(shared.callers, workload.namespace, workload.name):
            listed = [*(shared.callers if shared is not None else ()), me]
            draft.problem(
                resource.path,
                f"{other} does not let {me} in; both sides have to declare the connection",
                patch=f"# on the Service {other}, by its owner\nmetadata:\n  annotations:\n"
                f"    {names.ALLOWED_CALLERS}: {','.join(listed)}",
            )
        elif service.port not in shared.ports:
            known = ", ".join(map(str, sorted(shared.ports))) or "none"
            draft.problem(
                (*resource.path, "params", "port"),
                f"is {service.port}, which the Service {other} does not have for TCP; its ports: {known}",
            )
        elif mesh.outside(workload, facts):
            draft.problem(
                resource.path,
                f"the pods of a job with training are outside of the mesh, so {other} cannot tell who calls; "
                f"read what is needed in a task of another job",
            )
        else:
            calls.append((service, shared))
            draft.origin(CALL, f"{other}:{service.port}", resource.path)
    return calls, callers


def _service(workload: Workload, reach: Reach, draft: Draft) -> None:
    """Emits the Service of a workload with ports, with the owner's half of each agreement."""
    if not workload.ports:
        return
    ports = [
        {"name": name, "port": port, "targetPort": target, "protocol": protocol}
        for name, (port, target, protocol) in sorted(workload.ports.items())
    ]
    made = draft.emit(
        "v1",
        "Service",
        workload.name,
        workload.path,
        spec={"selector": {NAME: workload.name}, "ports": ports},
    )
    if reach.callers:
        listed = sorted(
            "*" if each.namespace == each.name == "*" else f"{each.namespace}/{each.name}"
            for each in reach.callers
        )
        made["metadata"]["annotations"] = {names.ALLOWED_CALLERS: ",".join(listed)}


def _cilium(workload: Workload, facts: Facts, reach: Reach, draft: Draft) -> None:
    egress: list[Object] = []
    if looked_up := _looked_up(workload, reach):
        dns = {_NAMESPACE: "kube-system", "k8s:k8s-app": "kube-dns"}
        rules = {"ports": _DNS_PORTS, "rules": {"dns": looked_up}}
        egress.append({"toEndpoints": [{"matchLabels": dns}], "toPorts": [rules]})
    for endpoint in reach.endpoints:
        to: Object = (
            {"toCIDR": [_cidr(endpoint.host)]}
            if endpoint.is_address
            else {"toFQDNs": [_match(endpoint.host)]}
        )
        rule = {**to, "toPorts": [_port(endpoint.port, endpoint.protocol)]}
        if egress[-1:] != [rule]:  # they are sorted, so equal ones are neighbours
            egress.append(rule)
    for _, external in reach.externals:
        if external.entity:
            rule = {"toEntities": [external.entity]}
            if external.entity_port:
                rule["toPorts"] = [_port(external.entity_port, "TCP")]
            egress.append(rule)
    for service, shared in reach.calls:
        ports = [_port(shared.ports[service.port], "TCP")]
        egress.append({"toEndpoints": [_pods(service, shared)], "toPorts": ports})
    served = [
        {"port": str(target), "protocol": protocol}
        for _, (_, target, protocol) in sorted(workload.ports.items())
    ]
    ingress: list[Object] = [
        {
            "fromEndpoints": [_pods(service, SharedService())],
            **({"toPorts": [{"ports": served}]} if served else {}),
        }
        for service in reach.callers
    ]
    if workload.peers:
        peers = {"matchLabels": {_POD + names.PEERS: workload.peers}}
        egress.append({"toEndpoints": [peers]})
        ingress.append({"fromEndpoints": [peers]})
    if mesh.inside(workload, facts):
        egress.append({"toEndpoints": [_ANY_NAMESPACE], "toPorts": [_port(mesh.HBONE, "TCP")]})
        ingress.append({"fromEndpoints": [_ANY_NAMESPACE], "toPorts": [_port(mesh.HBONE, "TCP")]})
    draft.emit(
        "cilium.io/v2",
        "CiliumNetworkPolicy",
        workload.hashed("cnp"),
        workload.path,
        spec={
            "endpointSelector": {"matchLabels": {_POD + NAME: workload.name}},
            "ingress": ingress,
            "egress": egress,
        },
    )


def _looked_up(workload: Workload, reach: Reach) -> list[Object]:
    """The DNS names that a workload may look up: its hosts, its services, and the pods of its job."""
    hosts = sorted({each.host for each in reach.endpoints if not each.is_address})
    services = sorted({f"{each.name}.{each.namespace}.svc.cluster.local" for each, _ in reach.calls})
    found = [_match(name) for name in [*hosts, *services]]
    if workload.peers:
        found.append({"matchPattern": f"*.{workload.peers}.{workload.namespace}.svc.cluster.local"})
    return found


def _match(host: str) -> Object:
    return {"matchPattern" if "*" in host else "matchName": host}


def _plain(workload: Workload, facts: Facts, reach: Reach, draft: Draft) -> None:
    meshed = mesh.inside(workload, facts)
    egress: list[Object] = []
    for resource, external in reach.externals:
        named = [
            each
            for each in external.endpoints
            if not each.is_address and not (meshed and each.protocol == "TCP")
        ]
        if named or external.entity:
            what = ", ".join(each.address for each in named) or _entity(external)
            why = "a NetworkPolicy cannot name hosts"
            if meshed:
                why += ", and Istio takes only TCP to hosts"
            draft.problem(
                resource.path,
                f"{what}: this cluster has no Cilium, and {why}; give addresses (resolution: static), or run "
                f"where Cilium is installed",
            )
    for endpoint in reach.endpoints:
        if endpoint.is_address:
            ports = [{"port": endpoint.port, "protocol": endpoint.protocol}]
            egress.append({"to": [{"ipBlock": {"cidr": _cidr(endpoint.host)}}], "ports": ports})
    if reach.calls or workload.peers or (meshed and reach.endpoints):
        kube = {"namespaceSelector": {"matchLabels": {_KUBE_NAMESPACE: "kube-system"}}}
        ports = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
        dns = {**kube, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
        egress.append({"to": [dns], "ports": ports})
    for service, shared in reach.calls:
        called: Object = {"port": shared.ports[service.port], "protocol": "TCP"}
        egress.append({"to": [_peer(service, shared)], "ports": [called]})
    served = [
        {"port": target, "protocol": protocol} for _, (_, target, protocol) in sorted(workload.ports.items())
    ]
    ingress: list[Object] = [
        {"from": [_peer(each, SharedService())], **({"ports": served} if served else {})}
        for each in reach.callers
    ]
    if workload.peers:
        peers = {"podSelector": {"matchLabels": {names.PEERS: workload.peers}}}
        egress.append({"to": [peers]})
        ingress.append({"from": [peers]})
    if meshed:
        hbone = [{"port": mesh.HBONE, "protocol": "TCP"}]
        egress.append({"to": [{"namespaceSelector": {}}], "ports": hbone})
        ingress.append({"from": [{"namespaceSelector": {}}], "ports": hbone})
    draft.emit(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        workload.hashed("np"),
        workload.path,
        spec={
            "podSelector": {"matchLabels": {NAME: workload.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    )


def _pods(service: Service, shared: SharedService) -> Object:
    """Cilium's selector of the pods behind a service, or of a workload that calls."""
    labels = {_POD + key: value for key, value in sorted(shared.selector.items())}
    if not labels and service.name != "*":
        labels[_POD + NAME] = service.name
    if service.namespace == "*":
        return {"matchLabels": labels, **_ANY_NAMESPACE}
    return {"matchLabels": {**labels, _NAMESPACE: service.namespace}}


def _peer(service: Service, shared: SharedService) -> Object:
    peer: Object = {"namespaceSelector": {}}
    if service.namespace != "*":
        peer["namespaceSelector"] = {"matchLabels": {_KUBE_NAMESPACE: service.namespace}}
    if labels := dict(sorted(shared.selector.items())):
        peer["podSelector"] = {"matchLabels": labels}
    elif service.name != "*":
        peer["podSelector"] = {"matchLabels": {NAME: service.name}}
    return peer


def _port(port: int | str, protocol: str) -> Object:
    return {"ports": [{"port": str(port), "protocol": protocol}]}


def _cidr(host: str) -> str:
    return str(ipaddress.ip_network(host))
