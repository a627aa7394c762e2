"""Decides whether an Indexed Job has succeeded before all its indexes have. Source: KEP-3998.

Rules are tried in order. A rule with indexes requires all of them, or `succeededCount` of them; a rule with
only a count requires that many indexes, whichever they are.
"""

from muster.api.batch_v1 import Job
from muster.api.indexes import Indexes


def matched(job: Job, completed: Indexes) -> str | None:
    """Returns in words which rule is met; None if none is."""
    if job.spec.success_policy is None:
        return None
    for number, rule in enumerate(job.spec.success_policy.rules):
        having, wanted = completed, rule.succeeded_count
        if rule.succeeded_indexes is not None:
            named = Indexes.parse(rule.succeeded_indexes)
            having = completed & named
            wanted = len(named) if wanted is None else wanted
        if wanted is not None and len(having) >= wanted:
            return f"Matched rules at index {number}"
    return None
