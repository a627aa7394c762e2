"""The names muster gives to things in a cluster, each in one place.

Labels and annotations under `muster.dev` are described in `docs/reference/names.md`. Keys that belong to
Kubernetes or to JobSet stand beside the structs of their API group.
"""

from typing import Final

DOMAIN: Final = "muster.dev"
#: The namespace of muster's Leases and of its settings unless a setting says otherwise.
NAMESPACE: Final = "muster-system"
#: The Lease of the scheduler unless a setting says otherwise.
SCHEDULER_LEASE: Final = f"{NAMESPACE}/muster-scheduler"

QUEUE: Final = f"{DOMAIN}/queue"
GANG: Final = f"{DOMAIN}/gang"
ADMISSION: Final = f"{DOMAIN}/admission"
HOLD: Final = f"{DOMAIN}/hold"
PRIORITY: Final = f"{DOMAIN}/priority"
EXCLUSIVE: Final = f"{DOMAIN}/exclusive"
CALLER: Final = f"{DOMAIN}/caller"
#: On a job: the file that it was made from, and who submitted it.
SUBMITTED_FROM: Final = f"{DOMAIN}/submitted-from"
RUN_TIME: Final = f"{DOMAIN}/run-time"
CHECKPOINT: Final = f"{DOMAIN}/checkpoint"
#: On a pod of the embedded cluster: the file that its program touches after each checkpoint.
CHECKPOINT_FILE: Final = f"{DOMAIN}/checkpoint-file"
#: How long a victim may take to save its work before it is evicted.
CHECKPOINT_GRACE: Final = f"{DOMAIN}/checkpoint-grace"
#: On the pods of a victim: since when muster waits for its checkpoint.
CHECKPOINT_REQUESTED: Final = f"{DOMAIN}/checkpoint-requested"
#: On a pod: its last step and loss, since when, and the median of the losses before (`muster.api.progress`).
PROGRESS: Final = f"{DOMAIN}/progress"
#: On a pod of the embedded cluster: the file in which its program reports them.
PROGRESS_FILE: Final = f"{DOMAIN}/progress-file"
#: On a Job or JobSet: when a report counts as wrong, and what muster does then.
PROGRESS_RULES: Final = f"{DOMAIN}/progress-rules"
#: On a Job or JobSet: how often muster has moved it because of its reports.
PROGRESS_MOVES: Final = f"{DOMAIN}/progress-moves"
#: On a JobSet: the framework whose environment its pods get: PyTorch, DeepSpeed or Jax.
TRAINING: Final = f"{DOMAIN}/training"
#: On a JobSet with it: the groups (replicatedJobs) whose pods train, comma-separated; without it, all do.
TRAINERS: Final = f"{DOMAIN}/trainers"
#: On a Job or JobSet: when muster has moved it to other nodes last, and why.
MOVED: Final = f"{DOMAIN}/moved"
#: What to do with a job on a node with unhealthy GPUs: notify, checkpointAndMove or none.
ON_GPU_ANOMALY: Final = f"{DOMAIN}/on-gpu-anomaly"
RESTART_COST: Final = f"{DOMAIN}/restart-cost"
MIN_RUN_TIME: Final = f"{DOMAIN}/min-run-time"
PREEMPTIBLE: Final = f"{DOMAIN}/preemptible"
ON_PARTIAL: Final = f"{DOMAIN}/on-partial"
#: On a PodGroup: whether the rest of its pods restart once fewer than its minimum are left: restart or leave.
BELOW_MINIMUM: Final = f"{DOMAIN}/below-minimum"
#: On a pod: thousandths of one GPU. In the core also the resource that is asked for by it.
GPU_SHARE: Final = f"{DOMAIN}/gpu-share"
#: On a pod that shares a GPU, from its Binding: which of the node's shared devices it is on.
GPU_DEVICE: Final = f"{DOMAIN}/gpu-device"
DEADLINE: Final = f"{DOMAIN}/deadline"
RESTART_BUDGET: Final = f"{DOMAIN}/restart-budget"
#: JobSet: whether a Job of it that fails ends the others: stop or continue.
ON_JOB_FAILURE: Final = f"{DOMAIN}/on-job-failure"
#: JobSet of a sweep: its variables with their lists of values, as JSON (`muster.api.matrix`).
MATRIX: Final = f"{DOMAIN}/matrix"
#: Job or JobSet: of which job it is a retry, as JSON (`muster.workloads.retry`).
RETRY_OF: Final = f"{DOMAIN}/retry-of"
#: JobSet: failures of its Jobs by their uid, as counted against the restart budget.
FAILURES: Final = f"{DOMAIN}/failures"
#: JobSet: since when the deadline's clock runs, and the seconds it has run before that.
RUNNING_SINCE: Final = f"{DOMAIN}/running-since"
TIME_USED: Final = f"{DOMAIN}/time-used"
PRETEND: Final = f"{DOMAIN}/pretend"
#: On a Node of muster's: how it runs pods, "process" or "none".
RUNTIME: Final = f"{DOMAIN}/runtime"
#: JobSet: the directory that its pods share on the embedded cluster; deleted with the JobSet.
SHARED_VOLUME: Final = f"{DOMAIN}/shared-volume"
#: JobSet of a BatchJob: hash of what it was compiled to, once all of that exists.
COMPILED: Final = f"{DOMAIN}/compiled"
#: JobSet of a BatchJob: the job that it was compiled from (`muster.controllers.batch_grant`).
GRANTED: Final = f"{DOMAIN}/granted"
#: On the pods of a BatchJob: its name, by which they may reach each other.
PEERS: Final = f"{DOMAIN}/peers"
#: On a pod: a hash of the ConfigMaps and Secrets that configure it.
CONFIG_HASH: Final = f"{DOMAIN}/config-hash"
#: On a Namespace: the time (RFC 3339) until which denials of its BatchJobs are only reported.
AUDIT_UNTIL: Final = f"{DOMAIN}/audit-until"
#: On a Namespace: the store of secret resources that name none.
SECRET_STORE: Final = f"{DOMAIN}/secret-store"
#: On a Service: the workloads that may connect to it, as `namespace/name`, `namespace/*` or `*`,
#: comma-separated.
ALLOWED_CALLERS: Final = f"{DOMAIN}/allowed-callers"
#: On a PersistentVolumeClaim: the workloads that may mount it, written as in `ALLOWED_CALLERS`.
ALLOWED_CONSUMERS: Final = f"{DOMAIN}/allowed-consumers"
PLAN: Final = f"{DOMAIN}/plan"
#: Epoch of the last leader that took the object over; writing it makes an earlier leader's late writes fail.
EPOCH: Final = f"{DOMAIN}/epoch"
#: On a released Lease: `EPOCH/RESOURCEVERSION`, up to which its holder had seen pods.
PODS_SEEN: Final = f"{DOMAIN}/pods-seen"
#: On a Lease: the kinds that its holder cannot read, and the candidate that can and asks for the Lease.
CANNOT_READ: Final = f"{DOMAIN}/cannot-read"
#: On the Lease of the scheduler: when it avoids nodes on which pods fail (`muster.translate.bad_nodes`).
BAD_NODES: Final = f"{DOMAIN}/bad-nodes"
#: On the Lease of the scheduler: which queues of other schedulers it adopts (`muster.translate.adopted`).
ADOPTS: Final = f"{DOMAIN}/adopts"
#: On the Lease of the scheduler: the schedulerNames whose pods wait for a PodGroup, separated by commas.
AWAITS: Final = f"{DOMAIN}/awaits-pod-groups"
#: On the admission policies of a release: the Lease of its scheduler.
LEASE: Final = f"{DOMAIN}/lease"
#: On them, and on the Lease of the scheduler: the schedulerNames that it serves, separated by commas.
SCHEDULES: Final = f"{DOMAIN}/schedules"
SUCCESSOR: Final = f"{DOMAIN}/successor"

#: Pod condition that marks what muster ended by its own decision; never counted as a failure.
PREEMPTED: Final = f"{DOMAIN}/Preempted"
#: Reasons of the condition DisruptionTarget, Kubernetes' own: preempted, and lost with its node.
PREEMPTION: Final = "PreemptionByScheduler"
NODE_GONE: Final = "DeletionByPodGC"
#: Finalizer of Gang records, from their creation.
GANG_FINALIZER: Final = f"{DOMAIN}/gang"

#: Value of `spec.schedulerName` that makes a pod ours on a real cluster.
SCHEDULER: Final = "muster"

GPU: Final = "nvidia.com/gpu"
GPU_PRODUCT: Final = "nvidia.com/gpu.product"


def is_gpu(resource: str) -> bool:
    """Whether a resource is whole GPUs, of whatever vendor.

    Devices of a DeviceClass are, if the class is `gpu` or begins with `gpu.`: as drivers name them, such as
    `gpu.nvidia.com`. Parts of GPUs are of other classes (`mig.nvidia.com`).
    """
    return resource.endswith("/gpu") or resource.startswith("deviceclass/gpu.")
