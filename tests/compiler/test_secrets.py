"""The five routes of secrets, and that no two inputs share a key of a template."""

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.fulfil import fulfil
from muster.compiler.secrets import filled
from muster.workloads.batch.compiling import Compiled
from tests.workloads.batch.jobs import compiled, small

DB = {"type": "secret", "id": "apps/db", "params": {"keys": ["user", "pass"]}}


def objects(container: dict[str, Any], **resources: Any) -> tuple[dict[str, Object], Object]:
    """ExternalSecrets by name, and the container."""
    result = compiled(small(container, **resources))
    assert not result.problems, result.problems
    job = result.jobs[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    secrets = {each["metadata"]["name"]: each for each in result.support if each["kind"] == "ExternalSecret"}
    return secrets, job["spec"]["containers"][0]


def problems(container: dict[str, Any], facts: Facts | None = None, **resources: Any) -> list[str]:
    return [each.message for each in compiled(small(container, **resources), facts=facts).problems]


def test_a_variable_that_is_one_reference_is_read_from_the_resources_secret() -> None:
    secrets, container = objects({"variables": {"USER": "${resources.db.user}"}}, db=DB)
    assert container["env"] == [
        {"name": "USER", "valueFrom": {"secretKeyRef": {"name": filled("job-work-db"), "key": "user"}}}
    ]
    assert secrets["job-work-db"]["spec"]["refreshInterval"] == "1h"
    assert secrets["job-work-db"]["spec"]["data"] == [
        {"secretKey": key, "remoteRef": {"key": "apps/db", "property": key}} for key in ("pass", "user")
    ]


def test_references_in_text_are_rendered_by_the_operator() -> None:
    variables = {"DSN": "pg://${resources.db.user}:${resources.db.pass}@h/{{x}}"}
    secrets, container = objects({"variables": variables}, db=DB)
    [name] = secrets
    assert container["envFrom"] == [{"secretRef": {"name": filled(name)}}]
    template = secrets[name]["spec"]["target"]["template"]
    assert template == {
        "engineVersion": "v2",
        "data": {"DSN": 'pg://{{ index . "db.user" }}:{{ index . "db.pass" }}@h/{{ "{{" }}x{{ "}}" }}'},
    }


def test_a_file_with_references_is_a_secret_of_its_own() -> None:
    files = {"/etc/app.ini": {"content": "user=${resources.db.user}\n", "mode": "0600"}}
    secrets, container = objects({"files": files}, db=DB)
    [name] = secrets
    [mount] = container["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/app.ini", True)
    assert list(secrets[name]["spec"]["target"]["template"]["data"]) == [mount["subPath"]]


def test_a_secret_without_keys_is_read_whole() -> None:
    secrets, container = objects(
        {"envFrom": [{"secretResource": "db"}]}, db={"type": "secret", "id": "apps/db"}
    )
    assert secrets["job-work-db"]["spec"]["dataFrom"] == [{"extract": {"key": "apps/db"}}]
    assert container["envFrom"] == [{"secretRef": {"name": filled("job-work-db")}}]


def test_variables_of_two_stores_are_two_secrets() -> None:
    other = {"type": "secret", "params": {"provider": "other", "keys": ["k"]}}
    variables = {"A": "x${resources.db.user}", "B": "x${resources.other.k}"}
    secrets, container = objects({"variables": variables}, db=DB, other=other)
    assert sorted(secrets) == ["job-work-app-env-eso", "job-work-app-env-eso-1"]
    assert len(container["envFrom"]) == 2


MISTAKES: list[tuple[dict[str, str], str]] = [
    ({"A": "${resources.db.pasword}"}, "secret db has no key 'pasword'; its keys are user, pass"),
    ({"A": "${resources.bd.user}"}, "there is no resource bd; declared: db, other"),
    ({"A": "${resources.db.user}${resources.other.k}"}, "mixes secrets of several stores (default, other)"),
    ({"A": "${metadata.nam}"}, "metadata has no field 'nam'; available: name, namespace, task"),
    ({"A": "${env.HOME}"}, "write $${env.HOME} for the text itself"),
]


@pytest.mark.parametrize(("variables", "message"), MISTAKES)
def test_a_wrong_reference_names_what_there_is(variables: dict[str, str], message: str) -> None:
    other = {"type": "secret", "params": {"provider": "other", "keys": ["k"]}}
    told = problems({"variables": variables}, db=DB, other=other)
    assert any(message in each for each in told), told


def test_a_file_has_one_store_as_a_variable_has() -> None:
    other = {"type": "secret", "params": {"provider": "other", "keys": ["k"]}}
    files = {"/etc/a": {"content": "${resources.db.user} ${resources.other.k}"}}
    [told] = problems({"files": files}, db=DB, other=other)
    assert "mixes secrets of several stores (default, other)" in told


def pulling(names: list[str], **resources: Any) -> Compiled:
    job = yaml.safe_load(small(None, **resources))
    job["spec"]["tasks"]["work"]["imagePullSecrets"] = names
    return compiled(yaml.safe_dump(job))


LOGIN = {"type": "secret", "id": "apps/login", "params": {"provider": "vault", "keys": ["config"]}}


def test_a_pull_secret_is_a_declared_resource_or_what_the_store_has_under_its_name() -> None:
    result = pulling(["login", "other"], login=LOGIN)
    found = {each["metadata"]["name"]: each["spec"] for each in result.support if "Secret" in each["kind"]}
    names = ("job-work-login-credentials", "job-work-other-credentials")
    assert sorted(found) == list(names)
    pod = result.jobs[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": filled(name)} for name in names]
    wanted = [("vault", "apps/login", "config"), ("default", "ml/other", ".dockerconfigjson")]
    for name, (store, path, key) in zip(names, wanted, strict=True):
        assert found[name]["secretStoreRef"]["name"] == store
        assert found[name]["target"]["template"] == {"type": "kubernetes.io/dockerconfigjson"}
        remote = {"key": path, "property": key}
        assert found[name]["data"] == [{"secretKey": ".dockerconfigjson", "remoteRef": remote}]


def test_a_pull_secret_that_is_none_is_refused() -> None:
    [several] = pulling(["db"], db=DB).problems
    assert "has one key, a Docker configuration; db has several" in several.message
    host = {"type": "external-service", "params": {"endpoints": {"x": "https://a.example.com"}}}
    [other] = pulling(["host"], host=host).problems
    assert "host is not a secret" in other.message


def test_what_is_not_secret_is_in_config_maps_of_its_container() -> None:
    files = {"/t": {"content": "x"}, "/b": {"binaryContent": "AAEC/w=="}}
    result = compiled(small({"variables": {"V": "plain"}, "files": files}))
    assert [each["metadata"]["name"] for each in result.support if each["kind"] == "ConfigMap"] == [
        "job-work-app-env",
        "job-work-app-files",
        "job-work-app-files-bin",
    ]


def test_a_secret_without_a_store_says_what_to_add() -> None:
    told = problems({"variables": {"A": "${resources.db.user}"}}, Facts(stores={}), db=DB)
    assert "no default store" in told[0]


def test_hyphens_and_underscores_stay_apart() -> None:
    """Defect 5 of the reference: `a-b`+`c` and `a`+`b-c` were one key there."""
    one = {"type": "secret", "params": {"keys": ["c"]}}
    two = {"type": "secret", "params": {"keys": ["b-c"]}}
    secrets, _ = objects(
        {"variables": {"V": "${resources.a-b.c} ${resources.a.b-c}"}}, **{"a-b": one, "a": two}
    )
    [secret] = secrets.values()
    assert [each["secretKey"] for each in secret["spec"]["data"]] == ["a-b.c", "a.b-c"]


def test_binary_files_are_data_and_not_text() -> None:
    """Defect 6 of the reference: base64 went to `stringData`, so the file held base64."""
    result = compiled(small({"files": {"/m": {"binaryContent": "AAEC/w=="}}}))
    [made] = [each for each in result.support if each["kind"] == "ConfigMap"]
    assert list(made["binaryData"].values()) == ["AAEC/w=="]
    assert "data" not in made


def test_no_name_that_a_job_chooses_is_that_of_a_secret_of_others() -> None:
    """A pod would read it although no policy was asked, and the operator would overwrite it."""
    used = {
        "variables": {"A": "${resources.password.user}", "B": "x${resources.password.user}"},
        "files": {"/f": {"content": "${resources.password.user}"}},
        "envFrom": [{"secretResource": "password"}],
    }
    result = compiled(small(used, password=DB))
    external = {each["metadata"]["name"]: each for each in result.support if each["kind"] == "ExternalSecret"}
    filled_in = {each["spec"]["target"]["name"] for each in external.values()}
    template = result.jobs[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    read = set(re.findall(r"'(?:secretName|name)': '(job-work-[^']*)'", str(template["spec"])))
    assert filled_in <= read
    assert filled_in.isdisjoint(external)
    assert all(
        re.fullmatch(f"{name}-[0-9a-f]{{8}}", each["spec"]["target"]["name"])
        for name, each in external.items()
    )


def test_no_secret_is_made_of_what_a_job_file_says() -> None:
    """On a cluster, values come from stores: muster needs no right to read or write Secrets of others."""
    one = {"type": "secret", "params": {"keys": ["c"]}}
    files = {"/m": {"binaryContent": "AAEC/w=="}, "/t": {"content": "c=${resources.a.c}"}}
    result = compiled(small({"files": files, "variables": {"V": "${resources.a.c}", "W": "plain"}}, a=one))
    assert {each["kind"] for each in result.support} >= {"ConfigMap", "ExternalSecret"}
    assert "Secret" not in {each["kind"] for each in (*result.support, *result.jobs)}


LITERAL = st.text(alphabet='{}"a $', max_size=12).filter(
    lambda text: "${" not in text and "$$" not in text and not text.endswith("$")
)


@given(before=LITERAL, after=LITERAL, value=st.text(alphabet='{}"\\$<>', min_size=1, max_size=8))
def test_a_file_backed_store_renders_what_was_written(before: str, after: str, value: str) -> None:
    result = compiled(small({"variables": {"V": f"{before}${{resources.db.user}}-{after}"}}, db=DB))
    external = [each for each in result.support if each["kind"] == "ExternalSecret"]
    store = {"default": {"apps/db": {"user": value, "pass": "-"}}}
    [secret], missing = fulfil(external, store, {}, "")
    assert not missing
    assert secret["stringData"] == {"V": f"{before}{value}-{after}"}


def test_a_value_that_a_store_lacks_is_named_and_no_value_is() -> None:
    result = compiled(small({"variables": {"V": "x${resources.db.user}${resources.db.pass}"}}, db=DB))
    external = [each for each in result.support if each["kind"] == "ExternalSecret"]
    made, [problem] = fulfil(external, {"default": {"apps/db": {"user": "hidden"}}}, {}, "{store}.yaml")
    assert "apps/db" in problem.message
    assert "default.yaml" in problem.message
    assert problem.fix == "apps/db:\n  pass: VALUE"
    assert "hidden" not in str(problem)
    assert made
