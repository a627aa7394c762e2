"""The table of `muster get JOB --table`: a line per index, also as CSV and JSON."""

import csv
import io
from collections.abc import Sequence

from muster.api.base import Object
from muster.app.views.trials import Trial


def columns(trials: Sequence[Trial]) -> list[str]:
    """The columns, parameters in the order of the file; reports and results only if there are any."""
    parameters = list(dict.fromkeys(name for trial in trials for name in trial.parameters))
    reported = any(trial.report is not None for trial in trials)
    return [
        "INDEX",
        *parameters,
        *("STATE", "EXIT", "STARTS"),
        *(("STEP", "LOSS") if reported else ()),
        *(("RESULT",) if any(trial.result for trial in trials) else ()),
    ]


def rows(trials: Sequence[Trial]) -> list[list[str]]:
    """The cells below `columns`; what is not known is empty."""
    return [[_cells(trial).get(column, "") for column in columns(trials)] for trial in trials]


def as_csv(trials: Sequence[Trial]) -> str:
    """The table as RFC 4180 has it, with the names of the columns in lower case, except parameters."""
    out = io.StringIO()
    names = {name for trial in trials for name in trial.parameters}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([each if each in names else each.lower() for each in columns(trials)])
    writer.writerows(rows(trials))
    return out.getvalue()


def as_json(trials: Sequence[Trial]) -> list[Object]:
    return [
        {
            "index": trial.index,
            "parameters": trial.parameters,
            "state": trial.state,
            "exitCode": trial.exit_code,
            "starts": trial.starts,
            "step": trial.report.step if trial.report is not None else None,
            "loss": str(trial.report.loss)
            if trial.report is not None and trial.report.loss is not None
            else None,
            "result": trial.result,
        }
        for trial in trials
    ]


def _cells(trial: Trial) -> dict[str, str]:
    told = trial.report
    return {
        "INDEX": trial.index,
        "STATE": trial.state,
        "STARTS": str(trial.starts),
        "RESULT": trial.result,
        "EXIT": "" if trial.exit_code is None else str(trial.exit_code),
        "STEP": "" if told is None else str(told.step),
        "LOSS": "" if told is None or told.loss is None else f"{told.loss:g}",
        **trial.parameters,
    }
