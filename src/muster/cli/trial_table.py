"""The table of `muster get JOB --table`: a line per index, also as CSV and JSON."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from muster.api.base import Object
from muster.api.visible import visible_lines
from muster.app.views.trials import Trial

#: What a spreadsheet takes for a formula, if a cell begins with it.
_FORMULA: Final = ("=", "+", "-", "@")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-](inf|nan)", re.ASCII)


def columns(trials: Sequence[Trial]) -> list[str]:
    """The columns, parameters in the order of the file; reports and results only if there are any."""
    return [name for name, _ in _columns(trials)]


def rows(trials: Sequence[Trial]) -> list[list[str]]:
    """The cells below `columns`; what is not known is empty."""
    cells = [cell for _, cell in _columns(trials)]
    return [[cell(trial) for cell in cells] for trial in trials]


def as_csv(trials: Sequence[Trial]) -> str:
    """The table as RFC 4180 has it, with the names of the columns in lower case, except parameters.

    A program wrote its result, and may want it to be a formula in a spreadsheet: a text that would be one
    begins with an apostrophe, which spreadsheets hide.
    """
    out = io.StringIO()
    names = {name for trial in trials for name in trial.parameters}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_inert(each if each in names else each.lower()) for each in columns(trials)])
    writer.writerows([_inert(cell) for cell in row] for row in rows(trials))
    return out.getvalue()


def _inert(cell: str) -> str:
    """The text as a cell that computes nothing, and controls no terminal."""
    shown = visible_lines(cell)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) and not _NUMBER.fullmatch(shown) else shown


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


def _columns(trials: Sequence[Trial]) -> list[tuple[str, Callable[[Trial], str]]]:
    """Each column with what it shows of a trial. A parameter may be called as another column."""
    parameters = dict.fromkeys(name for trial in trials for name in trial.parameters)
    found: list[tuple[str, Callable[[Trial], str]]] = [
        ("INDEX", lambda trial: trial.index),
        *((name, partial(_parameter, name)) for name in parameters),
        ("STATE", lambda trial: trial.state),
        ("EXIT", lambda trial: "" if trial.exit_code is None else str(trial.exit_code)),
        ("STARTS", lambda trial: str(trial.starts)),
    ]
    if any(trial.report is not None for trial in trials):
        found += [("STEP", _step), ("LOSS", _loss)]
    if any(trial.result for trial in trials):
        found.append(("RESULT", lambda trial: trial.result))
    return found


def _parameter(name: str, trial: Trial) -> str:
    return trial.parameters.get(name, "")


def _step(trial: Trial) -> str:
    return "" if trial.report is None else str(trial.report.step)


def _loss(trial: Trial) -> str:
    return "" if trial.report is None or trial.report.loss is None else f"{trial.report.loss:g}"
