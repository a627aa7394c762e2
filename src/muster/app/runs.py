"""The recorded runs of a job: from the embedded cluster's history, else from the pods that are there."""

from muster.app import jobs
from muster.app.cluster import Target, reading
from muster.app.home import Home
from muster.app.timeline import runs_of
from muster.local.history import History, PodRun
from muster.local.store import Store


async def recorded(target: Target, name: str, namespace: str = "") -> tuple[list[PodRun], float | None]:
    """The job's runs and when it was submitted. A job that has been deleted is found by its full name."""
    async with reading(target) as client:
        views = jobs.views(await jobs.fetch(client, namespace))
        view = None
        try:
            view = jobs.find(name, views)
        except LookupError:
            runs = history(name, namespace) if target.embedded else []
            if not runs:
                raise
            return runs, None
    submitted = view.created.timestamp() if view.created else None
    if not target.embedded:
        return runs_of(view.pods), submitted
    found = {run.uid: run for run in history(view.name, view.namespace)}
    for pod in view.pods:  # pods of a group are recorded by their own names
        if pod.metadata.uid not in found:
            found.update((run.uid, run) for run in history(pod.metadata.name, view.namespace))
    return list(found.values()), submitted


def history(name: str, namespace: str) -> list[PodRun]:
    """Read beside whoever hosts: the store allows one writer and many readers."""
    path = Home.of_user().store
    if not path.exists():
        return []
    store = Store.open_read_only(path)
    try:
        return History(store).runs(namespace=namespace, job=name)
    finally:
        store.close()
