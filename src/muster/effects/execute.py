"""Executes effects with a client: in their order, and in parallel where order cannot matter.

A run of effects of one type on different objects of one kind goes out in parallel; the next effect starts
when the whole run is finished. If part of a run fails, the rest of the run is still tried, and the effects
after the run are skipped, to be decided on again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

import msgspec

from muster.api import kinds
from muster.api.base import AnyKind, Condition, Object, Resource, controller_of, is_true, revision
from muster.api.core_v1 import Pod
from muster.effects import (
    Absent,
    Allocate,
    Bind,
    Create,
    Deallocate,
    Delete,
    Effect,
    Evict,
    Patch,
    RecordEvent,
    Requeue,
    claims,
    events,
)
from muster.kube.client import Client
from muster.kube.errors import (
    INAPPLICABLE,
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unanswered,
    Unreachable,
)
from muster.names import GPU_DEVICE, NODE_GONE, PLAN, PREEMPTED, PREEMPTION

log = logging.getLogger(__name__)

#: Effects of one run under way at a time.
PARALLEL: Final = 50
E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[E]):
    """The result of an effect. A cache that has reached `revision` shows it; 0 = nothing to wait for."""

    effect: E
    error: Exception | None = None
    revision: int = 0


async def execute_all(
    effects: Sequence[E], execute_one: Callable[[E], Awaitable[Outcome[E]]]
) -> list[Outcome[E]]:
    """Executes effects in order, up to and including the first run that fails in part."""
    outcomes: list[Outcome[E]] = []
    for run in runs(effects):
        done = await _in_parallel(run, execute_one)
        outcomes += done
        if any(outcome.error is not None for outcome in done):
            break
    return outcomes


async def attempt(client: Client, effect: Effect, now: datetime, component: str = "") -> Outcome[Effect]:
    """Executes one effect as `execute` does, and returns its outcome, whatever happens."""
    try:
        return Outcome(effect, None, await execute(client, effect, now, component))
    except Unanswered as error:
        if not isinstance(effect, Create) or effect.name:
            return Outcome(effect, error)
        unanswered = error
    except Exception as error:
        return Outcome(effect, error)
    try:
        return Outcome(effect, unanswered, await _newest_sibling(client, effect))
    except Exception as error:
        return Outcome(effect, error)


async def execute(client: Client, effect: Effect, now: datetime, component: str = "") -> int:
    """Executes one effect and returns the revision that shows it (see `Outcome`).

    `now` dates conditions and Events; `component` reports the Events. Raises `Conflict` if the observation
    that the effect was decided on is out of date, and the client's other errors.
    """
    match effect:
        case Bind():
            meta = effect.pod.metadata
            await client.bind(meta.namespace, meta.name, _binding(effect))
        case Allocate():
            return await claims.allocate(client, effect, now)
        case Deallocate():
            return await claims.deallocate(client, effect)
        case Create():
            return await _create(client, effect)
        case Patch(kind, namespace, name, body, subresource, missing_ok):
            document = tested(body, effect.tests) if isinstance(body, dict) and effect.tests else body
            try:
                return _revision(await client.patch(kind, namespace, name, document, subresource=subresource))
            except NotFound:
                if not missing_ok:
                    raise
            except Invalid as error:
                if isinstance(document, list) and error.message.startswith(INAPPLICABLE):
                    raise Conflict(f"{kind.kind} {name} is not as it was seen") from None
                raise
        case Delete():
            await _delete(client, effect)
        case Evict(pod, message, at_once, disruption):
            await _evict(client, pod, message, disruption or message, at_once, now)
        case Absent(kind, namespace, name, uid):
            if await _exists(client, kind, namespace, name, uid):
                raise Conflict(f"{kind.kind} {name} {f'of uid {uid} ' if uid else ''}exists")
        case RecordEvent():
            await _record(client, effect, component, now)
        case Requeue():
            pass
    return 0


def tested(body: Object, tests: Object) -> list[Object]:
    """Returns a merge patch with tests as a JSON patch, which fails as a whole if a test does.

    It merges the fields of metadata, spec and status, and replaces all others. An operation must not fail for
    another reason than a test: a field that may be missing is set before it is removed.
    """
    fields: list[tuple[str, object]] = []
    for name, value in body.items():
        if name in ("metadata", "spec", "status"):
            fields += [(f"/{name}/{key}", each) for key, each in value.items()]
        else:
            fields.append((f"/{name}", value))
    operations: list[Object] = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    for path, value in fields:
        operations.append({"op": "add", "path": path, "value": value})
        if value is None:
            operations.append({"op": "remove", "path": path})
    return operations


def runs(effects: Sequence[E]) -> list[list[E]]:
    """Splits effects into runs: neighbours that may go out together."""
    found: list[list[E]] = []
    names: set[str] = set()
    previous: object = None
    for effect in effects:
        shape, name = _shape(effect)
        if shape is not None and shape == previous and name not in names:
            found[-1].append(effect)
        else:
            found.append([effect])
            names = set()
        previous = shape
        if name:
            names.add(name)
    return found


def _shape(effect: object) -> tuple[object, str]:
    """Effects of equal shape may run in parallel unless they have the same name; shape None runs alone."""
    match effect:
        case Bind(pod) | Evict(pod):
            return type(effect), pod.metadata.uid
        case Allocate(claim) | Deallocate(claim):
            return type(effect), claim.metadata.uid
        case Create(kind, namespace):
            return (Create, kind), f"{namespace}/{effect.name}" if effect.name else ""
        case Patch(kind, namespace, name, _, subresource):
            return (Patch, kind, subresource), f"{namespace}/{name}"
        case Delete(kind, namespace, name):
            return (Delete, kind), f"{namespace}/{name}"
        case _:
            return None, ""


async def _in_parallel(
    run: Sequence[E], execute_one: Callable[[E], Awaitable[Outcome[E]]]
) -> list[Outcome[E]]:
    if len(run) == 1:
        return [await execute_one(run[0])]
    outcomes: dict[int, Outcome[E]] = {}
    waiting = iter(enumerate(run))

    async def work() -> None:
        for number, effect in waiting:
            outcomes[number] = await execute_one(effect)

    await asyncio.gather(*(work() for _ in range(min(PARALLEL, len(run)))))
    return [outcomes[number] for number in range(len(run))]


def _binding(bind: Bind) -> Object:
    meta = bind.pod.metadata
    annotations = {PLAN: bind.mark}
    if bind.device is not None:
        annotations[GPU_DEVICE] = str(bind.device)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": annotations,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
    }


async def _create(client: Client, effect: Create) -> int:
    kind, namespace, body = effect.kind, effect.namespace, effect.body
    try:
        return _revision(await client.create(kind, namespace, body))
    except (Forbidden, NotFound) as error:  # NotFound: the namespace is gone, or the kind is not installed
        if not effect.best_effort:
            raise
        log.warning("%s %s/%s is not created: %s", kind.kind, namespace, effect.name, error)
        return 0
    except AlreadyExists:
        owners = body["metadata"].get("ownerReferences", [])
        controllers = [owner["uid"] for owner in owners if owner.get("controller")]
        if not controllers:
            return await _join(client, effect, owners) if owners else 0
        try:
            existing = await client.get(kind, namespace, effect.name)
        except NotFound:
            raise Conflict(f"{kind.kind} {effect.name} came and went while it was created") from None
        controller = controller_of(existing)
        if controller is None or [controller.uid] != controllers:
            by = f"{controller.kind} {controller.name}" if controller else "no controller"
            told = f"{kind.kind} {effect.name} exists, and {by} owns it; delete or rename one of the two"
            raise AlreadyExists(told) from None
        return _revision(existing)


async def _join(client: Client, effect: Create, owners: Sequence[Object]) -> int:
    """Adds owners to an object that several share: garbage collection deletes it once all of them are gone.

    An object without owners stays without, since its other users are not known. Raises AlreadyExists if the
    object cannot serve the new owner (`Create.join`).
    """
    kind, namespace, name = effect.kind, effect.namespace, effect.name
    try:
        existing = await client.get_json(kind, namespace, name)
        spec = effect.join(existing, effect.body) if effect.join is not None else {}
    except ValueError as error:
        raise AlreadyExists(str(error)) from None
    except NotFound:
        raise Conflict(f"{kind.kind} {name} came and went while it was created") from None
    meta = existing["metadata"]
    known = list(meta.get("ownerReferences") or ())
    uids = {each.get("uid") for each in known}
    more = [each for each in owners if known and each["uid"] not in uids]
    if known and meta.get("deletionTimestamp"):
        raise Conflict(f"{kind.kind} {name} is being deleted")
    if not more and not spec:
        return 0
    body: Object = {"metadata": {"resourceVersion": meta["resourceVersion"]}}
    if more:
        body["metadata"]["ownerReferences"] = [*known, *more]
    if spec:
        body["spec"] = spec
    return _revision(await client.patch(kind, namespace, name, body))


async def _newest_sibling(client: Client, effect: Create) -> int:
    """Returns the newest revision of what an unanswered create of a generated name may have created."""
    owners = {ref["uid"] for ref in effect.body["metadata"].get("ownerReferences", [])}
    page = await client.list(effect.kind, effect.namespace)
    siblings = (
        item for item in page.items if any(ref.uid in owners for ref in item.metadata.owner_references)
    )
    return max(map(_revision, siblings), default=0)


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
    return not uid or found.metadata.uid == uid


async def _evict(
    client: Client, pod: Pod, message: str, disruption: str, at_once: bool, now: datetime
) -> None:
    """Evicts as kube-scheduler preempts: conditions first, then deletion. The core respects the budgets.

    `at_once`: the pod's node is gone, so the reason is that of Kubernetes' pod garbage collector.
    """
    meta = pod.metadata
    version = meta.resource_version
    with suppress(NotFound):
        if message and not is_true(pod.status.conditions, PREEMPTED):
            conditions = [
                Condition(PREEMPTED, "True", "EndedByMuster", message, now),
                Condition("DisruptionTarget", "True", NODE_GONE if at_once else PREEMPTION, disruption, now),
            ]
            version = await _add_conditions(client, pod, conditions)
        await client.delete(
            kinds.POD,
            meta.namespace,
            meta.name,
            uid=meta.uid,
            resource_version=version,
            grace_period=0 if at_once else None,
        )


async def _add_conditions(client: Client, pod: Pod, added: list[Condition]) -> str:
    """Replaces the list of conditions, if the pod is as it was read, and returns the new resourceVersion."""
    types = {condition.type for condition in added}
    kept = [condition for condition in pod.status.conditions if condition.type not in types]
    meta = pod.metadata
    body = {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": msgspec.to_builtins([*kept, *added])},
    }
    patched = await client.patch(kinds.POD, meta.namespace, meta.name, body, subresource="status")
    return patched.metadata.resource_version


async def _record(client: Client, event: RecordEvent, component: str, now: datetime) -> None:
    """Records an Event. Nothing depends on an Event, so a refusal is only logged."""
    about = event.about
    identity = f"{about.get('uid')}/{event.reason}/{event.message}/{event.once or now.isoformat()}"
    body = events.first(about, event.type, event.reason, event.message, component, now, identity)
    body |= {"action": "Reconciling", "eventTime": events.stamp(now)}
    try:
        await client.create(kinds.EVENT, body["metadata"]["namespace"], body)
    except AlreadyExists:
        pass
    except (ApiError, Unanswered, Unreachable) as error:
        log.warning("event %s about %s not recorded: %s", event.reason, about["name"], error)


def _revision(resource: Resource) -> int:
    return revision(resource.metadata.resource_version)
