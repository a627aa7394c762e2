"""What is in an administrator's directory of policies."""

import base64
from pathlib import Path

import pytest
import yaml

from muster.api.base import Object
from muster.app.commands import administered
from muster.security.images import trust
from muster.security.policies import InvalidPolicy
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
    with pytest.raises(InvalidPolicy, match="bad: is not Cedar"):
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
