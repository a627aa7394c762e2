"""What covers each field of each emitted object: a gate, a fixed value, or the reason why it harms nothing.

The checks of gated fields read the objects by rules of their own, and look for the request that they need.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.api.base import Object
from muster.compiler import Facts
from muster.security.requests import Request
from tests.security.effect_jobs import NUMBERS


@dataclass(frozen=True)
class World:
    """What one job is compiled to."""

    asked: list[Request]
    objects: list[Object]
    facts: Facts

    def has(self, action: str, id_: str) -> bool:
        return any(each.action == action and each.id == id_ for each in self.asked)


Check = Callable[[Any, World, Object], bool]
#: A field that harms nothing outside of the job: why, and a check that always passes.
Line = tuple[str, Check | None]


def harmless(why: str) -> Line:
    return why, None


def fixed(*values: Any) -> Line:
    return "a fixed value", lambda value, world, obj: value in values


def gate(action: str, spell: Callable[[Any], str] = str, free: tuple[Any, ...] = ()) -> Line:
    return action, lambda value, world, obj: value in free or world.has(action, spell(value))


def override(name: str, free: tuple[Any, ...]) -> Line:
    return gate("OverrideSecurity", lambda value: name.format(value), free)


def own(value: Any, world: World, obj: Object) -> bool:
    """Whether it names an object of this job, or a Secret that an ExternalSecret of this job fills."""
    names = {each["metadata"]["name"] for each in world.objects}
    filled = {each["spec"]["target"]["name"] for each in world.objects if each["kind"] == "ExternalSecret"}
    return value in names | filled


def claimed(value: Any, world: World, obj: Object) -> bool:
    ids = {shared.claim: id_ for (_, id_), shared in world.facts.volumes.items()}
    return own(value, world, obj) or world.has("AccessVolume", f"ml/{ids.get(value)}")


def dropped(value: Any, world: World, obj: Object) -> bool:
    """A few of the default ones are enough for whom nothing else drops."""
    kept = {"SYS_CHROOT", "SETUID", "CHOWN", "NET_RAW"} - set(value)
    return "ALL" in value or all(world.has("OverrideSecurity", f"capability:{each}") for each in kept)


def profile(kind: str) -> Check:
    def check(value: Any, world: World, obj: Object) -> bool:
        return value == "RuntimeDefault" or any(each.id.startswith(f"{kind}:{value}") for each in world.asked)

    return check


def localhost(value: Any, world: World, obj: Object) -> bool:
    return any(each.id.endswith(f":Localhost:{value}") for each in world.asked)


def tolerated(value: Any, world: World, obj: Object) -> bool:
    for each in value:
        assert each.keys() <= {"key", "operator", "value", "effect", "tolerationSeconds"}
        taint = each.get("key", "*") + (f"={each['value']}" if each["operator"] == "Equal" else "")
        if each != {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}:
            assert world.has("TolerateTaint", f"{taint}:{each.get('effect', '*')}")
    return True


def programs(value: Any, world: World, obj: Object) -> bool:
    """The entry points of containers, and what is asked for."""
    pods = [each for made in world.objects for each in found(made, "containers", "initContainers")]
    entries = {each["command"][0] for each in pods if "command" in each}
    return all(each in entries or world.has("OverrideSecurity", f"allowedBinary:{each}") for each in value)


def probed(value: Any, world: World, obj: Object) -> bool:
    return programs(value[:1], world, obj)


DNS: Final = {"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}
PEERS: Final = {"k8s:muster.dev/peers": "all"}


def egress(value: Any, world: World, obj: Object) -> bool:
    """Each rule of Cilium is for peers, names, the mesh, or something that is asked for."""
    for rule in value:
        assert rule.keys() <= {"toEndpoints", "toFQDNs", "toCIDR", "toEntities", "toPorts"}
        ports = [port for each in rule.get("toPorts", ()) for port in each["ports"]]
        assert all(each.keys() <= {"ports", "rules"} for each in rule.get("toPorts", ()))
        if rule.get("toEndpoints") == [{"matchLabels": DNS}]:
            [entry] = rule["toPorts"]
            assert entry["rules"].keys() == {"dns"}
            assert all(named(next(iter(each.values())), world) for each in entry["rules"]["dns"])
        elif rule in ({"toEndpoints": [{"matchLabels": PEERS}]}, {"toEndpoints": [ANY], "toPorts": HBONE}):
            pass
        elif "toEndpoints" in rule:
            [to] = rule["toEndpoints"]
            labels = dict(to["matchLabels"])
            namespace = labels.pop("k8s:io.kubernetes.pod.namespace")
            selector = {key.removeprefix("k8s:"): text for key, text in labels.items()}
            assert called(namespace, selector, [int(each["port"]) for each in ports], world)
        else:
            hosts = [next(iter(each.values())) for each in rule.get("toFQDNs", ())]
            hosts += [each.rpartition("/")[0] for each in rule.get("toCIDR", ())]
            hosts += [f"entity:{each}" for each in rule.get("toEntities", ())]
            assert hosts
            assert all(reached(host, port, world) for host in hosts for port in ports or [{}])
    return True


ANY: Final = {"matchExpressions": [{"key": "k8s:io.kubernetes.pod.namespace", "operator": "Exists"}]}
HBONE: Final = [{"ports": [{"port": "15008", "protocol": "TCP"}]}]


def reached(host: str, port: Object, world: World) -> bool:
    """Whether an endpoint is asked for with just this host, port and protocol."""
    wanted = {
        "host": host,
        "port": str(port.get("port", "*")),
        "protocol": port.get("protocol", "TCP") if port else "*",
    }
    return any(each.action == "AccessExternalEndpoint" and each.attributes == wanted for each in world.asked)


def called(namespace: str, selector: Object, ports: list[int], world: World) -> bool:
    """Whether a rule is for a Service that is asked for, at the ports of its pods."""
    return any(
        world.has("AccessService", f"{at}/{name}:{port}") and [target] == ports
        for (at, name), shared in world.facts.services.items()
        for port, target in shared.ports.items()
        if (at, dict(shared.selector)) == (namespace, selector)
    )


def named(name: str, world: World) -> bool:
    """Whether a name may be looked up: of a host or Service that is asked for, or of a peer."""
    service = name.removesuffix(".svc.cluster.local").split(".")
    return (
        name == "*.all.ml.svc.cluster.local"
        or any(each.attributes.get("host") == name for each in world.asked)
        or (
            len(service) == 2
            and any(each.id.startswith(f"{service[1]}/{service[0]}:") for each in world.asked)
        )
    )


def ingress(value: Any, world: World, obj: Object) -> bool:
    for rule in value:
        assert rule.keys() <= {"fromEndpoints", "toPorts"}
        [who] = rule["fromEndpoints"]
        labels = who.get("matchLabels", {})
        if labels == PEERS or rule == {"fromEndpoints": [ANY], "toPorts": HBONE}:
            continue
        namespace = labels.get("k8s:io.kubernetes.pod.namespace", "*")
        name = labels.get("k8s:app.kubernetes.io/name", "*")
        assert namespace == "ml" or world.has("AdmitCaller", f"{namespace}/{name}")
    return True


def plain_egress(value: Any, world: World, obj: Object) -> bool:
    for rule in value:
        assert rule.keys() <= {"to", "ports"}
        [to] = rule["to"]
        if "ipBlock" in to:
            host = to["ipBlock"]["cidr"].rpartition("/")[0]
            assert to["ipBlock"].keys() == {"cidr"}
            assert all(reached(host, port, world) for port in rule["ports"])
            continue
        pods = to.get("podSelector", {}).get("matchLabels", {})
        if pods not in ({"k8s-app": "kube-dns"}, {"muster.dev/peers": "all"}):
            namespace = to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            assert called(namespace, pods, [each["port"] for each in rule["ports"]], world)
    return True


def plain_ingress(value: Any, world: World, obj: Object) -> bool:
    for rule in value:
        assert rule.keys() <= {"from", "ports"}
        [who] = rule["from"]
        pods = who.get("podSelector", {}).get("matchLabels", {})
        if pods != {"muster.dev/peers": "all"}:
            namespace = (
                who["namespaceSelector"].get("matchLabels", {}).get("kubernetes.io/metadata.name", "*")
            )
            name = pods.get("app.kubernetes.io/name", "*")
            assert namespace == "ml" or world.has("AdmitCaller", f"{namespace}/{name}")
    return True


def principals(value: Any, world: World, obj: Object) -> bool:
    """Identities of this job, or of callers that are asked for."""
    for each in value:
        _, _, rest = each.partition("/")
        namespace, name = {"*": ("*", "*")}.get(
            rest, (rest.split("/")[1], rest.split("/")[-1]) if "/ns/" in each else ("*", rest)
        )
        assert namespace == "ml" or world.has("AdmitCaller", f"{namespace}/{name}")
    return True


def host_of_mesh(value: Any, world: World, obj: Object) -> bool:
    asked = {each.attributes.get("host") for each in world.asked}
    return all(each in asked or each == f"{obj['metadata']['name']}.external" for each in value)


def callers(value: Any, world: World, obj: Object) -> bool:
    listed = ["*/*" if each == "*" else each for each in value.split(",")]
    return all(each.startswith("ml/") or world.has("AdmitCaller", each) for each in listed)


def labelled(value: Any, world: World, obj: Object) -> bool:
    """Labels and annotations: muster's own, harmless ones, and what is asked for."""
    ours = (
        "app.kubernetes.io/",
        "muster.dev/",
        "scheduling.x-k8s.io/pod-group",
        "istio.io/",
        "sidecar.istio.io/",
    )
    return all(
        key.startswith(ours) or key in ("team",) or world.has("SetMetadata", f"{key}={each}")
        for key, each in value.items()
    )


