"""One column of a table: its name, its type, and how to read its cell from an object."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from muster.api.base import Object
from muster.embedded.http.tables import ages

#: A cell of an object, as JSON; None is shown as a blank.
Read = Callable[[Object, datetime], Any]  # Any: JSON


class Column(NamedTuple):
    name: str
    read: Read
    #: 1: shown with `-o wide` only
    priority: int = 0
    type: str = "string"

    def definition(self) -> Object:
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": "",
            "priority": self.priority,
        }


def at(path: str, default: Any = "") -> Read:  # Any: JSON
    """Reads the field at a path such as `.spec.weight`, or `default` if it is absent."""
    steps = path.strip(".").split(".")

    def read(obj: Object, now: datetime) -> Any:  # Any: JSON
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    return read


def age_of(path: str) -> Read:
    read = at(path)
    return lambda obj, now: ages.since(read(obj, now), now)


def condition(type_: str) -> Read:
    """Reads the status of a condition; None without it."""

    def read(obj: Object, now: datetime) -> str | None:
        for found in (obj.get("status") or {}).get("conditions") or ():
            if found.get("type") == type_:
                return str(found.get("status"))
        return None

    return read


NAME = Column("Name", at(".metadata.name"))
AGE = Column("Age", age_of(".metadata.creationTimestamp"))
