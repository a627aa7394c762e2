"""What a compiled job becomes: one module per target, each a function from drafts to the job's objects."""

from typing import Final

from muster.workloads.batch.compiling import Target
from muster.workloads.batch.targets import muster, native, volcano

TARGETS: Final[dict[str, Target]] = {
    "muster": muster.emit,
    "volcano": volcano.emit,
    "native": native.emit,
}
