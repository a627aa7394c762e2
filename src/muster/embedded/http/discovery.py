"""The discovery documents of the embedded cluster: API groups, versions and resources.

These are the documents of unaggregated discovery. kubectl and client-go prefer aggregated discovery (one
document with everything), and fall back when they receive these. Short names and the category `all` are
upstream's.

    /version             of Kubernetes, and of muster
    /api                 versions of the core group          /api/v1         its resources
    /apis, /apis/GROUP   the other groups                    /apis/GROUP/V   their resources
"""

import platform
from itertools import groupby
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.groups import VOLCANO
from muster.embedded.http.reviews import REVIEWS, Review
from muster.version import VERSION

_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SHORT: Final[dict[Kind[Any], str]] = {  # Any: kinds of many types
    kinds.NAMESPACE: "ns",
    kinds.NODE: "no",
    kinds.POD: "po",
    kinds.SERVICE: "svc",
    kinds.CONFIG_MAP: "cm",
    kinds.SERVICE_ACCOUNT: "sa",
    kinds.EVENT: "ev",
    kinds.RESOURCE_QUOTA: "quota",
    kinds.LIMIT_RANGE: "limits",
    kinds.PERSISTENT_VOLUME_CLAIM: "pvc",
    kinds.PERSISTENT_VOLUME: "pv",
    kinds.STORAGE_CLASS: "sc",
    kinds.PRIORITY_CLASS: "pc",
    kinds.PDB: "pdb",
    kinds.CRON_JOB: "cj",
    **dict.fromkeys((*kinds.POD_GROUPS, VOLCANO.kind), "pg"),
    kinds.QUEUE_VOLCANO: "q",
    kinds.ELASTIC_QUOTA: "eq eqs",
}
_IN_ALL: Final = (kinds.POD, kinds.SERVICE, kinds.JOB)
#: Clients require all fields.
_VERSION: Final = {
    "major": "1",
    "minor": "32",
    "gitVersion": f"v1.32.0+muster-{VERSION}",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": f"linux/{platform.machine()}",
}
#: (subresource, kind of the object that is sent or returned, verbs)
_OF_PODS: Final[tuple[tuple[str, Object, list[str]], ...]] = (
    ("binding", {"kind": "Binding"}, ["create"]),
    ("eviction", {"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]),
    ("exec", {"kind": "PodExecOptions"}, ["create", "get"]),
    ("log", {"kind": "Pod"}, ["get"]),
)


def document(path: str) -> Object | None:
    """The discovery document at a path; None if there is none."""
    return _DOCUMENTS.get(path.rstrip("/"))


def _documents() -> dict[str, Object]:
    found: dict[str, Object] = {"/version": _VERSION, "/api": {"kind": "APIVersions", "versions": ["v1"]}}
    groups = []
    for name, of_reviews in groupby(REVIEWS, key=lambda review: review.group):
        only = {"groupVersion": f"{name}/v1", "version": "v1"}
        group: Object = {"name": name, "versions": [only], "preferredVersion": only}
        found |= _group_documents(group, [_resource(review) for review in of_reviews])
        groups.append(group)
    for name, of_group in groupby(sorted(kinds.ALL, key=_group), key=_group):
        members = list(of_group)
        versions = list(dict.fromkeys(kind.version for kind in members))
        for version in versions:
            resources = [r for kind in members if kind.version == version for r in _resources(kind)]
            of_version = f"{name}/{version}" if name else version
            found[f"/apis/{of_version}" if name else f"/api/{version}"] = {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": of_version,
                "resources": resources,
            }
        if name:
            served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
            group = {"name": name, "versions": served, "preferredVersion": served[0]}
            groups.append(group)
            found[f"/apis/{name}"] = {"kind": "APIGroup", "apiVersion": "v1", **group}
    found["/apis"] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    return found


def _group_documents(group: Object, resources: list[Object]) -> dict[str, Object]:
    """The documents of a group with one version."""
    version = group["preferredVersion"]["groupVersion"]
    of_version = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version}
    return {
        f"/apis/{group['name']}": {"kind": "APIGroup", "apiVersion": "v1", **group},
        f"/apis/{version}": of_version | {"resources": resources},
    }


def _resource(review: Review) -> Object:
    return {
        "name": review.plural,
        "singularName": review.kind.lower(),
        "namespaced": False,
        "kind": review.kind,
        "verbs": ["create"],
    }


def _group(kind: Kind[Any]) -> str:  # Any: as above
    return kind.group


def _resources(kind: Kind[Any]) -> list[Object]:  # Any: as above
    """The resource of a kind and its subresources."""
    own: Object = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind in _SHORT:
        own["shortNames"] = _SHORT[kind].split()
    if kind in _IN_ALL:
        own["categories"] = ["all"]
    elif kind in kinds.DEFINED:
        own["categories"] = ["muster"]
    parts: list[tuple[str, Object, list[str]]] = []
    if kind.status:
        parts.append(("status", {"kind": kind.kind}, ["get", "patch", "update"]))
    if kind is kinds.POD:
        parts += _OF_PODS
    return [own] + [
        {
            "name": f"{kind.plural}/{part}",
            "singularName": "",
            "namespaced": kind.namespaced,
            **what,
            "verbs": verbs,
        }
        for part, what, verbs in parts
    ]


_DOCUMENTS: Final = _documents()
