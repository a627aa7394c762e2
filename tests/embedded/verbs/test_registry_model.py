"""The registry against a model: a dictionary, and what watchers must have seen of it.

Any sequence of creations, patches, deletions and finalizers leaves the same objects in both, and each
watcher, however often it stops and resumes (also over a restart of the store), sees every change exactly
once and in order: replaying what it saw gives what is there.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.api import kinds
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import AlreadyExists, NotFound
from tests.embedded.objects import read
from tests.tiers import examples

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["x", "y", None])


class Watcher:
    """Replays what it is told into `seen`; holds nothing else but the revision."""

    def __init__(self, labels: str, revision: int) -> None:
        self.labels, self.revision = labels, revision
        self.seen: dict[str, Any] = {}

    async def catch_up(self, registry: Registry) -> None:
        watch = registry.watch(kinds.CONFIG_MAP, revision=self.revision, labels=self.labels, timeout=0)
        async for frames in watch:
            for frame in frames:
                obj = read(frame.body)
                name = obj["metadata"].get("name")
                assert frame.revision == int(obj["metadata"]["resourceVersion"])
                if frame.type == "BOOKMARK":
                    assert frame.revision >= self.revision
                else:
                    assert frame.revision > self.revision
                    assert (name in self.seen) is (frame.type != "ADDED")
                    self.seen[name] = obj
                if frame.type == "DELETED":
                    del self.seen[name]
                self.revision = frame.revision


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.registry = self.opened()
        #: label, finalized, being deleted; by name
        self.model: dict[str, tuple[str | None, bool, bool]] = {}
        self.writes = 0
        self.start = self.registry.store.revision
        self.watchers = [Watcher(labels, self.start) for labels in ("", "app=x", "app!=x", "app")]

    def opened(self) -> Registry:
        return Registry(Store(Path(self.directory.name) / "s", buffered_events=8))

    def teardown(self) -> None:
        self.registry.store.close()
        self.directory.cleanup()

    @rule(name=NAMES, value=VALUES, finalized=st.booleans())
    def create(self, name: str, value: str | None, finalized: bool) -> None:
        obj: dict[str, Any] = {"metadata": {"name": name, "labels": {"app": value}}}
        if finalized:
            obj["metadata"]["finalizers"] = ["a.b/c"]
        try:
            self.registry.create(kinds.CONFIG_MAP, "default", obj)
        except AlreadyExists:
            assert name in self.model
            return
        assert name not in self.model
        self.model[name] = (value, finalized, False)
        self.writes += 1

    @rule(name=NAMES, value=VALUES)
    def relabel(self, name: str, value: str | None) -> None:
        patch = {"metadata": {"labels": {"app": value}}}
        try:
            self.registry.patch(kinds.CONFIG_MAP, "default", name, patch)
        except NotFound:
            assert name not in self.model
            return
        before, finalized, deleting = self.model[name]
        self.model[name] = (value, finalized, deleting)
        self.writes += before != value

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        try:
            self.registry.delete(kinds.CONFIG_MAP, "default", name, DeleteOptions())
        except NotFound:
            assert name not in self.model
            return
        value, finalized, deleting = self.model[name]
        self.writes += not deleting
        if finalized:
            self.model[name] = (value, True, True)
        else:
            del self.model[name]

    @rule(name=NAMES)
    def finalize(self, name: str) -> None:
        patch = [{"op": "remove", "path": "/metadata/finalizers"}]
        value, finalized, deleting = self.model.get(name, (None, False, False))
        if not finalized:
            return
        self.registry.patch(kinds.CONFIG_MAP, "default", name, patch)
        self.writes += 1
        if deleting:
            del self.model[name]
        else:
            self.model[name] = (value, False, False)

    @rule()
    def restart(self) -> None:
        self.registry.store.close()
        self.registry = self.opened()

    @rule(which=st.integers(0, 3))
    @precondition(lambda self: self.watchers)
    def catch_up(self, which: int) -> None:
        """One watcher reads what it missed and sees what is there."""
        watcher = self.watchers[which]
        asyncio.run(watcher.catch_up(self.registry))
        listing = self.registry.list(kinds.CONFIG_MAP, labels=watcher.labels)
        expected = {obj["metadata"]["name"]: obj for obj in map(read, listing.items)}
        assert watcher.seen == expected

    @invariant()
    def both_have_the_same_objects(self) -> None:
        found = {}
        for body in self.registry.list(kinds.CONFIG_MAP).items:
            meta = read(body)["metadata"]
            label = (meta.get("labels") or {}).get("app")
            found[meta["name"]] = (label, "finalizers" in meta, "deletionTimestamp" in meta)
        assert found == self.model

    @invariant()
    def each_change_has_one_revision(self) -> None:
        assert self.registry.store.revision == self.start + self.writes


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
