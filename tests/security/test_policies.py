"""Policies: what they are checked for, and that a mistake in one never lets anything through."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.security.gates import Principal, denials, permit
from muster.security.policies import InvalidPolicy, Policies, read
from muster.security.requests import TYPES, Action, Request, of_id
from tests.tiers import sample

WHO = Principal("ml", "job", "work", user="ml/alice", groups=("team",))
SECRET = Request("AccessSecret", "SecretPath", "vault:ml/db", {"provider": "vault", "path": "ml/db"})
ALL = "permit(principal, action, resource);"


def told(texts: dict[str, str], request: Request = SECRET, who: Principal = WHO) -> list[str]:
    return [each.message for each in denials(Policies(texts), who, [request])]


ALLOWED = [
    ALL,
    'permit(principal in Muster::Namespace::"ml", action, resource);',
    'permit(principal in Muster::User::"ml/alice", action, resource);',
    'permit(principal in Muster::Group::"team", action, resource);',
    'permit(principal == Muster::Workload::"ml/job/work", action, resource);',
    'permit(principal, action == Muster::Action::"AccessSecret", resource) when { resource.path like "m*" };',
]


@pytest.mark.parametrize("text", ALLOWED)
def test_allowed_requests(text: str) -> None:
    assert told({"p": text}) == []


@pytest.mark.parametrize(
    "text",
    [
        'permit(principal in Muster::Namespace::"other", action, resource);',
        'permit(principal in Muster::User::"ml/bob", action, resource);',
        'permit(principal, action == Muster::Action::"UseQueue", resource);',
    ],
)
def test_a_request_that_no_policy_permits_is_denied(text: str) -> None:
    assert told({"p": text}) == ["secret access denied: 'vault:ml/db': no policy permits it"]


def test_a_forbid_wins_and_is_named_by_its_id() -> None:
    texts = {"all": ALL, "f": '@id("no-secrets") forbid(principal, action, resource);'}
    assert told(texts) == ["secret access denied: 'vault:ml/db': forbidden by no-secrets"]


def test_a_policy_that_fails_counts_as_a_denial() -> None:
    huge = "9223372036854775807"
    texts = {
        "all": ALL,
        "broken": f"forbid(principal, action, resource) when {{ {huge} + 1 > 0 }};",
    }
    [message] = told(texts)
    assert "a policy failed" in message
    assert "broken" in message


INVALID: list[tuple[dict[str, str], str]] = [
    ({"p": "permit(principal, action resource);"}, "p: line 1: is not Cedar"),
    (
        {"p": f'// ; and "\n{ALL}\n\n@id("b") permit(principal, action\nresource);\nnonsense;'},
        "p: line 4: is not Cedar: unexpected token `resource`",
    ),
    ({"p": 'permit(principal, action == Muster::Action::"Read", resource);'}, "Read"),
    ({"p": "permit(principal, action, resource) when { resource.owner == 1 };"}, "owner"),
    ({"p": "permit(principal == ?principal, action, resource);"}, "template"),
    ({"a": f'@id("x") {ALL}', "b": f'@id("x") {ALL}'}, "two policies with the id x"),
    ({"p": "// " + "x" * 2**20}, "larger than"),
]


@pytest.mark.parametrize(("texts", "message"), INVALID)
def test_a_text_with_a_mistake_is_refused_as_a_whole(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidPolicy, match=message):
        Policies(texts)


TERM = 'principal.namespace == "ml"'
TOO_MUCH = [
    "(" * 200_000 + "true" + ")" * 200_000,
    "[" * 2_000 + "1" + "]" * 2_000 + " == [1]",
    "-(" * 1_000 + "1" + ")" * 1_000 + " < 0",
    " && ".join([TERM] * 20_000),
    " && ".join([TERM] * 100),
    "principal" + ".a" * 5_000 + " == 1",
    "if true then " * 1_000 + "true" + " else true" * 1_000,
    "true }" + " when { true }" * 20_000 + " when { true",
    "//\r" + "(" * 200_000 + "true" + ")" * 200_000 + "\n",  # Cedar's comments end at a carriage return, too
]


@pytest.mark.parametrize("condition", TOO_MUCH, ids=lambda text: text[:12])
def test_a_condition_that_would_end_the_process_is_refused(condition: str) -> None:
    """Cedar's parser overflows the stack on these."""
    with pytest.raises(InvalidPolicy, match="split"):
        Policies({"p": f"permit(principal, action, resource) when {{ {condition} }};"})


