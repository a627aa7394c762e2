"""Names that packages share."""

import pytest

from muster.core.words.gang import gpus
from muster.names import is_gpu


@pytest.mark.parametrize(
    ("resource", "whole"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("deviceclass/gpu", True),
        ("deviceclass/gpu.nvidia.com", True),
        ("deviceclass/mig.nvidia.com", False),
        ("deviceclass/gpus.example.com", False),
        ("gpu.example.com/nic", False),
        ("cpu", False),
    ],
)
def test_what_is_a_gpu(resource: str, whole: bool) -> None:
    """Prices, losses and GPU-hours count devices of a class as they count resources of device plug-ins."""
    assert is_gpu(resource) is whole
    assert gpus(((resource, 4),)) == (4 if whole else 0)
