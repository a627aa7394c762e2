"""Figures in the units that people use: 12 min and 5 h for seconds, GPU-hours for GPU-seconds."""

from typing import Final

from muster.names import GPU
from muster.sim.metrics import Unit

#: Seconds of each unit, largest first.
_DURATIONS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_HOUR: Final = 3_600
_PIECES: Final = {GPU: "GPU", "cpu": "CPU"}


def piece(resource: str) -> str:
    """What one piece of a resource is called: `GPU`, `CPU`, else the resource's own name."""
    return _PIECES.get(resource, resource)


def pieces(resource: str) -> str:
    """The plural of `piece`."""
    return f"{_PIECES[resource]}s" if resource in _PIECES else resource


def scale(unit: Unit, largest: float, resource: str) -> tuple[float, str]:
    """The size of the unit in which to show values up to `largest`, and its name.

    `largest` and the size are in the unit of the metric: seconds, or pieces × seconds.
    """
    if unit is Unit.SECONDS:
        return next(((size, name) for size, name in _DURATIONS if largest >= size), (1.0, "s"))
    if unit is Unit.WORK:
        return (_HOUR, f"{piece(resource)}-hours")
    return (1.0, "")


def duration(seconds: float) -> str:
    """`30 s`, `12 min`, `5 h`, `3 d`, to three digits."""
    size, unit = scale(Unit.SECONDS, seconds, "")
    return f"{seconds / size:.3g} {unit}"