UNFINISHED = ['"' + '\\"' * 500_000, "a;" * 500_000, "//\n" * 300_000, '"a" ' * 250_000]


@pytest.mark.parametrize("text", sample(UNFINISHED, 1), ids=lambda text: text[:4])
def test_a_mebibyte_of_anything_is_refused_in_linear_time(text: str) -> None:
    """Minutes, or hours, if each token were a look at all of the rest."""
    with pytest.raises(InvalidPolicy, match="p: "):
        Policies({"p": text + " x"})


def test_an_error_is_short_whatever_it_quotes() -> None:
    text = f'permit(principal == {"Muster::" * 20_000}Workload::"x", action, resource);'
    with pytest.raises(InvalidPolicy, match="entity type") as caught:
        Policies({"p": text})
    assert len(str(caught.value)) < 600


def test_brackets_in_texts_and_comments_and_long_sets_are_not_nesting() -> None:
    names = ", ".join(f'Muster::Namespace::"n{number}"' for number in range(1_000))
    text = f"""
        // {"(" * 1_000}
        permit(principal, action, resource) when {{ principal.namespace != "{"(" * 1_000}" }};
        permit(principal, action, resource) when {{ principal in [{names}] }};
    """
    assert Policies({"p": text}).permits == 2
    many = f"permit(principal, action, resource) when {{ {' && '.join([TERM] * 30)} }};"
    assert Policies({"p": many * 40}).permits == 40


@pytest.mark.parametrize(
    "image", ["nginx", "INDEX.docker.io/nginx", "registry-1.docker.io:443/library/nginx"]
)
def test_a_registry_is_forbidden_however_it_is_written(image: str) -> None:
    forbid = 'forbid(principal, action, resource is Muster::Image) when { resource.registry == "docker.io" };'
    one = "docker.io/library/nginx:latest"
    assert told({"a": ALL, "b": forbid}, of_id("DeployImage", one)) == [
        f"image denied: {one!r}: forbidden by b"
    ]
    [message] = told({"a": ALL}, of_id("DeployImage", image))
    assert f"cannot be decided: write {one!r}" in message


#: action, the resource's id, other spellings of it
SPELLINGS: list[tuple[Action, str, tuple[str, ...]]] = [
    (
        "DeployImage",
        "docker.io/library/nginx:1",
        ("nginx:1", "docker.io/nginx:1", "DOCKER.io/library/nginx:1"),
    ),
    ("AccessSecret", "vault:ml/db", ("vault:ml/../ml/db", "vault:/ml/db", "Vault:ml/db", "ml/db")),
    (
        "AccessExternalEndpoint",
        "s3.example.com:443",
        ("S3.example.com:443", "s3.example.com:0443", "s3.example.com:443/TCP"),
    ),
    ("AccessExternalEndpoint", "s3.example.com:53/UDP", ("s3.example.com:53/udp", "s3.example.com./UDP")),
    ("AccessExternalEndpoint", "[2001:db8::1]:443", ("2001:db8::1:443", "[2001:DB8::1]:443")),
    ("AccessExternalEndpoint", "entity:world", ("entity:World", "entity:world:a")),
    ("OverrideSecurity", "capability:SYS_ADMIN", ("capability:sys_admin", "capability:CAP_SYS_ADMIN")),
    ("OverrideSecurity", "allowedBinary:/bin/sh", ("allowedBinary://bin/sh", "allowedBinary:sh")),
    ("OverrideSecurity", "sysctl:net.core.somaxconn", ("sysctl:net/core/somaxconn",)),
    ("AccessService", "data/db:80", ("data/db", "data/db:080", "Data/db:80", "db:80")),
    ("AdmitCaller", "web/*", ("web", "Web/*")),
    ("AccessVolume", "ml/sets", ("sets", "ML/sets")),
    ("TolerateTaint", "spot:NoSchedule", ("spot", "spot:noschedule", "spot=:nosuch")),
    ("UseRuntimeClass", "kata", ("Kata", "")),
    ("UseQueue", "prod", ("Prod", " prod")),
]


