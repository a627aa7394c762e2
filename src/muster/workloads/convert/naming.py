"""How a pod template names its gang: read, removed, and written in another dialect."""

from typing import Final

from muster.api import groups
from muster.api.base import Object, at
from muster.api.groups import Dialect

_WHERE: Final = ("labels", "annotations")
#: Characters of a label's value.
LONGEST_LABEL: Final = 63


def put(template: Object, row: Dialect, name: str) -> None:
    """Makes the pods of a template members of a group of this dialect, by its first key."""
    row = row.naming
    if not row.in_spec and "metadata" not in template:  # it is read before the spec
        spec = dict(template)
        template.clear()
        template |= {"metadata": {}, **spec}
    if row.label:
        _within(template, "metadata", "labels")[row.label] = name
    elif row.annotations:
        _within(template, "metadata", "annotations")[row.annotations[0]] = name
    else:
        _within(template, "spec")["schedulingGroup"] = {"podGroupName": name}


def description(template: Object, row: Dialect) -> dict[str, str]:
    """By key, all by which a template names or describes a group of this dialect, apart from its spec."""
    metadata = at(template, "metadata")
    said = {key: str(text) for where in _WHERE for key, text in at(metadata, where).items()}
    described = not said.keys().isdisjoint(row.by_description)
    naming = (row.label, *row.annotations)
    keys = (*naming, *row.by_description, *row.minimum, *row.description) if described else naming
    return {key: said[key] for key in keys if key in said}


def stated(template: Object, row: Dialect) -> dict[str, str]:
    """By key, what a template says of the gang that it describes; its minimum by the last of the keys."""
    said = description(template, row)
    least = next((said[key] for key in row.minimum if said.get(key)), "")
    found = {row.minimum[-1]: least} if least else {}
    return found | {key: said[key] for key in row.description if key in said}


def take(template: Object, row: Dialect) -> None:
    """Removes all by which a template names or describes a group of this dialect."""
    metadata = at(template, "metadata")
    for key in description(template, row):
        for where in _WHERE:
            at(metadata, where).pop(key, None)
    for where in _WHERE:
        if metadata.get(where) == {}:
            del metadata[where]
    if template.get("metadata") == {}:
        del template["metadata"]
    if row.in_spec:
        at(template, "spec").pop("schedulingGroup", None)


def named(template: Object) -> groups.Named | None:
    """The group that a template names."""
    return groups.named_in(template)


def _within(template: Object, *path: str) -> Object:
    for step in path:
        found = template.get(step)
        if not isinstance(found, dict):
            found = template[step] = {}
        template = found
    return template
