"""Published back-filling rules on one machine of equal processors, written down plainly: an oracle.

Gaussier, Glesser, Reis, Trystram, "Improving backfilling by using machine learning to predict running times",
SC'15. Jobs are rigid and counted in processors; it knows nothing of the scheduler.
"""

from collections.abc import Iterator

from muster.core.words.gang import GangId
from muster.sim.engine import Pass
from muster.sim.trace import Job


def passes(jobs: list[Job], ends: dict[GangId, float], pass_: Pass) -> Iterator[tuple[float, list[Job]]]:
    """Times of passes with their arrivals. Each pass reads `ends` and removes the gangs that have ended."""
    arrivals = sorted(jobs, key=lambda job: (job.submitted, job.id), reverse=True)
    while arrivals or ends:
        now = min([*ends.values(), *(job.submitted for job in arrivals[-1:])])
        for ended in sorted(gang for gang, end in ends.items() if end == now):
            del ends[ended]
            if pass_ is Pass.EVENT:
                yield now, []
        arrived = []
        while arrivals and arrivals[-1].submitted == now:
            arrived.append(arrivals.pop())
            if pass_ is Pass.EVENT:
                yield now, [arrived.pop()]
        if pass_ is Pass.INSTANT:
            yield now, arrived


def easy(capacity: int, jobs: list[Job], pass_: Pass, shortest_first: bool = False) -> dict[GangId, float]:
    """When each job starts under EASY: one reservation, for the head."""
    starts: dict[GangId, float] = {}
    ends: dict[GangId, float] = {}
    queue: list[Job] = []
    by_id = {job.id: job for job in jobs}

    def free() -> int:
        return capacity - sum(by_id[gang].places for gang in ends)

    def start(job: Job, now: float) -> None:
        starts[job.id], ends[job.id] = now, now + job.run_time
        queue.remove(job)

    for now, arrived in passes(jobs, ends, pass_):
        queue += arrived
        while queue and queue[0].places <= free():
            start(queue[0], now)
        if not queue:
            continue
        head, extra, shadow = queue[0], free(), now
        for end, size in sorted((max(starts[g] + by_id[g].estimate, now), by_id[g].places) for g in ends):
            if extra >= head.places and end > shadow:
                break
            extra, shadow = extra + size, end
        extra -= head.places
        others = (
            sorted(queue[1:], key=lambda job: (job.estimate, job.submitted, job.id))
            if shortest_first
            else queue[1:]
        )
        for job in others:
            if job.places <= free() and (now + job.estimate <= shadow or job.places <= extra):
                extra -= 0 if now + job.estimate <= shadow else job.places
                start(job, now)
    return starts


def fcfs(capacity: int, jobs: list[Job], pass_: Pass) -> dict[GangId, float]:
    """When each job starts if no job passes another."""
    starts: dict[GangId, float] = {}
    ends: dict[GangId, float] = {}
    queue: list[Job] = []
    sizes = {job.id: job.places for job in jobs}
    for now, arrived in passes(jobs, ends, pass_):
        queue += arrived
        while queue and queue[0].places <= capacity - sum(sizes[gang] for gang in ends):
            job = queue.pop(0)
            starts[job.id], ends[job.id] = now, now + job.run_time
    return starts
