"""What objects of the cluster declare by annotations, and that a hostile one declares nothing."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.compiler import Facts
from muster.compiler.declared import declared
from muster.compiler.facts import SharedService, SharedVolume
from tests.workloads.batch.jobs import compiled, small


def of(kind: str, name: str, notes: dict[str, str], **spec: Any) -> Object:
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "ml", "annotations": notes},
        "spec": spec,
    }


def test_a_namespace_names_its_store_of_secrets_and_its_audit() -> None:
    notes = {"muster.dev/secret-store": "vault", "muster.dev/audit-until": "2030-01-01T00:00:00Z"}
    facts = declared(Facts(), [of("Namespace", "ml", notes)])
    assert (facts.store("ml"), facts.store("web")) == ("vault", "default")
    assert facts.audits == {"ml": "2030-01-01T00:00:00Z"}


def test_annotations_of_owners_list_the_workloads_that_may_use_an_object() -> None:
    service = of(
        "Service",
        "features",
        {"muster.dev/allowed-callers": "ml/job-work, web/*"},
        selector={"app": "features"},
        ports=[{"port": 80, "targetPort": 8080}, {"port": 9000}],
    )
    claim = of("PersistentVolumeClaim", "vol-data", {"muster.dev/allowed-consumers": "*"})
    facts = declared(Facts(), [service, claim, of("Service", "other", {})])
    callers = ("ml/job-work", "web/*")
    assert facts.services == {
        ("ml", "features"): SharedService(callers, {"app": "features"}, {80: 8080, 9000: 9000})
    }
    assert facts.volumes == {("ml", "data"): SharedVolume("vol-data", ("*",))}


def test_a_shared_volume_is_mounted_with_its_owners_consent_and_is_asked_for() -> None:
    data = {"type": "volume", "id": "data"}
    text = small({"volumes": {"/data": {"source": "data"}}}, data=data)
    [alone] = compiled(text).problems
    assert "no volume ml/data is shared" in alone.message
    for consumers in ("ml/job-work", "ml/*", "*"):
        claim = of("PersistentVolumeClaim", "vol-data", {"muster.dev/allowed-consumers": consumers})
        result = compiled(text, facts=declared(Facts(), [claim]))
        assert not result.problems
        assert ("AccessVolume", "ml/data") in {(each.action, each.id) for _, each in result.requests}
    other = of("PersistentVolumeClaim", "vol-data", {"muster.dev/allowed-consumers": "ml/else"})
    [refused] = compiled(text, facts=declared(Facts(), [other])).problems
    assert "its owner does not admit ml/job-work" in refused.message
    assert "muster.dev/allowed-consumers: ml/else,ml/job-work" in refused.fix


def test_an_owner_emits_the_claim_from_which_its_consent_is_read() -> None:
    data = {"type": "volume", "id": "data", "params": {"size": "1Gi", "allowedConsumers": ["ml/other-x"]}}
    owner = compiled(small({"volumes": {"/data": {"source": "data"}}}, data=data))
    [claim] = [each for each in owner.support if each["kind"] == "PersistentVolumeClaim"]
    assert declared(Facts(), [claim]).volumes == {("ml", "data"): SharedVolume("vol-data", ("ml/other-x",))}
    assert not [each for _, each in owner.requests if each.action == "AccessVolume"], "it is its own"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    kind=st.sampled_from(["Namespace", "Service", "PersistentVolumeClaim"]),
    meta=JSON,
    notes=st.dictionaries(
        st.sampled_from(["muster.dev/allowed-callers", "muster.dev/secret-store", "muster.dev/audit-until"]),
        JSON,
    ),
    spec=JSON | st.fixed_dictionaries({"selector": JSON, "ports": JSON}),
)
def test_no_object_is_too_odd_to_be_read(kind: str, meta: object, notes: object, spec: object) -> None:
    declared(Facts(), [{"kind": kind, "metadata": meta, "spec": spec}])
    declared(Facts(), [{"kind": kind, "metadata": {"name": "x", "annotations": notes}, "spec": spec}])
