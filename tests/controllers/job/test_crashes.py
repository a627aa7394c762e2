"""A crash after each single write, and every order of events that hypothesis can think of.

The cluster's ledger is the truth: what each pod came to before the controller let it go. However the
controller is stopped, restarted, or shown the past, its counts must come to that.
"""

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from muster.effects import Requeue
from tests.controllers.job.cluster import Cluster, Crash, Refused, job_object
from tests.tiers import examples

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"completions": 4, "parallelism": 2, "backoffLimit": 3},
    "queue": {"completions": None, "parallelism": 3, "backoffLimit": 3},
    "indexed": {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimit": 3},
    "replaced once ended": {
        "completionMode": "Indexed",
        "completions": 3,
        "parallelism": 3,
        "backoffLimit": 3,
        "podReplacementPolicy": "Failed",
    },
    "plain, replaced once ended": {
        "completions": 4,
        "parallelism": 2,
        "backoffLimit": 3,
        "podReplacementPolicy": "Failed",
    },
    "limit per index": {
        "completionMode": "Indexed",
        "completions": 4,
        "parallelism": 3,
        "backoffLimit": 2**31 - 1,
        "backoffLimitPerIndex": 1,
    },
    "success policy": {
        "completionMode": "Indexed",
        "completions": 4,
        "parallelism": 4,
        "backoffLimit": 3,
        "successPolicy": {"rules": [{"succeededCount": 2}]},
    },
    "no retries": {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimit": 0},
}


def check_counts(cluster: Cluster) -> None:
    """What the status and its list say is what happened, as far as it is known."""
    status = cluster.status
    listed = status.get("uncountedTerminatedPods") or {}
    truth = Counter(cluster.ledger.values())
    assert status.get("failed", 0) + len(listed.get("failed") or []) <= truth["failed"]
    if cluster.job["spec"].get("completionMode") != "Indexed":
        assert status.get("succeeded", 0) + len(listed.get("succeeded") or []) <= truth["succeeded"]


def check_end(cluster: Cluster) -> None:
    """The Job is finished, and nothing was counted twice or forgotten."""
    truth = Counter(cluster.ledger.values())
    active, succeeded, failed = cluster.counts()
    assert active == 0
    assert cluster.active() == cluster.terminating() == []
    assert failed == truth["failed"]
    assert cluster.status.get("uncountedTerminatedPods", {}) == {}
    assert (cluster.condition("Complete") is None) != (cluster.condition("Failed") is None)
    if cluster.job["spec"].get("completionMode") == "Indexed":
        assert succeeded == len(cluster.completed)
    else:
        assert succeeded == truth["succeeded"]
    if cluster.reason("Complete") == "CompletionsReached":
        assert succeeded == (cluster.job["spec"]["completions"] or succeeded)
    for pod in cluster.pods.values():
        assert pod["metadata"]["finalizers"] == []


def run_to_the_end(cluster: Cluster) -> None:
    """Everything still running succeeds, everything deleted ends, and time passes."""
    cluster.set_job(suspend=False)
    for _ in range(60):
        cluster.settle(40)
        if cluster.condition("Complete") or cluster.condition("Failed"):
            return
        for name in cluster.terminating():
            cluster.end(name, 143)
        for name in cluster.active():
            cluster.end(name)
        cluster.advance(400)
    raise AssertionError(f"no end: {cluster.status}")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_crash_after_each_write(shape: str) -> None:
    """A life with a failure, a deletion, a suspension and successes, stopped after every single write."""
    writes = _life(shape, crash_at=None)
    assert writes > 10
    for crash_at in range(writes):
        _life(shape, crash_at)


def _life(shape: str, crash_at: int | None) -> int:
    """Runs the life; the controller stops once, after `crash_at` writes in all. Returns the writes."""
    cluster = Cluster(job_object(SHAPES[shape]))
    written = 0

    def settle() -> None:
        nonlocal written, crash_at
        for _ in range(30):
            cluster.catch_up()
            try:
                effects = cluster.reconcile(None if crash_at is None else crash_at - written)
            except Crash:
                crash_at = None
                continue
            writes = [effect for effect in effects if not isinstance(effect, Requeue)]
            written += len(writes)
            if not writes:
                return
        raise AssertionError("never settles")

    def each(count: int) -> list[str]:
        return cluster.active()[:count]

    settle()
    for name in each(3):
        cluster.run(name)
    settle()
    for name in each(1):
        cluster.end(name, 1)
    settle()
    for name in each(1):
        cluster.delete(name)
    settle()
    for name in cluster.terminating():
        cluster.end(name, 143)
    cluster.advance(400)
    settle()
    for name in each(1):
        cluster.end(name)
    settle()
    cluster.set_job(suspend=True)
    settle()
    for name in cluster.terminating():
        cluster.end(name, 143)
    settle()
    cluster.set_job(suspend=False)
    for _ in range(12):
        cluster.advance(400)
        settle()
        for name in [*cluster.active(), *cluster.terminating()]:
            cluster.end(name)
    settle()
    check_end(cluster)
    return written


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cache_that_does_not_show_the_new_pods_makes_no_second_ones(shape: str) -> None:
    cluster = Cluster(job_object(SHAPES[shape]))
    before = cluster.pods_seen
    for _ in range(3):
        cluster.reconcile()
        cluster.pods_seen = before
    assert cluster.made == SHAPES[shape]["parallelism"]
    cluster.catch_up()
    cluster.end(cluster.active()[0], 1)
    cluster.settle()
    cluster.advance(400)
    made, before = cluster.made, cluster.pods_seen
    for _ in range(3):
        with suppress(Refused):
            cluster.reconcile()
        cluster.pods_seen = before
    if cluster.condition("FailureTarget") is None:
        assert len(cluster.active()) == SHAPES[shape]["parallelism"]
    assert cluster.made <= made + 1


class JobMachine(RuleBasedStateMachine):
    """Random outcomes, deletions, suspensions, crashes, conflicts and caches that lag."""

    cluster: Cluster
    parallelism: int

    @initialize(shape=st.sampled_from(sorted(SHAPES)))
    def make(self, shape: str) -> None:
        self.cluster = Cluster(job_object(SHAPES[shape]))
        self.parallelism = SHAPES[shape]["parallelism"]

    def pick(self, number: int, names: list[str]) -> str | None:
        return names[number % len(names)] if names else None

    @rule(number=st.integers(0, 9))
    def runs(self, number: int) -> None:
        if name := self.pick(number, self.cluster.active()):
            self.cluster.run(name)

    @rule(number=st.integers(0, 9), exit_code=st.sampled_from([0, 0, 1]))
    def ends(self, number: int, exit_code: int) -> None:
        if name := self.pick(number, self.cluster.active()):
            self.cluster.end(name, exit_code)

    @rule(number=st.integers(0, 9))
    def somebody_deletes(self, number: int) -> None:
        if name := self.pick(number, self.cluster.active()):
            self.cluster.delete(name)

    @rule(number=st.integers(0, 9), exit_code=st.sampled_from([0, 143]))
    def termination_ends(self, number: int, exit_code: int) -> None:
        if name := self.pick(number, self.cluster.terminating()):
            self.cluster.end(name, exit_code)

    @rule(number=st.integers(0, 9))
    def somebody_removes_an_ended_pod(self, number: int) -> None:
        ended = [
            n for n, pod in self.cluster.pods.items() if pod["status"]["phase"] in ("Succeeded", "Failed")
        ]
        if name := self.pick(number, ended):
            self.cluster.delete(name)

    @rule(suspend=st.booleans())
    def suspends_or_resumes(self, suspend: bool) -> None:
        self.cluster.set_job(suspend=suspend)

    @rule(less=st.integers(0, 2))
    def scales(self, less: int) -> None:
        self.cluster.set_job(parallelism=max(self.parallelism - less, 1))

    @rule(seconds=st.sampled_from([1, 10, 60, 400]))
    def time_passes(self, seconds: int) -> None:
        self.cluster.advance(seconds)

    @rule(job=st.booleans(), pods=st.booleans())
    def caches_advance(self, job: bool, pods: bool) -> None:
        if job:
            self.cluster.job_seen = self.cluster.revision
        if pods:
            self.cluster.pods_seen = self.cluster.revision

    @rule(crash_after=st.none() | st.integers(0, 6))
    def reconciles(self, crash_after: int | None) -> None:
        try:
            self.cluster.reconcile(crash_after)
        except Refused:
            pass
        except Crash:
            self.cluster.catch_up()  # a new process lists again

    @precondition(lambda self: hasattr(self, "cluster"))
    @invariant()
    def never_more_than_happened(self) -> None:
        check_counts(self.cluster)

    @precondition(lambda self: hasattr(self, "cluster"))
    @invariant()
    def one_pod_per_index(self) -> None:
        if self.cluster.job["spec"].get("completionMode") == "Indexed":
            indexes = [self.cluster.index(name) for name in self.cluster.active()]
            assert len(indexes) == len(set(indexes))

    @precondition(lambda self: hasattr(self, "cluster"))
    @invariant()
    def never_too_many(self) -> None:
        assert len(self.cluster.active()) <= self.parallelism
        if self.cluster.job["spec"].get("podReplacementPolicy") == "Failed":
            leaving = [
                name
                for name in self.cluster.terminating()
                if self.cluster.pods[name]["metadata"]["uid"] not in self.cluster.let_go
            ]
            assert len(self.cluster.active()) + len(leaving) <= self.parallelism

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        run_to_the_end(self.cluster)
        check_end(self.cluster)
        self.cluster.settle()
        assert self.cluster.reconcile() == []


TestJobMachine = JobMachine.TestCase
TestJobMachine.settings = settings(
    max_examples=examples(200),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
