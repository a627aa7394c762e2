"""`muster schema KIND`: prints the JSON Schema of a job file, which editors complete and validate with."""

from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.say import say


class Of(StrEnum):
    """What has a schema."""

    AICHOR = "aichor"
    JOBSET = "jobset"
    BATCHJOB = "batchjob"
    QUEUE = "queue"


def command(
    kind: Annotated[Of, typer.Argument(metavar="aichor|jobset|batchjob|queue", help="The kind of file.")],
) -> None:
    import json

    from muster.api import kinds
    from muster.embedded.schema import editor
    from muster.workloads import schemas
    from muster.workloads.outline import DRAFT

    match kind:
        case Of.AICHOR:
            found = schemas.aichor()
        case Of.BATCHJOB:
            found = schemas.batch_job()
        case Of.JOBSET:
            found = editor.of(kinds.JOBSET, DRAFT)
        case Of.QUEUE:
            found = editor.of(kinds.QUEUE, DRAFT)
    say(json.dumps(found, indent=2))
