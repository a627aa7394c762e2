"""Five routes from a declared secret to a container, all by the External Secrets Operator.

1. A variable that is one reference: `secretKeyRef` to the resource's own Secret.
2. A variable in which references are mixed with text: a templated Secret, by `envFrom`.
3. A file with references: a templated Secret of its own, mounted.
4. An image pull secret: the resource's Secret with type dockerconfigjson.
5. A resource without keys: everything that the store has under its path.

A key of a template is `resource.key`. Neither a resource's name nor, before the first dot, anything else can
hold a dot, so two inputs never share one.
"""

import hashlib
import re
from bisect import insort
from typing import Final

from muster.api.base import Object
from muster.api.fields import Path
from muster.compiler.draft import Draft
from muster.compiler.facts import Facts
from muster.compiler.values import SecretKey, Value
from muster.compiler.workload import Container, File, Resource, Secret, Workload

_VERSION: Final = "external-secrets.io/v1"
DOCKER: Final = "kubernetes.io/dockerconfigjson"
_BRACES: Final = re.compile(r"[{}]{2,}|^[{}]|[{}]$")
#: What a gate is asked about secrets (`security/requests.py`).
QUESTION: Final = "secret"


def filled(name: str) -> str:
    """The name of the Secret that the ExternalSecret of this name fills. No other Secret has such a name.

    A job chooses the names of its parts. Without the digest, a job with the parts `prod`, `db` and `password`
    would get the name of another application's Secret `prod-db-password`: its pod would read that Secret, and
    the operator would overwrite it.
    """
    return f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


