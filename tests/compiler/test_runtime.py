"""Which programs a pod may execute."""

from typing import Any

import pytest

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.facts import Image
from tests.workloads.batch.jobs import compiled, small

IMAGE = "registry.example.com/app@sha256:" + "a" * 64


def selector(container: dict[str, Any], facts: Facts | None = None) -> tuple[Object, set[str]]:
    """The policy's one selector, and what is asked for."""
    result = compiled(small(container), facts=facts)
    [policy] = [each for each in result.support if each["kind"] == "TracingPolicyNamespaced"]
    [found] = policy["spec"]["kprobes"][0]["selectors"]
    return found, {request.id for _, request in result.requests if request.id.startswith("allowedBinary")}


def allowed(found: Object) -> list[str]:
    return [path for match in found.get("matchArgs", []) for path in match["values"]]


PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def probing(name: str, program: str) -> dict[str, Any]:
    return {name: {"exec": {"command": [program, "-x"]}}}


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("tetragon", [True, False])
def test_a_container_executes_its_command_without_asking_and_a_probe_only_that(
    probe: str, tetragon: bool
) -> None:
    found, asked = selector(probing(probe, "/bin/probe"))
    assert allowed(found) == ["/bin/app", "/bin/probe"]
    assert found["matchActions"] == [{"action": "Sigkill"}]
    assert asked == {"allowedBinary:/bin/probe"}
    _, asked = selector(probing(probe, "/bin//app"))
    assert not asked
    requests = compiled(small(probing(probe, "/bin/sh")), facts=Facts(tetragon=tetragon)).requests
    assert "allowedBinary:/bin/sh" in {request.id for _, request in requests}


def test_more_programs_are_asked_for_one_by_one() -> None:
    found, asked = selector({"security": {"allowedBinaries": ["/bin/app", "/bin/tar"]}})
    assert allowed(found) == ["/bin/app", "/bin/tar"]
    assert asked == {"allowedBinary:/bin/tar"}


def test_the_images_configuration_says_what_a_container_without_command_executes() -> None:
    facts = Facts(
        images={IMAGE: Image("sha256:" + "a" * 64, entrypoint=("/usr/bin/python3",), cmd=("-m", "x"))}
    )
    found, asked = selector({"command": []}, facts)
    assert allowed(found) == ["/usr/bin/python3"]
    assert not asked


def test_an_unknown_entry_point_is_only_reported_and_that_is_asked_for() -> None:
    found, asked = selector({"command": []})
    assert found == {"matchActions": [{"action": "Post"}]}
    assert asked == {"allowedBinary:*"}


def test_any_program_is_asked_for() -> None:
    found, asked = selector({"security": {"allowedBinaries": ["*"]}})
    assert found["matchActions"] == [{"action": "Post"}]
    assert asked == {"allowedBinary:*"}
