"""Usage of terminating pods counts against hard caps until they are gone, so that no start exceeds a cap.

Entitlements ignore it: a queue must not lose more for what has been taken from it already, and what has been
taken is charged to the gang it was taken for. Caps include it: victims use their resources until they are
gone, and may free more than the beneficiary takes, which another gang would otherwise be given at once. So
each queue counts, for each beneficiary, the greater of what leaves and what arrives.
"""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from muster.core.words.amounts import add, counted
from muster.core.words.gang import Amounts
from muster.core.world.queues.account import Account


class Leaving(NamedTuple):
    """What leaves for one gang, and what that gang is charged with."""

    queue: str
    held: Amounts
    #: the beneficiary is one more gang of its queue
    new: bool
    #: by queue: what has not left yet, and how many gangs
    left: tuple[tuple[str, Amounts, int], ...]


def linger(leaving: Leaving, path: Callable[[str], tuple[Account, ...]]) -> None:
    """Charge the queues with what has not left yet beyond what arrives for it.

    `path` returns a queue and the queues above it.
    """
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
        add(account.terminating, tuple((r, amount) for r, amount in more if amount > 0), 1)
        account.terminating_gangs += max(gangs[account] - (leaving.new and account in mine), 0)
