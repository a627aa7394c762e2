"""Options of writes: a dry run leaves the store as it was, and what is not supported is refused."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.http.api import http_api
from muster.embedded.verbs.registry import Registry
from muster.kube.client import LogOptions
from tests.embedded.objects import bound, config, pod

TOKEN: Final = "secret"
CORE: Final = "/api/v1/namespaces/default"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"


class NoLogs:
    async def read(
        self, namespace: str, pod_name: str, pod_uid: str, container: str, how: LogOptions
    ) -> AsyncIterator[bytes]:
        yield b""


async def ask(
    registry: Registry, line: str, body: Object | None = None, media: str = MERGE, **headers: str
) -> tuple[int, Any]:
    """The status and the JSON that a request such as `DELETE /path?query` is answered with."""
    method, _, target = line.partition(" ")
    path, _, query = target.partition("?")
    named = {"authorization": f"Bearer {TOKEN}", "content-type": media, **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(key.replace("_", "-").encode(), value.encode()) for key, value in named.items()],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

    async def send(message: Any) -> None:
        sent.append(message)

    await http_api(registry, NoLogs(), TOKEN)(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def everything(registry: Registry) -> list[Any]:
    """All that the store holds."""
    sql = registry.store.execute
    tables = [row[0] for row in sql("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return [(table, sql(f"SELECT * FROM {table}").fetchall()) for table in tables] + [registry.store.revision]


@pytest.fixture
def filled(registry: Registry) -> Registry:
    """Pods, `p` on a node and `q` without one; config maps `c`, one in another namespace, `other`."""
    bound(registry, "p", labels={"app": "x"})
    registry.create(kinds.POD, "default", pod("q"))
    registry.create(kinds.CONFIG_MAP, "default", config("c", a="1"))
    registry.create(kinds.NAMESPACE, "", {"metadata": {"name": "other"}})
    registry.create(kinds.CONFIG_MAP, "other", config("c", a="1"))
    return registry


DRY: Final[list[tuple[str, Object | None]]] = [
    (f"POST {CORE}/pods", pod("new")),
    (f"POST {CORE}/pods", {**pod("new"), "spec": {"containers": [{"name": "m"}], "nodeName": "node-0"}}),
    (f"POST {CORE}/pods/q/binding", {"target": {"name": "node-0"}}),
    (f"POST {CORE}/pods/p/eviction", {"metadata": {"name": "p"}}),
    (f"PUT {CORE}/configmaps/c", config("c", a="2")),
    (f"PATCH {CORE}/configmaps/c", {"data": {"a": "2"}}),
    (f"PATCH {CORE}/pods/p/status", {"status": {"phase": "Failed"}}),
    (f"DELETE {CORE}/configmaps/c", None),
    (f"DELETE {CORE}/pods/p", {"gracePeriodSeconds": 5}),
    (f"DELETE {CORE}/pods", None),
    ("DELETE /api/v1/namespaces/other", None),
]


@pytest.mark.parametrize(("line", "body"), DRY, ids=[line for line, _ in DRY])
async def test_a_dry_run_answers_as_the_write_and_changes_nothing(
    filled: Registry, line: str, body: Object | None
) -> None:
    before = everything(filled)
    status, dry = await ask(filled, f"{line}?dryRun=All", body)
    assert everything(filled) == before
    real, answer = await ask(filled, line, body)
    assert (status, dry["kind"]) == (real, answer["kind"])
    assert everything(filled) != before, "the request itself writes"


async def test_a_dry_run_leaves_the_memory_beside_the_store_as_it_was(filled: Registry) -> None:
    await ask(filled, "DELETE /api/v1/namespaces/other?dryRun=All")
    filled.create(kinds.CONFIG_MAP, "other", config("d"))  # it is not closed
    first = json.loads(filled.get(kinds.POD, "default", "p"))["status"]["podIP"]
    await ask(filled, f"DELETE {CORE}/pods/p?dryRun=All&gracePeriodSeconds=0")
    second = json.loads(filled.bind("default", "q", {"target": {"name": "node-0"}}))["status"]["podIP"]
    assert second != first, "the address of a pod that is still there is not free"


async def test_a_dry_run_is_refused_as_the_write_would_be(filled: Registry) -> None:
    assert (await ask(filled, f"POST {CORE}/pods?dryRun=All", pod("p")))[0] == 409
    assert (await ask(filled, f"POST {CORE}/pods?dryRun=All", {"metadata": {"name": "x"}}))[0] == 422


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (f"DELETE {CORE}/pods/p", {"dryRun": ["All"]}),
        (f"DELETE {CORE}/pods/p?dryRun=All", {"propagationPolicy": "Background"}),
        (f"DELETE {CORE}/pods", {"dryRun": ["All"]}),
        (f"POST {CORE}/pods/p/eviction", {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}}),
    ],
)
async def test_a_dry_run_in_the_body(filled: Registry, line: str, body: Object) -> None:
    before = everything(filled)
    assert (await ask(filled, line, body))[0] in (200, 201)
    assert everything(filled) == before


@pytest.mark.parametrize(
    ("line", "body", "told"),
    [
        (f"POST {CORE}/pods?dryrun=All", pod("new"), "no query parameter 'dryrun'"),
        (f"POST {CORE}/pods?dryRun=Some", pod("new"), 'dryRun: Unsupported value: "Some"'),
        (f"POST {CORE}/pods?dryRun=", pod("new"), 'dryRun: Unsupported value: ""'),
        (f"PUT {CORE}/configmaps/c?fieldManager=a&fieldManager=b", config("c"), "given 2 times"),
        (f"POST {CORE}/pods?fieldValidation=Most", pod("new"), "fieldValidation=Most is not known"),
        (f"POST {CORE}/pods?fieldValidation=Strict", pod("new") | {"x": 1}, 'unknown field "x"'),
        (f"PATCH {CORE}/configmaps/c?fieldValidation=Strict", {"x": "2"}, 'unknown field "x"'),
        (f"PATCH {CORE}/configmaps/c?force=true", {"data": {"a": "2"}}, "no query parameter 'force'"),
        (f"DELETE {CORE}/pods?labelselector=app%3Dx", None, "no query parameter 'labelselector'"),
        (f"DELETE {CORE}/pods?labelSelector=app%3Dx&labelSelector=a", None, "given 2 times"),
        (f"DELETE {CORE}/pods?limit=1", None, "no query parameter 'limit'"),
        (f"DELETE {CORE}/pods/p?propagationPolicy=Maybe", None, "DeleteOptions: Invalid enum value 'Maybe'"),
        (f"DELETE {CORE}/pods/p?gracePeriodSeconds=soon", None, "Expected `int | null`, got `str`"),
        (f"DELETE {CORE}/pods/p", {"gracePeriod": 1}, "unknown field `gracePeriod`"),
        (f"DELETE {CORE}/pods/p", {"gracePeriodSeconds": 10**15}, "at most 2147483647"),
        (f"DELETE {CORE}/pods/p", {"preconditions": {"name": "p"}}, "unknown field `name`"),
        (f"DELETE {CORE}/pods/p", {"dryRun": ["some"]}, 'dryRun: Unsupported value: "some"'),
        (
            f"DELETE {CORE}/pods/p?orphanDependents=true",
            {"propagationPolicy": "Background"},
            "exclude each other",
        ),
        (
            f"POST {CORE}/pods/p/eviction",
            {"metadata": {"name": "p"}, "deleteOptions": {"dryrun": ["All"]}},
            "unknown field `dryrun`",
        ),
    ],
)
async def test_an_unsupported_option_of_a_request_is_refused(
    filled: Registry, line: str, body: Object | None, told: str
) -> None:
    before = everything(filled)
    status, answer = await ask(filled, line, body)
    assert status == 400
    assert told in answer["message"]
    assert everything(filled) == before


@pytest.mark.parametrize(
    "line", ["DELETE /api/v1/pods", "DELETE /api/v1/namespaces", f"DELETE {CORE}/pods/p/log"]
)
async def test_deletions_that_an_api_server_does_not_know(filled: Registry, line: str) -> None:
    before = everything(filled)
    assert (await ask(filled, line))[0] == 405
    assert everything(filled) == before


@pytest.mark.parametrize(("value", "finalizers"), [("true", ["orphan"]), ("false", [])])
async def test_orphan_dependents_is_a_policy(filled: Registry, value: str, finalizers: list[str]) -> None:
    await ask(filled, f"DELETE {CORE}/pods/p?orphanDependents={value}")
    meta = json.loads(filled.get(kinds.POD, "default", "p"))["metadata"]
    assert meta.get("finalizers", []) == finalizers


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("sinceSeconds=5&sinceTime=2026-01-31T08:00:00Z", "exclude each other"),
        ("sinceSeconds=0", "must be greater than 0"),
        ("sinceSeconds=-5", "sinceSeconds=-5 is not a whole number from 0"),
        ("sinceTime=yesterday", "sinceTime=yesterday is not a time such as"),
        ("sinceTime=2026-01-31T08:00:00", "is not a time such as"),
    ],
)
async def test_times_of_logs_that_cannot_be_read(filled: Registry, query: str, told: str) -> None:
    status, answer = await ask(filled, f"GET {CORE}/pods/p/log?{query}")
    assert status == 400
    assert told in answer["message"]


@pytest.mark.parametrize("metadata", [5, "x", ["x"], [{}]])
async def test_what_is_applied_has_metadata_that_are_a_map(filled: Registry, metadata: Any) -> None:
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    status, told = await ask(filled, f"PATCH {CORE}/configmaps/c?fieldManager=f", applied, APPLY)
    assert (status, "metadata" in told["message"]) == (400, True), told


async def test_items_that_are_no_maps_are_refused_where_maps_are_merged_by_key(filled: Registry) -> None:
    applied = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": ["x", "x"]}}
    status, told = await ask(filled, f"PATCH {CORE}/pods/q?fieldManager=f&force=true", applied, APPLY)
    assert (status, "spec.containers[1]" in told["message"]) == (422, True), told


async def test_impersonation_is_refused(filled: Registry) -> None:
    status, answer = await ask(filled, f"DELETE {CORE}/pods/p", impersonate_user="nobody")
    assert status == 400
    assert "impersonation is not supported" in answer["message"]
    assert "deletionTimestamp" not in json.loads(filled.get(kinds.POD, "default", "p"))["metadata"]


@pytest.mark.parametrize("path", ["/version", "/version/"])
async def test_the_version_has_all_fields_that_clients_insist_on(registry: Registry, path: str) -> None:
    from kubernetes.client import VersionInfo  # it is slow to import

    status, answer = await ask(registry, f"GET {path}")
    assert status == 200
    assert VersionInfo.from_dict(answer) is not None
