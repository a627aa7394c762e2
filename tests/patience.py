"""How long a test waits for what must come about, before it fails."""

from typing import Final

#: Seconds, on a busy machine. No test passes or fails by how long something takes within this time.
PATIENCE: Final = 90.0
