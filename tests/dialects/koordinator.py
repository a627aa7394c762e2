"""Koordinator's PodGroups, labels and annotations.

Source: koordinator, apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1/types.go and
apis/extension/{coscheduling,network_topology,elastic_quota,preemption}.go.
"""

from typing import Final

from tests.dialects.table import Answer, Row, Table

OBEYED, SUBSUMED, REFUSED = Answer
_GANG: Final = "gang.scheduling.koordinator.sh"
_OF_QUOTA: Final = "quota.scheduling.koordinator.sh"
_ADOPTED: Final = "translate/test_adopted.py"
_QUOTA: Final = f"{_ADOPTED}::test_an_elastic_quota_is_read_as_a_queue"
_UNREAD: Final = "test_an_annotation_that_cannot_be_honoured_makes_it_unusable_and_is_named"
_LIVE: Final = "runtime/test_koordinator.py"
_OLD: Final = "pod-group.scheduling.sigs.k8s.io"

TABLE: Final = Table(
    "Koordinator",
    """
Pods belong to a PodGroup of `scheduling.sigs.k8s.io/v1alpha1` by label, or describe their gang by
annotations. The files need no change if muster serves the scheduler name `koord-scheduler`
(`schedulerNames` of the chart).
[Topology](../../concepts/topology.md) has its own page.

Phases, counts and conditions are those of koord-scheduler 1.8.0, which played thirteen scenarios on a real
API server; a test compares muster with what it wrote, field by field. They differ where pods end or are
deleted: Koordinator's counts and phase then stay until another pod of the group starts, so a group whose pods
have all succeeded stays `Running` there and is `Finished` here. Messages were compared with Koordinator's
documents and source.

ElasticQuotas are queues, if the setting [`adoptQueues`](../daemons.md#settings) lists their namespace
(by default `koordinator-system` and `kube-system`). The page on
[queues](../../concepts/queues.md#queues-of-other-schedulers) says why.
""",
    (
        (
            "PodGroup",
            (
                Row("spec.minMember", OBEYED, "", "translate/test_podgroup.py::test_gates"),
                Row(
                    "spec.minResources",
                    SUBSUMED,
                    "the pods that exist say what they need, and all of them are placed at once",
                    f"{_LIVE}::test_in_both_modes_no_member_holds_a_node_while_others_do_not_fit",
                ),
                Row(
                    "spec.scheduleTimeoutSeconds",
                    SUBSUMED,
                    "a gang that waits holds nothing that could be given back: it waits for its members",
                    f"{_LIVE}::test_a_waiting_time_ends_no_gang_and_a_late_member_completes_it",
                ),
                Row(
                    "status.phase",
                    OBEYED,
                    "Pending, PreScheduling, Scheduling, Scheduled, Running, Finished, Failed; none is final",
                    "controllers/podgroup/test_phases.py::test_phases",
                ),
                Row(
                    "status.scheduled, running, succeeded, failed",
                    OBEYED,
                    "",
                    "controllers/podgroup/test_phases.py::test_the_way_of_a_group",
                ),
                Row(
                    "status.occupiedBy",
                    OBEYED,
                    "the owners of the first pod by name",
                    "controllers/podgroup/test_phases.py::test_occupied_by_lists_the_owners_of_its_pods",
                ),
                Row(
                    "status.scheduleStartTime",
                    OBEYED,
                    "",
                    "controllers/podgroup/test_phases.py::test_the_way_of_a_group",
                ),
            ),
        ),
        (
            "Labels and annotations of pods",
            (
                Row(
                    _OLD,
                    OBEYED,
                    "the name of the PodGroup; the pods wait for it",
                    "translate/test_podgroup.py::test_a_podgroup_that_is_not_there_is_waited_for",
                ),
                Row(
                    f"{_GANG}/name, min-available",
                    OBEYED,
                    "a gang without a PodGroup; its oldest pod counts",
                    "translate/test_described.py::test_a_gang_that_pods_describe",
                ),
                Row(
                    f"{_OLD}/name, min-available",
                    OBEYED,
                    "the older labels for the same",
                    "translate/test_described.py::test_or_by_labels_as_it_once_was_done",
                ),
                Row(
                    f"{_GANG}/network-topology-index",
                    OBEYED,
                    "",
                    "translate/test_network.py::test_the_index_orders_pods",
                ),
                Row(
                    "scheduling.koordinator.sh/disable-preemptible",
                    OBEYED,
                    'with the value "true"',
                    "translate/test_running.py::test_pods_that_koordinator_never_preempts_are_no_victims",
                ),
                Row(
                    "quota.scheduling.koordinator.sh/preemptible",
                    OBEYED,
                    'with the value "false"',
                    "translate/test_running.py::test_pods_that_koordinator_never_preempts_are_no_victims",
                ),
            ),
        ),
        (
            "Annotations of PodGroups, or of pods that describe a gang",
            (
                Row(
                    f"{_GANG}/groups",
                    OBEYED,
                    "all members must name each other",
                    "translate/test_ganggroup.py::"
                    "test_podgroups_of_a_ganggroup_are_one_gang_with_a_minimum_for_each",
                ),
                Row(
                    f"{_GANG}/network-topology-spec",
                    OBEYED,
                    "PreferGather, too",
                    "translate/test_network.py::test_on_the_group_or_on_its_pods",
                ),
                Row(
                    f"{_GANG}/total-number",
                    SUBSUMED,
                    "Koordinator stores it, and decides nothing by it",
                    "translate/test_described.py::test_modes_and_policies_that_are_read_otherwise_are_warned_of",
                ),
                Row(
                    f"{_GANG}/mode: Strict, NonStrict",
                    SUBSUMED,
                    "members of a NonStrict gang hold nodes while others wait; in muster none of them does",
                    f"{_LIVE}::test_in_both_modes_no_member_holds_a_node_while_others_do_not_fit",
                ),
                Row(
                    f"{_GANG}/match-policy: waiting-and-running",
                    OBEYED,
                    "pods that have succeeded count, too",
                    "translate/test_podgroup.py::test_a_succeeded_pod_retires_its_place",
                ),
                Row(
                    f"{_GANG}/match-policy: once-satisfied",
                    SUBSUMED,
                    "the successor of a lost pod gets its place while the others run",
                    "translate/test_podgroup.py::test_the_place_of_a_lost_member_waits_for_its_successor",
                ),
                Row(
                    f"{_GANG}/match-policy: only-waiting",
                    REFUSED,
                    "the Gang has a warning: it is read as waiting-and-running",
                    "translate/test_described.py::test_modes_and_policies_that_are_read_otherwise_are_warned_of",
                ),
                Row(
                    f"{_OLD}/match-policy",
                    OBEYED,
                    "the older key for the same",
                    "translate/test_described.py::test_modes_and_policies_that_are_read_otherwise_are_warned_of",
                ),
                Row(
                    f"{_GANG}/waiting-time",
                    SUBSUMED,
                    "as `scheduleTimeoutSeconds`",
                    "translate/test_described.py::test_modes_and_policies_that_are_read_otherwise_are_warned_of",
                ),
            ),
        ),
        (
            "ElasticQuota",
            (
                Row("spec.min", OBEYED, "the guarantee of the queue", _QUOTA),
                Row("spec.max", OBEYED, "its capability", _QUOTA),
                Row(
                    f"{_OF_QUOTA}/parent",
                    OBEYED,
                    "without it, or with `koordinator-root-quota`, the queue is below root",
                    _QUOTA,
                ),
                Row(
                    f"{_OF_QUOTA}/shared-weight",
                    OBEYED,
                    "by resource, or else `max`: how quotas with one parent share what is above their "
                    "minima. Beside a Queue of muster, each counts on average as one of weight 1",
                    f"{_ADOPTED}::test_its_shared_weight_counts_instead_of_its_maximum",
                ),
                Row(
                    f"{_OF_QUOTA}/is-parent",
                    SUBSUMED,
                    "a queue with queues below it has no gangs itself",
                    _QUOTA,
                ),
                Row(
                    f"{_OF_QUOTA}/allow-lent-resource",
                    SUBSUMED,
                    "what is idle is lent, and reclaimed once the queue asks for it",
                    _QUOTA,
                ),
                Row(
                    f"{_OF_QUOTA}/namespaces",
                    OBEYED,
                    "gangs of these namespaces wait in it unless they name another; so do those of its own, "
                    "if the quota has its name",
                    "runtime/test_mirror_queues.py::test_a_namespace_that_a_quota_serves_waits_in_it",
                ),
                *(
                    Row(
                        f"{_OF_QUOTA}/{key}",
                        REFUSED,
                        "the queue cannot be used, and `muster queues` says why",
                        f"{_ADOPTED}::{test}",
                    )
                    for key, test in (
                        ("tree-id", "test_a_tree_of_its_own_makes_it_unusable"),
                        ("total-resource", _UNREAD),
                        ("admission", _UNREAD),
                    )
                ),
                Row(
                    "metadata.name",
                    OBEYED,
                    "of one name muster's own Queue counts, then Volcano's; two quotas of one name cannot "
                    "be used",
                    f"{_ADOPTED}::test_quotas_of_one_name_in_two_namespaces_are_at_fault_until_one_is_gone",
                ),
                Row(
                    "koordinator-default-quota",
                    OBEYED,
                    "muster's queue `default`",
                    f"{_ADOPTED}::test_quotas_that_koordinator_has_by_itself",
                ),
                Row(
                    "metadata.namespace",
                    REFUSED,
                    "of namespaces that `adoptQueues` does not list: `submit` warns, and the gangs that name "
                    "the queue are Invalid",
                    f"{_ADOPTED}::test_a_quota_in_a_namespace_that_is_not_listed_changes_nothing",
                ),
                Row(
                    "status.used",
                    OBEYED,
                    f"with the annotations `{_OF_QUOTA}/runtime` (its entitlement) and `request`, once gangs "
                    "of muster use the quota",
                    "runtime/reports/test_queues.py::"
                    "test_an_elastic_quota_says_what_is_used_and_what_it_may_use",
                ),
                Row(
                    f"label {_OF_QUOTA}/name of pods",
                    OBEYED,
                    "the queue of the pods; `muster.dev/queue` counts more. A quota that does not exist "
                    "makes them Invalid",
                    "runtime/test_mirror_queues.py::test_pods_name_their_quota_by_label",
                ),
            ),
        ),
        (
            "What preemption writes",
            (
                Row(
                    "status.nominatedNodeName",
                    OBEYED,
                    "of all pods of the preemptor, until the victims have left",
                    "runtime/reports/test_conditions.py::"
                    "test_while_victims_leave_each_pod_shows_the_node_that_it_will_have",
                ),
                Row(
                    "status.nominatedNodeName of lower priority",
                    SUBSUMED,
                    "no two gangs are nominated to the same room: a gang that waits for its victims is no "
                    "victim before it runs",
                    f"{_LIVE}::test_no_two_gangs_are_nominated_to_the_same_room",
                ),
                Row(
                    "victims",
                    OBEYED,
                    "the pods above a gang's minimum where they suffice, else the whole gang",
                    f"{_LIVE}::test_pods_above_the_minimum_are_the_victims_where_they_suffice",
                ),
                Row(
                    "condition DisruptionTarget",
                    OBEYED,
                    "reason `PreemptionByScheduler`, with Koordinator's message",
                    "runtime/test_victims.py::test_a_pod_that_is_evicted_says_for_whom",
                ),
                Row(
                    "spec.preemptionPolicy",
                    OBEYED,
                    "`Never` on one pod, and its gang does not preempt",
                    f"{_LIVE}::test_a_gang_whose_pods_never_preempt_waits",
                ),
            ),
        ),
    ),
)
