"""Runs on a schedule: CronJobs make Jobs, and BatchJobs with a schedule make BatchJobs.

`api.schedule` computes when a run is due, `decide` what to do then, and the two controllers here create the
runs. A run of a BatchJob is a BatchJob of its own, so that it goes through the whole pipeline: policies are
asked and secrets are resolved at the time of the run.
"""

from muster.controllers.cron.batch_jobs import controller as batch_jobs
from muster.controllers.cron.cron_jobs import controller as cron_jobs

__all__ = ["batch_jobs", "cron_jobs"]
