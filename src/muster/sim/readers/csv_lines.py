"""Muster's own traces as CSV: tables of jobs, of nodes and of outages, told apart by their header.

A column is a field of `records.py` in lower case with underscores, or the name of a resource (`cpu`,
`memory`, `gpus` for nvidia.com/gpu, anything with a slash). In a table of jobs each line is a pod set; a line
whose `submit` is empty adds one to the job above it. Layers and queues have no table: they are for JSON.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.names import GPU, GPU_PRODUCT
from muster.sim.readers.lines import Line, lines, shown
from muster.sim.readers.records import JobRecord, NodeRecord, OutageRecord, Record, Told, refusal
from muster.sim.trace import TraceError

#: Pod sets of a job, which are in memory together.
MOST_SETS: Final = 10_000
_JOB: Final = (
    "job",
    "submit",
    "run",
    "min",
    "namespace",
    "queue",
    "priority",
    "estimate",
    "limit",
    "checkpoint",
    "restart_cost",
    "min_run_time",
    "preemptible",
    "gather",
    "exclusive",
    "failures",
)
_POD_SET: Final = {"set": "name", "pods": "count", "pods_min": "min", "gpu_share": "gpuShare"}
_NODE: Final = ("node", "count")
_OUTAGE: Final = ("at", "node", "is")
_RESOURCES: Final = {"cpu": "cpu", "memory": "memory", "gpus": GPU}
#: columns by the fields of a pod set, and by resources
_OF_FIELD: Final = {new: old for old, new in _POD_SET.items()}
_OF_RESOURCE: Final = {new: old for old, new in _RESOURCES.items()}


class Row(Line):
    """A line of a table, whose fields are called by their columns."""

    __slots__ = ("header", "more")

    header: list[str]
    #: the lines of further pod sets of the same job
    more: list["Row"]

    @classmethod
    def of(cls, line: str, header: list[str]) -> "Row":
        row = cls(line)
        row.header, row.more = header, []
        return row

    def field(self, path: str) -> str:
        """Of `pods[1].min`: `f.csv, line 4, column 6 (pods_min)`."""
        row, within = self, path
        if path.startswith("pods["):
            number, _, within = path.removeprefix("pods[").partition("]")
            row, within = [self, *self.more][int(number)], within.lstrip(".")
        field, _, resource = within.partition(".")
        if field == "resources" and resource:
            column = _OF_RESOURCE.get(resource, resource)
        else:
            field = field.partition("[")[0]
            snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in field)
            column = _OF_FIELD.get(field, snake) if path.startswith("pods[") else snake
        if not column:
            return str(row)
        at = f"column {self.header.index(column) + 1} ({column})" if column in self.header else column
        return f"{row}, {at}"


def records(path: Path) -> Iterator[Told]:
    """Raises TraceError for the file."""
    table: _Table | None = None
    for number, text in lines(path):
        where = Line(f"{path}, line {number}")
        if not text.strip():
            continue
        if table is None:
            table = _table(_fields(text, where), where)
            continue
        try:
            done = table.line(_fields(text, where), where)
        except TraceError as error:
            lost = table.broken(text)
            yield from filter(None, (table.last(), (where, error), lost))
            continue
        if done is not None:
            yield done
    if table is None:
        raise TraceError(f"{path}: is empty; expected a header such as job,submit,run,pods,gpus")
    if (last := table.last()) is not None:
        yield last


def begins(text: str) -> bool:
    """Whether this is the header of one of the tables."""
    columns = {column.strip() for column in text.split(",")}
    return not columns.isdisjoint({"node", "job"})


def _fields(text: str, where: str) -> list[str]:
    try:
        return [field.strip() for field in next(csv.reader([text], strict=True))]
    except csv.Error as error:
        raise TraceError(f"{where}: not CSV: {error}") from None


def _table(header: list[str], where: str) -> "_Table":
    if "job" in header or "submit" in header:
        known: tuple[str, ...] = (*_JOB, *_POD_SET, *_RESOURCES)
        needed: tuple[str, ...] = ("job", "submit", "run")
        table: type[_Table] = _Jobs
    elif "at" in header:
        known, needed, table = _OUTAGE, _OUTAGE, _Outages
    else:
        known, needed, table = (*_NODE, *_RESOURCES, "product"), ("node",), _Nodes
    for number, column in enumerate(header, 1):
        at = f"{where}, column {number}"
        if header.index(column) != number - 1:
            raise TraceError(f"{at}: {shown(column)} occurs twice")
        free = table is not _Outages and "/" in column
        if not (column in known or free or (table is _Nodes and column.startswith("label:"))):
            raise TraceError(
                f"{at}: {shown(column)} is not a column; known are {', '.join(known)} and resources"
            )
    missing = [column for column in needed if column not in header]
    if missing:
        raise TraceError(f"{where}: no column {' and '.join(missing)}; is this a header?")
    return table(header)


class _Table:
    """Lines of one header; a record may take several."""

    def __init__(self, header: list[str]) -> None:
        self._header = header

    def line(self, fields: list[str], where: str) -> Told | None:
        if len(fields) != len(self._header):
            raise TraceError(f"{where}: {len(fields)} columns; the header has {len(self._header)}")
        row = {name: text for name, text in zip(self._header, fields, strict=True) if text}
        return self.row(row, Row.of(where, self._header))

    def row(self, row: dict[str, str], where: Row) -> Told | None:
        raise NotImplementedError

    def last(self) -> Told | None:
        return None

    def broken(self, text: str) -> Told | None:
        """The record under way, if a line that cannot be read may be part of it: it is left out."""
        return None

    def _record(self, type_: type[Record], value: Mapping[str, Any], where: Row) -> Record:  # Any: JSON
        try:
            return msgspec.convert(value, type_, strict=False)
        except msgspec.ValidationError as error:
            raise refusal(error, where) from None


class _Nodes(_Table):
    def row(self, row: dict[str, str], where: Row) -> Told | None:
        labels = {key.removeprefix("label:"): row.pop(key) for key in [*row] if key.startswith("label:")}
        if "product" in row:
            labels[GPU_PRODUCT] = row.pop("product")
        value = {"resources": _resources(row), "labels": labels, **row}
        return where, self._record(NodeRecord, value, where)


class _Outages(_Table):
    def row(self, row: dict[str, str], where: Row) -> Told | None:
        return where, self._record(OutageRecord, row, where)


class _Jobs(_Table):
    def __init__(self, header: list[str]) -> None:
        super().__init__(header)
        self._where, self._job = Row.of("", header), dict[str, Any]()  # Any: JSON

    def row(self, row: dict[str, str], where: Row) -> Told | None:
        resources = _resources(row)
        pods: dict[str, Any] = {new: row.pop(old) for old, new in _POD_SET.items() if old in row}  # Any: JSON
        pods["resources"] = resources
        if "submit" not in row:
            if not self._job or row.get("job", "") not in ("", self._job.get("job", "")):
                raise TraceError(f"{where}: submit is empty, and the line above is of another job")
            extra = sorted(row.keys() - {"job"})
            if extra:
                raise TraceError(f"{where}: {', '.join(extra)} belongs into the job's first line")
            if len(self._job["pods"]) >= MOST_SETS:
                raise TraceError(f"{where}: a job has {MOST_SETS:,} pod sets at most")
            self._job["pods"].append(pods)
            self._where.more.append(where)
            return None
        before = self.last()
        value: dict[str, Any] = dict(row)  # Any: JSON
        for name, camel in (("restart_cost", "restartCost"), ("min_run_time", "minRunTime")):
            if name in value:
                value[camel] = value.pop(name)
        if "gather" in value:
            value["gather"] = [_gather(each) for each in value["gather"].split(";")]
        if "failures" in value:
            value["failures"] = value["failures"].split(";")
        self._where, self._job = where, {**value, "pods": [pods]}
        return before

    def last(self) -> Told | None:
        if not self._job:
            return None
        where, job = self._where, self._job
        self._job = {}
        try:
            return where, self._record(JobRecord, job, where)
        except TraceError as error:
            return where, error

    def broken(self, text: str) -> Told | None:
        """Part of the job above are lines that name no other one."""
        fields, column = text.split(","), self._header.index("job")
        name = fields[column].strip() if column < len(fields) else ""
        if not self._job or (name not in ("", self._job.get("job", "")) and '"' not in text):
            return None
        self._job = {}
        return self._where, TraceError(f"{self._where}: a line of this job, below, cannot be read")


def _resources(row: dict[str, str]) -> dict[str, str]:
    """Takes them out of the row."""
    return {_RESOURCES.get(key, key): row.pop(key) for key in [*row] if key in _RESOURCES or "/" in key}


def _gather(text: str) -> dict[str, str]:
    """`rack:MustGather`, `rack:PreferGather:4`, `rack::4`."""
    layer, _, rest = text.partition(":")
    strategy, _, multiple = rest.partition(":")
    return {k: v for k, v in (("layer", layer), ("strategy", strategy), ("multiple", multiple)) if v}
