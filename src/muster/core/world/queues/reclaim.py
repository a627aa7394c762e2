"""Which queue may reclaim from which.

A search for victims frees the accounts as it does the ledger (`give`), and asks `may_reclaim`. That compares
the two queues where their paths part. The claimant's queues, from its own up to there, must stay within their
entitlement. The victim's queues must be over theirs, be reclaimable, and keep their guarantees once the
amounts are gone. A queue may end up below its entitlement, because gangs are not cut in two, but a gang may
be taken only from a queue that is over it; the caller must therefore give first what it has taken so far.
"""

from muster.core.words.amounts import Usage
from muster.core.words.gang import FOREIGN
from muster.core.world.queues import Queues


def protects(queues: Queues, claimant: str, victim: str) -> bool:
    """Whether what a gang of one queue says against its eviction counts for a gang of another.

    In one queue it does, and for pods of other schedulers. What a queue borrows is reclaimed all the
    same, unless the queue, or one above it that is not above the claimant, protects that.
    """
    mine = queues.path(claimant)
    return victim in (claimant, FOREIGN) or any(
        above.rules.protect_borrowed for above in queues.path(victim) if above not in mine
    )


def may_reclaim(queues: Queues, claimant: str, asked: Usage, victim: str, freed: Usage) -> bool:
    """Whether a gang of one queue may reclaim what a gang of another uses (see the module).

    `asked`: all that the claimant needs; `freed`: what the victim would free now.
    """
    mine, theirs = queues.find(claimant), queues.find(victim)
    if mine is None or mine.fault or theirs is mine:
        return False
    if theirs is None or theirs.fault:
        return False  # its entitlement is unknown
    if any(account.exceeds(asked) for account in mine.path if account not in theirs.path):
        return False
    for account in theirs.path:
        if account in mine.path:
            break
        surplus = account.surplus()
        if not account.rules.reclaimable or not any(asked.get(r) and r in surplus for r in freed):
            return False
        if any(account.used.get(r, 0) - amount < account.guaranteed.get(r, 0) for r, amount in freed.items()):
            return False
    return True
