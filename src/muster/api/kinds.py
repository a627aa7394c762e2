"""Every kind that muster reads or writes, and tables that find a kind by name."""

from typing import Any, Final

from muster.api.base import Kind, Resource
from muster.api.batch_v1 import CronJob, Job
from muster.api.core_v1 import (
    ConfigMap,
    Event,
    LimitRange,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    Secret,
    Service,
    ServiceAccount,
)
from muster.api.elastic_quota import ElasticQuota
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology
from muster.api.kube_batch import PodGroup as KubeBatchPodGroup
from muster.api.muster_v1alpha1 import (
    BatchJob,
    CedarPolicy,
    Gang,
    GangPlan,
    LatticeJob,
    Preemption,
    Queue,
    TrustPolicy,
)
from muster.api.node_v1 import RuntimeClass
from muster.api.resource_v1 import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    with_shared_values,
)
from muster.api.scheduling import Lease, PodDisruptionBudget, PodGroup, PriorityClass
from muster.api.scheduling_v1beta1 import PodGroup as KubernetesPodGroup
from muster.api.scheduling_v1beta1 import Workload
from muster.api.storage_v1 import StorageClass
from muster.api.volcano_v1alpha1 import VolcanoJob
from muster.api.volcano_v1beta1 import PodGroup as VolcanoPodGroup
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue
from muster.names import DOMAIN

NAMESPACE: Final = Kind("", "v1", "Namespace", "namespaces", False, Namespace)
NODE: Final = Kind("", "v1", "Node", "nodes", False, Node)
POD: Final = Kind("", "v1", "Pod", "pods", True, Pod)
SERVICE: Final = Kind("", "v1", "Service", "services", True, Service)
CONFIG_MAP: Final = Kind("", "v1", "ConfigMap", "configmaps", True, ConfigMap, status=False)
SECRET: Final = Kind("", "v1", "Secret", "secrets", True, Secret, status=False)
SERVICE_ACCOUNT: Final = Kind(
    "", "v1", "ServiceAccount", "serviceaccounts", True, ServiceAccount, status=False
)
EVENT: Final = Kind("", "v1", "Event", "events", True, Event, status=False)
RESOURCE_QUOTA: Final = Kind("", "v1", "ResourceQuota", "resourcequotas", True, ResourceQuota)
LIMIT_RANGE: Final = Kind("", "v1", "LimitRange", "limitranges", True, LimitRange, status=False)
PERSISTENT_VOLUME_CLAIM: Final = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, PersistentVolumeClaim
)
PERSISTENT_VOLUME: Final = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, PersistentVolume)
STORAGE_CLASS: Final = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", False, StorageClass, status=False
)
RUNTIME_CLASS: Final = Kind(
    "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False, RuntimeClass, status=False
)
_DEVICES: Final = "resource.k8s.io"
DEVICE_CLASS: Final = Kind(_DEVICES, "v1", "DeviceClass", "deviceclasses", False, DeviceClass, status=False)
RESOURCE_SLICE: Final = Kind(
    _DEVICES,
    "v1",
    "ResourceSlice",
    "resourceslices",
    False,
    ResourceSlice,
    status=False,
    kept=with_shared_values,
)
RESOURCE_CLAIM: Final = Kind(_DEVICES, "v1", "ResourceClaim", "resourceclaims", True, ResourceClaim)
RESOURCE_CLAIM_TEMPLATE: Final = Kind(
    *(_DEVICES, "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True, ResourceClaimTemplate),
    status=False,
)
JOB: Final = Kind("batch", "v1", "Job", "jobs", True, Job)
CRON_JOB: Final = Kind("batch", "v1", "CronJob", "cronjobs", True, CronJob)
PRIORITY_CLASS: Final = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, PriorityClass, status=False
)
PDB: Final = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, PodDisruptionBudget)
LEASE: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, Lease, status=False)
JOBSET: Final = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", True, JobSet)
POD_GROUP_X: Final = Kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", True, PodGroup)
POD_GROUP_SIGS: Final = Kind("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup", "podgroups", True, PodGroup)
#: The PodGroups of one schema.
POD_GROUPS: Final = (POD_GROUP_X, POD_GROUP_SIGS)
POD_GROUP_VOLCANO: Final = Kind(
    "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", True, VolcanoPodGroup, status=False
)
QUEUE_VOLCANO: Final = Kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", False, VolcanoQueue)
#: kube-batch's, of which the older has no status subresource.
POD_GROUP_INCUBATOR: Final = Kind(
    *("scheduling.incubator.k8s.io", "v1alpha1", "PodGroup", "podgroups", True, KubeBatchPodGroup),
    status=False,
)
POD_GROUP_SIGS_DEV: Final = Kind(
    "scheduling.sigs.dev", "v1alpha2", "PodGroup", "podgroups", True, KubeBatchPodGroup
)
#: Koordinator's.
ELASTIC_QUOTA: Final = Kind(
    *("scheduling.sigs.k8s.io", "v1alpha1", "ElasticQuota", "elasticquotas", True, ElasticQuota), status=False
)
#: Kubernetes' own.
POD_GROUP_K8S: Final = Kind(
    *("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", True, KubernetesPodGroup), others=("v1alpha3",)
)
WORKLOAD: Final = Kind(
    *("scheduling.k8s.io", "v1beta1", "Workload", "workloads", True, Workload),
    status=False,
    others=("v1alpha3",),
)
CLUSTER_NETWORK_TOPOLOGY: Final = Kind(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "ClusterNetworkTopology",
    "clusternetworktopologies",
    False,
    ClusterNetworkTopology,
)
QUEUE: Final = Kind(DOMAIN, "v1alpha1", "Queue", "queues", False, Queue)
#: Muster's queues, and the kinds of other schedulers' that it adopts.
QUEUES: Final[tuple[Kind[Any], ...]] = (QUEUE, QUEUE_VOLCANO, ELASTIC_QUOTA)
GANG: Final = Kind(DOMAIN, "v1alpha1", "Gang", "gangs", True, Gang, status=False)
GANG_PLAN: Final = Kind(DOMAIN, "v1alpha1", "GangPlan", "gangplans", True, GangPlan, status=False)
PREEMPTION: Final = Kind(DOMAIN, "v1alpha1", "Preemption", "preemptions", True, Preemption, status=False)
BATCH_JOB: Final = Kind(DOMAIN, "v1alpha1", "BatchJob", "batchjobs", True, BatchJob)
#: The import format of BatchJobs. Its group belongs to another project, so real clusters need not have it.
LATTICE_JOB: Final = Kind("lattice.dev", "v1alpha1", "LatticeJob", "latticejobs", True, LatticeJob)
CEDAR_POLICY: Final = Kind(DOMAIN, "v1alpha1", "CedarPolicy", "cedarpolicies", False, CedarPolicy)
TRUST_POLICY: Final = Kind(DOMAIN, "v1alpha1", "TrustPolicy", "trustpolicies", False, TrustPolicy)
#: Volcano's; muster runs BatchJobs on it.
VOLCANO_JOB: Final = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", True, VolcanoJob)

