"""BestFit: the node that would have least left, as a part of the largest node, CPU and GPU weighing the same.

⌊100 · (1 − ½ · CPU left − ½ · GPU left)⌋, and then stretched so that the worst node that takes the pod has
0 and the best 100: nodes that are alike after rounding are a tie. As in Weng et al. (ATC'23).
"""

import numpy as np

from muster.core.placement.slots import Vector
from muster.core.world.nodes import Columns, Ints
from muster.sim.policies.score import HIGHEST, MOST_CPU, MOST_GPU, Score, floor


class BestFit(Score):
    local = False  # a score depends on the best and the worst

    def scores(self, vector: Vector, columns: Columns | None) -> Ints:
        cpu, thousandths, count = self.asked(vector.row_amounts)
        left = (self.cpu(columns) - cpu) / MOST_CPU + (self.gpu(columns) - count * thousandths) / MOST_GPU
        scores = floor(HIGHEST * (1 - left / 2))
        fitting = scores[vector.slots > 0] if columns is None else scores
        if not len(fitting):
            return scores
        least, most = int(fitting.min()), int(fitting.max())
        if least == most:
            return np.zeros_like(scores)
        return np.clip((scores - least) * HIGHEST // (most - least), 0, HIGHEST)
