"""kube-batch's PodGroups.

Source: kubernetes-retired/kube-batch, pkg/apis/scheduling/v1alpha1/{types,labels}.go, v1alpha2/types.go, and
its proposal of coscheduling.
"""

from typing import Final

from tests.dialects.table import Answer, Row, Table

OBEYED, SUBSUMED, REFUSED = Answer
_TESTS: Final = "translate/test_kube_batch.py"
_HOLDS: Final = "embedded/verbs/test_quota_holds.py"
_LIFE: Final = "controllers/podgroup/test_lifecycle.py"
_STATUS: Final = "controllers/podgroup/test_kubebatch.py"
_GANG: Final = f"{_TESTS}::test_pods_that_name_it_by_annotation_are_one_gang"
_PHASES: Final = f"{_STATUS}::test_phases_and_counts"
_EVENT: Final = f"{_STATUS}::test_an_event_tells_why_it_waits_once"
_FALLEN: Final = f"{_STATUS}::test_a_running_group_that_falls_below_its_minimum_is_unschedulable"

TABLE: Final = Table(
    "kube-batch",
    """
Pods belong to a PodGroup of `scheduling.incubator.k8s.io/v1alpha1` or `scheduling.sigs.dev/v1alpha2` by the
annotation that Volcano's PodGroups have, too. Of several PodGroups of one name in a namespace the first
counts, in the order `scheduling.volcano.sh`, `scheduling.incubator.k8s.io`, `scheduling.sigs.dev`; the others
have the condition Unschedulable with the reason NameTaken. The record of the gang is the Gang `volcano-NAME`
in each case.

**totalResources.** When a PodGroup is created on the embedded cluster, each ResourceQuota without scopes of
its namespace is charged with what the group states of what the quota counts (`cpu` also for `requests.cpu`;
limits as `limits.cpu`). Its pods then use what is held: the quota is charged with the total or with what its
pods ask for, whichever is more. The field is immutable there. On other clusters the API server charges
quotas, and knows nothing of the group: nothing is held.

kube-batch is retired, and its CustomResourceDefinitions are of an API that Kubernetes no longer serves.
Muster reads its PodGroups where they are served, and the chart does not install them. The embedded cluster
serves them.
""",
    (
        (
            "PodGroup",
            (
                Row("spec.minMember", OBEYED, "0: each pod may start", _GANG),
                Row(
                    "spec.minMembers",
                    OBEYED,
                    "the spelling of the proposal; Invalid beside another `minMember`",
                    f"{_TESTS}::test_a_minimum_that_cannot_be_honoured_is_refused",
                ),
                Row("spec.queue", OBEYED, "the label `muster.dev/queue` on it counts more", _GANG),
                Row(
                    "spec.priorityClassName",
                    OBEYED,
                    "as `muster.dev/priority`, which counts more",
                    f"{_TESTS}::test_its_priority_class_counts",
                ),
                Row(
                    "spec.minResources",
                    SUBSUMED,
                    "the pods say what they need, and all of them are placed at once",
                    f"{_TESTS}::test_minimal_resources_change_nothing",
                ),
                Row(
                    "spec.policy",
                    REFUSED,
                    "the Gang has a warning; write `muster.dev/below-minimum`",
                    f"{_TESTS}::test_a_policy_in_the_spec_is_named_as_not_read",
                ),
                Row(
                    "spec.totalResources",
                    OBEYED,
                    "by ResourceQuotas of the embedded cluster, as above; on other clusters the Gang warns",
                    f"{_HOLDS}::test_quota_is_held_before_any_pod_exists_and_no_pod_is_charged_twice",
                ),
                Row(
                    "spec.totalResources, beyond a quota",
                    OBEYED,
                    "the group is refused as a pod is: `exceeded quota`",
                    f"{_HOLDS}::test_a_group_beyond_the_quota_is_refused",
                ),
                Row(
                    "spec.totalResources, without pods",
                    OBEYED,
                    "given back once the group has finished, or if fewer than the minimum exist 600 s after "
                    "it was created: condition QuotaReleased",
                    f"{_STATUS}::test_held_quota_is_given_back_after_a_time_without_pods",
                ),
                Row(
                    "spec.totalResources, in queues",
                    SUBSUMED,
                    "a queue is charged with the whole gang as it starts: its quota never runs out midway",
                    f"{_HOLDS}::test_a_group_beyond_the_quota_is_refused",
                ),
                Row(
                    "metadata.name",
                    OBEYED,
                    "of several of one name the first counts, as above",
                    f"{_TESTS}::test_of_several_groups_of_one_name_the_first_of_the_table_counts",
                ),
                Row(
                    "muster.dev/below-minimum",
                    OBEYED,
                    "the life-cycle policy of the proposal (its `spec.Policy`). `leave`, the default: the "
                    "controllers of the pods decide. `restart`: below the minimum all restart",
                    f"{_LIFE}::test_the_rest_of_a_group_below_its_minimum_restarts_if_it_asks_for_that",
                ),
                Row(
                    "pods that their nodes reject",
                    OBEYED,
                    "as pods that fail: `muster.dev/below-minimum` says what becomes of the others",
                    f"{_LIFE}::test_a_pod_that_is_lost_is_one_less",
                ),
                Row(
                    "deletion",
                    OBEYED,
                    "its pods run on; new ones wait for a PodGroup",
                    f"{_TESTS}::test_a_deleted_group_leaves_its_pods",
                ),
                Row(
                    "status.phase",
                    OBEYED,
                    "Pending, Running, Unknown. A group of which all pods have succeeded is Running",
                    _PHASES,
                ),
                Row("status.admitted, running, succeeded, failed", OBEYED, "", _PHASES),
                Row(
                    "status.conditions",
                    OBEYED,
                    "Unschedulable with kube-batch's reasons, False once it has passed. No `transitionID`",
                    _EVENT,
                ),
                Row(
                    "Event Unschedulable",
                    OBEYED,
                    "on the PodGroup: too few members, no room, or a group that falls below its minimum",
                    _FALLEN,
                ),
            ),
        ),
        (
            "Queue",
            (
                Row(
                    "Queue of these API groups",
                    REFUSED,
                    "`check` says whose it is, and to write a Queue of muster",
                    "workloads/test_kubernetes.py::test_a_kind_of_another_project_is_called_so",
                ),
            ),
        ),
        (
            "Annotations of pods",
            (
                Row(
                    "scheduling.k8s.io/group-name",
                    OBEYED,
                    "the name of the PodGroup; the pods wait for it",
                    _GANG,
                ),
                Row(
                    "scheduling.k8s.io/group-name, empty",
                    REFUSED,
                    "the pod is Invalid, and does not start alone",
                    f"{_TESTS}::test_a_pod_with_an_empty_annotation_does_not_start_alone",
                ),
                Row(
                    "pods that wait",
                    OBEYED,
                    "a minute without enough members, or without the PodGroup, and their condition "
                    "PodScheduled is False with the reason MembersMissing; it is not Unschedulable, which "
                    "would make an autoscaler add nodes",
                    "runtime/reports/test_conditions.py"
                    "::test_pods_that_wait_for_others_or_for_their_group_say_so_after_a_while",
                ),
                Row(
                    "pods that have succeeded",
                    OBEYED,
                    "count towards the minimum",
                    f"{_TESTS}::test_succeeded_members_count_towards_the_minimum",
                ),
            ),
        ),
    ),
)