class Secrets:
    """Emits the ExternalSecrets of one workload into a draft."""

    def __init__(self, workload: Workload, facts: Facts, draft: Draft) -> None:
        self._workload, self._facts, self._draft = workload, facts, draft
        #: names of the resources whose own ExternalSecrets are complete
        self._complete: set[str] = set()
        #: (ExternalSecret, key there, path in the store, key there) of all that is fetched
        self._fetched: set[tuple[str, str, str, str]] = set()

    def own(self, resource: Resource, secret: Secret) -> str:
        """The name of the resource's own Secret, with all its keys (routes 1 and 5)."""
        name = f"{self._workload.name}-{resource.name}"
        if resource.name in self._complete:
            return filled(name)
        self._complete.add(resource.name)
        made = self._external(name, resource, secret, resource.path)
        if made is not None:
            if not secret.keys:
                made["spec"]["dataFrom"] = [{"extract": {"key": self._remote(resource, secret)}}]
            for key in secret.keys:
                self._fetch(made, resource, secret, key, as_=key)
            if secret.type:
                made["spec"]["target"]["template"] = {"type": secret.type}
        return filled(name)

    def variables(self, container: Container, mixed: dict[str, list[Value]]) -> list[Object]:
        """`envFrom` of the variables in which secrets are mixed with text: one Secret per store (route 2)."""
        by_store: dict[str, dict[str, list[Value]]] = {}
        for variable, values in mixed.items():
            if (store := self._store(values, (*container.path, "variables", variable))) is not None:
                by_store.setdefault(store, {})[variable] = values
        sources: list[Object] = []
        for number, store in enumerate(sorted(by_store)):
            suffix = f"-{number}" if number else ""
            name = f"{self._workload.name}-{container.name}-env-eso{suffix}"
            self._templated(name, by_store[store], (*container.path, "variables"))
            sources.append({"secretRef": {"name": filled(name)}})
        return sources

    def file(self, container: Container, file: File, key: str, values: list[Value]) -> str | None:
        """The Secret that holds one file, under `key` (route 3)."""
        if self._store(values, file.path) is None:
            return None
        name = f"{self._workload.name}-{container.name}-file-{key.rpartition('-')[2]}"
        self._templated(name, {key: values}, file.path)
        return filled(name)

    def pull(self, name: str) -> str | None:
        """The Secret of an image pull secret: of the resource of this name, or of the namespace's store."""
        resource = self._workload.resources.get(name)
        if resource is None:
            secret = Secret("", f"{self._workload.namespace}/{name}", (".dockerconfigjson",))
            resource = Resource(name, (*self._workload.path, "imagePullSecrets"), secret)
        if not isinstance(resource.what, Secret):
            told = f"{name} is not a secret, so it cannot hold registry credentials"
            self._draft.problem(resource.path, told)
            return None
        full = f"{self._workload.name}-{name}-credentials"
        made = self._external(full, resource, resource.what, (*self._workload.path, "imagePullSecrets"))
        if made is not None:
            made["spec"]["target"]["template"] = {"type": DOCKER}
            keys = resource.what.keys or (".dockerconfigjson",)
            if len(keys) > 1:
                self._draft.problem(
                    resource.path,
                    f"an image pull secret has one key, a Docker configuration; {name} has several",
                )
            self._fetch(made, resource, resource.what, keys[0], as_=".dockerconfigjson")
        return filled(full)

    def _store(self, values: list[Value], path: Path) -> str | None:
        stores = {
            value.secret.provider or self._facts.store(self._workload.namespace)
            for value in values
            if isinstance(value, SecretKey)
        }
        if len(stores) > 1:
            self._draft.problem(
                path,
                f"mixes secrets of several stores ({', '.join(sorted(stores))}); use one store per value",
            )
            return None
        return stores.pop()

    def _templated(self, name: str, data: dict[str, list[Value]], at: Path) -> None:
        made: Object | None = None
        for values in data.values():
            for value in values:
                if isinstance(value, SecretKey):
                    made = self._external(name, value.resource, value.secret, at)
                    if made is not None:
                        full = f"{value.resource.name}.{value.key}"
                        self._fetch(made, value.resource, value.secret, value.key, as_=full)
        if made is not None:
            texts = {key: "".join(map(_template, values)) for key, values in sorted(data.items())}
            made["spec"]["target"]["template"] = {"engineVersion": "v2", "data": texts}

    def _external(self, name: str, resource: Resource, secret: Secret, at: Path) -> Object | None:
        store = secret.provider or self._facts.store(self._workload.namespace)
        if not store:
            self._draft.problem(
                (*resource.path, "params", "provider"),
                f"is missing, and namespace {self._workload.namespace} has no default store of secrets",
                patch="params:\n  provider: NAME-OF-A-STORE",
            )
            return None
        return self._draft.emit(
            _VERSION,
            "ExternalSecret",
            name,
            at,
            spec={
                "refreshInterval": secret.refresh,
                "secretStoreRef": {"name": store, "kind": self._facts.store_kind},
                "target": {"name": filled(name)},
            },
        )

    def _remote(self, resource: Resource, secret: Secret) -> str:
        remote = secret.remote or f"{self._workload.namespace}/{resource.name}"
        store = secret.provider or self._facts.store(self._workload.namespace)
        self._draft.origin(QUESTION, f"{store}:{remote}", resource.path)
        return remote

    def _fetch(self, made: Object, resource: Resource, secret: Secret, key: str, *, as_: str) -> None:
        remote = self._remote(resource, secret)
        if (one := (str(made["metadata"]["name"]), as_, remote, key)) in self._fetched:
            return
        self._fetched.add(one)
        data: list[Object] = made["spec"].setdefault("data", [])
        entry = {"secretKey": as_, "remoteRef": {"key": remote, "property": key}}
        insort(data, entry, key=lambda each: str(each["secretKey"]))


def _template(value: Value) -> str:
    """The value in a Go template. Braces that the author wrote are text there, also beside a reference."""
    if isinstance(value, SecretKey):
        return f'{{{{ index . "{value.resource.name}.{value.key}" }}}}'
    return _BRACES.sub(lambda match: f'{{{{ "{match[0]}" }}}}', value)
