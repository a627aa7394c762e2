"""Computes the next step for one gang: a pure function of what is seen, what is decided, and the time.

    step(view, state, now, limits) -> writes, events for the core, when to step again

`step.py` has the function, and `view.py` its inputs and outputs. The function is level-triggered: it depends
only on the difference between what the core has assigned and what the cluster shows, never on how the
difference arose. Therefore recovery needs no code of its own: a new leader calls the same function on the
same open plans and bound pods, and continues where the old leader stopped. docs/internals/committing.md
explains why nothing is left half done; the order of writes is

    plan → victims → unsuspend, or wait for pods → binds → Gang status and the plan's removal

Rules that every module keeps:

- No bind, eviction or unsuspension without an open plan, except one bind that by itself completes a
  gang: it is its own transaction (a gang of one, a single lost member).
- A place is bound only while the plan and the core agree on its node. If they do not, the next attempt is
  recorded first.
- The first bind waits until the minimum can be reached with the pods that are there.
- A plan is deleted only when its gang is whole, when none of it is bound, when its owner has been
  suspended, or when its members are of a kind that must not be deleted; the status then says Degraded.
"""
