"""What keeps the embedded cluster up."""

from muster.api import kinds
from muster.api.base import Object
from muster.app.laptop import unfinished
from muster.local.client import LocalClient
from muster.local.registry import Registry
from muster.local.store import Store


async def test_jobs_of_other_controllers_keep_nobody_up() -> None:
    store = Store(":memory:")
    client = LocalClient(Registry(store))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name, manager in (("ours", {}), ("theirs", {"managedBy": "example.com/other"})):
        job: Object = {"metadata": {"name": name}, "spec": {"template": template, **manager}}
        await client.create(kinds.JOB, "default", job)
    assert await unfinished(client) == ("ours",)
    store.close()
