"""What other queues can reclaim from a gang, before it starts."""

from dataclasses import replace

import pytest

from muster import names
from muster.core.words.gang import Gang, GangId, PodSet, Queue, Shape
from muster.core.world.queues.lending import borrowed

SHAPE = Shape(requests=(("cpu", 1000), (names.GPU, 1)))
CLUSTER = {"cpu": 64_000, names.GPU: 16}


def gang(gpus: int, queue: str = "a") -> Gang:
    return Gang(GangId("ns/g"), (PodSet("main", SHAPE, gpus, gpus),), gpus, 0.0, queue=queue)


def queues(*rules: Queue) -> dict[str, Queue]:
    return {each.name: each for each in rules}


A, B = Queue("a", weight=3), Queue("b", weight=1)
DESERVES = replace(A, deserved=((names.GPU, 8), ("cpu", 64_000)))
CASES = {
    "more than its share": (gang(16), queues(A, B), ("12 GPUs", "16", ("b",))),
    "its share": (gang(12), queues(A, B), None),
    "more than it deserves": (gang(9), queues(DESERVES, B), ("8 GPUs", "9", ("b",))),
    "not reclaimable": (gang(16), queues(replace(A, reclaimable=False), B), None),
    "the only queue": (gang(16), queues(A), None),
    "the queue of gangs that name none": (gang(16, "default"), {"b": B}, ("8 GPUs", "16", ("b",))),
    "no such queue": (gang(16, "c"), queues(A, B), None),
    "a faulty queue": (gang(16), queues(replace(A, parent="nowhere"), B), None),
    "an inner queue": (gang(16), queues(A, B, Queue("x", parent="a")), None),
    "a sibling below the same queue": (
        gang(9, "x"),
        queues(A, B, Queue("x", parent="a"), Queue("y", parent="a")),
        ("6 GPUs", "9", ("y",)),
    ),
    "queues above may reclaim, too": (
        gang(13, "x"),
        queues(A, B, Queue("x", parent="a"), Queue("y", parent="a")),
        ("6 GPUs", "13", ("b", "y")),
    ),
    "a queue that may use nothing cannot reclaim": (
        gang(16),
        queues(A, replace(B, capability=((names.GPU, 0), ("cpu", 0)))),
        None,
    ),
}


@pytest.mark.parametrize(("asked", "rules", "expected"), CASES.values(), ids=CASES)
def test_what_can_be_reclaimed(
    asked: Gang, rules: dict[str, Queue], expected: tuple[str, str, tuple[str, ...]] | None
) -> None:
    found = borrowed(asked, rules, CLUSTER)
    if expected is None:
        assert found is None
    else:
        least, takes, reclaimers = expected
        assert found is not None
        told = (
            f"queue {asked.queue} is entitled to {least} if all queues use their shares, "
            f"and the gang requests {takes}"
        )
        assert found == (told, reclaimers)


def test_an_empty_cluster_has_nothing_to_reclaim() -> None:
    assert borrowed(gang(16), queues(A, B), {}) is None
