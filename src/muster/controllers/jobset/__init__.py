"""The JobSet controller: Jobs that start, fail and succeed as one.

`reconcile` is the recipe; each of its steps is a file: `attempts` sorts the Jobs into those that count
and those of earlier attempts, `failure_policy` and `success_policy` decide about the end, `startup` creates,
resumes and suspends Jobs, `limits` enforces the deadline and the restart budget, `status` writes the result.

Semantics are JobSet's (kubernetes-sigs/jobset, pkg/controllers), with these differences, each because its
users asked for it:

- **The decision about a failure is enough.** The failure policy acts as soon as a Job has the condition
  `FailureTarget`, not when its last pod has ended; likewise `SuccessCriteriaMet` is a success.
- **A pod that does not end blocks nothing.** Stale Jobs are deleted in the background, which frees their
  names at once, and their successors are created in the same reconcile. The garbage collector and the node
  handle what is left of the old pods: pods have generated names, their owner's uid distinguishes them from
  the new pods, and the Job controller removes its finalizer from pods whose Job is gone. Foreground
  deletion would keep the name until the last pod is gone.
- **Suspending is not a failure.** A Job that fails while its JobSet is suspended, for example because its
  peers were suspended first, is deleted and re-created without being counted.
- **Messages name the cause**: the first failed Job, its first failed pod and the exit code. The
  pod object may be gone by then; nothing depends on it.
- `muster.dev/deadline` and `muster.dev/restart-budget` hold over all Jobs and restarts.

RestartJob, an alpha feature upstream, is on. In-place restart, volume claims and exclusive placement are
refused (`muster.api.rules.jobset`).
"""

from muster.controllers.driver import Controller
from muster.controllers.jobset.observation import INDEXES, WATCHES, Observed, observe
from muster.controllers.jobset.reconcile import reconcile

__all__ = ["INDEXES", "WATCHES", "Observed", "controller", "observe", "reconcile"]

#: Seconds within which changes of one JobSet's Jobs cause one reconcile.
SETTLE = 0.02


def controller() -> Controller[Observed]:
    """Returns the controller for the driver."""
    return Controller("jobset", WATCHES, observe, reconcile, INDEXES, SETTLE)
