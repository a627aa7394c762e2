"""An experiment: a trace under a policy, once for each seed, in any number of processes.

If neither the trace nor the policy draws random numbers, all seeds share one result, computed once.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context, resource_tracker
from multiprocessing.pool import Pool
from typing import Final

from muster.core.words.decisions import Wait
from muster.core.words.events import GangRemoved, GangSubmitted
from muster.sim import policies
from muster.sim.engine import Core, Pass, replay
from muster.sim.history import History
from muster.sim.metrics import Recorder
from muster.sim.report import Report, Result, summary
from muster.sim.trace import Job, Survey, Tally, Trace, TraceError, capacity, stretch, survey
from muster.sim.tracks import Course

MOST_LOAD: Final = 1000.0
#: Jobs that never started of which the reasons are found.
MOST_EXPLAINED: Final = 100


class Order(StrEnum):
    """The backfill order: which gangs may pass a reserved gang first, by age, or the shortest first."""

    FCFS = "fcfs"
    SJBF = "sjbf"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is replayed, and how. It is sent to other processes as it is."""

    trace: Trace
    policy: str = "pack"
    seeds: Sequence[int] = (42,)
    #: gangs that may pass a reserved gang are served by rising estimate
    shortest_first: bool = False
    #: the offered load to reach, by stretching the time between arrivals; None: as it was
    load: float | None = None
    pass_: Pass = Pass.EVENT
    #: keep the course over time, for a report
    history: bool = False

    @property
    def draws(self) -> bool:
        """Whether a seed makes a difference."""
        return self.trace.draws or self._policy.draws

    def core(self, seed: int) -> Core:
        """Make the policy's scheduler. Raises TraceError if there is no such policy."""
        return self._policy(self.trace, seed)

    @property
    def _policy(self) -> policies.Policy:
        return policies.policy(self.policy, shortest_first=self.shortest_first)


def prepare(experiment: Experiment, turn: Callable[[int], None] = lambda read: None) -> Survey:
    """Check whether the experiment can be run; `turn` receives the number of jobs read. Raises TraceError."""
    policies.policy(experiment.policy, shortest_first=experiment.shortest_first)
    load = experiment.load
    if load is not None and not 0 < load <= MOST_LOAD:
        raise TraceError(f"--load {load:g}: expected more than 0, at most {MOST_LOAD}")
    surveyed = survey(experiment.trace, turn)
    if load is not None and not experiment.trace.tunes and surveyed.last == surveyed.first:
        raise TraceError("--load: all jobs arrive at one time; there are no times between arrivals to scale")
    return surveyed


def run(
    experiment: Experiment,
    surveyed: Survey,
    *,
    jobs: int = 1,
    turn: Callable[[int, Recorder | None], None] = lambda done, recorder: None,
) -> Report:
    """Run the experiment. Raises TraceError.

    `jobs`: processes. `turn` is called with the number of seeds that are done: after each decision cycle,
    with what has been recorded of the one at work, or, with several processes, after each seed.
    """
    seeds = experiment.seeds if experiment.draws else experiment.seeds[:1]
    results = []
    for result in _results(experiment, surveyed, seeds, min(jobs, len(seeds)), turn):
        results.append(result)
        turn(len(results), None)
    if not experiment.draws:
        results *= len(experiment.seeds)
    return summary(experiment.policy, experiment.seeds, results, drawn=experiment.draws)


def _results(
    experiment: Experiment,
    surveyed: Survey,
    seeds: Sequence[int],
    jobs: int,
    turn: Callable[[int, Recorder | None], None],
) -> Iterator[Result]:
    """Yield the results in order of seeds."""
    if jobs <= 1:
        for done, seed in enumerate(seeds):
            yield one(experiment, surveyed, seed, lambda recorder, done=done: turn(done, recorder))  # type: ignore[misc]
        return
    with processes(jobs) as pool:
        yield from pool.imap(_One(experiment, surveyed), seeds)


def processes(jobs: int) -> Pool:
    """Returns a pool of new processes, which Ctrl-C does not reach: the parent ends them."""
    # Each is a new interpreter: a fork would take the threads of a progress bar along, in whatever state.
    # They inherit that SIGINT is blocked, and so does the thread that replaces a process that has died.
    resource_tracker.ensure_running()  # its start would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return get_context("spawn").Pool(jobs)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True, slots=True)
class _One:
    experiment: Experiment
    surveyed: Survey

    def __call__(self, seed: int) -> Result:
        return one(self.experiment, self.surveyed, seed)


def one(
    experiment: Experiment,
    surveyed: Survey,
    seed: int,
    turn: Callable[[Recorder], None] = lambda recorder: None,
    course: Course | None = None,
) -> Result:
    """Replay one seed; `course` is told who ran where and when."""
    trace = experiment.trace.drawn(seed, experiment.load)
    total = capacity(trace.nodes, trace.resource)
    history = History() if experiment.history else None
    recorder = Recorder(total, history, course)
    jobs = trace.jobs(Tally())  # counted by the survey
    if experiment.load is not None and not trace.tunes:
        jobs = stretch(jobs, surveyed.first, surveyed.offered(total) / experiment.load)
    left = replay(
        experiment.core(seed),
        trace.nodes,
        jobs,
        recorder,
        experiment.pass_,
        lambda: turn(recorder),
        resource=trace.resource,
        outages=trace.outages,
        rules=trace.rules,
    )
    stranded = len(left) + recorder.dropped
    why = [*_why(experiment, trace, seed, left)]
    if recorder.dropped:
        why.append(f"{recorder.dropped:,} × no room when they came, and this format has no times to wait")
    return Result(recorder.metrics, recorder.submitted, stranded, dict(recorder.stops), history, tuple(why))


def _why(experiment: Experiment, trace: Trace, seed: int, left: Sequence[Job]) -> Iterator[str]:
    """Why jobs that waited in the end cannot start: each of them alone on what is left of the machine."""
    make = policies.policy(experiment.policy, explain=True, shortest_first=experiment.shortest_first)
    core = make(trace, seed)
    up = {each.node: each.up for each in trace.outages}  # the last word on each node
    for event in (*trace.rules, *(node for node in trace.nodes if up.get(node.name, True))):
        core.apply(event)
    reasons: dict[str, list[str]] = {}
    for job in left[:MOST_EXPLAINED]:
        core.apply(GangSubmitted(job.gang()))
        told = {each.gang: each.explanation for each in core.decide(job.submitted) if isinstance(each, Wait)}
        code = told[job.id].code.value if job.id in told else "behind jobs that never end or start"
        because = f": {told[job.id].message}" if job.id in told else ""
        reasons.setdefault(code, []).append(f"{job.id}{because}")
        core.apply(GangRemoved(job.id))
    for code, jobs in sorted(reasons.items()):
        yield f"{len(jobs):,} × {code}, such as {jobs[0]}"
    if len(left) > MOST_EXPLAINED:
        yield f"and {len(left) - MOST_EXPLAINED:,} more"
