"""The chapter's job from end to end: denied with everything that is missing, then permitted and compiled."""

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.fields import Severity
from muster.security.policies import Policies
from tests.workloads.batch.jobs import TRAINING, changed, compiled, small


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def asked(text: str) -> set[tuple[str, str]]:
    return {(request.action, request.id) for _, request in compiled(text).requests}


#: What the chapter's job needs; the entry point of its image is not known.
NEEDS = {
    ("DeployImage", "registry.example.com/trainer@sha256:def456"),
    ("AccessSecret", "default:ml/default"),
    ("AccessSecret", "default:ml/training-data"),
    ("AccessExternalEndpoint", "s3.us-east-1.amazonaws.com:443"),
    ("OverrideSecurity", "apparmor:Unconfined"),
    ("OverrideSecurity", "allowedBinary:*"),
    ("UseQueue", "ml-training"),
}


def test_the_chapters_job_asks_for_what_it_gets_and_nothing_else() -> None:
    assert asked(TRAINING) == NEEDS


def test_without_policies_everything_is_denied_and_nothing_is_emitted() -> None:
    result = compiled(TRAINING, policies=Policies())
    assert len(result.problems) == len(NEEDS)
    assert not result.support
    assert not result.jobs


def test_the_permits_that_the_denials_print_are_all_that_is_needed() -> None:
    denied = compiled(TRAINING, policies=Policies())
    permits = {f"permit-{n}": each.fix for n, each in enumerate(denied.problems)}
    permitted = compiled(TRAINING, policies=Policies(permits))
    assert not permitted.problems
    assert {each["kind"] for each in permitted.support} == {
        "CiliumNetworkPolicy",
        "ExternalSecret",
        "ServiceAccount",
        "TracingPolicyNamespaced",
    }
    [job] = permitted.jobs
    assert job["spec"]["suspend"] is True
    assert job["metadata"]["labels"]["muster.dev/queue"] == "ml-training"


def test_each_permit_that_is_missing_is_one_problem() -> None:
    denied = compiled(TRAINING, policies=Policies())
    permits = {f"permit-{n}": each.fix for n, each in enumerate(denied.problems)}
    for left_out in permits:
        some = {name: text for name, text in permits.items() if name != left_out}
        [problem] = compiled(TRAINING, policies=Policies(some)).problems
        assert problem.fix == permits[left_out]


def test_a_forbid_is_named_and_no_permit_is_suggested() -> None:
    policies = Policies(
        {
            "all": "permit(principal, action, resource);",
            "no-apparmor": 'forbid(principal, action == Muster::Action::"OverrideSecurity", '
            'resource == Muster::SecurityOverride::"apparmor:Unconfined");',
        }
    )
    [problem] = compiled(TRAINING, policies=policies).problems
    assert "forbidden by no-apparmor" in problem.message
    assert problem.fix == ""


def test_compiling_twice_gives_the_same_bytes_whatever_the_order_of_keys() -> None:
    once = compiled(TRAINING)
    again = compiled(yaml.safe_dump(yaml.safe_load(TRAINING), sort_keys=True))
    assert msgspec.json.encode([*once.support, *once.jobs]) == msgspec.json.encode(
        [*again.support, *again.jobs]
    )


def test_a_job_that_forgot_its_endpoint_gets_one_warning_whose_patch_compiles() -> None:
    forgot = changed(TRAINING, {"spec/resources/s3-endpoint": None})
    result = compiled(forgot)
    [warning] = result.warnings
    assert warning.severity is Severity.WARNING
    patched = yaml.safe_load(forgot)
    patched["spec"]["resources"].update(yaml.safe_load(warning.fix)["spec"]["resources"])
    mended = compiled(yaml.safe_dump(patched))
    assert not [each for each in mended.warnings if each.severity is Severity.WARNING]
    assert ("AccessExternalEndpoint", "s3.us-east-1.amazonaws.com:443") in asked(yaml.safe_dump(patched))


def test_defaults_reach_every_task_before_anything_is_counted() -> None:
    text = changed(
        TRAINING,
        {
            "spec/tasks/workers/replicas": None,
            "spec/defaults/replicas": 8,
            "spec/tasks/workers/restartPolicy": None,
            "spec/defaults/restartPolicy": "Never",
        },
    )
    [job] = compiled(text, target="volcano").jobs
    [task] = job["spec"]["tasks"]
    assert (task["replicas"], task["template"]["spec"]["restartPolicy"]) == (8, "Never")
    assert job["spec"]["minAvailable"] == 8


OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "runAsUser": st.sampled_from([0, 1, 65534]),
        "runAsGroup": st.sampled_from([0, 1]),
        "runAsNonRoot": st.booleans(),
        "readOnlyRootFilesystem": st.booleans(),
        "allowPrivilegeEscalation": st.booleans(),
        "capabilities": st.lists(
            st.sampled_from(["NET_ADMIN", "SYS_PTRACE", "NET_BIND_SERVICE"]), unique=True
        ),
        "dropCapabilities": st.sampled_from([[], ["ALL"], ["KILL"]]),
        "seccompProfile": st.sampled_from(["RuntimeDefault", "Unconfined"]),
        "apparmorProfile": st.sampled_from(["RuntimeDefault", "Unconfined"]),
    },
)


@given(security=OVERRIDES)
def test_whatever_goes_beyond_restricted_is_asked_for(security: dict[str, object]) -> None:
    """Pod Security Standard restricted, checked on the emitted pod by rules of its own."""
    result = compiled(small({"security": security}))
    [container] = result.jobs[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "containers"
    ]
    context = container["securityContext"]
    restricted = (
        not context.get("privileged")
        and context["runAsNonRoot"]
        and context.get("runAsUser") != 0
        and not context["allowPrivilegeEscalation"]
        and "ALL" in context["capabilities"].get("drop", [])
        and set(context["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"}
        and context["seccompProfile"]["type"] == "RuntimeDefault"
    )
    overrides = [request for _, request in result.requests if request.action == "OverrideSecurity"]
    assert restricted or overrides
    assert overrides or (context["readOnlyRootFilesystem"] and context.get("runAsGroup") != 0)
