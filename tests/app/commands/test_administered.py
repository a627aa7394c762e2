"""What is in an administrator's directory of policies."""

import base64
import os
from pathlib import Path

import pytest
import yaml

from muster.api.base import Object
from muster.app.commands import administered
from muster.security.images import trust
from muster.security.policies import InvalidPolicy
from muster.workloads.findings import JobFileError
from tests.security.images import fakes

ALL = "permit (principal, action, resource);"


def cedar(name: str, text: str, **spec: object) -> Object:
    return {"kind": "CedarPolicy", "metadata": {"name": name}, "spec": {"policies": text, **spec}}


def write(directory: Path, *objects: Object, name: str = "cluster") -> None:
    """As `kubectl get -o yaml` prints them."""
    (directory / f"{name}.yaml").write_text(yaml.safe_dump({"kind": "List", "items": list(objects)}))


def test_policies_are_read_from_cedar_files_and_from_objects_that_are_enabled(tmp_path: Path) -> None:
    (tmp_path / "base.cedar").write_text(ALL)
    write(tmp_path, cedar("base", ALL + ALL), cedar("off", "forbid (", enabled=False))
    found = administered.policies(tmp_path)
    assert (found.permits, found.forbids) == (3, 0)


def test_objects_alone_are_enough_and_nothing_at_all_is_not(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match=r"no \*.cedar files, and no CedarPolicy"):
        administered.policies(tmp_path)
    write(tmp_path, cedar("base", ALL))
    assert administered.policies(tmp_path).permits == 1
    write(tmp_path, cedar("bad", "permit ("), name="bad")
    with pytest.raises(InvalidPolicy, match="bad: line 1: is not Cedar"):
        administered.policies(tmp_path)


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_the_key_of_a_trust_policy_may_be_in_a_secret_beside_it(tmp_path: Path, field: str) -> None:
    pem = fakes.pem(fakes.key())
    value = base64.b64encode(pem.encode()).decode() if field == "data" else pem
    secret = {
        "kind": "Secret",
        "metadata": {"name": "release", "namespace": "muster-system"},
        field: {"pub": value},
    }
    reference = {"namespace": "muster-system", "name": "release", "key": "pub"}
    authorities = [{"name": "release", "key": {"secretRef": reference}}]
    spec = {"match": {"images": ["**"]}, "authorities": authorities}
    policy = {"kind": "TrustPolicy", "metadata": {"name": "team"}, "spec": spec}
    write(tmp_path, policy)
    with pytest.raises(trust.InvalidPolicy, match="there is no secret muster-system/release/pub"):
        administered.trust_policies(tmp_path)
    write(tmp_path, secret, name="secret")
    [found] = administered.trust_policies(tmp_path)
    assert found.name == "team"


def test_the_form_of_trust_policies_can_be_checked_without_the_secrets_with_their_keys(
    tmp_path: Path,
) -> None:
    reference = {"namespace": "muster-system", "name": "release", "key": "pub"}
    spec = {"match": {"images": ["**"]}, "authorities": [{"key": {"secretRef": reference}}]}
    policies = {
        name: {"kind": "TrustPolicy", "metadata": {"name": name}, "spec": {**spec, **change}}
        for name, change in {"good": {}, "one": {"mode": "some"}, "two": {"acton": "audit"}}.items()
    }
    write(tmp_path, policies["good"])
    administered.check_trust_policies(tmp_path)
    write(tmp_path, *policies.values())
    with pytest.raises(trust.InvalidPolicy) as told:
        administered.check_trust_policies(tmp_path)
    file, fields = tmp_path / "cluster.yaml", "the fields are action, authorities, match, mode"
    assert str(told.value).splitlines() == [
        f"{file}: TrustPolicy one: spec.mode: is any or all",
        f"{file}: TrustPolicy two: spec.acton: is not a field; {fields}",
    ]


@pytest.mark.parametrize("name", ["pipe.yaml", "pipe.cedar"])
def test_a_path_that_is_not_a_plain_file_is_refused_without_waiting(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises((JobFileError, InvalidPolicy), match=f"{name}: is not a file"):
        administered.policies(tmp_path)


def test_no_policy_is_left_out_because_another_has_its_name(tmp_path: Path) -> None:
    write(tmp_path, cedar("base", ALL), name="a")
    write(tmp_path, cedar("base", ALL), name="b")
    assert administered.policies(tmp_path).permits == 1
    write(tmp_path, cedar("base", ALL.replace("permit", "forbid")), name="b")
    with pytest.raises(JobFileError, match=r"b.yaml: CedarPolicy base occurs twice"):
        administered.policies(tmp_path)


@pytest.mark.parametrize("spec", [None, 5, [], {}, {"match": 5}, {"match": [1]}, {"match": {"images": 5}}])
def test_a_trust_policy_of_any_form_is_read_or_named(tmp_path: Path, spec: object) -> None:
    write(tmp_path, {"kind": "TrustPolicy", "metadata": {"name": "team"}, "spec": spec})
    with pytest.raises(trust.InvalidPolicy, match=r"cluster.yaml: TrustPolicy team: spec.match.images: "):
        administered.trust_policies(tmp_path)


@pytest.mark.parametrize("spec", [None, 5, {"policies": 5}, {"policies": ["permit"]}])
def test_a_cedar_policy_without_text_is_refused(tmp_path: Path, spec: object) -> None:
    write(tmp_path, {"kind": "CedarPolicy", "metadata": {"name": "team"}, "spec": spec})
    with pytest.raises(JobFileError, match=r"spec.policies: takes text"):
        administered.policies(tmp_path)
