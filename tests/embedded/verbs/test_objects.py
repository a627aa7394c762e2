"""What follows from a write: the bound of events. Histories, past objects, addresses have their own tests."""

import pytest

from muster.api import kinds
from muster.embedded.verbs.objects import EVENTS
from muster.embedded.verbs.registry import Registry
from tests.embedded.objects import read


def test_events_are_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EVENTS == 10_000
    monkeypatch.setattr("muster.embedded.verbs.objects.EVENTS", 80)
    for _ in range(600):
        event = {"metadata": {"generateName": "e-"}, "involvedObject": {}, "reason": "Tested"}
        registry.create(kinds.EVENT, "default", event)
    assert registry.store.count("events") < 80 + 256 * 2
    newest = read(registry.list(kinds.EVENT).items[-1])
    assert newest["reason"] == "Tested"
