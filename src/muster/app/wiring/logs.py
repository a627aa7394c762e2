"""The daemons' log, on stderr: lines for people, or JSON with one object per line."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

import msgspec

from muster.app.wiring.settings import Log

#: Attributes of every record; what else a record carries was given as `extra`.
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_filters: Final[list[logging.Filter]] = []


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger`, `message`, and what the record carries besides."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in _USUAL},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def add(filter_: logging.Filter) -> None:
    """Lets the filter add to each record from now on, whatever the settings become."""
    _filters.append(filter_)
    for handler in logging.getLogger().handlers:
        handler.addFilter(filter_)


def configure(settings: Log) -> None:
    """Writes the log so from now on."""
    handler = logging.StreamHandler(sys.stderr)
    for filter_ in _filters:
        handler.addFilter(filter_)
    if settings.format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=settings.level.upper(), force=True)
