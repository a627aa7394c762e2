"""The JobSet controller: Jobs that start, fail and succeed as one.

`reconcile` is the recipe; each of its steps is a file: `attempts` sorts the Jobs into those that count
and those of earlier attempts, `failure_policy` and `success_policy` decide about the end, `startup` creates,
resumes and suspends Jobs, `limits` keeps the deadline and the restart budget, `status` writes it all down.

Semantics are JobSet's (kubernetes-sigs/jobset, pkg/controllers), with these differences, each because its
users asked for it:

- **The decision about a failure is enough.** The failure policy acts as soon as a Job has the condition
  `FailureTarget`, not when its last pod has ended; likewise `SuccessCriteriaMet` is a success.
- **A pod that does not end blocks nothing.** Stale Jobs are deleted in the background, which frees their
  names at once, and their successors are created in the same breath. What is left of the old pods is the
  garbage collector's and the node's business: pods carry generated names, their owner's uid tells them from
  the new ones, and the Job controller releases pods whose Job is gone from its finalizer. Foreground
  deletion would keep the name until the last pod is gone.
- **Suspending is not a failure.** A Job that fails while its JobSet is suspended, say because its peers
  went first, is deleted and made anew without being counted.
- **The cause is told**: messages name the first failed Job, its first failed pod and the exit code. The
  pod object may be gone by then; nothing depends on it.
- `muster.dev/deadline` and `muster.dev/restart-budget` hold over all Jobs and restarts.

RestartJob, an alpha feature upstream, is on. In-place restart, volume claims and exclusive placement are
refused (`muster.api.rules.jobset`).
"""

from muster.controllers.driver import Controller
from muster.controllers.jobset.observation import INDEXES, WATCHES, Observed, observe
from muster.controllers.jobset.reconcile import reconcile

__all__ = ["INDEXES", "WATCHES", "Observed", "controller", "observe", "reconcile"]

#: Seconds within which changes of one JobSet's Jobs are looked at together.
SETTLE = 0.02


def controller() -> Controller[Observed]:
    """For the driver."""
    return Controller("jobset", WATCHES, observe, reconcile, INDEXES, SETTLE)
