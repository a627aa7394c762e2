"""Audits of namespaces: until a given time, a request that no policy permits is reported and not denied.

An audit is for finding out which permits a team needs. The audit itself needs a permit (`AuditOnly`), and it
ends. It covers only requests that no policy mentions: a request that a policy forbids stays denied, and so
does one for which a policy fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from muster import names
from muster.api.fields import Finding, Severity
from muster.compiler.facts import Facts
from muster.security import gates
from muster.security.gates import Principal
from muster.security.policies import Policies
from muster.security.requests import Request

#: How far in the future an audit may end.
MOST: Final = timedelta(days=90)
_AT: Final = ("metadata", "namespace")


@dataclass(frozen=True, slots=True)
class Judged:
    """The decision about a workload's requests, by the policies and an audit of the namespace."""

    denied: Sequence[Finding]
    #: denials that are only reported
    warnings: Sequence[Finding]
    #: when a warning becomes a denial, or an audit begins; None if neither will happen
    until: datetime | None = None


def judge(policies: Policies, principal: Principal, requests: Sequence[Request], facts: Facts) -> Judged:
    """Asks the policies about each request, and applies an audit of the principal's namespace."""
    denied = gates.denials(policies, principal, requests)
    written = facts.audits.get(principal.namespace)
    if written is None or not any(each.fix for each in denied):
        return Judged(denied, ())
    try:
        until = _end(written, principal.namespace, facts.now)
    except _NotInEffect as error:
        return Judged(denied, [_warning(str(error))], error.begins)
    asked = Request("AuditOnly", "Namespace", principal.namespace, path=_AT)
    if refused := gates.denials(policies, principal, [asked]):
        return Judged(denied, [replace(each, severity=Severity.WARNING) for each in refused])
    told = f"; only reported, since namespace {principal.namespace} is audited until {written}"
    return Judged(
        [each for each in denied if not each.fix],
        [
            replace(each, message=each.message + told, severity=Severity.WARNING)
            for each in denied
            if each.fix
        ],
        until,
    )


class _NotInEffect(ValueError):
    """Why an audit is not in effect, and when it will be; None = never."""

    def __init__(self, told: str, begins: datetime | None = None) -> None:
        super().__init__(told)
        self.begins = begins


def _end(written: str, namespace: str, now: datetime) -> datetime:
    """Returns when the audit ends. Raises `_NotInEffect`."""
    where = f"namespace {namespace}: {names.AUDIT_UNTIL} is {written[:40]!r}"
    try:
        until = datetime.fromisoformat(written)
    except ValueError:
        raise _NotInEffect(
            f"{where}, which is not a time such as 2030-01-31T12:00:00Z; nothing is audited"
        ) from None
    if until.tzinfo is None:
        raise _NotInEffect(f"{where}, which names no time zone, such as Z; nothing is audited")
    if until <= now:
        raise _NotInEffect(f"{where}, which has passed; missing permits are denials again")
    if until - now > MOST:
        raise _NotInEffect(f"{where}, more than {MOST.days} days from now; nothing is audited", until - MOST)
    return until


def _warning(message: str) -> Finding:
    return Finding(_AT, message, Severity.WARNING)
