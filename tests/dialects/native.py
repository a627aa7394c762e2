"""Kubernetes' own gangs.

Source: kubernetes/api, scheduling/v1beta1/types.go and core/v1/types.go (PodSchedulingGroup), of 1.37.
"""

from typing import Final

from tests.dialects.table import Answer, Row, Table

OBEYED, SUBSUMED, REFUSED = Answer
_READ: Final = "translate/test_native.py"
_REFUSED: Final = f"{_READ}::test_what_cannot_be_honoured_is_refused_by_its_field"
_WRITTEN: Final = "controllers/podgroup/test_conditions.py"
_MADE: Final = "controllers/job/test_group.py"
_RULES: Final = "api/rules/test_podgroup.py"

TABLE: Final = Table(
    "Native gangs of Kubernetes",
    """
Pods belong to a PodGroup of `scheduling.k8s.io/v1beta1` by `spec.schedulingGroup`. Kubernetes 1.37 has these
kinds behind the feature gate `GenericWorkload`. Where the API is not served muster does without; it reads
the kinds as soon as they are. Files may say `v1alpha3`, which has the same fields, and a cluster that serves
both shows each object in both; `v1alpha2` is refused with the version to write. CompositePodGroups are
refused ([decision 34](../../decisions/0034-composite-groups-are-refused.md)). Pods with the scheduler name of
muster are started by muster; pods of kube-scheduler, in other groups, stay its own. The record of such a gang
is called `native-NAME`.

What kube-scheduler (1.37.1) writes into the status of PodGroups and the conditions of pods was recorded in 14
scenarios, and is compared with what muster writes, field by field: they are the same. (With muster, pods that
wait for other pods, or for their PodGroup, have a condition after a minute.)
""",
    (
        (
            "Pod",
            (
                Row(
                    "spec.schedulingGroup.podGroupName",
                    OBEYED,
                    "the pods wait for the PodGroup; a pod whose labels name another gang is `Invalid`",
                    f"{_READ}::test_it_waits_for_its_group_and_for_as_many_pods_as_its_minimum",
                ),
            ),
        ),
        (
            "PodGroup",
            (
                Row(
                    "spec.schedulingPolicy.gang.minCount",
                    OBEYED,
                    "may change; pods above it start as capacity allows",
                    f"{_READ}::test_its_minimum_may_change",
                ),
                Row(
                    "spec.schedulingPolicy.basic",
                    OBEYED,
                    "its pods are what they would be without the group: alone, or members of a Job or JobSet "
                    "with `muster.dev/gang`",
                    f"{_READ}::test_pods_of_a_basic_group_are_what_they_would_be_without_it",
                ),
                Row(
                    "spec.schedulingConstraints.topology[].key",
                    OBEYED,
                    "a topology layer that consists of this label; else all pods are on nodes with one value",
                    f"{_READ}::test_pods_select_their_fellows_in_the_domain_of_another_key",
                ),
                Row(
                    "spec.priorityClassName, priority",
                    OBEYED,
                    "counts more than that of the pods, and less than `muster.dev/priority`",
                    f"{_READ}::test_the_priority_of_the_group_counts_and_not_that_of_its_pods",
                ),
                Row(
                    "spec.preemptionPolicy",
                    OBEYED,
                    "it may only forbid: a class or a pod with `Never` counts, too",
                    f"{_READ}::test_its_policy_says_whether_it_preempts",
                ),
                Row(
                    "spec.disruptionMode.all",
                    OBEYED,
                    "the gang is evicted as a whole, also if it runs above its minimum",
                    f"{_READ}::test_a_gang_that_is_disrupted_as_one_is_evicted_as_one",
                ),
                Row(
                    "spec.disruptionMode.single",
                    SUBSUMED,
                    "pods above the minimum are evicted one by one; the others go as a whole, because muster "
                    "leaves no gang below its minimum",
                    f"{_READ}::test_a_gang_that_is_disrupted_as_one_is_evicted_as_one",
                ),
                Row(
                    "spec.workloadRef",
                    SUBSUMED,
                    "the PodGroup has a copy of all that its template says",
                    f"{_READ}::test_what_says_nothing_of_the_gang_itself",
                ),
                Row(
                    "spec.resourceClaims",
                    REFUSED,
                    "`Invalid`: `spec.resourceClaims … (dynamic resource allocation) is not supported yet`",
                    _REFUSED,
                ),
                Row(
                    "spec.parentCompositePodGroupName",
                    REFUSED,
                    "`Invalid`; PodGroups that list each other in the annotation "
                    "`gang.scheduling.koordinator.sh/groups` are one gang, each with its minimum",
                    _REFUSED,
                ),
                Row(
                    "condition PodGroupInitiallyScheduled",
                    OBEYED,
                    "`Scheduled`; until then `Unschedulable`, or `SchedulerError` for what is `Invalid` or "
                    "`CommitFailed`, with the reason of the Gang; "
                    "its figures are those of the time when the reason began",
                    f"{_WRITTEN}::test_a_group_that_waits_says_why",
                ),
                Row(
                    "condition DisruptionTarget",
                    OBEYED,
                    "`PreemptionByScheduler`, until the minimum has nodes again",
                    f"{_WRITTEN}::test_a_group_that_loses_its_minimum_to_others_is_disrupted_until_it_runs_again",
                ),
            ),
        ),
        (
            "Job",
            (
                Row(
                    "spec.scheduling.schedulingPolicy",
                    OBEYED,
                    "of Jobs that nothing controls: a PodGroup and a Workload are made of it, by the "
                    "embedded cluster always, by Kubernetes with the feature gate `WorkloadWithJob`; without "
                    "the gate its API server drops the field",
                    f"{_MADE}::test_a_job_with_the_field_gets_a_group_that_its_pods_name",
                ),
                Row(
                    "spec.scheduling.schedulingConstraints, disruptionMode, resourceClaims",
                    OBEYED,
                    "copied into the PodGroup",
                    f"{_MADE}::test_a_job_with_the_field_gets_a_group_that_its_pods_name",
                ),
                Row(
                    "spec.scheduling, and `muster.dev/gang` on the Job",
                    REFUSED,
                    "`Invalid`: take one away; the key on the namespace does not count",
                    f"{_READ}::test_a_job_that_asks_for_two_gangs_is_refused",
                ),
                Row(
                    "spec.scheduling of the Jobs of a JobSet or CronJob",
                    REFUSED,
                    "no controller reads it; `check` and the pods say so, and what to write",
                    "translate/test_foreign.py::test_a_pod_without_a_gang_is_refused_if_it_asks_for_one_and_else_warned_of",
                ),
            ),
        ),
        (
            "Workload",
            (
                Row(
                    "spec.podGroupTemplates",
                    SUBSUMED,
                    "a template makes no gang; a controller makes PodGroups of it, and muster reads these",
                    f"{_RULES}::test_a_workload",
                ),
                Row(
                    "spec.compositePodGroupTemplates",
                    REFUSED,
                    "by the embedded cluster: `composite groups are not supported; write podGroupTemplates`",
                    f"{_RULES}::test_a_workload",
                ),
            ),
        ),
    ),
)
