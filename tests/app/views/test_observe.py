"""Reading a cluster that does not know every kind, or does not show it to every user."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from muster.api import kinds
from muster.api.base import Kind, ObjectMeta
from muster.api.core_v1 import Node
from muster.app.plan import plan
from muster.app.views.observe import observe
from muster.kube.client import Client, Page
from muster.kube.errors import ApiError, Forbidden, NotFound, Unauthorized
from muster.runtime.mirror import WATCHED
from muster.workloads.snapshot import Objects
from tests.app.plan.test_plan import objects, queue

AnyKind = Kind[Any]


class Server:
    """Lists that are empty but for a node on the second page, and kinds with which it cannot serve."""

    def __init__(self, errors: Mapping[AnyKind, ApiError]) -> None:
        self._errors = errors

    async def list(self, kind: AnyKind, namespace: str = "", *, token: str = "", **_: object) -> Page[Any]:
        if kind in self._errors:
            raise self._errors[kind]
        if kind is kinds.NODE and not token:
            return Page([], "1", "more")
        node = Node(metadata=ObjectMeta(name="n", uid="n"))
        return Page([node] if kind is kinds.NODE else [], "1")


async def look(errors: Mapping[AnyKind, ApiError]) -> Objects:
    return await observe(cast(Client, Server(errors)))


async def test_kinds_that_a_cluster_does_not_know_have_no_objects() -> None:
    found = await look({kinds.QUEUE: NotFound("404"), kinds.JOBSET: NotFound("404")})
    assert [resource.metadata.name for resource in found.items.values()] == ["n"]
    assert found.absent == [kind for kind in WATCHED if kind in (kinds.QUEUE, kinds.JOBSET)]
    assert plan(objects(queue("q")), found).notes == [
        "the cluster does not know the kind Queue (muster.dev/v1alpha1) and would refuse it"
    ]


async def test_the_error_names_all_kinds_that_may_not_be_listed() -> None:
    with pytest.raises(Forbidden) as error:
        await look({kind: Forbidden(f"no {kind.plural}") for kind in (kinds.POD, kinds.QUEUE, kinds.JOB)})
    first, others = error.value.message.split("; nor may it list ")
    named = {kinds.POD: "pods", kinds.QUEUE: "queues.muster.dev", kinds.JOB: "jobs.batch"}
    in_order = [named[kind] for kind in WATCHED if kind in named]
    assert (first, others) == (f"no {in_order[0].partition('.')[0]}", ", ".join(in_order[1:]))


async def test_a_plan_works_without_kinds_that_only_add_to_new_pods() -> None:
    found = await look({kinds.LIMIT_RANGE: Forbidden("no"), kinds.RUNTIME_CLASS: NotFound("404")})
    assert (found.hidden, found.absent) == ([kinds.LIMIT_RANGE], [kinds.RUNTIME_CLASS])
    said = "limitranges may not be listed; what they add to new pods is not counted"
    assert plan(objects(queue("q")), found).notes == [said]


async def test_other_errors_are_what_they_are() -> None:
    with pytest.raises(Unauthorized):
        await look({kinds.POD: Unauthorized("who?")})
