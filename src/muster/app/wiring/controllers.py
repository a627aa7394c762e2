"""Every controller of muster, by the name that `muster controllers --only` takes.

The embedded cluster runs all of them. A daemon runs those that its settings name.
"""

from collections.abc import Callable
from typing import Any, Final

from muster.app.wiring import batch_jobs
from muster.app.wiring.batch_jobs import Site
from muster.controllers import (
    cron,
    driver,
    gang,
    garbage,
    gpu_health,
    jobset,
    podgroup,
    preemptions,
    resource_claims,
    volcano_queues,
)
from muster.controllers.job import CONTROLLER as JOB

CONTROLLERS: Final[dict[str, Callable[[Site], list[driver.Controller[Any]]]]] = {  # Any: observations
    "job": lambda _: [JOB],
    "jobset": lambda _: [jobset.controller()],
    "garbage": lambda _: [garbage.controller()],
    "gang": lambda _: [gang.controller(), preemptions.controller()],
    "gpuhealth": lambda _: [gpu_health.quarantine(), gpu_health.moves(gang.POD_INDEX)],
    "podgroup": lambda site: [
        *(podgroup.controller(row, site.schedulers) for row in podgroup.STATUS),
        volcano_queues.controller(),
    ],
    "resourceclaim": lambda _: [resource_claims.of_pods(), resource_claims.freed()],
    "cronjob": lambda _: [cron.cron_jobs()],
    "batchjob": batch_jobs.controllers,
}
