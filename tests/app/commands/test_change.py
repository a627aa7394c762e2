"""Changes of a job that exists: what its owner is told of them."""

import asyncio

import pytest

from muster.api import kinds
from muster.app.commands.change import move
from muster.app.views.find import with_run
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
BY_CLASS = "the most that PriorityClasses allow in namespace default"
BY_QUEUE = "maxPriority of queue bounded"


@pytest.mark.parametrize(
    ("before", "priority", "queue", "told"),
    [
        (None, "5000", None, f"muster.dev/priority: its priority 5000 is lowered to 1000, {BY_CLASS}"),
        (None, "1000", None, ""),
        (None, "high", None, ""),
        (None, "high", "bounded", f"muster.dev/priority: its priority 1000 is lowered to 7, {BY_QUEUE}"),
        ("900", None, "bounded", f"muster.dev/priority: its priority 900 is lowered to 7, {BY_QUEUE}"),
        ("7", None, "bounded", ""),
    ],
)
def test_set_tells_how_a_priority_is_lowered(
    before: str | None, priority: str | None, queue: str | None, told: str
) -> None:
    store = Store(":memory:")
    registry = Registry(store)
    registry.create(kinds.PRIORITY_CLASS, "", {"metadata": {"name": "high"}, "value": 1000})
    registry.create(kinds.QUEUE, "", {"metadata": {"name": "bounded"}, "spec": {"maxPriority": 7}})
    marks = {} if before is None else {"muster.dev/priority": before}
    job = {"metadata": {"name": "j", "annotations": marks}, "spec": {"template": TEMPLATE}}
    registry.create(kinds.JOB, "default", job)
    client = LocalClient(registry)

    async def change() -> str:
        return await move(client, (await with_run(client, "j", "")).view, priority, queue)

    assert asyncio.run(change()) == told
    store.close()
