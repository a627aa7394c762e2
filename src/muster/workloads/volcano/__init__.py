"""Jobs of Volcano (`batch.volcano.sh/v1alpha1`) without Volcano's controllers: each becomes a JobSet.

`job` reads a Job as its author means it, with the defaults of Volcano's webhook. `jobset` makes a JobSet of
it, `policies` its failure and success policies, `plugins` what Volcano's plugins give its pods. Nothing here
connects to a cluster. What a JobSet cannot say is an error if the job would run otherwise than its author
expects, and a warning if it would only end otherwise.

Source: volcano-sh/volcano, pkg/controllers/job and pkg/webhooks/admission/jobs.
"""

from muster.workloads.volcano.job import VolcanoJob, read
from muster.workloads.volcano.jobset import Made, compiled

__all__ = ["Made", "VolcanoJob", "compiled", "read"]