@pytest.mark.parametrize(("action", "id_", "others"), SPELLINGS, ids=[each[1] for each in SPELLINGS])
def test_a_forbid_that_would_forbid_nothing_is_refused(
    action: Action, id_: str, others: tuple[str, ...]
) -> None:
    type_ = TYPES[action]
    one = f'forbid(principal, action, resource == Muster::{type_}::"{id_}");'
    assert len(told({"a": ALL, "b": one}, of_id(action, id_))) == 1
    for other in others:
        assert of_id(action, other).undecided
        assert told({"a": ALL}, of_id(action, other))
        forbid = (
            f'{ALL}\nforbid(principal, action, resource) when {{ resource == Muster::{type_}::"{other}" }};'
        )
        with pytest.raises(InvalidPolicy, match=r"b: line 2: .* names no resource"):
            Policies({"b": forbid})


#: what a job asks for, and a part of it that is forbidden
PARTS: list[tuple[Action, str, str]] = [
    ("OverrideSecurity", "capability:ALL", "capability:SYS_ADMIN"),
    ("OverrideSecurity", "privileged", "capability:SYS_ADMIN"),
    ("OverrideSecurity", "allowedBinary:*", "allowedBinary:/bin/sh"),
    ("AccessExternalEndpoint", "*.example.com:443", "db.example.com:443"),
    ("AccessExternalEndpoint", "entity:world", "db.example.com:443"),
    ("AccessExternalEndpoint", "entity:world:443", "10.0.0.7:443"),
    ("AccessExternalEndpoint", "entity:world", "10.0.0.7:53/UDP"),
    ("AccessExternalEndpoint", "entity:world", "entity:world:443"),
    ("AccessExternalEndpoint", "10.0.0.7:53/UDP", "10.0.0.7:53"),
    ("TolerateTaint", "*:*", "maintenance:NoSchedule"),
    ("TolerateTaint", "maintenance:*", "maintenance:NoSchedule"),
    ("TolerateTaint", "pool:NoSchedule", "pool=prod:NoSchedule"),
    ("AdmitCaller", "*/*", "evil/drop"),
    ("AdmitCaller", "evil/*", "evil/drop"),
]
NO_PARTS: list[tuple[Action, str, str]] = [
    ("OverrideSecurity", "capability:KILL", "capability:SYS_ADMIN"),
    ("OverrideSecurity", "capability:SYS_ADMIN", "capability:ALL"),
    ("OverrideSecurity", "privileged", "hostNetwork"),
    ("AccessExternalEndpoint", "*.example.com:443", "a.b.example.com:443"),
    ("AccessExternalEndpoint", "*.example.com:443", "db.example.com:80"),
    ("AccessExternalEndpoint", "10.0.0.7:53", "10.0.0.7:53/UDP"),
    ("AccessExternalEndpoint", "entity:host", "db.example.com:443"),
    ("TolerateTaint", "maintenance:NoSchedule", "maintenance:*"),
    ("AdmitCaller", "web/front", "web/*"),
]


@pytest.mark.parametrize(("action", "id_", "part"), PARTS, ids=str)
def test_who_asks_for_several_things_is_denied_if_one_of_them_is_forbidden(
    action: Action, id_: str, part: str
) -> None:
    forbid = f'forbid(principal, action, resource == Muster::{TYPES[action]}::"{part}");'
    [message] = told({"a": ALL, "b": forbid}, of_id(action, id_))
    assert f"includes {part!r}, which is forbidden by b" in message
    elsewhere = forbid.replace("principal", 'principal in Muster::Namespace::"web"')
    assert not told({"a": ALL, "b": elsewhere}, of_id(action, id_))


@pytest.mark.parametrize("id_", ["capability:ALL", "privileged"])
def test_a_capability_that_an_attribute_forbids_is_not_had_with_all_of_them(id_: str) -> None:
    condition = 'resource.override == "capability:BPF"'
    forbid = f"forbid(principal, action, resource is Muster::SecurityOverride) when {{ {condition} }};"
    [message] = told({"a": ALL, "b": forbid}, of_id("OverrideSecurity", id_))
    assert "includes 'capability:BPF', which is forbidden by b" in message


