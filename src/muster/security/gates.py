"""Asks the policies about everything that a workload would get, and writes the messages of denials.

A denial says what is denied, where and why, and prints the permit that an administrator could add. The permit
is the narrowest one that also covers the next run of the job: this resource, for workloads of this namespace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.api.fields import Finding
from muster.security import ids
from muster.security.policies import Answer, Policies
from muster.security.requests import Request, of_id


@dataclass(frozen=True, slots=True)
class Principal:
    """The principal of a request: one task of a job, and the user that submitted the job, if known."""

    namespace: str
    job: str
    task: str
    kind: str = "BatchJob"
    #: "" if the job names none
    queue: str = ""
    #: such as `ml/alice`
    user: str = ""
    groups: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.job}/{self.task}"


def denials(policies: Policies, principal: Principal, requests: Sequence[Request]) -> list[Finding]:
    """Returns a problem for each request that the policies do not permit, in the order of the requests.

    A request for several things at once, such as all capabilities, is also denied if a policy forbids one of
    them by its id, or one of all capabilities in any way.
    """
    asked = [each for each in requests if not each.undecided]
    parts = [
        (each, of_id(each.action, other))
        for each in asked
        for other in dict.fromkeys([*policies.forbidden(each.type), *ids.parts(each.type, each.id)])
        if ids.covers(each.type, each.id, other)
    ]
    answers = dict(zip(asked, _answers(policies, principal, asked), strict=True))
    for (whole, part), answer in zip(
        parts, _answers(policies, principal, [part for _, part in parts]), strict=True
    ):
        if not answer.allowed and not answer.unspoken:
            answers[whole] = replace(answer, reason=f"includes {part.id!r}, which is {answer.reason}")
    found = [(each, answers.get(each, Answer(False, reason=each.undecided))) for each in requests]
    return [
        Finding(
            request.path,
            request.denied(answer.reason),
            fix=permit(principal, request) if answer.unspoken else "",
        )
        for request, answer in found
        if not answer.allowed
    ]


def _answers(policies: Policies, principal: Principal, requests: Sequence[Request]) -> Sequence[Answer]:
    if not requests:
        return []
    entities = _principal_entities(principal)
    entities += [
        {"uid": _uid(each.type, each.id), "attrs": dict(each.attributes), "parents": []}
        for each in {(request.type, request.id): request for request in requests}.values()
    ]
    asked = [
        {
            "principal": _uid("Workload", principal.id),
            "action": _uid("Action", request.action),
            "resource": _uid(request.type, request.id),
            "context": {},
        }
        for request in requests
    ]
    return policies.ask(asked, entities)


def permit(principal: Principal, request: Request) -> str:
    """Returns the policy that permits this request to the namespace's workloads."""
    return (
        f"permit (\n"
        f"  principal in Muster::Namespace::{_quoted(principal.namespace)},\n"
        f'  action == Muster::Action::"{request.action}",\n'
        f"  resource == Muster::{request.type}::{_quoted(request.id)}\n"
        f");"
    )


def _principal_entities(principal: Principal) -> list[dict[str, Any]]:  # Any: Cedar's JSON
    workload = {
        "uid": _uid("Workload", principal.id),
        "attrs": {
            "namespace": principal.namespace,
            "name": f"{principal.job}-{principal.task}",
            "job": principal.job,
            "task": principal.task,
            "kind": principal.kind,
            "queue": principal.queue,
        },
        "parents": [_uid("Namespace", principal.namespace)],
    }
    entities: list[dict[str, Any]] = [
        workload,
        {"uid": _uid("Namespace", principal.namespace), "attrs": {}, "parents": []},
    ]
    if principal.user:
        workload["parents"] = [*_parents(workload), _uid("User", principal.user)]
        groups = [_uid("Group", name) for name in principal.groups]
        entities.append({"uid": _uid("User", principal.user), "attrs": {}, "parents": groups})
        entities += [{"uid": uid, "attrs": {}, "parents": []} for uid in groups]
    return entities


def _parents(entity: dict[str, Any]) -> list[dict[str, str]]:
    parents: list[dict[str, str]] = entity["parents"]
    return parents


def _uid(type_: str, id_: str) -> dict[str, str]:
    return {"type": f"Muster::{type_}", "id": id_}


def _quoted(text: str) -> str:
    """Returns the text as a string of Cedar, which has Rust's escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{{{ord(c):x}}}" for c in escaped) + '"'
