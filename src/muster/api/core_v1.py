"""The core group: pods, nodes, and the objects that pods refer to."""

from typing import Final

import msgspec

from muster.api.base import (
    Condition,
    Int32,
    Int64,
    LabelSelector,
    LabelSelectorRequirement,
    Object,
    ObjectMeta,
    Resource,
    Struct,
    Time,
    controller_of,
)

#: A resource list as written: quantities may be strings or numbers.
Quantities = dict[str, str | int | float]


class ResourceRequirements(Struct, frozen=True):
    requests: Quantities = {}
    limits: Quantities = {}
    claims: list[Object] = []


class ContainerPort(Struct, frozen=True):
    name: str = ""
    container_port: Int32 = 0
    host_port: Int32 = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class Container(Struct, frozen=True):
    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    working_dir: str = ""
    env: list[Object] = []
    env_from: list[Object] = []
    ports: list[ContainerPort] = []
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: list[Object] = []
    startup_probe: Object | None = None
    liveness_probe: Object | None = None
    readiness_probe: Object | None = None
    lifecycle: Object | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    #: "Always" on an init container makes it a sidecar
    restart_policy: str = ""
    #: what to do if it exits with certain codes (KEP-5307)
    restart_policy_rules: list[Object] = []


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: list[LabelSelectorRequirement] = []
    match_fields: list[LabelSelectorRequirement] = []


class NodeSelector(Struct, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: Int32 = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default=None
    )
    preferred: list[PreferredSchedulingTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default_factory=list
    )


class PodAffinityTerm(Struct, frozen=True):
    #: None selects no pod, an empty selector every pod
    label_selector: LabelSelector | None = None
    topology_key: str = ""
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: Int32 = 1
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """Pod affinity, and anti-affinity too."""

    required: list[PodAffinityTerm] = msgspec.field(
        name="requiredDuringSchedulingIgnoredDuringExecution", default_factory=list
    )
    preferred: list[WeightedPodAffinityTerm] = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default_factory=list
    )


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    topology_key: str = ""
    max_skew: Int32 = 1
    min_domains: Int32 | None = None
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] = []
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class SchedulingGate(Struct, frozen=True):
    name: str


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    runtime_class_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_aliases: list[Object] = []
    set_hostname_as_fqdn: bool = msgspec.field(name="setHostnameAsFQDN", default=False)
    restart_policy: str = "Always"
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    service_account_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    volumes: list[Object] = []
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    topology_spread_constraints: list[TopologySpreadConstraint] = []
    resource_claims: list[Object] = []
    overhead: Quantities = {}
    #: pod-level resources (KEP-2837)
    resources: ResourceRequirements = ResourceRequirements()
    scheduling_gates: list[SchedulingGate] = []
    #: the pod's group in scheduling.k8s.io (KEP-4671)
    scheduling_group: Object | None = None
    host_network: bool = False
    #: False: in a user namespace of its own
    host_users: bool | None = None


class PodTemplate(Struct, frozen=True):
    """A pod template, for reading only; pods are created from the JSON that it was read from."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Terminated(Struct, frozen=True):
    exit_code: Int32 = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class Running(Struct, frozen=True):
    started_at: Time | None = None


class Waiting(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerState(Struct, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True):
    name: str
    ready: bool = False
    started: bool | None = None
    restart_count: Int32 = 0
    image: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    #: during an in-place resize (KEP-1287): what the node has allocated, and what the container has
    allocated_resources: Quantities = {}
    resources: ResourceRequirements | None = None


class PodStatus(Struct, frozen=True):
    phase: str = ""  # Pending, Running, Succeeded, Failed, Unknown
    reason: str = ""
    message: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: Time | None = None
    #: the node on which a place is held for the pod until other pods have left
    nominated_node_name: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    #: of the whole pod, if its spec has pod-level resources
    allocated_resources: Quantities = {}
    resources: ResourceRequirements | None = None
    #: the names of claims that were made from templates
    resource_claim_statuses: list[Object] = []
    #: the claim that was made for resources that the node has as devices
    extended_resource_claim_status: Object | None = None


#: An annotation of the API server's image of a static pod, which only its kubelet can end.
_MIRROR: Final = "kubernetes.io/config.mirror"


class Pod(Resource, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def terminal(self) -> bool:
        """Whether all containers have ended and none will restart: the phase is Succeeded or Failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def of_its_node(self) -> bool:
        """Whether it belongs to one node, where it would be re-created: a DaemonSet's, or a mirror pod."""
        controller = controller_of(self)
        kind = controller.kind if controller is not None else ""
        return kind in ("DaemonSet", "Node") or _MIRROR in self.metadata.annotations


class Taint(Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"
    time_added: Time | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Struct, frozen=True):
    capacity: Quantities = {}
    allocatable: Quantities = {}
    #: features that its kubelet has, of those that not every kubelet has (KEP-5328)
    declared_features: list[str] = []
    conditions: list[Condition] = []


class Node(Resource, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Struct, frozen=True):
    phase: str = ""


class Namespace(Resource, frozen=True):
    status: NamespaceStatus = NamespaceStatus()


class ServicePort(Struct, frozen=True):
    port: Int32 = 0
    target_port: int | str | None = None


class ServiceSpec(Struct, frozen=True):
    ports: list[ServicePort] = []
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    selector: dict[str, str] = {}
    publish_not_ready_addresses: bool = False


class Service(Resource, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ConfigMap(Resource, frozen=True):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Secret(Resource, frozen=True):
    """`data` is base64; the server folds `stringData` into it."""

    type: str = "Opaque"
    data: dict[str, str] = {}


class ServiceAccount(Resource, frozen=True):
    pass


class PersistentVolumeClaimSpec(Struct, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    phase: str = ""  # Pending, Bound, Lost


class PersistentVolumeClaim(Resource, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Resource, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class ScopeSelectorRequirement(Struct, frozen=True):
    scope_name: str
    operator: str = "Exists"
    values: list[str] = []


class ScopeSelector(Struct, frozen=True):
    match_expressions: list[ScopeSelectorRequirement] = []


class ResourceQuotaSpec(Struct, frozen=True):
    hard: Quantities = {}
    scopes: list[str] = []
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    hard: Quantities = {}
    used: Quantities = {}


class ResourceQuota(Resource, frozen=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Struct, frozen=True):
    type: str = ""  # Container, Pod, PersistentVolumeClaim
    max: Quantities = {}
    min: Quantities = {}
    default: Quantities = {}
    default_request: Quantities = {}


class LimitRangeSpec(Struct, frozen=True):
    limits: list[LimitRangeItem] = []


class LimitRange(Resource, frozen=True):
    spec: LimitRangeSpec = LimitRangeSpec()


class ObjectReference(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(Resource, frozen=True):
    involved_object: ObjectReference = ObjectReference()
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    action: str = ""
    reporting_component: str = ""
    count: Int32 = 1
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
