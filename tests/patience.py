"""How long a test waits for what must come about, before it fails."""

from typing import Final

#: Seconds, on a busy machine. No test passes or fails by how long something takes within this time.
PATIENCE: Final = 90.0
#: Seconds, where a whole cluster and its daemons share the machine with others.
CLUSTER: Final = 600.0
#: Seconds after which a test of a cluster hangs, although it waits for several things with patience.
LONGEST: Final = 6 * CLUSTER
