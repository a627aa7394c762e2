"""What a job file probably forgot: an S3 endpoint, and buckets in host names.

A warning keeps no job from being applied. Its patch, added to the file, is meant to be right as it stands.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from muster.api.fields import Finding, Severity
from muster.compiler import Workload
from muster.compiler.workload import External, Secret
from muster.workloads.batch.job import BatchJob

_S3_VARIABLE: Final = re.compile(r"(^|_)(S3|AWS)_|BUCKET")
_S3_KEYS: Final = frozenset({"access-key", "secret-key", "aws_access_key_id", "aws_secret_access_key"})
_PATCH: Final = """\
spec:
  resources:
    s3-endpoint:
      type: external-service
      direction: outbound
      params:
        endpoints:
          s3: https://s3.us-east-1.amazonaws.com"""

_S3_HOST: Final = re.compile(r"s3([.-][.a-z0-9-]*)?\.amazonaws\.com(\.cn)?")
_BUCKETS: Final = """\
spec:
  resources:
    {resource}:
      params:
        endpoints:
          {name}: https://*.{host}"""


def find(job: BatchJob) -> Sequence[Finding]:
    """The warnings about a job, one for each cause."""
    found = [each for task in job.tasks for each in _of(task.workload)]
    return list({each.message: each for each in found}.values())


def _of(workload: Workload) -> Iterator[Finding]:
    external = [(each, each.what) for each in workload.resources.values() if isinstance(each.what, External)]
    if not external and (found := _s3(workload)):
        path, user = found
        message = (
            f"{user} is for S3, but no resource says that the job connects to it; what is not declared "
            f"is blocked"
        )
        yield Finding(path, message, Severity.WARNING, _PATCH)
    hosts = {endpoint.host for _, what in external for endpoint in what.endpoints}
    for resource, what in external:
        for endpoint in what.endpoints:
            if _S3_HOST.fullmatch(endpoint.host) and f"*.{endpoint.host}" not in hosts:
                message = (
                    f"clients that put the bucket into the host name (BUCKET.{endpoint.host}) are blocked; "
                    f"configure path-style addressing, or declare these hosts as well"
                )
                patch = _BUCKETS.format(
                    resource=resource.name, name=f"{endpoint.name}-buckets", host=endpoint.host
                )
                yield Finding(resource.path, message, Severity.HINT, patch)
    if workload.host_network and (external or workload.ports):
        message = "the pods share the node's network, to which network policies do not apply"
        yield Finding((*workload.path, "hostNetwork"), message, Severity.WARNING)


def _s3(workload: Workload) -> tuple[tuple[str | int, ...], str] | None:
    for container in workload.containers:
        for name in container.variables:
            if _S3_VARIABLE.search(name):
                return (*container.path, "variables", name), f"variable {name}"
    for resource in workload.resources.values():
        if isinstance(resource.what, Secret) and _S3_KEYS & {key.lower() for key in resource.what.keys}:
            return resource.path, f"secret {resource.name}"
    return None
