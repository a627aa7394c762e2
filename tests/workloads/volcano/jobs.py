"""Jobs of Volcano as text, and what they are compiled to."""

from typing import Any, Final

import yaml

from muster.api.base import Object
from muster.api.fields import Finding
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import JobFile, Options
from muster.workloads.load import load

CONTAINER: Final = {"name": "c", "image": "i", "command": ["true"]}


def task(name: str, replicas: int = 1, spec: Object | None = None, **more: Any) -> Object:
    """A task whose pods are never restarted; `more`: its other fields."""
    pod = {"restartPolicy": "Never", "containers": [dict(CONTAINER)], **(spec or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": pod}, **more}


def job(*tasks: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": list(tasks), **spec},
    }


def policy(event: str, action: str, **more: Any) -> Object:
    return {"event": event, "action": action, **more}


def loaded(*documents: Object, options: Options = Options(suffix="3f9a1c20")) -> JobFile:  # noqa: B008
    return load("job.yaml", options, text=yaml.safe_dump_all(documents))


def jobset(*documents: Object, options: Options = Options(suffix="3f9a1c20")) -> Object:  # noqa: B008
    """The JobSet of the file's only job."""
    (made,) = loaded(*documents, options=options).primary
    assert made["kind"] == "JobSet"
    return made


def spec_of(made: Object, number: int = 0) -> Any:
    """The spec of a replicated job's Job."""
    return made["spec"]["replicatedJobs"][number]["template"]["spec"]


def pod_of(made: Object, number: int = 0) -> Any:
    """The template of a replicated job's pods."""
    return spec_of(made, number)["template"]


def refused(*documents: Object) -> list[Finding]:
    """The errors of a file that cannot be used."""
    try:
        loaded(*documents)
    except JobFileError as error:
        return error.findings
    raise AssertionError("the file is accepted")


def of(job: JobFile, kind: str) -> Object:
    """The only object of a kind."""
    (found,) = (each for each in job.objects if each["kind"] == kind)
    return found
