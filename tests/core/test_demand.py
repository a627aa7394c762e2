"""What a gang lacks, cut to what there is room for."""

from muster.core.demand import Demand, Part, cut
from muster.names import GPU_SHARE
from tests.core.words import shape


def test_a_minimum_is_cut_to_the_smallest_pods_that_there_is_room_for() -> None:
    sharing = Part("sharing", shape(share=550, cpu=1000), 1, 0)
    whole = Part("whole", shape(gpu=2), 3, 1)
    demand = Demand((sharing, whole), 2)
    room = {GPU_SHARE: 3450, "cpu": 1000}
    parts = cut(demand, room, [part.usage for part in demand.parts])
    assert [(part.pod_set, part.count) for part in parts] == [("sharing", 1), ("whole", 1)]