@pytest.mark.parametrize(("action", "id_", "other"), NO_PARTS, ids=str)
def test_what_is_no_part_of_a_request_may_be_forbidden(action: Action, id_: str, other: str) -> None:
    forbid = f'forbid(principal, action, resource == Muster::{TYPES[action]}::"{other}");'
    assert not told({"a": ALL, "b": forbid}, of_id(action, id_))


def test_what_cedar_cannot_read_is_denied() -> None:
    """Not even JSON: a lone surrogate, as a command line may have one."""
    [message] = told({"p": ALL}, who=Principal("ml", "job", "work", user="ml/\udcff"))
    assert "internal authorization error" in message


HOSTILE = st.text(
    alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30
) | st.sampled_from(
    [
        '"',
        "\\",
        'x"); permit(principal, action, resource); //',
        "\x00",
        "\u202e",
        "Muster::Action",
        "__entity",
        "{}",
    ]
)


@given(namespace=HOSTILE, user=HOSTILE, group=HOSTILE, id_=HOSTILE)
def test_hostile_names_are_names_and_nothing_else(namespace: str, user: str, group: str, id_: str) -> None:
    who = Principal(namespace, id_, id_, user=user, groups=(group, group))
    path = Request("AccessSecret", "SecretPath", id_, {"provider": namespace, "path": user})
    other = Request("UseQueue", "Queue", group)
    policies = Policies({"p": permit(who, path)})
    assert not denials(policies, who, [path])
    assert len(denials(policies, who, [other])) == 1
    assert not denials(Policies({"p": ALL}), who, [path, other])


NAMES = st.text(min_size=1, max_size=12)


@given(namespace=NAMES, id_=NAMES)
def test_the_permit_that_is_printed_permits_it_whatever_the_names(namespace: str, id_: str) -> None:
    who = Principal(namespace, "job", "work")
    request = Request("UseQueue", "Queue", id_)
    assert denials(Policies({"p": permit(who, request)}), who, [request]) == []
    other = Principal(namespace + "x", "job", "work")
    assert len(denials(Policies({"p": permit(who, request)}), other, [request])) == 1


def test_policies_are_read_from_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidPolicy, match=r"has no \*\.cedar files"):
        read(tmp_path)
    (tmp_path / "all.cedar").write_text(ALL)
    (tmp_path / "other.txt").write_text("no policy")
    assert read(tmp_path).permits == 1
    (tmp_path / "bad.cedar").write_bytes(b"\xff")
    with pytest.raises(InvalidPolicy, match="not text in UTF-8"):
        read(tmp_path)


def test_a_directory_that_is_none_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "p.cedar").write_text(ALL)
    for path, message in (
        (tmp_path / "p.cedar", "is not a directory"),
        (tmp_path / "typo", "does not exist"),
    ):
        with pytest.raises(InvalidPolicy, match=f"{path}: {message}"):
            read(path)


def test_a_mistake_is_reported_once_with_its_cause() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        Policies({"p": 'permit(principal in Muster::Namspace::"a", action, resource);'})
    assert len(caught.value.errors) == 1
    assert "did you mean Namespace?" in caught.value.errors[0]


def test_the_mistakes_of_all_files_are_reported_with_file_line_and_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "a.cedar").write_text(
        '// a comment; with a semicolon\n@id("first")\n'
        'permit(principal, action, resource) when { principal.namespace == ";" };\n'
        'permit(principal, action == Muster::Action::"DeployImag", resource);\n'
    )
    (tmp_path / "b.cedar").write_text(
        'permit(principal in Muster::Namespac::"x", action, resource);\n\n'
        "permit(principal, action, resource) when { principal.namespce == 1 };\n"
    )
    with pytest.raises(InvalidPolicy) as caught:
        read(tmp_path)
    lines = str(caught.value).splitlines()
    expected = [
        ("a.cedar: line 4", "DeployImage"),
        ("b.cedar: line 1", "Namespace"),
        ("b.cedar: line 3", "namespace"),
    ]
    for where, meant in expected:
        assert any(
            f"{tmp_path}/{where}: " in line and line.endswith(f"; did you mean {meant}?") for line in lines
        )
    assert len(caught.value.errors) == len(lines)
