"""How large a batch job may be, before anything is read of it.

Every task is read with the defaults and the shared resources, so what is written once is read once per task:
127 KiB can be 1.5 million fields. Everything that reads or compiles a job takes time in proportion to what is
counted here, and placeholders in proportion to the resources that they are looked up in. So the counts of a
job with all its defaults are limited, and the length of every mapping and list.
"""

from typing import Any, Final

from muster.api.fields import Path

#: Most tasks of a job. Each has a pod template, and an API server stores objects of at most 1.5 MiB.
MAX_TASKS: Final = 500
#: Most entries of any other mapping or list.
MAX_ENTRIES: Final = 1_000
#: Most levels below `spec`; the deepest field that muster knows has half as many.
MAX_LEVELS: Final = 40
#: Most fields, entries of lists and placeholders of all tasks, each with its defaults and shared resources.
MAX_VALUES: Final = 100_000
#: Most characters of all texts, counted the same way.
MAX_TEXT: Final = 8 * 2**20
_SHORTER: Final = "equal pods are one task with replicas; or make several jobs"


def excess(job: Any) -> tuple[Path, str] | None:  # Any: a user's YAML
    """The field of a job that is too large, and what is wrong with it; None = the job may be read."""
    spec = job.get("spec") if isinstance(job, dict) else None
    if not isinstance(spec, dict):
        return None
    tasks = spec.get("tasks")
    number = len(tasks) if isinstance(tasks, dict) else 0
    if number > MAX_TASKS:
        told = f"has {number:,} tasks; the most is {MAX_TASKS}. Equal pods are one task with replicas"
        return ("spec", "tasks"), told
    values = text = 0
    for name, value in spec.items():
        times = number if name in ("defaults", "resources") else 1
        more, longer, long = _counted(value, ("spec", name))
        if long is not None:
            return long
        values, text = values + times * more, text + times * longer
    if len(spec) > MAX_ENTRIES:
        return ("spec",), _too_many(len(spec))
    for counted, most, what in ((values, MAX_VALUES, "values"), (text, MAX_TEXT, "characters")):
        if counted > most:
            told = f"are {counted:,} {what}, with the defaults and shared resources of each task"
            return ("spec", "tasks"), f"{told}; the most is {most:,}. {_SHORTER}"
    return None


def _counted(value: Any, path: Path) -> tuple[int, int, tuple[Path, str] | None]:
    """The values and characters of JSON, and its first mapping or list that is too long."""
    values = text = 0
    rest = [(value, path)]
    while rest:
        each, at = rest.pop()
        values += 1
        if isinstance(each, str):
            text += len(each)
            values += each.count("${")
        elif isinstance(each, dict | list):
            if len(at) > MAX_LEVELS:
                return values, text, (at, f"is nested deeper than {MAX_LEVELS} levels")
            if len(each) > MAX_ENTRIES:
                return values, text, (at, _too_many(len(each)))
            if isinstance(each, dict):
                text += sum(len(key) for key in each if isinstance(key, str))
            items = each.items() if isinstance(each, dict) else enumerate(each)
            rest += [(inner, (*at, key)) for key, inner in items]
    return values, text, None


def _too_many(number: int) -> str:
    return f"has {number:,} entries; the most is {MAX_ENTRIES:,}"
