"""Carries out effects with the client, in their order, and concurrently where order cannot matter.

A run of effects of one type on different objects of one kind goes out in parallel; the next effect
starts when the whole run is finished. If part of a run fails, all parts are tried, then the first
error is raised and the following effects are skipped: the next reconcile returns them again.

An effect whose result already exists is a success: an object to create that exists under the same
controller, an object to patch or delete that is gone, one to delete whose name now belongs to a successor.
"""

import asyncio
import hashlib
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from muster.api import kinds
from muster.api.base import Object, Resource, controller_of
from muster.controllers.caches import revision
from muster.controllers.effects import Absent, AnyKind, Create, Delete, Effect, Patch, Record, Requeue
from muster.kube.client import Client
from muster.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, Unanswered, Unreachable

log = logging.getLogger(__name__)

PARALLEL = 50  # requests of one run under way at a time


@dataclass(slots=True)
class Written:
    """The result of the effects: which revisions the caches must reach, and when to reconcile again."""

    versions: dict[AnyKind, int] = field(default_factory=dict)
    requeue: datetime | None = None

    def saw(self, kind: AnyKind, resource: Resource) -> None:
        version = revision(resource.metadata.resource_version)
        self.versions[kind] = max(self.versions.get(kind, 0), version)


async def carry_out(
    client: Client, effects: Sequence[Effect], written: Written, *, component: str, now: datetime
) -> None:
    """Carries out `effects` and keeps `written` true even when it raises.

    Raises `Conflict` if the observation was out of date, and the client's other errors.
    """
    for run in _runs(effects):
        first = run[0]
        if isinstance(first, Requeue):
            written.requeue = min(written.requeue or first.at, first.at)
        elif isinstance(first, Record):
            await _record(client, first, component, now)
        else:
            refused = await _in_parallel([_one(client, effect, written) for effect in run])
            if refused is None:
                continue
            position, error = refused
            effect = run[position]
            if isinstance(effect, Create) and effect.refused is not None and isinstance(error, ApiError):
                told = replace(effect.refused, message=f"{effect.refused.message}: {error.message}")
                await _record(client, told, component, now)
            raise error


def _runs(effects: Sequence[Effect]) -> list[list[Effect]]:
    runs: list[list[Effect]] = []
    names: set[str] = set()
    previous: object = None
    for effect in effects:
        shape, name = _shape(effect)
        if shape is not None and shape == previous and name not in names:
            runs[-1].append(effect)
        else:
            runs.append([effect])
            names = set()
        previous = shape
        if name:
            names.add(name)
    return runs


def _shape(effect: Effect) -> tuple[object, str]:
    """Effects of equal shape may run in parallel unless they have the same name; shape None runs alone."""
    match effect:
        case Create(kind, namespace, body):
            name = body["metadata"].get("name")
            return (Create, kind), f"{namespace}/{name}" if name else ""
        case Patch(kind, namespace, name, _, subresource):
            return (Patch, kind, subresource), f"{namespace}/{name}"
        case Delete(kind, namespace, name):
            return (Delete, kind), f"{namespace}/{name}"
        case _:
            return None, ""


async def _in_parallel(tasks: list[Coroutine[Any, Any, None]]) -> tuple[int, Exception] | None:
    """Runs all tasks; returns the first failure and its position: one Event reports a whole run."""
    limit = asyncio.Semaphore(PARALLEL)

    async def limited(task: Coroutine[Any, Any, None]) -> None:
        async with limit:
            await task

    outcomes = await asyncio.gather(*map(limited, tasks), return_exceptions=True)
    for position, outcome in enumerate(outcomes):
        if isinstance(outcome, Exception):
            return position, outcome
    return None


async def _one(client: Client, effect: Effect, written: Written) -> None:
    match effect:
        case Create():
            await _create(client, effect, written)
        case Patch(kind, namespace, name, body, subresource):
            with suppress(NotFound):
                patched = await client.patch(kind, namespace, name, body, subresource=subresource)
                written.saw(kind, patched)
        case Delete():
            await _delete(client, effect)
        case Absent(kind, namespace, name, uid):
            if await _exists(client, kind, namespace, name, uid):
                raise Conflict(f"{kind.kind} {name} of uid {uid} exists after all")
        case Record() | Requeue():
            raise AssertionError("carried out by the caller")


async def _delete(client: Client, effect: Delete) -> None:
    kind, namespace, name = effect.kind, effect.namespace, effect.name
    try:
        await client.delete(
            kind,
            namespace,
            name,
            uid=effect.uid,
            propagation=effect.propagation,
            grace_period=effect.grace_period,
        )
    except NotFound:
        pass
    except Conflict:
        if await _exists(client, kind, namespace, name, effect.uid):
            raise  # not because of a successor


async def _exists(client: Client, kind: AnyKind, namespace: str, name: str, uid: str) -> bool:
    try:
        found: Resource = await client.get(kind, namespace, name)
    except NotFound:
        return False
    return found.metadata.uid == uid


async def _create(client: Client, effect: Create, written: Written) -> None:
    kind, namespace, body = effect.kind, effect.namespace, effect.body
    try:
        try:
            written.saw(kind, await client.create(kind, namespace, body))
        except AlreadyExists:
            existing = await client.get(kind, namespace, body["metadata"]["name"])
            written.saw(kind, existing)
            if not _same_controller(existing, body):
                raise
        except Unanswered:
            if "name" not in body["metadata"]:
                await _find_siblings(client, effect, written)
            raise
    except NotFound:
        raise Conflict(f"{kind.kind} came and went while it was created") from None


def _same_controller(existing: Resource, body: Object) -> bool:
    controller = controller_of(existing)
    wanted = [ref["uid"] for ref in body["metadata"].get("ownerReferences", []) if ref.get("controller")]
    return wanted == ([controller.uid] if controller else [])


async def _find_siblings(client: Client, effect: Create, written: Written) -> None:
    """Finds what an unanswered create of a generated name may have created: the caches must show it."""
    wanted = {ref["uid"] for ref in effect.body["metadata"].get("ownerReferences", [])}
    page = await client.list(effect.kind, effect.namespace)
    for item in page.items:
        if any(ref.uid in wanted for ref in item.metadata.owner_references):
            written.saw(effect.kind, item)


async def _record(client: Client, record: Record, component: str, now: datetime) -> None:
    """Records an Event. Nothing depends on an Event, so a refusal is only logged."""
    about = record.about
    identity = f"{about.get('uid')}/{record.reason}/{record.message}/{now.isoformat()}"
    name = f"{about['name']}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    time = now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    body: Object = {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.kind,
        "metadata": {"name": name, "namespace": about.get("namespace") or "default"},
        "involvedObject": about,
        "type": record.type,
        "reason": record.reason,
        "message": record.message[:1024],  # the API server's own limit
        "action": "Reconciling",
        "reportingComponent": component,
        "reportingInstance": component,
        "eventTime": time,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
    try:
        await client.create(kinds.EVENT, body["metadata"]["namespace"], body)
    except AlreadyExists:
        pass
    except (ApiError, Unanswered, Unreachable) as error:
        log.warning("event %s about %s not recorded: %s", record.reason, about["name"], error)
