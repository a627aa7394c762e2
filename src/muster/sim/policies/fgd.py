"""FGD, fragmentation gradient descent: the node, and GPU, that the pod fragments least.

What typical pod m cannot use of a node's idle GPUs is a fragment to it: all of them if it asks for no GPU,
if the node has not the CPU or is not one that it may use, or if fewer of the GPUs fit than it asks for;
else those on which it does not fit. F(n) is the mean of that over typical pods, in thousandths of a GPU,
and the score of a node ⌊100 · σ((F(n) − F(n⁻))/1000)⌋ with n⁻ the node with the pod, σ the logistic
function. A share goes to the GPU that scores best, the lowest number of several. Typical pods are those of
the trace: the kinds of pods by falling frequency until 95 % of all are covered. Weng et al., "Beware of
fragmentation", ATC'23.

Scores are kept by shape (`muster.core.placement.slots`); for nodes that have changed since, all candidates
(the GPUs that a share could go to) are scored in one go. A thousandth of a node's amounts decides nothing
here: what is equal is rounded to a tie, which the smallest name wins.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.cycle import Config, Scheduler
from muster.core.placement.slots import Vector
from muster.core.words.gang import Shape
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import Eligibility
from muster.core.world.nodes import UNLIMITED, Bools, Columns, Ints, Nodes, RowAmounts
from muster.names import GPU
from muster.sim.policies.score import HIGHEST, Score
from muster.sim.trace import Tally, Trace, TraceError

Floats = npt.NDArray[np.float64]

#: The part of all pods that typical ones make up.
COVERED: Final = 0.95


def make(config: Config, trace: Trace | None, seed: int) -> Scheduler:
    if trace is None:
        raise TraceError("--policy fgd needs a trace of jobs: it uses the pods that are typical of it")
    typical = typical_pods(
        pod_set.shape for job in trace.jobs(Tally()) for pod_set in job.pod_sets for _ in range(pod_set.count)
    )
    return Scheduler(replace(config, order=lambda nodes, eligibility: Fgd(nodes, eligibility, typical)))


@dataclass(frozen=True, slots=True)
class Typical:
    """Kinds of pods: where they may run, what they ask for, and how frequent each is, all together 1."""

    shapes: tuple[Shape, ...]
    cpu: Ints
    #: of one GPU; 0 for pods without
    thousandths: Ints
    count: Ints
    frequency: Floats


def typical_pods(shapes: Iterable[Shape]) -> Typical:
    """Kinds of pods by falling frequency until COVERED are covered; of equal ones what comes first.

    A kind is CPU, GPUs, and the nodes that are allowed; of memory nothing is known here.
    """
    counted = Counter(map(_kind, shapes))
    enough = COVERED * counted.total()
    kinds: list[Shape] = []
    covered = 0
    for kind, number in counted.most_common():
        if covered >= enough:
            break
        kinds.append(kind)
        covered += number
    amounts = [dict(kind.requests) for kind in kinds]
    shares = [kind.gpu_share for kind in kinds]
    whole = [asked.get(GPU, 0) for asked in amounts]
    frequency = np.array([counted[kind] for kind in kinds], np.float64)
    return Typical(
        tuple(kinds),
        np.array([asked.get("cpu", 0) for asked in amounts], np.int32),
        np.array([s or (WHOLE if w else 0) for s, w in zip(shares, whole, strict=True)], np.int32),
        np.array([1 if s else w for s, w in zip(shares, whole, strict=True)], np.int32),
        frequency / frequency.sum() if covered else frequency,
    )


def _kind(shape: Shape) -> Shape:
    kept = tuple(amount for amount in shape.requests if amount[0] != "memory")
    return Shape(kept, shape.selector, shape.affinity, shape.tolerations)


class Fgd(Score):
    def __init__(self, nodes: Nodes, eligibility: Eligibility, typical: Typical) -> None:
        super().__init__(nodes, eligibility)
        self._typical = typical
        #: the distinct amounts of one GPU that typical pods ask for, and which of them each asks for
        self._levels, self._level = np.unique(typical.thousandths, return_inverse=True)
        #: typical pods × nodes: where each may run, as of a layout and a position in the log of facts
        self._allowed: Bools = np.zeros((0, 0), np.bool_)
        self._as_of = (-1, -1)

    def scores(self, vector: Vector, columns: Columns | None) -> Ints:
        some = np.arange(len(self.nodes)) if columns is None else columns
        best: Ints = self._candidates(some, vector.row_amounts).max(axis=1)
        return np.maximum(best, 0)

    def device(self, column: int, row_amounts: RowAmounts, share: int) -> int:
        scores = self._candidates(np.array([column]), row_amounts)[0]
        number = int(scores.argmax())
        return number if number < len(scores) - 1 else self.nodes.devices.unopened(self.nodes.names[column])

    def _candidates(self, columns: Columns, row_amounts: RowAmounts) -> Ints:
        """Columns × GPUs: the score with the pod on each open GPU, by number, and in the last on empty ones.

        -1 where it does not fit.
        """
        cpu, thousandths, count = self.asked(row_amounts)
        share = thousandths if thousandths < WHOLE else 0
        # one number more, for an empty GPU that a share opens
        open_ = np.vstack((self.nodes.devices.left(columns), np.zeros(len(columns), np.int32)))
        whole = self.nodes.free(self.nodes.devices.row)[columns]
        empty = np.clip(whole, 0, UNLIMITED).astype(np.int32, copy=False)
        now = _State(self.cpu(columns), open_, empty, self._where()[columns])
        fits = open_ >= share if share else np.zeros(open_.shape, np.bool_)
        fits[-1] = empty >= count
        number, node = np.nonzero(fits)
        then = now.of(node)
        then.cpu -= cpu
        if share:
            opens = number == len(open_) - 1
            then.empty -= opens
            then.open[-1, opens] = WHOLE
            then.open[number, np.arange(len(node))] -= share
        else:
            then.empty -= count
        fragments = self._fragments(now.and_(then))
        scores = np.full(open_.shape[::-1], -1, np.int32)
        scores[node, number] = _score(fragments[node] - fragments[len(columns) :])
        return scores

    def _fragments(self, state: "_State") -> Floats:
        """F of each node, in thousandths."""
        typical, open_ = self._typical, state.open[:, :, None]
        fits = open_ >= self._levels  # numbers × nodes × levels
        fitting = fits.sum(axis=0, dtype=np.int32) + state.empty[:, None]
        small = np.where(fits, np.int32(0), open_).sum(axis=0, dtype=np.int32)
        idle = state.open.sum(axis=0, dtype=np.int32) + state.empty * np.int32(WHOLE)
        usable = fitting[:, self._level] >= typical.count
        usable &= state.cpu[:, None] >= typical.cpu
        usable &= state.allowed
        unusable: Floats = np.where(usable, small[:, self._level], idle[:, None]) @ typical.frequency
        return unusable

    def _where(self) -> Bools:
        """Nodes × typical pods: which may run there and ask for a GPU at all."""
        nodes = self.nodes
        as_of = (nodes.layout, nodes.fact_changes.end)
        if self._as_of != as_of:
            masks = [self.eligibility.of(shape).eligible for shape in self._typical.shapes]
            self._allowed = np.ascontiguousarray(np.array(masks, np.bool_).reshape(-1, len(nodes)).T)
            self._allowed &= self._typical.count > 0
            self._as_of = as_of
        return self._allowed


@dataclass(slots=True)
class _State:
    """Of some nodes: milli-CPU free, what open GPUs have left (numbers × nodes), empty GPUs, pods allowed.

    The last is nodes × typical pods.
    """

    cpu: Ints
    open: Ints
    empty: Ints
    allowed: Bools

    def of(self, nodes: Columns) -> "_State":
        """A copy, of these nodes."""
        return _State(self.cpu[nodes], self.open[:, nodes], self.empty[nodes], self.allowed[nodes])

    def and_(self, more: "_State") -> "_State":
        return _State(
            np.concatenate((self.cpu, more.cpu)),
            np.concatenate((self.open, more.open), axis=1),
            np.concatenate((self.empty, more.empty)),
            np.concatenate((self.allowed, more.allowed)),
        )


def _score(less: Floats) -> Ints:
    """Of so many thousandths less of fragments."""
    scores: Ints = np.floor(HIGHEST / (1 + np.exp(less / -WHOLE))).astype(np.int32)
    return scores
