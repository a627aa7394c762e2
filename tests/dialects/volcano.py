"""Volcano's PodGroups, labels and annotations.

Source: volcano-sh/apis, scheduling/v1beta1/{types,labels}.go and batch/v1alpha1/labels.go.
"""

from typing import Final

from tests.dialects.table import Answer, Row, Table
from tests.dialects.volcano_scenarios import SCENARIOS

OBEYED, SUBSUMED, REFUSED = Answer
_GANG: Final = "translate/test_volcano.py::test_pods_that_name_it_by_annotation_are_one_gang"
_MINIMA: Final = "translate/test_volcano.py::test_minima"
_REFUSED: Final = "translate/test_volcano.py::test_what_cannot_be_honoured_is_refused_by_name"
_SPARED: Final = "translate/test_volcano.py::test_preemptable_false_is_obeyed"
_PHASES: Final = "controllers/podgroup/test_volcano.py::test_phases"
_FOREIGN: Final = "api/test_foreign_marks.py::test_a_mark_is_found_at_its_place"
_QUEUE_TESTS: Final = "translate/test_adopted.py"
_ADOPTED: Final = "core/world/queues/test_adopted.py"
_QUEUES: Final = f"{_QUEUE_TESTS}::test_a_queue_of_volcano_is_read_as_one_of_muster"
_UNREAD: Final = f"{_QUEUE_TESTS}::test_a_field_that_is_not_read_makes_it_unusable_and_is_named"
_WARNED: Final = "the Gang and `check` warn, and say what to write instead"

_JOBS: Final = "workloads/volcano"
_READ: Final = f"{_JOBS}/test_job.py::test_what_cannot_run_is_refused_by_its_field"
_TOLD: Final = f"{_JOBS}/test_job.py::test_what_is_not_obeyed_is_a_warning"
_POLICIES: Final = f"{_JOBS}/test_policies.py"
_PLUGINS: Final = f"{_JOBS}/test_plugins.py"

