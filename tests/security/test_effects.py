"""Every field of every emitted object is covered by a gate, a fixed value, or a reason why it harms nothing.

A stage of the compiler that emits a field which `tests.security.effects` does not list fails here. So does a
value that is called gated and that no request names.
"""

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final

import pytest

from muster.api.base import Object
from muster.workloads.section import Section
from tests.security.effect_jobs import JOBS, MADE, kind_of
from tests.security.effects import COVERED, Check, World
from tests.workloads.batch.jobs import parsed

#: `apiVersion`, `kind` and the status; `host`, which is refused; and `source`,
#: whose file is a `content`; `entryRuntime`, which is merged into the task.
UNUSED: Final = frozenset({"apiVersion", "kind", "status", "host", "source", "entryRuntime"})


def test_the_jobs_here_use_every_field_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an effect could hide behind a field that no job here has."""
    asked: set[tuple[str, ...]] = set()
    given: set[tuple[str, ...]] = set()
    get = Section._get

    def spy(section: Section, name: str) -> Any:
        value = get(section, name)
        path = kind_of((*section.path, name))
        asked.add(path)
        if value is not None:
            given.add(path)
        return value

    monkeypatch.setattr(Section, "_get", spy)
    for _, _, job in JOBS.values():
        _, findings = parsed(job)
        assert not findings
    assert sorted(each for each in asked - given if each[-1] not in UNUSED) == []


#: Fields that are one value here: lists of rules, and mappings whose keys a user chooses.
WHOLE: Final = (
    "tolerations",
    "egress",
    "ingress",
    "matchLabels",
    "labels",
    "annotations",
    "data",
    "binaryData",
    "selector",
)
ANNOTATED: Final = ("muster.dev/allowed-callers", "muster.dev/allowed-consumers")


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every field with its value. Containers and pods have paths of their own, wherever they are."""
    name = path.rpartition(".")[2]
    if isinstance(value, dict) and value and not (name in WHOLE and not is_section(path)):
        for key, each in value.items():
            below = f"{path}.{key}"
            if key in ("containers", "initContainers"):
                below = "container"
            elif key == "spec" and "containers" in each:
                below = "pod"
            yield from leaves(each, below)
    elif (
        isinstance(value, list)
        and value
        and isinstance(value[0], dict)
        and (name not in WHOLE or is_section(path))
    ):
        for each in value:
            yield from leaves(each, path)
    else:
        if name == "annotations":
            yield from ((f"{path}.{key}", value[key]) for key in ANNOTATED if key in value)
        yield path, value


def is_section(path: str) -> bool:
    """Whether a name of `WHOLE` is a list of typed entries there."""
    return path in ("ExternalSecret.spec.data", "AuthorizationPolicy.spec.selector")


def line(path: str) -> str:
    return next((pattern for pattern in COVERED if fnmatchcase(path, pattern)), "")


def world(name: str) -> World:
    made = MADE[name]
    assert not made.problems, made.problems
    return World([each for _, each in made.requests], [*made.support, *made.jobs], JOBS[name][1])


@pytest.mark.parametrize("name", JOBS)
def test_every_emitted_field_is_covered_and_what_a_gate_covers_has_been_asked_for(name: str) -> None:
    here = world(name)
    for obj in here.objects:
        for path, value in leaves(obj, obj["kind"]):
            assert line(path), f"{path}: {value!r}: no gate, no fixed value, no reason"
            _, check = COVERED[line(path)]
            assert check is None or check(value, here, obj), f"{path}: {value!r}"


def test_no_line_is_about_a_field_that_nothing_has() -> None:
    used = {
        line(path) for name in JOBS for obj in world(name).objects for path, _ in leaves(obj, obj["kind"])
    }
    assert set(COVERED) - used == set()


def test_what_is_not_asked_for_is_noticed() -> None:
    """The checks are no formality: without its requests, each gate's values fail."""
    here, noticed = world("rest in a mesh"), set()
    for obj in here.objects:
        for path, value in leaves(obj, obj["kind"]):
            action, check = COVERED[line(path)]
            if check is not None and action[0].isupper():
                refused = [each for each in here.asked if each.action not in action.split(", ")]
                if not holds(check, value, replace(here, asked=refused), obj):
                    noticed.add(path)
    for path in (
        "container.image",
        "CiliumNetworkPolicy.spec.egress",
        "CiliumNetworkPolicy.spec.ingress",
        "pod.tolerations",
        "pod.runtimeClassName",
        "pod.hostNetwork",
        "ServiceEntry.spec.hosts",
        "container.livenessProbe.exec.command",
        "ExternalSecret.spec.data.remoteRef.key",
        "AuthorizationPolicy.spec.rules.from.source.principals",
    ):
        assert path in noticed


def holds(check: Check, value: Any, here: World, obj: Object) -> bool:
    try:
        return check(value, here, obj)
    except AssertionError:
        return False
