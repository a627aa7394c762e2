"""Reads and decides test cases for an administrator's policies.

    policies: policies          # a directory of *.cedar files; may be given on the command line instead
    cases:
      - name: the team reads its own secrets
        as: {namespace: ml, job: train, task: workers, user: ml/alice, groups: [team]}
        action: AccessSecret
        resource: vault:ml/db
        expect: allow           # or deny

A resource is written as the id that a denial names. Its attributes follow from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from muster.api.fields import Finding
from muster.security.gates import Principal, denials
from muster.security.policies import Policies
from muster.security.requests import Action, Request, of_id
from muster.workloads.batch.resources import strings
from muster.workloads.findings import JobFileError
from muster.workloads.section import Section
from muster.workloads.source import Document

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    principal: Principal
    request: Request
    allowed: bool
    line: int


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    passed: bool
    #: why the request is denied; "" if it is allowed
    reason: str


def read(document: Document) -> tuple[str, list[Case]]:
    """The directory of policies ("" if none is named), and the cases. Raises `JobFileError`."""
    findings: list[Finding] = []
    top = Section(document, document.value, (), findings)
    directory = top.text("policies")
    cases = [_case(section, document) for section in top.sections("cases")]
    if not cases:
        top.error("cases", "is missing; a file has at least one case")
    top.close()
    if findings:
        raise JobFileError(findings)
    return directory, [case for case in cases if case is not None]


def decide(policies: Policies, cases: Sequence[Case]) -> list[Result]:
    """Whether each case is as expected, in order."""
    results = []
    for case in cases:
        denied = denials(policies, case.principal, [case.request])
        reason = denied[0].message if denied else ""
        results.append(Result(case, bool(reason) is not case.allowed, reason))
    return results


def _case(section: Section, document: Document) -> Case | None:
    who = section.section("as")
    principal = Principal(
        who.text("namespace", "default"),
        who.text("job", "job"),
        who.text("task", "task"),
        queue=who.text("queue"),
        user=who.text("user"),
        groups=tuple(strings(who, "groups")),
    )
    who.close()
    action = section.choice("action", ACTIONS, "")
    resource = section.text("resource")
    expect = section.choice("expect", ("allow", "deny"), "")
    for field, given in (("action", action), ("resource", resource), ("expect", expect)):
        if not given and field not in section:
            section.error(field, "is missing")
    name = section.text("name", f"{action} {resource}")
    section.close()
    found = next((each for each in ACTIONS if each == action), None)
    if found is None or not resource:
        return None
    request = of_id(found, resource)
    if request.undecided:
        section.error("resource", request.undecided)
    return Case(name, principal, request, expect == "allow", document.mark(section.path).line)