TABLE: Final = Table(
    "Volcano",
    """
Pods belong to a PodGroup of `scheduling.volcano.sh/v1beta1` by annotation. Volcano's own controllers
(`vc-controller-manager`) may run beside muster: they make PodGroups and pods of Volcano's Jobs, with the
`schedulerName` that the Job names, and muster does what Volcano's scheduler would do. It needs no webhooks;
without them a Job states `schedulerName`, `minAvailable` and `queue`.

They also make a PodGroup for each plain pod whose schedulerName is theirs, by default volcano, and annotate
the pod with it after its creation. Where they run, the setting
[`awaitPodGroups: [volcano]`](../daemons.md#settings) of the scheduler keeps such a pod from starting before
that, and `plan` says so; without the setting it starts at once, as a gang of one. It is no default, because
the pod would wait for ever where the controllers do not run.

Volcano's scheduler may run in the same cluster for Jobs and pods that name it. Muster admits (`Inqueue`) the
groups of Jobs whose `schedulerName` it serves, and leaves the status of the others alone. It reads all
Queues, unless the setting `adoptQueues` leaves them out: what Volcano's scheduler runs in one does not count
there.

What Volcano's scheduler (1.14.1) writes into the status of PodGroups and the conditions of pods was recorded
in 15 scenarios, and is compared with what muster writes, field by field. Muster differs in these: a condition
that no longer holds is False, where Volcano leaves it True and the later one counts; `Unschedulable` has
the cause as its reason (`NotEnoughTasks`, `QueueClosed`), where Volcano writes `NotEnoughResources`; pods
that more nodes would not help are not `Unschedulable`, so that no autoscaler adds nodes for them;
a group with an unknown queue is told so; a group is `Inqueue` also when its `minResources` exceed its queue.

A job file may have Volcano's Jobs (`batch.volcano.sh/v1alpha1`). On a cluster that serves this kind, `muster
run` and `submit` hand the Job in as it is: its controllers make the pods, and its users find the status that
they know. Elsewhere, as on the embedded cluster, muster compiles the Job to a JobSet, as a table below says.
`muster plan` and `check` always read the JobSet, whose pods ask for the same. `muster list`, `get`, `why`,
`logs`, `cancel`, `hold`, `set` and `requeue` know a Job with its PodGroup and pods as one job; `vcjob/NAME`
tells it from a Job of Kubernetes of the same name.
""",
    (
        (
            "PodGroup",
            (
                Row(
                    "spec.minMember",
                    OBEYED,
                    "0: the sum of `minTaskMember`, as Volcano's webhook writes it",
                    _MINIMA,
                ),
                Row(
                    "spec.minTaskMember",
                    OBEYED,
                    "by the annotation `volcano.sh/task-spec`; only if `minMember` is at least their sum; "
                    "Invalid in a GangGroup",
                    _MINIMA,
                ),
                Row("spec.queue", OBEYED, "the label `muster.dev/queue` on it counts more", _GANG),
                Row(
                    "spec.priorityClassName",
                    OBEYED,
                    "as `muster.dev/priority`, which counts more; bounded by what the namespace or its pods "
                    "may have",
                    "translate/test_volcano.py::test_its_priority_class_counts_like_a_mark",
                ),
                Row(
                    "spec.minResources",
                    SUBSUMED,
                    "the pods say what they need, and all of them are placed at once",
                    "translate/test_volcano.py::test_minimal_resources_change_nothing",
                ),
                Row(
                    "spec.networkTopology, mode hard",
                    REFUSED,
                    "`spec.networkTopology needs HyperNodes, which are not read`",
                    _REFUSED,
                ),
                Row(
                    "spec.networkTopology, mode soft",
                    REFUSED,
                    "the Gang has a warning",
                    "translate/test_volcano.py::test_a_soft_topology_is_a_warning",
                ),
                Row("spec.subGroupPolicy", REFUSED, "`spec.subGroupPolicy is not supported`", _REFUSED),
                Row(
                    "status.phase",
                    OBEYED,
                    "Pending, Inqueue, Running, Unknown, Completed. A group that is neither refused nor held "
                    "is Inqueue at once: its pods are created, and start together or wait",
                    _PHASES,
                ),
                Row("status.running, succeeded, failed", OBEYED, "", _PHASES),
                Row(
                    "status.conditions",
                    OBEYED,
                    "Unschedulable and Scheduled with Volcano's reasons; the one that has passed is False. "
                    "No `transitionID`",
                    "controllers/podgroup/test_volcano.py::test_conditions_say_why_it_waits",
                ),
            ),
        ),
        (
            "Queue",
            (
                *(
                    Row(f"spec.{field}", OBEYED, "as in a Queue of muster", _QUEUES)
                    for field in ("weight", "capability", "deserved", "guarantee", "reclaimable", "parent")
                ),
                Row(
                    "metadata.name",
                    OBEYED,
                    "of two Queues of one name muster's own counts, and says so in its condition Ready",
                    "translate/test_queues.py::test_a_queue_that_covers_an_adopted_one_says_so",
                ),
                Row(
                    "a Queue that is invalid",
                    REFUSED,
                    "it alone: it bars no other queue. So is one that would make a queue of muster invalid, "
                    "or whose parent is a queue of muster (or default) without queues of muster below it",
                    f"{_ADOPTED}::test_adopted_queues_bar_nothing_that_was_not_barred",
                ),
                Row(
                    "the Queue default",
                    OBEYED,
                    "if it is valid, its weight, capability, deserved and guarantee are those of muster's "
                    "queue default; else default has no limits, and `muster queues` says why",
                    f"{_ADOPTED}::test_an_adopted_default_sets_the_rules_of_default_if_it_is_valid",
                ),
                *(
                    Row(
                        f"spec.{field}",
                        REFUSED,
                        "the queue cannot be used, and `muster queues` says why",
                        _UNREAD,
                    )
                    for field in ("affinity", "extendClusters", "priority")
                ),
                Row(
                    "status.state",
                    OBEYED,
                    "Closed and Closing admit nothing",
                    f"{_QUEUE_TESTS}::test_its_state_closes_it",
                ),
                Row(
                    "the Queues default and root",
                    OBEYED,
                    "created once there is a Job or a PodGroup of Volcano",
                    "controllers/test_volcano_queues.py::test_they_come_with_the_first_object_of_volcano",
                ),
            ),
        ),
        (
            "Job, compiled to a JobSet",
            (
                Row(
                    "spec.tasks: name, replicas, template",
                    OBEYED,
                    "a replicated job with a Job of so many pods; at most 256 tasks. Hosts are called "
                    "`JOB-TASK-0-INDEX`, and a command that names a host as Volcano calls it is warned of",
                    f"{_JOBS}/test_jobset.py::test_each_task_is_a_replicated_job_with_a_pod_per_replica",
                ),
                Row(
                    "spec.minAvailable",
                    OBEYED,
                    "all pods: the JobSet is a gang. Fewer: a PodGroup of scheduler-plugins; a JobSet still "
                    "succeeds only if all of its pods do, which a note says",
                    f"{_JOBS}/test_jobset.py::test_a_job_that_needs_fewer_has_a_podgroup_with_that_minimum",
                ),
                Row(
                    "spec.tasks[].minAvailable",
                    OBEYED,
                    "a PodGroup of Volcano, if they are not more than `minAvailable` together",
                    f"{_JOBS}/test_jobset.py::test_minima_of_tasks_are_those_of_a_podgroup_of_volcano",
                ),
                Row(
                    "spec.schedulerName",
                    OBEYED,
                    "volcano, or none, becomes muster; another name stays",
                    f"{_JOBS}/test_jobset.py::test_pods_of_volcanos_scheduler_are_musters",
                ),
                Row(
                    "spec.queue, priorityClassName",
                    OBEYED,
                    "",
                    f"{_JOBS}/test_jobset.py::test_the_queue_and_the_priority_are_obeyed",
                ),
                Row(
                    "spec.ttlSecondsAfterFinished",
                    OBEYED,
                    "",
                    f"{_JOBS}/test_jobset.py::test_each_task_is_a_replicated_job_with_a_pod_per_replica",
                ),
                Row(
                    "spec.volumes: mountPath, volumeClaimName",
                    OBEYED,
                    "`volumeClaim` is refused: muster creates no PVC",
                    f"{_JOBS}/test_jobset.py::test_volumes_are_mounted_everywhere",
                ),
                Row(
                    "spec.tasks[].dependsOn",
                    OBEYED,
                    "the tasks are Ready first; each is a gang, unless the first tasks meet `minAvailable`. "
                    "`iteration: any` of several tasks is refused",
                    f"{_JOBS}/test_jobset.py::test_tasks_that_depend_on_others_come_after_them",
                ),
                Row(
                    "spec.maxRetry",
                    OBEYED,
                    "the Job starts so often at most: a JobSet's maxRestarts is one less; 3 if it is missing",
                    f"{_POLICIES}::test_a_failure_restarts_the_job_until_it_has_failed_so_often",
                ),
                Row(
                    "spec.tasks[].maxRetry",
                    OBEYED,
                    "for RestartPod, and for TaskFailed with restartPolicy OnFailure",
                    f"{_POLICIES}::test_containers_that_restart_in_place_do_so_without_limit",
                ),
                Row(
                    "policies: PodFailed, TaskFailed, `*` → RestartJob",
                    OBEYED,
                    "",
                    f"{_POLICIES}::test_a_failure_restarts_the_job_until_it_has_failed_so_often",
                ),
                Row(
                    "policies: PodEvicted → RestartJob",
                    OBEYED,
                    "an eviction is the condition DisruptionTarget, or exit code 143; a gang that muster "
                    "preempts waits again as a whole, and is not counted. Needs restartPolicy Never",
                    f"{_POLICIES}::test_an_eviction_restarts_the_job_and_a_failure_fails_it",
                ),
                Row(
                    "policies: … → AbortJob, TerminateJob",
                    OBEYED,
                    "the JobSet fails; it cannot be resumed",
                    f"{_POLICIES}::test_a_failure_ends_the_job",
                ),
                Row(
                    "policies: … → RestartTask, RestartPod",
                    OBEYED,
                    "the task's Job alone, or its pod, at most maxRetry times",
                    f"{_POLICIES}::test_a_task_may_be_restarted_alone",
                ),
                Row(
                    "policies: TaskCompleted → CompleteJob",
                    OBEYED,
                    "the JobSet's success policy",
                    f"{_POLICIES}::test_the_end_of_a_task_completes_the_job",
                ),
                Row(
                    "policies: Unknown",
                    SUBSUMED,
                    "a gang never starts in part",
                    f"{_POLICIES}::test_the_event_of_a_gang_in_part_never_occurs",
                ),
                Row(
                    "policies: PodPending, PodRunning, exitCode, timeout, other actions",
                    REFUSED,
                    "an error at the field",
                    f"{_POLICIES}::test_what_a_jobset_cannot_do_is_refused_by_its_field",
                ),
                Row(
                    "no policy",
                    OBEYED,
                    "a pod that is evicted is created again; one that fails fails the JobSet at once, where "
                    "Volcano's Job fails once the others have ended",
                    f"{_POLICIES}::test_without_policies_a_failure_fails_the_job_and_an_evicted_pod_is_made_again",
                ),
                Row(
                    "spec.minSuccess",
                    OBEYED,
                    "of one task with restartPolicy Never; else an error",
                    f"{_POLICIES}::test_some_successes_may_be_enough",
                ),
                Row(
                    "plugins.env",
                    OBEYED,
                    "`VC_TASK_INDEX`, `VK_TASK_INDEX`",
                    f"{_PLUGINS}::test_env_tells_a_pod_its_index",
                ),
                Row(
                    "plugins.svc",
                    OBEYED,
                    "`VC_TASK_HOSTS`, `VC_TASK_NUM`, the files `/etc/volcano/TASK.host`, host names. No "
                    "NetworkPolicy is made. At most 64 tasks",
                    f"{_PLUGINS}::test_svc_tells_the_hosts_of_all_tasks",
                ),
                Row(
                    "plugins.pytorch",
                    OBEYED,
                    "`MASTER_ADDR`, `MASTER_PORT`, `WORLD_SIZE`, `RANK`, and those of torchrun. Each pod of "
                    "the two tasks is a Job: `JOB-TASK-INDEX-0`. Without `--port` the port derives from the "
                    "name",
                    f"{_PLUGINS}::test_pytorch_ranks_the_pods_of_master_and_workers",
                ),
                Row("plugins.ssh", REFUSED, "a warning: pods get no keys", _TOLD),
                Row(
                    "plugins.tensorflow",
                    OBEYED,
                    "`TF_CONFIG`",
                    f"{_PLUGINS}::test_tensorflow_describes_the_cluster_and_the_pod",
                ),
                Row(
                    "plugins.mpi, ray, hcclrank",
                    REFUSED,
                    "an error that says what to write",
                    f"{_PLUGINS}::test_what_is_not_obeyed_is_refused_by_name",
                ),
                Row("spec.networkTopology", REFUSED, "an error; mode soft: a warning", _READ),
                Row("spec.tasks[].partitionPolicy", REFUSED, "an error", _READ),
                Row("spec.tasks[].topologyPolicy", REFUSED, "a warning", _TOLD),
                Row("spec.runningEstimate", REFUSED, "a warning: write `muster.dev/run-time`", _TOLD),
            ),
        ),
        (
            "Scenarios of Volcano's own suite, in its objects",
            tuple(
                Row(
                    f"{each.sort}: {each.name}",
                    OBEYED,
                    each.differs,
                    "dialects/test_volcano_scenarios.py::test_scenarios_of_volcanos_suite",
                )
                for each in SCENARIOS
            ),
        ),
        (
            "Labels and annotations of pods, or of their PodGroup",
            (
                Row(
                    "scheduling.k8s.io/group-name",
                    OBEYED,
                    "the name of the PodGroup; the pods wait for it",
                    _GANG,
                ),
                Row("scheduling.volcano.sh/group-name", OBEYED, "the same", _GANG),
                Row(
                    "no annotation, and a schedulerName of `awaitPodGroups`",
                    OBEYED,
                    "the pod waits for its PodGroup",
                    "translate/test_volcano.py::test_a_pod_that_a_controller_groups_waits_for_its_group",
                ),
                Row("volcano.sh/task-spec", OBEYED, "the task of `minTaskMember`", _MINIMA),
                Row("volcano.sh/preemptable", OBEYED, 'with the value "false": never evicted', _SPARED),
                Row(
                    "scheduling.volcano.sh/queue-name",
                    OBEYED,
                    "the queue of pods, Jobs and JobSets that name none by `muster.dev/queue`",
                    "translate/test_volcano.py::test_the_queue_of_a_pod_without_a_group_is_that_of_its_annotation",
                ),
                Row(
                    "scheduling.volcano.sh/group-min-member",
                    REFUSED,
                    "pods without a PodGroup are Invalid. Volcano's controllers make a PodGroup of it",
                    _FOREIGN,
                ),
                *(
                    Row(key, REFUSED, _WARNED, _FOREIGN)
                    for key in (
                        "scheduling.volcano.sh/group-min-resources",
                        "volcano.sh/queue-name",
                        "volcano.sh/sla-waiting-time",
                        "volcano.sh/cooldown-time",
                        "volcano.sh/jdb-min-available",
                        "volcano.sh/jdb-max-unavailable",
                        "volcano.sh/revocable-zone",
                        "volcano.sh/numa-topology-policy",
                        "volcano.sh/network-topology-mode",
                        "volcano.sh/network-topology-highest-tier",
                    )
                ),
            ),
        ),
    ),
)