#: Any, because a table of kinds holds kinds of many types.
ALL: Final[tuple[Kind[Any], ...]] = (
    NAMESPACE,
    NODE,
    POD,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    EVENT,
    RESOURCE_QUOTA,
    LIMIT_RANGE,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
    RUNTIME_CLASS,
    JOB,
    CRON_JOB,
    PRIORITY_CLASS,
    PDB,
    LEASE,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    JOBSET,
    *POD_GROUPS,
    POD_GROUP_VOLCANO,
    QUEUE_VOLCANO,
    POD_GROUP_INCUBATOR,
    POD_GROUP_SIGS_DEV,
    ELASTIC_QUOTA,
    POD_GROUP_K8S,
    WORKLOAD,
    CLUSTER_NETWORK_TOPOLOGY,
    QUEUE,
    GANG,
    GANG_PLAN,
    PREEMPTION,
    BATCH_JOB,
    LATTICE_JOB,
    CEDAR_POLICY,
    TRUST_POLICY,
)
#: The kinds of muster's own group.
OWN: Final[tuple[Kind[Any], ...]] = tuple(kind for kind in ALL if kind.group == DOMAIN)
#: The kinds that muster has definitions of.
DEFINED: Final[tuple[Kind[Any], ...]] = (*OWN, LATTICE_JOB)

_ADMISSION: Final = "admissionregistration.k8s.io"
#: Kinds that decide what the API server refuses. A change of one may admit what was refused before.
ADMITTING: Final[tuple[Kind[Any], ...]] = (
    Kind(_ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, Resource),
    Kind(
        *(_ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
        *(False, Resource),
    ),
    Kind(
        _ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False, Resource
    ),
    Kind(_ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, Resource),
)

#: Kinds of other schedulers. A pod that names an object of one waits for it, so muster may do without them:
#: until it has read such a kind, it takes one that it may not list for one that the cluster does not have.
FOREIGN: Final[tuple[Kind[Any], ...]] = (
    *POD_GROUPS,
    POD_GROUP_VOLCANO,
    QUEUE_VOLCANO,
    POD_GROUP_INCUBATOR,
    POD_GROUP_SIGS_DEV,
    ELASTIC_QUOTA,
    POD_GROUP_K8S,
    WORKLOAD,
    CLUSTER_NETWORK_TOPOLOGY,
    VOLCANO_JOB,
)
#: Kinds that a cluster may not know, until their definitions are installed, and no part of muster waits for.
OPTIONAL: Final[tuple[Kind[Any], ...]] = (
    JOBSET,
    *FOREIGN,
    LIMIT_RANGE,
    RUNTIME_CLASS,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    PREEMPTION,
    BATCH_JOB,
    LATTICE_JOB,
    CEDAR_POLICY,
    TRUST_POLICY,
    *ADMITTING,
)
#: Those of them that muster need not be allowed to list; it then assumes that no objects exist.
HIDDEN: Final[tuple[Kind[Any], ...]] = (
    *(LIMIT_RANGE, RUNTIME_CLASS),
    *(DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE),
    *ADMITTING,
)

#: Kinds of other projects that BatchJobs are compiled to. Muster only creates them.
EMITTED: Final[tuple[Kind[Any], ...]] = (
    VOLCANO_JOB,
    POD_GROUP_K8S,
    Kind("external-secrets.io", "v1", "ExternalSecret", "externalsecrets", True, Resource),
    Kind("cilium.io", "v2", "CiliumNetworkPolicy", "ciliumnetworkpolicies", True, Resource),
    Kind("cilium.io", "v1alpha1", "TracingPolicyNamespaced", "tracingpoliciesnamespaced", True, Resource),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, Resource, status=False),
    Kind("networking.istio.io", "v1", "ServiceEntry", "serviceentries", True, Resource),
    Kind("security.istio.io", "v1", "AuthorizationPolicy", "authorizationpolicies", True, Resource),
)

#: Kinds by (apiVersion, kind), the fields in which an object states its kind.
BY_NAME: Final[dict[tuple[str, str], Kind[Any]]] = {(k.api_version, k.kind): k for k in ALL}
#: Kinds by (group, version, plural), the parts of a URL.
BY_PLURAL: Final[dict[tuple[str, str, str], Kind[Any]]] = {(k.group, k.version, k.plural): k for k in ALL}
