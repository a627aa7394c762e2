"""What is on its way out, and has not gone, counts below hard caps: no start adds to what is too much.

Entitlements do not see it. Nobody is to be brought down further for what has been taken from him already, and
what has been taken is charged to whoever it was taken for. A cap is another matter: the victims use what
they use until they have gone, and may free more than is taken, which somebody else would otherwise be
given at once. So each queue counts, for each beneficiary, the greater of what leaves and of what comes.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from muster.core.gang import Amounts
from muster.core.queues.account import Account
from muster.core.queues.amounts import add, counted


class Leaving(NamedTuple):
    """What leaves for one gang, and what that is charged with."""

    queue: str
    held: Amounts
    #: it is one more gang of its queue
    new: bool
    #: by queue what is there still, and how many gangs
    left: tuple[tuple[str, Amounts, int], ...]


def linger(leaving: Leaving, path: Callable[[str], tuple[Account, ...]]) -> None:
    """Charge the queues with what is there besides what comes for it. `path`: a queue and those above it."""
    left: dict[Account, dict[str, int]] = {}
    gangs: Counter[Account] = Counter()
    for queue, amounts, number in leaving.left:
        for above in path(queue):
            add(left.setdefault(above, {}), counted(amounts), 1)
            gangs[above] += number
    mine = path(leaving.queue)
    for account, there in left.items():
        comes = dict(counted(leaving.held)) if account in mine else {}
        more = [(r, amount - comes.get(r, 0)) for r, amount in there.items()]
        add(account.lingering, tuple((r, amount) for r, amount in more if amount > 0), 1)
        account.lingering_gangs += max(gangs[account] - (leaving.new and account in mine), 0)
