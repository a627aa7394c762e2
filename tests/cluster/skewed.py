"""`python -m tests.cluster.skewed SECONDS …`: `muster …` on a machine whose wall clock is that much ahead."""

import sys
from datetime import UTC, datetime, timedelta

from muster.cli.main import main
from muster.kube.clock import SystemClock

if __name__ == "__main__":
    ahead = timedelta(seconds=float(sys.argv.pop(1)))
    SystemClock.now = lambda self: datetime.now(UTC) + ahead  # type: ignore[method-assign]
    main()
