"""Koordinator's PodGroups, labels and annotations.

Source: koordinator, apis/thirdparty/scheduler-plugins/pkg/apis/scheduling/v1alpha1/types.go and
apis/extension/{coscheduling,network_topology,elastic_quota,preemption}.go.
"""

from typing import Final

from tests.dialects.table import Answer, Row, Table

OBEYED, SUBSUMED, REFUSED = Answer
_GANG: Final = "gang.scheduling.koordinator.sh"
_OLD: Final = "pod-group.scheduling.sigs.k8s.io"

TABLE: Final = Table(
    "Koordinator",
    """
Pods belong to a PodGroup of `scheduling.sigs.k8s.io/v1alpha1` by label, or describe their gang by
annotations. The files need no change if muster serves the scheduler name `koord-scheduler`
(`schedulerNames` of the chart).
[Topology](../../concepts/topology.md) has its own page.
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
                    "translate/test_podgroup.py::test_what_says_nothing_of_a_gang_that_starts_whole",
                ),
                Row(
                    "spec.scheduleTimeoutSeconds",
                    SUBSUMED,
                    "a gang that waits holds nothing that could be given back",
                    "translate/test_podgroup.py::test_what_says_nothing_of_a_gang_that_starts_whole",
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
                    "translate/test_described.py::test_modes_and_policies_that_are_read_otherwise_are_warned_of",
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
                    "condition DisruptionTarget",
                    OBEYED,
                    "reason `PreemptionByScheduler`, with Koordinator's message",
                    "runtime/test_victims.py::test_a_pod_that_is_evicted_says_for_whom",
                ),
                Row(
                    "spec.preemptionPolicy",
                    OBEYED,
                    "`Never` on one pod, and its gang does not preempt",
                    "translate/test_priority.py::test_which_pods_may_preempt",
                ),
            ),
        ),
    ),
)
