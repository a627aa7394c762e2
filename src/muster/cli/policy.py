"""`muster policy test FILE` decides test cases for policies; `muster policy schema` prints their schema."""

from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.errors import BAD_INPUT
from muster.cli.say import say


class What(StrEnum):
    TEST = "test"
    SCHEMA = "schema"


Action = Annotated[What, typer.Argument(metavar="test|schema", help="Test policies, or print their schema.")]
Cases = Annotated[str, typer.Argument(metavar="FILE", help="The test cases, in YAML.")]
Policies = Annotated[
    str,
    typer.Option(
        "--policies", metavar="DIR", help="The policies to test; by default the directory that FILE names."
    ),
]


def command(what: Action, file: Cases = "", policies: Policies = "") -> None:
    from pathlib import Path

    from muster.app.commands import administered
    from muster.cli import jobfile
    from muster.cli.errors import Failure
    from muster.security.policies import SCHEMA_TEXT, InvalidPolicy
    from muster.workloads import policy_cases, source

    if what is What.SCHEMA:
        say(SCHEMA_TEXT.rstrip("\n"))
        return
    if not file:
        raise Failure("muster policy test FILE: name the file of test cases", BAD_INPUT)
    content = source.decode(jobfile.stdin(), "-") if file == "-" else source.read(Path(file))
    directory, cases = policy_cases.read(source.parse(content, jobfile.called(file))[0])
    where = Path(policies) if policies else Path(file).parent / directory
    try:
        known = administered.policies(where)
    except InvalidPolicy as error:
        raise Failure(str(error), BAD_INPUT) from None
    except OSError as error:
        raise Failure(f"{where}: {error.strerror}", BAD_INPUT) from None
    failed = 0
    for result in policy_cases.decide(known, cases):
        failed += not result.passed
        mark = "pass" if result.passed else "FAIL"
        told = result.reason or "allowed"
        say(f"{mark}  {result.case.name}" + ("" if result.passed else f" (line {result.case.line}): {told}"))
    say(f"{len(cases) - failed} of {len(cases)} as expected")
    if failed:
        raise typer.Exit(1)
