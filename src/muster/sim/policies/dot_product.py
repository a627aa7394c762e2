"""DotProd: the node whose free amounts point least in the direction of the request.

⌊100 · (1 − ½ · (free CPU · CPU asked + free GPU · GPU asked))⌋, each as a part of the largest node. After
Grandl et al., "Multi-resource packing for cluster schedulers" (SIGCOMM'14), in the form of Weng et al.
(ATC'23).
"""

from muster.core.placement.slots import Vector
from muster.core.world.nodes import Columns, Ints
from muster.sim.policies.score import HIGHEST, MOST_CPU, MOST_GPU, Score, floor


class DotProduct(Score):
    def scores(self, vector: Vector, columns: Columns | None) -> Ints:
        cpu, thousandths, count = self.asked(vector.row_amounts)
        product = self.cpu(columns) / MOST_CPU * (cpu / MOST_CPU)
        product += self.gpu(columns) / MOST_GPU * (count * thousandths / MOST_GPU)
        return floor(HIGHEST * (1 - product / 2))
