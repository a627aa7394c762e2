"""The PodGroups of scheduler-plugins (coscheduling).

Source: scheduler-plugins, apis/scheduling/v1alpha1/types.go and pkg/controllers/podgroup_controller.go.
"""

from typing import Final

from tests.dialects.table import Answer, Row, Table

OBEYED, SUBSUMED, REFUSED = Answer

TABLE: Final = Table(
    "scheduler-plugins",
    """
Pods belong to a PodGroup of `scheduling.x-k8s.io/v1alpha1` by label. The files need no change if muster
serves the scheduler name that they have (`schedulerNames` of the chart). Kubeflow's training-operator and the
mpi-operator write these PodGroups; the page on [operators](../../guides/operators.md) has the flag of each.

The project's example has a ReplicaSet beside the PodGroup.
[A cluster](../../guides/operators.md#deployments-replicasets-and-statefulsets) runs it; in a job file it is
refused, with the Job to write instead.
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
                    "Pending, Scheduling, Running, Finished, Failed; none is final",
                    "controllers/podgroup/test_phases.py::"
                    "test_phases_of_scheduler_plugins_are_the_same_with_fewer_words",
                ),
                Row(
                    "status.running, succeeded, failed, scheduleStartTime",
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
            ),
        ),
        (
            "Labels of pods",
            (
                Row(
                    "scheduling.x-k8s.io/pod-group",
                    OBEYED,
                    "the name of the PodGroup; the pods wait for it",
                    "translate/test_podgroup.py::test_a_podgroup_that_is_not_there_is_waited_for",
                ),
            ),
        ),
    ),
)