def secret(value: Any, world: World, obj: Object) -> bool:
    return world.has("AccessSecret", f"{obj['spec']['secretStoreRef']['name']}:{value}")


def found(value: Any, *names: str) -> Iterator[Any]:
    """Every entry of the lists with these names."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in names and isinstance(each, list):
                yield from each
            yield from found(each, *names)
    elif isinstance(value, list):
        for each in value:
            yield from found(each, *names)


OWN: Final = harmless("names and values that the job gives its own containers")
NODE: Final = harmless("charged to queue and quota")
COUNT: Final = harmless("how the job's own pods run; charged to queue and quota")
OF_JOB: Final = ("completionMode", "completions", "parallelism", "backoffLimit")
OF_VOLCANO: Final = (
    *("maxRetry", "minAvailable", "networkTopology.mode", "networkTopology.highestTierAllowed"),
    *("plugins.env", "policies.action", "policies.event", "tasks.name", "tasks.replicas"),
    *("tasks.policies.action", "tasks.policies.event"),
)
OF_SCHEDULE: Final = (
    *("schedule", "timeZone", "concurrencyPolicy", "suspend", "startingDeadlineSeconds"),
    *("successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
)
_PROBE: Final = "container.*Probe"
#: Pattern of a path → what covers it; the first that matches counts.
COVERED: Final[dict[str, Line]] = {
    "ExternalSecret.spec.secretStoreRef.kind": fixed("ClusterSecretStore"),
    "*.apiVersion": harmless("the kind itself"),
    "*.kind": harmless("the kind itself"),
    "*.metadata.name": harmless("hashed, or made of the job's own name; objects of others are left alone"),
    "*.metadata.namespace": fixed("ml"),
    "Service.metadata.annotations.muster.dev/allowed-callers": ("AdmitCaller", callers),
    "PersistentVolumeClaim.metadata.annotations.muster.dev/allowed-consumers": harmless(
        "claims are mounted in their own namespace only"
    ),
    "*metadata.labels": ("SetMetadata", labelled),
    "*metadata.annotations": ("SetMetadata", labelled),
    "container.image": gate("DeployImage"),
    "container.name": OWN,
    "container.command": OWN,
    "container.args": OWN,
    "container.workingDir": OWN,
    "container.restartPolicy": fixed("Always"),
    "container.env.name": OWN,
    "container.env.value": OWN,
    "container.env.valueFrom.fieldRef.*": harmless("a field of the pod itself"),
    "container.env.valueFrom.secretKeyRef.key": OWN,
    "container.env.valueFrom.secretKeyRef.name": ("the job's own", own),
    "container.envFrom.*.name": ("the job's own", own),
    "container.volumeMounts.*": harmless("where in its own containers a volume is that is covered below"),
    "container.resources.*": NODE,
    f"{_PROBE}.exec.command": ("OverrideSecurity", probed),
    f"{_PROBE}.httpGet.port": harmless("of the pod itself: there is no host"),
    f"{_PROBE}.httpGet.path": harmless("of the pod itself: there is no host"),
    f"{_PROBE}.httpGet.scheme": fixed("HTTP", "HTTPS"),
    f"{_PROBE}.httpGet.httpHeaders.*": harmless("of the pod itself: there is no host"),
    f"{_PROBE}.tcpSocket.port": harmless("of the pod itself: there is no host"),
    f"{_PROBE}.grpc.port": harmless("of the pod itself: there is no host"),
    f"{_PROBE}.grpc.service": harmless("of the pod itself: there is no host"),
    **{f"{_PROBE}.{each}": harmless("when the pod itself is probed") for each in NUMBERS},
    "container.securityContext.privileged": override("privileged", (False,)),
    "container.securityContext.allowPrivilegeEscalation": override("allowPrivilegeEscalation", (False,)),
    "container.securityContext.readOnlyRootFilesystem": override("readWriteRootFilesystem", (True,)),
    "container.securityContext.runAsNonRoot": override("runAsRoot", (True,)),
    "container.securityContext.runAsUser": (
        "OverrideSecurity",
        lambda value, world, obj: value != 0 or world.has("OverrideSecurity", "runAsRoot"),
    ),
    "container.securityContext.runAsGroup": (
        "OverrideSecurity",
        lambda value, world, obj: value != 0 or world.has("OverrideSecurity", "runAsRootGroup"),
    ),
    "container.securityContext.capabilities": ("OverrideSecurity", dropped),
    "container.securityContext.capabilities.add": (
        "OverrideSecurity",
        lambda value, world, obj: all(world.has("OverrideSecurity", f"capability:{each}") for each in value),
    ),
    "container.securityContext.capabilities.drop": ("OverrideSecurity", dropped),
    "container.securityContext.seccompProfile.type": ("OverrideSecurity", profile("seccomp")),
    "container.securityContext.appArmorProfile.type": ("OverrideSecurity", profile("apparmor")),
    "container.securityContext.*Profile.localhostProfile": ("OverrideSecurity", localhost),
    "pod.serviceAccountName": ("the job's own", own),
    "pod.automountServiceAccountToken": override("automountServiceAccountToken", (False,)),
    "pod.hostNetwork": override("hostNetwork", (False,)),
    "pod.shareProcessNamespace": override("shareProcessNamespace", (False,)),
    "pod.securityContext.sysctls.name": override("sysctl:{}", ()),
    "pod.securityContext.sysctls.value": harmless("of a kernel parameter that is asked for"),
    "pod.securityContext.runAsNonRoot": fixed(True),
    "pod.securityContext.fsGroup": fixed(65534),
    "pod.securityContext.fsGroupChangePolicy": fixed("OnRootMismatch"),
    "pod.securityContext.seccompProfile.type": fixed("RuntimeDefault"),
    "pod.imagePullSecrets.name": ("the job's own", own),
    "pod.volumes.name": OWN,
    "pod.volumes.configMap.name": ("the job's own", own),
    "pod.volumes.secret.secretName": ("the job's own", own),
    "pod.volumes.configMap.items.*": harmless("which keys of the job's own object, under which names"),
    "pod.volumes.secret.items.*": harmless("which keys of the job's own object, under which names"),
    "pod.volumes.emptyDir.medium": fixed("Memory"),
    "pod.volumes.emptyDir.sizeLimit": NODE,
    "pod.volumes.persistentVolumeClaim.claimName": ("AccessVolume", claimed),
    "pod.nodeSelector.*": harmless("restricts the job itself"),
    "pod.tolerations": ("TolerateTaint", tolerated),
    "pod.runtimeClassName": gate("UseRuntimeClass"),
    "pod.priorityClassName": gate("UsePriorityClass"),
    "pod.schedulerName": gate("UseScheduler", free=("muster", "volcano")),
    "pod.schedulingGroup.podGroupName": ("the job's own", own),
    "pod.restartPolicy": fixed("Never", "OnFailure"),
    "*.spec.priorityClassName": gate("UsePriorityClass"),
    "*.spec.schedulerName": gate("UseScheduler", free=("muster", "volcano")),
    "*.spec.queue": gate("UseQueue"),
    "CiliumNetworkPolicy.spec.endpointSelector.matchLabels": harmless("the job's own pods"),
    "CiliumNetworkPolicy.spec.egress": ("AccessExternalEndpoint, AccessService", egress),
    "CiliumNetworkPolicy.spec.ingress": ("AdmitCaller", ingress),
    "NetworkPolicy.spec.podSelector.matchLabels": harmless("the job's own pods"),
    "NetworkPolicy.spec.policyTypes": fixed(["Ingress", "Egress"]),
    "NetworkPolicy.spec.egress": ("AccessExternalEndpoint, AccessService", plain_egress),
    "NetworkPolicy.spec.ingress": ("AdmitCaller", plain_ingress),
    "AuthorizationPolicy.spec.action": fixed("ALLOW"),
    "AuthorizationPolicy.spec.selector.matchLabels": harmless("the job's own pods"),
    "AuthorizationPolicy.spec.targetRefs.*": harmless("a ServiceEntry, whose hosts are asked for"),
    "AuthorizationPolicy.spec.rules.from.source.principals": ("AdmitCaller", principals),
    "AuthorizationPolicy.spec.rules.to.operation.ports": harmless(
        "of the job itself, or of what is asked for"
    ),
    "ServiceEntry.spec.hosts": ("AccessExternalEndpoint", host_of_mesh),
    "ServiceEntry.spec.addresses": ("AccessExternalEndpoint", host_of_mesh),
    "ServiceEntry.spec.endpoints.address": (
        "AccessExternalEndpoint",
        lambda value, world, obj: host_of_mesh([value], world, obj),
    ),
    "ServiceEntry.spec.ports.*": harmless("asked for with the host"),
    "ServiceEntry.spec.exportTo": fixed(["."]),
    "ServiceEntry.spec.location": fixed("MESH_EXTERNAL"),
    "ServiceEntry.spec.resolution": fixed("DNS", "NONE", "STATIC"),
    "Service.spec.selector": harmless("the job's own pods"),
    "Service.spec.ports.*": harmless("of the job's own pods"),
    "ServiceAccount.automountServiceAccountToken": override("automountServiceAccountToken", (False,)),
    "ConfigMap.data": OWN,
    "ConfigMap.binaryData": OWN,
    "ExternalSecret.spec.secretStoreRef.name": harmless("asked for with each path"),
    "ExternalSecret.spec.data.remoteRef.key": ("AccessSecret", secret),
    "ExternalSecret.spec.dataFrom.extract.key": ("AccessSecret", secret),
    "ExternalSecret.spec.data.remoteRef.property": harmless("a part of what is asked for"),
    "ExternalSecret.spec.data.secretKey": OWN,
    "ExternalSecret.spec.refreshInterval": harmless("at least 10 s"),
    "ExternalSecret.spec.target.name": harmless("hashed, so that it is no Secret of others"),
    "ExternalSecret.spec.target.template.type": fixed(
        "kubernetes.io/dockerconfigjson", "kubernetes.io/basic-auth"
    ),
    "ExternalSecret.spec.target.template.engineVersion": fixed("v2"),
    "ExternalSecret.spec.target.template.data": harmless("its braces are the compiler's own"),
    "PersistentVolumeClaim.spec.accessModes": harmless("of the job's own volume"),
    "PersistentVolumeClaim.spec.resources.*": NODE,
    "PersistentVolumeClaim.spec.storageClassName": harmless(
        "counted and bounded by the namespace's ResourceQuota"
    ),
    "TracingPolicyNamespaced.spec.podSelector.matchLabels": harmless("the job's own pods"),
    "TracingPolicyNamespaced.spec.kprobes.selectors.matchArgs.values": ("OverrideSecurity", programs),
    "TracingPolicyNamespaced.spec.kprobes.selectors.matchActions.action": (
        "OverrideSecurity",
        lambda value, world, obj: value == "Sigkill" or world.has("OverrideSecurity", "allowedBinary:*"),
    ),
    "TracingPolicyNamespaced.spec.kprobes.call": fixed("security_bprm_check"),
    "TracingPolicyNamespaced.spec.kprobes.syscall": fixed(False),
    "TracingPolicyNamespaced.spec.kprobes.args.index": fixed(0),
    "TracingPolicyNamespaced.spec.kprobes.args.label": fixed("filename"),
    "TracingPolicyNamespaced.spec.kprobes.args.type": fixed("linux_binprm"),
    "TracingPolicyNamespaced.spec.kprobes.selectors.matchArgs.index": fixed(0),
    "TracingPolicyNamespaced.spec.kprobes.selectors.matchArgs.operator": fixed("NotEqual"),
    "PodGroup.spec.minMember": COUNT,
    "PodGroup.spec.schedulingPolicy.gang.minCount": COUNT,
    "JobSet.spec.suspend": fixed(True),
    "JobSet.spec.failurePolicy.maxRestarts": COUNT,
    "JobSet.spec.successPolicy.operator": fixed("All", "Any"),
    "JobSet.spec.successPolicy.targetReplicatedJobs": COUNT,
    "JobSet.spec.replicatedJobs.name": OWN,
    "JobSet.spec.replicatedJobs.replicas": COUNT,
    **{f"JobSet.spec.replicatedJobs.template.spec.{each}": COUNT for each in OF_JOB},
    "JobSet.spec.replicatedJobs.template.spec.podFailurePolicy.rules.action": fixed("Ignore"),
    "JobSet.spec.replicatedJobs.template.spec.podFailurePolicy.rules.onPodConditions.*": COUNT,
    **{f"{at}.{each}": COUNT for at in ("Job.spec", "CronJob.spec.jobTemplate.spec") for each in OF_VOLCANO},
    "Job.spec.plugins.svc": fixed(["--publish-not-ready-addresses"]),
    "Job.spec.plugins.pytorch": harmless("which of the job's own tasks is the master"),
    "CronJob.spec.jobTemplate.metadata": fixed({}),
    **{f"CronJob.spec.{each}": COUNT for each in OF_SCHEDULE},
}
