"""What holds for every job: nothing unasked, nothing by halves, and no secret outside of its Secret."""

import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.fulfil import fulfil
from muster.security.gates import permit
from muster.security.policies import Policies
from muster.workloads.batch.compiling import Compiled
from tests.compiler.test_golden import JOB, SHARED, VARIANTS
from tests.workloads.batch.jobs import TRAINING, changed, compiled, small

FACTS: Final = Facts(istio=True, **SHARED)


def permits(result: Compiled) -> dict[str, str]:
    """The permit of each request, by what it is about."""
    return {f"{request.action} {request.id}": permit(who, request) for who, request in result.requests}


def all_of(result: Compiled) -> list[Object]:
    return [*result.support, *result.jobs]


@pytest.mark.parametrize("text", [JOB, TRAINING], ids=["all", "chapter"])
def test_each_request_by_itself_decides_about_everything(text: str) -> None:
    """A job is emitted if all of its requests are permitted, and nothing of it if any one is not."""
    every = permits(compiled(text, facts=FACTS))
    whole = compiled(text, facts=FACTS, policies=Policies(_named(every)))
    assert all_of(whole) == all_of(compiled(text, facts=FACTS))
    for left_out in every:
        some = {about: text for about, text in every.items() if about != left_out}
        denied = compiled(text, facts=FACTS, policies=Policies(_named(some)))
        assert not all_of(denied)
        assert {each.fix for each in denied.problems} == {every[left_out]}


def _named(texts: dict[str, str]) -> dict[str, str]:
    return {f"p{number}": text for number, text in enumerate(texts.values())}


def found(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every single value in JSON with the keys that lead to it."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from found(each, (*path, key))
    elif isinstance(value, list):
        for each in value:
            yield from found(each, path)
    else:
        yield path, value


@pytest.mark.parametrize("variant", VARIANTS)
def test_whatever_leaves_the_cluster_or_its_restrictions_has_been_asked_for(variant: str) -> None:
    """Reads the emitted objects by rules of its own: which fields hold hosts, paths of secrets, images."""
    target, facts, change = VARIANTS[variant]
    result = compiled(changed(JOB, change), target=target, facts=facts)
    asked: dict[str, set[str]] = {}
    for _, request in result.requests:
        asked.setdefault(request.action, set()).add(request.id)
    hosts = {each.rpartition(":")[0] for each in asked.get("AccessExternalEndpoint", ())}
    paths = {each.partition(":")[2] for each in asked["AccessSecret"]}
    for each in all_of(result):
        for path, value in found(each):
            match path[-1]:
                case "matchName" | "matchPattern" if not str(value).endswith(".svc.cluster.local"):
                    assert value in hosts
                case "toCIDR" | "cidr":
                    assert str(value).partition("/")[0] in hosts
                case "toEntities":
                    raise AssertionError("the job names no entity")
                case "hosts" if each["kind"] == "ServiceEntry" and "addresses" not in each["spec"]:
                    assert value in hosts
                case "key" if path[-2] in ("remoteRef", "extract"):
                    assert value in paths
                case "image":
                    assert value in asked["DeployImage"]
                case "add" if path[-2] == "capabilities":
                    assert f"capability:{value}" in asked["OverrideSecurity"]
                case "localhostProfile":
                    assert f"seccomp:Localhost:{value}" in asked["OverrideSecurity"]
                case "claimName" if value == "sets":
                    assert "ml/sets" in asked["AccessVolume"]
                case "queue":
                    assert value in asked["UseQueue"]


def shuffled(value: Any, order: random.Random) -> Any:
    """The same JSON with the keys of every mapping in another order."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(each, order) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_keys_does_not_matter(variant: str, seed: int) -> None:
    """An API server keeps none."""
    target, facts, change = VARIANTS[variant]
    text = changed(JOB, change)
    again = yaml.safe_dump(shuffled(yaml.safe_load(text), random.Random(seed)), sort_keys=False)
    once, other = (compiled(each, target=target, facts=facts) for each in (text, again))
    assert msgspec.json.encode(all_of(once)) == msgspec.json.encode(all_of(other))
    assert [each.id for _, each in once.requests] == [each.id for _, each in other.requests]


USES: Final = {
    "variables": {"A": "${resources.db.a}", "B": "x-${resources.db.b}-y", "C": "plain"},
    "files": {"/etc/c": {"content": "c=${resources.db.c}"}},
    "envFrom": [{"secretResource": "rest"}],
}


@given(
    values=st.lists(
        st.text(alphabet="abcdefgh0123", min_size=12, max_size=20), min_size=4, max_size=4, unique=True
    )
)
def test_no_value_of_a_secret_is_anywhere_but_in_its_secret(values: list[str]) -> None:
    a, b, c, d = values
    text = small(USES, db={"type": "secret", "params": {"keys": ["a", "b", "c"]}}, rest={"type": "secret"})
    result = compiled(text, facts=Facts(network="none", tetragon=False), policies=Policies())
    permitted = compiled(text, facts=Facts(network="none", tetragon=False))
    stores = {"default": {"ml/db": {"a": a, "b": b, "c": c}, "ml/rest": {"d": d}}}
    support, missing = fulfil(permitted.support, stores, {}, "{store}.yaml")
    assert not missing
    secrets = [each for each in support if each["kind"] == "Secret"]
    held = {value for each in secrets for value in each["stringData"].values()}
    assert held >= {a, d, f"x-{b}-y", f"c={c}"}
    elsewhere = str([each for each in (*support, *permitted.jobs) if each["kind"] != "Secret"])
    elsewhere += str([each["metadata"] for each in secrets]) + str(result) + str(permitted)
    assert not [value for value in values if value in elsewhere]
