"""Reads files that stand in for secret stores on the embedded cluster: `<store>.yaml` maps paths to values.

    ml/training-data:
      bucket: my-bucket
      access-key: AKIA…

Messages name files and keys, never values.
"""

from pathlib import Path

from muster.api.fields import Finding
from muster.workloads import source
from muster.workloads.findings import JobFileError
from muster.workloads.platform import Stores
from muster.workloads.section import Section


def read(directory: Path) -> Stores:
    """All stores of a directory, which may be absent. Raises `JobFileError`."""
    values: dict[str, dict[str, dict[str, str]]] = {}
    findings: list[Finding] = []
    for file in sorted(directory.glob("*.yaml")):
        if not file.is_file():
            raise JobFileError.of(str(file), "is not a file")
        document = source.parse(source.read(file), str(file))[0]
        store = Section(document, document.value, (), findings)
        values[file.stem] = {}
        for path in store.names():
            if not isinstance(store.raw(path), dict):  # a section's own message would show the value
                store.error(path, "takes keys with their values, such as token: …")
                continue
            entry = store.section(path)
            keys: dict[str, str] = {}
            for key in entry.names():
                if isinstance(value := entry.raw(key), str):
                    keys[key] = value
                else:
                    entry.error(key, "takes text; put it in quotes")
            values[file.stem][path] = keys
    if findings:
        raise JobFileError(findings)
    return Stores(values, str(directory / "{store}.yaml"))
