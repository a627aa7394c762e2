"""Whose a bearer token is, and what its user may see: the API server is asked, and its answers kept a while.

A viewer sees the jobs of the namespaces in which it may list pods and gangs, and nodes and queues if it may
list those. Answers are kept for `KEPT` seconds (refusals for `REFUSED`), so a right that is withdrawn, or a
token that expires, ends within that time. Tokens are kept as digests only.

What anybody may cause is bounded: tokens that are not known to be valid are asked about at most `RATE` times
a second, and while `WAITING` such questions wait, more are refused (`Busy`).
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable
from hashlib import sha256
from typing import Final, Generic, TypeVar

from muster.api import kinds
from muster.api.base import AnyKind, Object
from muster.api.reviews import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW, UserInfo
from muster.dashboard.access import Sight
from muster.kube.client import Client
from muster.kube.throttle import Bucket

V = TypeVar("V")

#: Seconds for which an answer is kept, and a refusal.
KEPT: Final = 30.0
REFUSED: Final = 10.0
#: Answers about tokens and about rights that are kept at most.
TOKENS: Final = 2_000
RIGHTS: Final = 50_000
#: Questions about unknown tokens: a second, at once, and that wait at most.
RATE: Final = 20.0
BURST: Final = 20
WAITING: Final = 40
#: Questions about rights at the same time.
AT_ONCE: Final = 16


class Busy(Exception):
    """Too many unknown tokens are asked about."""


class Reviews:
    def __init__(self, client: Client, now: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._users: _Kept[UserInfo | None] = _Kept(TOKENS, now)
        self._rights: _Kept[bool] = _Kept(RIGHTS, now)
        self._bucket, self._waiting = Bucket(RATE, BURST), 0
        self._at_once = asyncio.Semaphore(AT_ONCE)
        #: digests of tokens that were valid when they were last asked about
        self._known: OrderedDict[bytes, None] = OrderedDict()

    async def user(self, token: str) -> UserInfo | None:
        """Whose the token is; None if it is not valid. Raises Busy, and what `Client.create` raises."""
        key = sha256(token.encode()).digest()
        return await self._users.get(key, lambda: self._review(key, token))

    async def sight(self, user: UserInfo, namespaces: Collection[str]) -> Sight:
        """What the user may see, of these namespaces. Raises what `Client.create` raises."""
        nodes, queues, everywhere = await asyncio.gather(
            self._may(user, kinds.NODE), self._may(user, kinds.QUEUE), self._may_read(user, "")
        )
        if everywhere:
            return Sight(None, nodes, queues)
        names = sorted(namespaces)
        may = await asyncio.gather(*(self._may_read(user, name) for name in names))
        return Sight(frozenset(name for name, each in zip(names, may, strict=True) if each), nodes, queues)

    async def _may_read(self, user: UserInfo, namespace: str) -> bool:
        """Whether the user may see the jobs of a namespace; "": of all."""
        return await self._may(user, kinds.POD, namespace) and await self._may(user, kinds.GANG, namespace)

    async def _may(self, user: UserInfo, kind: AnyKind, namespace: str = "") -> bool:
        who = (user.username, user.uid, user.groups, repr(sorted(user.extra.items())))

        async def ask() -> bool:
            asked: Object = {
                "user": user.username,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": user.extra,
                "resourceAttributes": {
                    "verb": "list",
                    "group": kind.group,
                    "resource": kind.plural,
                    "namespace": namespace,
                },
            }
            async with self._at_once:
                found = await self._client.create(
                    SUBJECT_ACCESS_REVIEW, "", _body(SUBJECT_ACCESS_REVIEW, asked)
                )
            return found.status.allowed

        return await self._rights.get((who, kind.group, kind.plural, namespace), ask)

    async def _review(self, key: bytes, token: str) -> UserInfo | None:
        if key not in self._known:
            if self._waiting >= WAITING:
                raise Busy
            self._waiting += 1
            try:
                await self._bucket.take()
            finally:
                self._waiting -= 1
        found = await self._client.create(TOKEN_REVIEW, "", _body(TOKEN_REVIEW, {"token": token}))
        self._known.pop(key, None)
        if not found.status.authenticated or not found.status.user.username:
            return None
        self._known[key] = None
        if len(self._known) > TOKENS:
            self._known.popitem(last=False)
        return found.status.user


def _body(kind: AnyKind, spec: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "spec": spec}


class _Kept(Generic[V]):
    """Answers, and questions that are under way, so that none is asked twice. The oldest are forgotten."""

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._most, self._now = most, now
        self._answers: OrderedDict[Hashable, tuple[float, asyncio.Task[V]]] = OrderedDict()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> V:
        until, task = self._answers.get(key, (0.0, None))
        if task is None or (task.done() and (self._now() >= until or task.cancelled() or task.exception())):
            task = asyncio.ensure_future(self._asked(key, ask))
            self._answers.pop(key, None)
            self._answers[key] = (0.0, task)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return await asyncio.shield(task)  # others may wait for it

    async def _asked(self, key: Hashable, ask: Callable[[], Awaitable[V]]) -> V:
        found = await ask()
        if key in self._answers:
            self._answers[key] = (self._now() + (KEPT if found else REFUSED), self._answers[key][1])
        return found
